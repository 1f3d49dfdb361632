//! Logs of HdrHistogram (format 1.3, histograms V2): intervals with a tag, a start, a length and all
//! latencies of that time in buckets. YCSB writes one per operation (`hdrhistogram.fileoutput`), in
//! microseconds; we write one per run, in nanoseconds, and say so in a comment, because the format
//! itself has no unit.

use std::fmt::Write;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use hdrhistogram::serialization::{DeserializeError, Deserializer, Serializer, V2DeflateSerializer};

use super::ImportError;

/// What YCSB writes above its logs, before the name of the operation.
const YCSB_TITLE: &str = "#[Logging for: ";
/// What we write above ours.
const OUR_TITLE: &str = "#[Values in nanoseconds, by ycsb-trace]";
/// A log reader in Java expects it.
const LEGEND: &str = r#""StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram""#;

/// One interval of a log.
pub struct Interval {
    /// Its tag, or the title of the log.
    pub tag: String,
    /// Start, ns since the epoch (or since whatever the log counts from).
    pub start_ns: u64,
    /// Length.
    pub length_ns: u64,
    /// The latencies, in units of [`Log::unit_ns`].
    pub histogram: Histogram<u64>,
}

/// A whole log.
pub struct Log {
    /// Length of one unit of the values, if the log says or its writer is known.
    pub unit_ns: Option<u64>,
    /// In the order of the file.
    pub intervals: Vec<Interval>,
}

/// Interval logs with starts more than a year before the log's start count from there; the rule of
/// HdrHistogram's own reader.
const YEAR_NS: u64 = 365 * 24 * 3600 * 1_000_000_000;

/// Reads a log.
pub fn read(path: &Path) -> Result<Log, ImportError> {
    let bytes = std::fs::read(path).map_err(|cause| ImportError::Io { path: path.to_owned(), cause })?;
    let whole = |what: &str| ImportError::Whole { path: path.to_owned(), what: what.to_owned() };
    let at = |offset: usize, what: String| {
        let rest = String::from_utf8_lossy(&bytes[offset.min(bytes.len())..]).into_owned();
        let text = rest.lines().next().unwrap_or_default().chars().take(120).collect();
        let line = 1 + bytes[..offset.min(bytes.len())].iter().filter(|&&byte| byte == b'\n').count() as u64;
        ImportError::Line { path: path.to_owned(), line, what, text }
    };
    let text = String::from_utf8_lossy(&bytes);
    if text.lines().take(5).any(|line| line.trim_start().starts_with("Value") && line.contains("Percentile"))
    {
        return Err(whole(
            "a listing of percentiles, not a log: it holds a few values of the distribution, not the distribution",
        ));
    }
    let title = text.lines().find_map(|line| line.strip_prefix(YCSB_TITLE)?.strip_suffix(']'));
    let unit_ns = if text.lines().any(|line| line == OUR_TITLE) { Some(1) } else { title.map(|_| 1_000) };
    let (mut start_time, mut base_time) = (None, None);
    let mut intervals = Vec::new();
    let mut entries = 0;
    for entry in IntervalLogIterator::new(&bytes) {
        let entry = entry.map_err(|error| {
            let hdrhistogram::serialization::interval_log::LogIteratorError::ParseError { offset } = error;
            at(offset, "not a line of an HdrHistogram log".to_owned())
        })?;
        let interval = match entry {
            LogEntry::StartTime(time) => {
                start_time = Some(time.as_nanos() as u64);
                continue;
            }
            LogEntry::BaseTime(time) => {
                base_time = Some(time.as_nanos() as u64);
                continue;
            }
            LogEntry::Interval(interval) => interval,
        };
        entries += 1;
        let offset = interval.encoded_histogram().as_ptr().addr() - bytes.as_ptr().addr();
        let histogram = decode(interval.encoded_histogram()).map_err(|what| {
            at(bytes[..offset].iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1), what)
        })?;
        let start_ns = interval.start_timestamp().as_nanos() as u64;
        let origin_ns = match (base_time, start_time) {
            (Some(base), _) => base,
            (None, Some(start)) if start_ns < u64::saturating_sub(start, YEAR_NS) => start,
            _ => 0,
        };
        intervals.push(Interval {
            tag: interval.tag().map_or_else(|| title.unwrap_or_default(), |tag| tag.as_str()).to_owned(),
            start_ns: origin_ns.saturating_add(start_ns),
            length_ns: interval.duration().as_nanos() as u64,
            histogram,
        });
    }
    if entries == 0 {
        return Err(whole("no interval of an HdrHistogram log in it"));
    }
    Ok(Log { unit_ns, intervals })
}

fn decode(text: &str) -> Result<Histogram<u64>, String> {
    let bytes = STANDARD.decode(text).map_err(|cause| format!("a histogram that is not base64 ({cause})"))?;
    Deserializer::new().deserialize(&mut bytes.as_slice()).map_err(|cause| match cause {
        DeserializeError::InvalidCookie => {
            "a histogram that is not of version 2; YCSB 0.17 wrote version 1, which this program cannot read"
                .to_owned()
        }
        cause => format!("a histogram that cannot be decoded ({cause})"),
    })
}

/// One interval to write. The histogram is encoded at once: a long run has thousands of intervals, and
/// each histogram takes a few hundred kilobytes until then.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Start, ns since the base of the log.
    pub start_ns: u64,
    /// Its tag; without comma or blank.
    pub tag: String,
    length_ns: u64,
    max_ns: u64,
    encoded: String,
}

impl Entry {
    /// An interval with values in nanoseconds.
    pub fn new(tag: String, start_ns: u64, length_ns: u64, histogram: &Histogram<u64>) -> Entry {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(histogram, &mut bytes).expect("writing to memory");
        Entry { start_ns, tag, length_ns, max_ns: histogram.max(), encoded: STANDARD.encode(bytes) }
    }
}

/// A log of intervals in this order, whose starts count from `base_ns` after the epoch. The largest
/// value of each is shown in milliseconds, as usual.
pub fn write(title: &str, base_ns: u64, entries: &[Entry]) -> String {
    let mut out = String::new();
    for line in title.lines() {
        writeln!(out, "#{line}").expect("writing to a string");
    }
    let base = base_ns as f64 / 1e9;
    write!(
        out,
        "{OUR_TITLE}\n#[Histogram log format version 1.3]\n#[StartTime: {base:.3} (seconds since epoch)]\n\
         #[BaseTime: {base:.3} (seconds since epoch)]\n{LEGEND}\n"
    )
    .expect("writing to a string");
    for entry in entries {
        writeln!(
            out,
            "Tag={},{:.3},{:.3},{:.3},{}",
            entry.tag,
            entry.start_ns as f64 / 1e9,
            entry.length_ns as f64 / 1e9,
            entry.max_ns as f64 / 1e6,
            entry.encoded
        )
        .expect("writing to a string");
    }
    out
}
