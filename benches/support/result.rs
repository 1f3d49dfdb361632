//! A result that no run has made.

use ycsb_trace::trace::RESULT_VERSION;
use ycsb_trace::trace::meta::RunMeta;

/// The footer of a paced run of so many rows.
pub fn footer(rows: u64, sessions: u32) -> RunMeta {
    let footer = serde_json::json!({
        "kind": "result", "format_version": RESULT_VERSION, "generator": "bench", "run_id": "bench", "trace": "bench",
        "trace_hash": "0", "phase": "run", "trace_rows": rows, "db": "sim", "config": {}, "sessions": sessions, "lanes": 1,
        "server": { "address": "", "version": "", "settings": {} }, "pace": "rate", "target_per_second": 100_000.0,
        "speed": 1.0, "order": "none", "host": { "name": "", "system": "", "cpus": 2 }, "started_at": "",
        "elapsed_ns": 0, "ended_because": "", "complete": true, "interrupted": false, "rows": rows,
        "counts": { "READ": { "ERROR": 1 } }, "errors": [], "recorder_stalls": 0, "histograms": [],
        "overhead": { "clock_read_ns": 0, "wake_late_p50_ns": 0, "wake_late_p99_ns": 0 },
    });
    serde_json::from_value(footer).expect("a footer")
}
