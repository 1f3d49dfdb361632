//! The whole report for programs. Its schema is in `analysis/README.md`.

use super::Page;
use crate::analyze::report::Report;

pub(super) fn render(report: &Report, _page: Page) -> String {
    let mut json = serde_json::to_string_pretty(report).expect("a report is plain data");
    json.push('\n');
    json
}
