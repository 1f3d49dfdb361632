//! The answer before the numbers: in one sentence for every phase what came out, and in a line each what
//! it rests on. It judges nothing itself; it words what the analysis decided.

use super::names::written;
use super::units::{duration, grouped, percent, rate};
use crate::analyze::report::{Comparison, OpReport, Pair, Quantile, Ratio, Report, RunReport, Verdict};

/// How to feel about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    /// The numbers mean what they say.
    Fine,
    /// Read on before using them.
    Careful,
}

/// An answer.
pub(super) struct Answer {
    /// In one sentence.
    pub headline: String,
    /// How to feel about it.
    pub tone: Tone,
    /// What it rests on.
    pub details: Vec<String>,
}

/// The answer of one phase.
pub(super) fn answer(report: &Report, comparison: &Comparison) -> Answer {
    let runs: Vec<&RunReport> = comparison.runs.iter().map(|&run| &report.runs[run]).collect();
    if let [run] = runs.as_slice() {
        return of_run(report, run);
    }
    if comparison.pairs.is_empty() {
        let tone = if comparison.caveats.is_empty() { Tone::Fine } else { Tone::Careful };
        let details = runs.iter().map(|run| format!("{}: {}", run.label, of_run(report, run).headline));
        let headline = format!("{} runs side by side; their differences are not judged here", runs.len());
        return Answer { headline, tone, details: details.collect() };
    }
    let mut details = Vec::new();
    let mut headlines = Vec::new();
    let mut tone = Tone::Fine;
    for pair in &comparison.pairs {
        let [baseline, other] = [pair.baseline, pair.other].map(|side| comparison.sides[side].label.as_str());
        let (headline, withheld) = of_pair(pair, baseline, other);
        headlines.push(headline);
        if withheld || !pair.caveats.is_empty() {
            tone = Tone::Careful;
        }
        for op in ops(pair) {
            let of_op: Vec<&Ratio> = main_ratios(pair).filter(|ratio| ratio.op == op).collect();
            let words: Vec<String> = of_op.iter().map(|ratio| of_ratio(ratio)).collect();
            details.push(format!("{other} / {baseline}, {} {op}: {}", of_op[0].series, words.join(", ")));
        }
    }
    Answer { headline: headlines.join(". "), tone, details }
}

/// What one run did.
fn of_run(report: &Report, run: &RunReport) -> Answer {
    let careful = |headline: String| Answer { headline, tone: Tone::Careful, details: Vec::new() };
    if run.rows == 0 && run.all.ops == 0 {
        return careful("No operations, nothing to report".to_owned());
    }
    if let Some(check) = run.checks.iter().find(|check| !check.holds) {
        return careful(format!("Do not use this result: {} does not hold", check.what));
    }
    let all = &run.all;
    let mut tone = Tone::Fine;
    let mut headline = format!("{} ops/s", rate(all.ops_per_second));
    let sustained = run.sustained.as_ref().map(|verdict| verdict.sustained);
    match run.load.as_ref().and_then(|load| load.sustained).or(sustained) {
        Some(true) => headline += " sustained",
        Some(false) => {
            headline = format!("Not sustained: {headline}");
            tone = Tone::Careful;
        }
        None => {}
    }
    headline += &format!(" over {}, {}", duration(run.span_ns), percentiles(report, all));
    if all.failed > 0 {
        headline += &format!(", {} failed", percent(all.error_rate));
    }
    if !run.complete {
        headline =
            format!("Incomplete, {} of {} ops: {headline}", grouped(run.rows), grouped(run.trace_rows));
        tone = Tone::Careful;
    }
    Answer { headline, tone, details: Vec::new() }
}

/// `p50 1.20 ms, p99 8.30 ms`: the middle and the tail of the response.
fn percentiles(report: &Report, op: &OpReport) -> String {
    let mut shown: Vec<&str> =
        ["50", "99"].into_iter().filter(|one| report.percentiles.iter().any(|asked| asked == one)).collect();
    if shown.is_empty() {
        shown = report.percentiles.iter().take(2).map(String::as_str).collect();
    }
    let words = shown.iter().map(|percentile| {
        let quantile = op.response.ok.percentiles.get(percentile).and_then(Option::as_ref);
        format!("p{percentile} {}", value(quantile))
    });
    words.collect::<Vec<_>>().join(", ")
}

fn value(quantile: Option<&Quantile>) -> String {
    match quantile {
        None => "-".into(),
        Some(quantile) => quantile.value_ns.map_or_else(|| "never answered".to_owned(), duration),
    }
}

/// Ratios of the response, or of the service time of ops whose response is withheld.
fn main_ratios(pair: &Pair) -> impl Iterator<Item = &Ratio> {
    let judged = |op: &str| {
        pair.ratios
            .iter()
            .any(|one| one.op == op && one.series == "response" && one.verdict != Verdict::Withheld)
    };
    pair.ratios
        .iter()
        .filter(move |ratio| ratio.series == if judged(&ratio.op) { "response" } else { "service" })
}

/// Ops in the order of the report, each once.
fn ops(pair: &Pair) -> Vec<&str> {
    let mut ops: Vec<&str> = Vec::new();
    for ratio in main_ratios(pair) {
        if !ops.contains(&ratio.op.as_str()) {
            ops.push(&ratio.op);
        }
    }
    ops
}

/// One side beside the other, in a sentence, and whether something was withheld.
fn of_pair(pair: &Pair, baseline: &str, other: &str) -> (String, bool) {
    let withheld = pair.ratios.iter().any(|ratio| ratio.verdict == Verdict::Withheld);
    let at = |verdict: Verdict| -> Option<String> {
        let mut places: Vec<(String, Vec<String>)> = Vec::new();
        for ratio in main_ratios(pair).filter(|ratio| ratio.verdict == verdict && ratio.op != "ALL") {
            let percentile = format!("p{}", ratio.percentile);
            match places.iter_mut().find(|(op, _)| *op == ratio.op) {
                Some((_, percentiles)) => percentiles.push(percentile),
                None => places.push((ratio.op.clone(), vec![percentile])),
            }
        }
        let words = places.iter().map(|(op, percentiles)| format!("{op} {}", percentiles.join(" ")));
        let words: Vec<String> = words.collect();
        (!words.is_empty()).then(|| format!("{} at {}", verdict.name(), words.join(", ")))
    };
    let order = [
        Verdict::Faster,
        Verdict::Slower,
        Verdict::Equivalent,
        Verdict::Inconclusive,
        Verdict::Insufficient,
        Verdict::Withheld,
    ];
    let parts: Vec<String> = order.into_iter().filter_map(at).collect();
    let sides = format!("{} beside {}", written(other), written(baseline));
    let mut sentence = format!("{sides}: {}", parts.join("; "));
    if parts.is_empty() {
        sentence = format!("{sides}: nothing to compare");
    }
    (sentence, withheld)
}

/// `p99 faster ×0.42 (0.40–0.45)`.
fn of_ratio(ratio: &Ratio) -> String {
    let mut words = format!("p{} {}", ratio.percentile, ratio.verdict.name());
    if let Some(estimate) = ratio.ratio {
        words +=
            &format!(" ×{} ({}–{})", factor(estimate.value), factor(estimate.low), factor(estimate.high));
    }
    words
}

/// A factor with three significant digits.
pub(super) fn factor(factor: f64) -> String {
    match factor {
        factor if factor >= 99.95 => format!("{factor:.0}"),
        factor if factor >= 9.995 => format!("{factor:.1}"),
        factor if factor >= 0.9995 => format!("{factor:.2}"),
        factor => format!("{factor:.3}"),
    }
}
