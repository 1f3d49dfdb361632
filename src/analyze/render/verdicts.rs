//! What a comparison concludes, and what is known about one run beyond its percentiles, as blocks.

use super::names::written;
use super::table::Block;
use super::units::{duration, exact, grouped, percent, rate};
use crate::analyze::report::{
    Comparison, Estimate, Load, OpReport, Pair, Ratio, Report, RunReport, SelfCheck, Verdict,
};

/// Pairs of a comparison.
pub(super) fn pairs(comparison: &Comparison) -> Vec<Block> {
    let mut blocks = Vec::new();
    if !comparison.sides_chosen.is_empty() {
        let sides = comparison.sides.iter().map(|side| format!("{} ({} runs)", side.label, side.runs.len()));
        let sides = sides.collect::<Vec<_>>().join(", ");
        blocks.push(Block::Lines(vec![format!("Sides: {sides}; {}", comparison.sides_chosen)]));
    }
    for pair in &comparison.pairs {
        one_pair(&mut blocks, comparison, pair);
    }
    blocks
}

fn one_pair(blocks: &mut Vec<Block>, comparison: &Comparison, pair: &Pair) {
    let baseline = &comparison.sides[pair.baseline].label;
    let other = &comparison.sides[pair.other].label;
    blocks.push(Block::Heading(format!("{} against {}", written(other), written(baseline))));
    let mut lines = summary(pair, baseline, other);
    lines.extend(pair.caveats.iter().map(|noted| format!("{}. Advice: {}.", noted.text, noted.advice)));
    blocks.push(Block::Lines(lines));
    let rows: Vec<Vec<String>> =
        pair.ratios.iter().filter(|ratio| ratio.verdict != Verdict::Withheld).map(ratio_row).collect();
    if rows.is_empty() {
        return;
    }
    // What matters most comes first: a narrow terminal shows the rest in a table of its own.
    let head = ["", "verdict", "ratio", "95 % interval", "detectable", baseline, other];
    blocks.push(Block::Table { head: head.map(str::to_owned).to_vec(), rows });
}

/// The verdict in a sentence for each kind, and what happened to single ops.
fn summary(pair: &Pair, baseline: &str, other: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut groups: Vec<(&str, &str)> = Vec::new();
    for ratio in &pair.ratios {
        if !groups.contains(&(&ratio.op, &ratio.series)) {
            groups.push((&ratio.op, &ratio.series));
        }
    }
    for (op, series) in groups {
        let of_group = pair.ratios.iter().filter(|ratio| ratio.op == op && ratio.series == series);
        let mut by_verdict: Vec<(Verdict, Vec<String>)> = Vec::new();
        for ratio in of_group {
            let name = format!("p{}", ratio.percentile);
            match by_verdict.iter_mut().find(|(verdict, _)| *verdict == ratio.verdict) {
                Some((_, names)) => names.push(name),
                None => by_verdict.push((ratio.verdict, vec![name])),
            }
        }
        let verdicts: Vec<String> = by_verdict
            .iter()
            .map(|(verdict, names)| format!("{} at {}", verdict.name(), names.join(", ")))
            .collect();
        lines.push(format!("{op} {series}: {other} is {}", verdicts.join("; ")));
    }
    for shift in &pair.shifts {
        lines.push(format!(
            "{} {}, op by op: typically {} of the time ({}), faster in {} of {} ops",
            shift.op,
            shift.series,
            times(shift.factor.value),
            interval(&shift.factor),
            percent(shift.share_faster.value),
            shift.pairs
        ));
    }
    for one in pair.discordances.iter().filter(|one| one.baseline_only + one.other_only > 0) {
        lines.push(format!(
            "{}: OK only on {baseline}: {}, only on {other}: {}, on neither: {}",
            one.op, one.baseline_only, one.other_only, one.neither
        ));
    }
    if let Some(goodput) = &pair.goodput {
        lines.push(format!(
            "goodput: {}/s against {}/s, {} of it{}",
            rate(Some(goodput.other)),
            rate(Some(goodput.baseline)),
            times(goodput.ratio),
            goodput.interval.map_or(String::new(), |(low, high)| format!(
                " ({} to {})",
                times(low),
                times(high)
            ))
        ));
    }
    if let Some(variance) = &pair.variance {
        lines.push(format!(
            "the median varies by {} from run to run, by {} within one",
            percent(variance.between_runs),
            percent(variance.within_run)
        ));
    }
    lines
}

fn ratio_row(ratio: &Ratio) -> Vec<String> {
    let time = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), duration);
    let text = |estimate: Option<Estimate>, of: &dyn Fn(&Estimate) -> String| {
        estimate.as_ref().map_or_else(|| "-".to_owned(), of)
    };
    vec![
        format!("{} {} p{}", ratio.op, ratio.series, ratio.percentile),
        ratio.verdict.name().to_owned(),
        text(ratio.ratio, &|one| times(one.value)),
        text(ratio.ratio, &|one| format!("{:.3} – {:.3}x", one.low, one.high)),
        ratio.detectable.map_or_else(|| "-".to_owned(), percent),
        time(ratio.baseline_ns),
        time(ratio.other_ns),
    ]
}

fn times(ratio: f64) -> String {
    format!("{ratio:.3}x")
}

fn interval(estimate: &Estimate) -> String {
    format!("{} to {}", times(estimate.low), times(estimate.high))
}

/// What is known about each run over time: how it was loaded, when it changed.
pub(super) fn over_time(runs: &[&RunReport]) -> Vec<Block> {
    let mut lines = Vec::new();
    for run in runs {
        lines.extend(run.load.as_ref().and_then(|load| load_line(run, load)));
        for change in &run.change_points {
            let moved: Vec<String> = change
                .moved
                .iter()
                .map(|one| format!("{} {} to {}", one.op, duration(one.before_ns), duration(one.after_ns)))
                .collect();
            lines.push(format!(
                "{}: changed at {}: median response of {}",
                run.label,
                exact(change.at_ns),
                moved.join(", ")
            ));
        }
    }
    if lines.is_empty() {
        return Vec::new();
    }
    vec![Block::Heading("Over time".into()), Block::Lines(lines)]
}

fn load_line(run: &RunReport, load: &Load) -> Option<String> {
    let verdict = match load.sustained? {
        true => "sustained".to_owned(),
        false => format!("NOT SUSTAINED since {}", duration(load.since_ns.unwrap_or(0))),
    };
    let causes = load.lag_causes;
    Some(format!(
        "{}: {verdict}; {} of the ops answered within the schedule, {} late; lag: {} every session busy, {} waiting \
         for other ops, {} client",
        run.label,
        percent(load.kept_pace),
        percent(load.late_share),
        percent(causes.server),
        percent(causes.order),
        percent(causes.client)
    ))
}

/// The groups of `--by`, a table for each run.
pub(super) fn groups(report: &Report, runs: &[&RunReport]) -> Vec<Block> {
    let mut blocks = Vec::new();
    for run in runs {
        let Some(groups) = &run.groups else { continue };
        blocks.push(Block::Heading(format!("{}, by {}: {}", written(&run.label), groups.by, groups.about)));
        let percentiles = report.percentiles.iter();
        let mut head = vec![groups.by.clone(), "ops".to_owned(), "failed".to_owned()];
        head.extend(percentiles.clone().map(|percentile| format!("p{percentile}")));
        head.push("max".to_owned());
        let time = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), duration);
        let row = |(name, op): &(String, OpReport)| {
            let summary = &op.response.ok;
            let mut row = vec![name.clone(), grouped(op.ops), grouped(op.failed)];
            row.extend(percentiles.clone().map(|percentile| {
                time(summary.percentiles.get(percentile).copied().flatten().and_then(|one| one.value_ns))
            }));
            row.push(time(summary.max_ns));
            row
        };
        blocks.push(Block::Table { head, rows: groups.groups.0.iter().map(row).collect() });
    }
    blocks
}

/// Self-checks of a report.
pub(super) fn self_checks(report: &Report) -> Vec<Block> {
    if report.self_checks.is_empty() {
        return Vec::new();
    }
    let line = |check: &SelfCheck| {
        let detectable: Vec<String> = check
            .ratios
            .iter()
            .filter(|ratio| ratio.op == "ALL" || check.ratios.iter().all(|one| one.op == ratio.op))
            .filter_map(|ratio| Some(format!("p{} {}", ratio.percentile, percent(ratio.detectable?))))
            .collect();
        format!(
            "{} ({}): {} of {} intervals see a difference that is not there (5 % may); smallest detectable: {}",
            check.of,
            check.how,
            check.false_alarms,
            check.intervals,
            detectable.join(", ")
        )
    };
    vec![
        Block::Heading("Self-check (A/A)".into()),
        Block::Lines(report.self_checks.iter().map(line).collect()),
    ]
}
