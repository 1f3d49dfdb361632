//! Raw data of go-ycsb (`measurementtype=csv` or `raw`): `operation,timestamp_us,latency_us`, the time
//! being the start, in microseconds since the epoch.

use std::path::Path;

use super::{ImportError, Measurement, Row, each_line, fields, scaled};

/// The first line.
const HEADER: &str = "operation,timestamp_us,latency_us";

/// Hands every row of an operation to `each`, in the order of the file, and the names of all other
/// measurements to `other` (`TOTAL` repeats every operation).
pub fn read(
    path: &Path,
    mut each: impl FnMut(Row<'_>) -> Result<(), String>,
    mut other: impl FnMut(&str),
) -> Result<(), ImportError> {
    let mut begun = false;
    each_line(path, |line| {
        if line == HEADER {
            begun = true;
            return Ok(());
        }
        // Written to standard output, the rows come after the properties of the run.
        if !begun || line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        let (name, start_us, latency_us) =
            fields(line).ok_or("not a row of raw data (NAME,microseconds,microseconds)")?;
        let Some(measurement) = Measurement::from_name(name) else {
            other(name);
            return Ok(());
        };
        let (start_ns, latency_ns) = (scaled(start_us, 1_000)?, scaled(latency_us, 1_000)?);
        each(Row { measurement, start_ns, end_ns: start_ns.saturating_add(latency_ns) })
    })?;
    if !begun {
        let what = format!("no raw data of go-ycsb in it (no line is {HEADER:?})");
        return Err(ImportError::Whole { path: path.to_owned(), what });
    }
    Ok(())
}
