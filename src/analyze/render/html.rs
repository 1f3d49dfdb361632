//! The report as one page that opens without a network: the answer first, charts, then every number.
//!
//! Words and tables are written here, so they are there for a reader without a script and for a screen
//! reader. The charts are drawn by the page's own script as SVG, from data that is embedded in it.
//! Not by a plotting library: those draw on a canvas (uPlot, 50 kB) or weigh megabytes (Plotly, ECharts);
//! a canvas has no text to find, select or read aloud, prints as a bitmap and has to be told when the
//! colours change, while SVG takes colours and fonts from the style sheet. And what is drawn here (bands,
//! percentiles on an axis of nines, a heat map, ratios with intervals) would be plug-in code anyway.
//!
//! Everything that comes from files (names, error messages) passes [`escaped`] or [`embedded`].

use serde::Serialize;

use super::answer::{self, Tone};
use super::names::written;
use super::table::{Block, blocks_of};
use crate::analyze::pictures::{Picture, Pictures};
use crate::analyze::report::{Comparison, Groups, OpReport, Pair, Phase, Report, RunReport, Verdict};

/// The page, with places for what is written here.
const PAGE: &str = include_str!("../../../analysis/report/page.html");
const STYLE: &str = include_str!("../../../analysis/report/style.css");
const SCRIPT: &str = include_str!("../../../analysis/report/script.js");

/// Groups of `--by` that a chart shows.
const SHOWN_GROUPS: usize = 40;

/// What the script draws.
#[derive(Serialize)]
struct Data<'a> {
    percentiles: &'a [String],
    phases: Vec<PhaseData<'a>>,
}

#[derive(Serialize)]
struct PhaseData<'a> {
    runs: Vec<RunData<'a>>,
    sides: Vec<&'a str>,
    /// The sides as headings have them.
    names: Vec<String>,
    pairs: &'a [Pair],
}

#[derive(Serialize)]
struct RunData<'a> {
    label: &'a str,
    /// The label as a heading has it.
    name: String,
    /// Without a schedule, response and service are the same and nobody waits.
    paced: bool,
    cut_ns: u64,
    changes_ns: Vec<u64>,
    picture: Option<&'a Picture>,
    quantiles: Vec<Point>,
    groups: Option<GroupData<'a>>,
}

/// An exact percentile of the response, with its interval.
#[derive(Serialize)]
struct Point {
    op: String,
    percentile: String,
    ns: u64,
    low_ns: Option<u64>,
    high_ns: Option<u64>,
}

#[derive(Serialize)]
struct GroupData<'a> {
    by: &'a str,
    about: &'a str,
    /// Name, ops, p50 and p99 of the response.
    groups: Vec<(&'a str, u64, Option<u64>, Option<u64>)>,
    left_out: usize,
}

/// The whole page.
pub fn render(report: &Report, pictures: &Pictures) -> String {
    let title = title(report);
    let data = Data {
        percentiles: &report.percentiles,
        phases: report.comparisons.iter().map(|one| phase_data(report, pictures, one)).collect(),
    };
    let mut out = String::new();
    let mut rest = PAGE;
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, after) = after.split_once("}}").expect("the page's places are closed");
        out.push_str(before);
        match name {
            "title" => out.push_str(&escaped(&title)),
            "generator" => out.push_str(&escaped(&report.generator)),
            "style" => out.push_str(STYLE),
            "script" => out.push_str(SCRIPT),
            "data" => out.push_str(&embedded(&data)),
            "body" => out.push_str(&body(report)),
            other => panic!("the page has a place {other:?} that nobody fills"),
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

fn title(report: &Report) -> String {
    let mut names: Vec<String> = Vec::new();
    for run in &report.runs {
        let name = written(&run.db);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let mut traces: Vec<&str> = report.runs.iter().map(|run| run.trace.as_str()).collect();
    traces.dedup();
    format!("{} on {}", traces.join(", "), names.join(", "))
}

fn phase_data<'a>(report: &'a Report, pictures: &'a Pictures, comparison: &'a Comparison) -> PhaseData<'a> {
    let run = |&index: &usize| {
        let run = &report.runs[index];
        RunData {
            label: &run.label,
            name: written(&run.label),
            paced: run.pace != "unpaced" && run.pace != "unknown",
            cut_ns: run.warmup.as_ref().map_or(0, |warmup| warmup.cut_ns),
            changes_ns: run.change_points.iter().map(|change| change.at_ns).collect(),
            picture: pictures.runs.get(index).and_then(Option::as_ref),
            quantiles: quantiles(run),
            groups: run.groups.as_ref().map(group_data),
        }
    };
    PhaseData {
        runs: comparison.runs.iter().map(run).collect(),
        sides: comparison.sides.iter().map(|side| side.label.as_str()).collect(),
        names: comparison.sides.iter().map(|side| written(&side.label)).collect(),
        pairs: &comparison.pairs,
    }
}

fn quantiles(run: &RunReport) -> Vec<Point> {
    let of_op = |op: &str, report: &OpReport| -> Vec<Point> {
        let points = report.response.ok.percentiles.0.iter().filter_map(|(percentile, quantile)| {
            let quantile = quantile.as_ref()?;
            Some(Point {
                op: op.to_owned(),
                percentile: percentile.clone(),
                ns: quantile.value_ns?,
                low_ns: quantile.interval.as_ref().and_then(|interval| interval.low_ns),
                high_ns: quantile.interval.as_ref().and_then(|interval| interval.high_ns),
            })
        });
        points.collect()
    };
    let mut points = of_op("ALL", &run.all);
    for (op, report) in &run.ops.0 {
        points.extend(report.iter().flat_map(|report| of_op(op, report)));
    }
    points
}

fn group_data(groups: &Groups) -> GroupData<'_> {
    let at = |report: &OpReport, percentile: &str| {
        report.response.ok.percentiles.get(percentile)?.as_ref()?.value_ns
    };
    let all = &groups.groups.0;
    GroupData {
        by: &groups.by,
        about: &groups.about,
        groups: all
            .iter()
            .take(SHOWN_GROUPS)
            .map(|(name, report)| (name.as_str(), report.ops, at(report, "50"), at(report, "99")))
            .collect(),
        left_out: all.len().saturating_sub(SHOWN_GROUPS),
    }
}

/// Words and tables.
fn body(report: &Report) -> String {
    let mut out = String::new();
    for (index, comparison) in report.comparisons.iter().enumerate() {
        let answer = answer::answer(report, comparison);
        let tone = if answer.tone == Tone::Fine { "fine" } else { "careful" };
        let id = if comparison.phase == Phase::Load { "load" } else { "run" };
        let mut blocks = blocks_of(report, comparison).into_iter().peekable();
        out.push_str(&format!("<section class=\"phase\" id=\"{id}\">\n"));
        // The answer, the table, doubts, charts; then the statistics of a comparison, and every number.
        if let Some(Block::Title(title)) = blocks.peek() {
            out.push_str(&format!("<h2>{}</h2>\n", escaped(title)));
            blocks.next();
        }
        out.push_str(&format!(
            "<div class=\"verdict {tone}\">\n<p class=\"headline\">{}</p>\n",
            escaped(&answer.headline)
        ));
        if !answer.details.is_empty() {
            out.push_str(&list(&answer.details));
        }
        out.push_str("</div>\n");
        out.push_str(&overview(report, comparison));
        let (mut skipped, mut doubts) = (false, false);
        let mut statistics = String::new();
        while let Some(block) =
            blocks.next_if(|block| !matches!(block, Block::Heading(heading) if heading == "Runs"))
        {
            if let Block::Heading(heading) = &block {
                // The verdict and the overview say it.
                skipped = heading == "In short";
                doubts = heading == "Caveats";
            }
            match block {
                _ if skipped => {}
                Block::Heading(_) if doubts => out.push_str("<h3>Before you use these numbers</h3>\n"),
                Block::Lines(lines) if doubts => {
                    out.push_str(&format!("<div class=\"caveats\">{}</div>\n", list(&lines)));
                }
                other => statistics.push_str(&block_html(&other)),
            }
        }
        out.push_str(&format!(
            "<div class=\"charts\" data-phase=\"{index}\"><noscript><p class=\"hint\">The charts are drawn by a \
             script, which is switched off here. Every number is in the tables.</p></noscript></div>\n"
        ));
        if !statistics.is_empty() {
            out.push_str(&format!(
                "<div class=\"statistics\">\n<h3>How certain is the comparison?</h3>\n{statistics}</div>\n"
            ));
        }
        out.push_str("<details class=\"numbers\" open><summary><h3>All numbers</h3></summary>\n");
        blocks.for_each(|block| out.push_str(&block_html(&block)));
        out.push_str("</details>\n</section>\n");
    }
    out.push_str("<section class=\"definitions\"><h2>What the words mean</h2>\n<dl>\n");
    for (word, meaning) in &report.definitions.0 {
        out.push_str(&format!("<dt>{}</dt><dd>{}</dd>\n", escaped(word), escaped(meaning)));
    }
    out.push_str("</dl></section>\n");
    out
}

/// The table that most people look for: per kind and run the rate, failures and the response.
fn overview(report: &Report, comparison: &Comparison) -> String {
    let runs: Vec<&RunReport> = comparison.runs.iter().map(|&run| &report.runs[run]).collect();
    let mut head = vec!["op".to_owned()];
    if runs.len() > 1 {
        head.push("run".to_owned());
    }
    head.extend(["ops", "ops/s", "failed"].map(str::to_owned));
    head.extend(report.percentiles.iter().map(|percentile| format!("p{percentile}")));
    head.push("max".to_owned());
    let mut rows = Vec::new();
    let mut add = |op: &str, of: &dyn Fn(&RunReport) -> Option<OpReport>| {
        for (index, run) in runs.iter().enumerate() {
            let Some(report_of_op) = of(run) else { continue };
            let mut row = vec![op.to_owned()];
            if runs.len() > 1 {
                row.push(format!("\u{1}{index}\u{1}{}", run.label));
            }
            row.extend(super::table::overview_cells(report, &report_of_op));
            rows.push(row);
        }
    };
    let kinds: Vec<&str> = runs[0].ops.0.iter().map(|(op, _)| op.as_str()).collect();
    let used = |op: &&&str| runs.iter().any(|run| run.ops.get(op).is_some_and(Option::is_some));
    let kinds: Vec<&str> = kinds.iter().filter(used).copied().collect();
    for op in &kinds {
        add(op, &|run| run.ops.get(op).cloned().flatten());
    }
    if kinds.len() != 1 {
        add("ALL", &|run| Some(run.all.clone()));
    }
    let text_columns = if runs.len() > 1 { 2 } else { 1 };
    format!("<h3>Response of the ops that ended OK</h3>\n{}", table_html(&head, &rows, text_columns))
}

fn block_html(block: &Block) -> String {
    match block {
        Block::Title(title) => format!("<h2>{}</h2>\n", escaped(title)),
        Block::Heading(heading) => format!("<h4>{}</h4>\n", escaped(heading)),
        Block::Lines(lines) => list(lines),
        Block::Table { head, rows } => table_html(head, rows, 1),
    }
}

fn list(lines: &[String]) -> String {
    let items: String = lines.iter().map(|line| format!("<li>{}</li>", escaped(line))).collect();
    format!("<ul>{items}</ul>\n")
}

/// A table in a frame that scrolls on its own, and that the keyboard reaches.
fn table_html(head: &[String], rows: &[Vec<String>], text_columns: usize) -> String {
    let mut out = String::from(
        "<div class=\"frame\" tabindex=\"0\" role=\"region\" aria-label=\"table\"><table>\n<thead><tr>",
    );
    for (column, cell) in head.iter().enumerate() {
        let class = if column < text_columns { " class=\"text\"" } else { "" };
        out.push_str(&format!("<th scope=\"col\"{class}>{}</th>", escaped(cell)));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    let mut last = String::new();
    for row in rows {
        let begins = if row[0] == last { "" } else { " class=\"begins\"" };
        out.push_str(&format!("<tr{begins}>"));
        for (column, cell) in row.iter().enumerate() {
            // \u{1} marks the name of a run, which has its colour.
            let content = match cell.strip_prefix('\u{1}').and_then(|cell| cell.split_once('\u{1}')) {
                Some((index, label)) => {
                    format!("<span class=\"key\" data-run=\"{}\"></span>{}", escaped(index), escaped(label))
                }
                None => escaped(cell),
            };
            match column {
                0 => out.push_str(&format!("<th scope=\"row\">{content}</th>")),
                _ if column < text_columns => out.push_str(&format!("<td class=\"text\">{content}</td>")),
                // The colour says again what the word says.
                _ if is_verdict(cell) => out.push_str(&format!("<td class=\"is-{cell}\">{content}</td>")),
                _ => out.push_str(&format!("<td>{content}</td>")),
            }
        }
        out.push_str("</tr>\n");
        last = row[0].clone();
    }
    out.push_str("</tbody></table></div>\n");
    out
}

fn is_verdict(cell: &str) -> bool {
    [Verdict::Faster, Verdict::Slower, Verdict::Equivalent].iter().any(|verdict| verdict.name() == cell)
}

/// Text in a page.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for one in text.chars() {
        match one {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Nothing that a terminal or a browser could take for a command.
            one if one.is_control() && !matches!(one, '\n' | '\t') => out.push('\u{fffd}'),
            one => out.push(one),
        }
    }
    out
}

/// JSON inside a script element: nothing in it can end the element.
fn embedded(data: &impl Serialize) -> String {
    let json = serde_json::to_string(data).expect("plain data");
    let mut out = String::with_capacity(json.len());
    for one in json.chars() {
        match one {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => out.push_str(&format!("\\u{:04x}", one as u32)),
            one => out.push(one),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_text_or_data_is_markup() {
        assert_eq!(escaped("</b>\"'&\u{7}"), "&lt;/b&gt;&quot;&#39;&amp;\u{fffd}");
        let data = embedded(&"</script><!--&\u{2028}");
        assert!(!data.contains(['<', '>', '&', '\u{2028}']), "{data}");
        assert_eq!(serde_json::from_str::<String>(&data).unwrap(), "</script><!--&\u{2028}");
    }
}
