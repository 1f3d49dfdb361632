//! Raw data of YCSB (`measurementtype=raw`, or `hdrhistogram+raw`): from a file of
//! `measurement.raw.output_file`, or the standard output of the run with everything else in it.
//!
//! `READ,<ms since the epoch at its end>,<µs>`, grouped by operation. So the end of an operation is
//! known to the millisecond, its duration to the microsecond below.

use std::path::Path;

use super::{ImportError, Measurement, Row, each_line, fields, scaled};

/// What begins the rows of one measurement, after its name.
const HEADER: &str = " latency raw data: op, timestamp(ms), latency(us)";

/// Hands every row of an operation to `each`, in the order of the file, and the names of all other
/// measurements to `other`.
pub fn read(
    path: &Path,
    mut each: impl FnMut(Row<'_>) -> Result<(), String>,
    mut other: impl FnMut(&str),
) -> Result<(), ImportError> {
    let mut begun = false;
    each_line(path, |line| {
        if line.ends_with(HEADER) {
            begun = true;
            return Ok(());
        }
        // Whatever else goes to standard output: before the rows anything, after them the summary.
        if !begun || line.is_empty() || line.starts_with(['[', '#']) {
            return Ok(());
        }
        let (name, end_ms, latency_us) =
            fields(line).ok_or("not a row of raw data (NAME,milliseconds,microseconds)")?;
        let name = name.strip_prefix("Raw").unwrap_or(name);
        // With measurement.interval=both each operation is there twice; which two rows belong together
        // is not said.
        let Some(measurement) = Measurement::from_name(name) else {
            other(name);
            return Ok(());
        };
        let (end_ns, latency_ns) = (scaled(end_ms, 1_000_000)?, scaled(latency_us, 1_000)?);
        let start_ns =
            end_ns.checked_sub(latency_ns).ok_or("an operation that would have begun before 1970")?;
        each(Row { measurement, start_ns, end_ns })
    })?;
    if !begun {
        let what = format!("no raw data of YCSB in it (no line ends with {HEADER:?})");
        return Err(ImportError::Whole { path: path.to_owned(), what });
    }
    Ok(())
}
