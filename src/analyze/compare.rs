//! Which side is faster, by how much, and is that certain?
//!
//! Runs of one trace are compared op by op, in windows of neighbouring ops. Nothing is compared that
//! answers another question: other operations (unless asked for), another rate, or the response times of
//! a run that could not keep up, which grow for as long as it lasts. What is left out is named.

use anyhow::Result;

use super::Options;
use super::bootstrap::{LogRatio, RESAMPLES, Sides, Windows, pseudo_median};
use super::caveat::Caveat;
use super::interval::{student_t, variance_of_sum};
use super::join::{ALL, Joined, PairTally, RunWindows, SERIES, join};
use super::merge::Member;
use super::report::{
    Discordance, Estimate, OpReport, Pair, PairedShift, RateRatio, Ratio, RunReport, SelfCheck, Shape,
    ShapePoint, Side, VarianceShares, Verdict,
};
use crate::op::OpKind;
use crate::rng::mix;
use crate::trace::meta::RunMeta;

/// The most windows that are drawn from: more make it slower, not surer.
const MOST_WINDOWS: u64 = 500;
/// A self-check alternates stretches of so many windows.
const STRETCH: usize = 10;
/// Names of the series that are compared.
const SERIES_NAMES: [&str; SERIES] = ["response", "service"];

/// A run in a comparison.
#[derive(Clone, Copy)]
pub struct Contestant<'a> {
    /// Its rows.
    pub member: &'a Member,
    /// Its report.
    pub report: &'a RunReport,
    /// Of its footer.
    pub seed: u64,
}

/// A run before any row of it is read.
#[derive(Clone, Copy)]
pub struct Entrant<'a> {
    /// Its number in the report.
    pub run: usize,
    /// Its files.
    pub member: &'a Member,
    /// How it is called.
    pub label: &'a str,
}

/// Puts runs on sides. With names given (`NAME=FILE`), runs of one name are one side. Without, runs of
/// one database with the same server and settings are repetitions of one side, if there is more than one
/// such group; runs that are all alike are what somebody wants to tell apart, so each is a side.
pub fn sides(runs: &[Entrant]) -> (Vec<Side>, String) {
    let named = runs.iter().any(|run| run.member.name.is_some());
    let alike = |one: &Entrant, other: &Entrant| match (&one.member.name, &other.member.name) {
        (None, None) => !named && same_setup(&one.member.meta, &other.member.meta),
        (one, other) => one == other,
    };
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (index, run) in runs.iter().enumerate() {
        match groups.iter_mut().find(|group| alike(&runs[group[0]], run)) {
            Some(group) => group.push(index),
            None => groups.push(vec![index]),
        }
    }
    let repeated = groups.iter().any(|group| group.len() > 1);
    if !named && groups.len() == 1 {
        groups = (0..runs.len()).map(|index| vec![index]).collect();
    }
    let chosen = match (named, repeated && groups.iter().any(|group| group.len() > 1)) {
        (true, _) => "by the names given (NAME=FILE)".to_owned(),
        (false, true) => {
            "runs of one database with the same version and settings are repetitions of one side".to_owned()
        }
        (false, false) => String::new(),
    };
    let label = |group: &Vec<usize>| {
        let first = &runs[group[0]];
        match (&first.member.name, group.len()) {
            (Some(name), _) => name.clone(),
            (None, 1) => first.label.to_owned(),
            (None, _) => first.member.meta.db.clone(),
        }
    };
    let mut sides: Vec<Side> = Vec::new();
    for group in &groups {
        let mut label = label(group);
        if sides.iter().any(|side| side.label == label) {
            label = runs[group[0]].label.to_owned();
        }
        sides.push(Side { label, runs: group.iter().map(|&index| runs[index].run).collect() });
    }
    (sides, chosen)
}

/// The same kind of database, version, settings, connections and pace.
fn same_setup(one: &RunMeta, other: &RunMeta) -> bool {
    let setup = |run: &RunMeta| {
        (
            run.db.clone(),
            run.server.version.clone(),
            run.server.settings.clone(),
            run.sessions,
            format!("{} {:?} {}", run.pace, run.target_per_second, run.speed),
            run.trace_hash.clone(),
        )
    };
    setup(one) == setup(other)
}

fn pace(run: &RunReport) -> String {
    format!("{} {:?} {}", run.pace, run.target_per_second, run.speed)
}

/// The side that somebody means by a label, a run, a file or its name; none if there is none.
pub fn side_named(wanted: &str, sides: &[Side], runs: &[Entrant]) -> Option<usize> {
    let is = |run: &Entrant| {
        run.label == wanted
            || run.member.meta.run_id == wanted
            || run.member.files.iter().any(|file| {
                let path = file.path();
                path.display().to_string() == wanted || path.file_name().is_some_and(|name| name == wanted)
            })
    };
    let named =
        |side: &Side| side.label == wanted || runs.iter().any(|run| side.runs.contains(&run.run) && is(run));
    sides.iter().position(named)
}

/// How many windows a run is cut into.
fn window_count(reports: &[&RunReport]) -> usize {
    let of = |run: &&RunReport| {
        let length_ns = run.interval_window_ns.unwrap_or(1_000_000_000);
        (run.span_ns / length_ns).clamp(1, MOST_WINDOWS)
    };
    reports.iter().map(of).min().unwrap_or(1) as usize
}

fn cut_ns(run: &RunReport) -> u64 {
    run.warmup.as_ref().map_or(0, |warmup| warmup.cut_ns)
}

/// Compares the baseline with every other side. `runs`: all of the report, by their positions.
pub fn pairs(sides: &[Side], baseline: usize, runs: &[Contestant], options: &Options) -> Result<Vec<Pair>> {
    let mut pairs = Vec::new();
    for other in (0..sides.len()).filter(|&other| other != baseline) {
        pairs.push(pair(sides, baseline, other, runs, options)?);
    }
    holm(&mut pairs.iter_mut().flat_map(|pair| &mut pair.ratios).collect::<Vec<_>>());
    Ok(pairs)
}

/// What a pair may say, and why not more.
struct Rules {
    paired: bool,
    /// Nothing may be compared.
    refused: bool,
    /// Response times may be.
    response: bool,
    /// Response is service: there was no schedule.
    unpaced: bool,
    caveats: Vec<Caveat>,
}

fn rules(sides: [&[Contestant]; 2], options: &Options) -> Rules {
    let runs = || sides.into_iter().flatten();
    let first = sides[0][0].report;
    let same_trace = runs().all(|run| run.report.trace_hash == first.trace_hash);
    let mut rules = Rules {
        paired: same_trace && !options.unpaired,
        refused: !same_trace && !options.unpaired,
        response: true,
        unpaced: runs().all(|run| ["unpaced", "unknown"].contains(&run.report.pace.as_str())),
        caveats: Vec::new(),
    };
    if rules.refused {
        rules.caveats.push(Caveat::NotCompared);
        return rules;
    }
    if !rules.paired {
        rules.caveats.push(Caveat::Unpaired);
    }
    if runs().any(|run| pace(run.report) != pace(first)) {
        rules.response = false;
        let why = "the runs were paced differently".to_owned();
        rules.caveats.push(Caveat::ResponseWithheld { why });
    }
    for run in runs().filter(|run| run.report.load.as_ref().and_then(|load| load.sustained) == Some(false)) {
        rules.response = false;
        let why = format!("{} was not sustained", run.report.label);
        rules.caveats.push(Caveat::ResponseWithheld { why });
    }
    let (a, b) = (&sides[0][0].report.server.settings, &sides[1][0].report.server.settings);
    let differing = a.iter().filter_map(|(name, value)| {
        let other = b.get(name).filter(|other| *other != value)?;
        Some(format!("{name} ({value} / {other})"))
    });
    let differing: Vec<String> = differing.collect();
    if !differing.is_empty() {
        rules.caveats.push(Caveat::DifferentSettings { settings: differing.join(", ") });
    }
    let fewest = sides.iter().map(|side| side.len()).min().unwrap_or(0);
    if fewest < 3 {
        rules.caveats.push(Caveat::WithinRunOnly { runs: fewest });
    }
    rules
}

/// The rows of both sides, in windows.
struct Laps {
    runs: [Vec<RunWindows>; 2],
    /// Per group and window, the runs of both sides that were paired.
    pairs: Vec<Vec<Vec<PairTally>>>,
}

fn laps(sides: [&[Contestant]; 2], windows: usize, paired: bool) -> Result<Laps> {
    let members =
        |side: &[Contestant<'_>]| -> Vec<u64> { side.iter().map(|run| cut_ns(run.report)).collect() };
    let joined = if paired {
        let all: Vec<&Member> = sides.iter().flat_map(|side| side.iter().map(|run| run.member)).collect();
        let cuts = [members(sides[0]), members(sides[1])].concat();
        let both = sides[0].len().min(sides[1].len());
        let pairs: Vec<(usize, usize)> = (0..both).map(|run| (run, sides[0].len() + run)).collect();
        join(&all, &cuts, windows, &pairs)?
    } else {
        let mut joined = Joined { runs: Vec::new(), pairs: Vec::new() };
        for run in sides.into_iter().flatten() {
            joined.runs.extend(join(&[run.member], &[cut_ns(run.report)], windows, &[])?.runs);
        }
        joined
    };
    let mut runs = joined.runs;
    let others = runs.split_off(sides[0].len());
    Ok(Laps { runs: [runs, others], pairs: joined.pairs })
}

fn histograms(run: &RunWindows, group: usize, series: usize) -> Windows {
    Windows::new(run.histograms[group].iter().map(|window| window[series].clone()).collect())
}

/// The name of a group, as in the report.
fn group_name(group: usize) -> &'static str {
    if group == ALL { "ALL" } else { OpKind::ALL[group].name() }
}

fn op_report(run: &RunReport, group: usize) -> Option<&OpReport> {
    if group == ALL { Some(&run.all) } else { run.ops.get(group_name(group)).and_then(Option::as_ref) }
}

/// The percentile of a side: of several runs the geometric mean.
fn side_quantile(side: &[Contestant], group: usize, series: usize, percentile: &str) -> Option<u64> {
    let mut sum = 0.0;
    for run in side {
        let op = op_report(run.report, group)?;
        let summary = if series == 0 { &op.response.ok } else { &op.service.ok };
        let value = summary.percentiles.get(percentile)?.as_ref()?.value_ns?;
        if side.len() == 1 {
            return Some(value);
        }
        sum += (value.max(1) as f64).ln();
    }
    Some((sum / side.len() as f64).exp().round() as u64)
}

fn pair(
    sides: &[Side],
    baseline: usize,
    other: usize,
    runs: &[Contestant],
    options: &Options,
) -> Result<Pair> {
    let of_side =
        |side: usize| -> Vec<Contestant> { sides[side].runs.iter().map(|&run| runs[run]).collect() };
    let contestants = [of_side(baseline), of_side(other)];
    let both = [contestants[0].as_slice(), contestants[1].as_slice()];
    let rules = rules(both, options);
    let mut pair = Pair {
        baseline,
        other,
        paired: rules.paired,
        margin: options.margin,
        windows: 0,
        resamples: RESAMPLES,
        runs_per_side: [both[0].len(), both[1].len()],
        ratios: Vec::new(),
        shifts: Vec::new(),
        discordances: Vec::new(),
        shapes: Vec::new(),
        throughput: None,
        goodput: None,
        variance: None,
        caveats: rules.caveats.iter().cloned().map(Caveat::noted).collect(),
    };
    if rules.refused {
        return Ok(pair);
    }
    let reports: Vec<&RunReport> = both.iter().flat_map(|side| side.iter().map(|run| run.report)).collect();
    pair.windows = window_count(&reports);
    let laps = laps(both, pair.windows, rules.paired)?;
    let seed = both.iter().flat_map(|side| side.iter()).fold(0, |seed, run| mix(seed ^ run.seed));
    let has_rows = |group: &usize| laps.runs.iter().all(|side| side.iter().all(|run| run.ops[*group] > 0));
    let mut groups: Vec<usize> = (0..ALL).filter(has_rows).collect();
    if groups.len() != 1 {
        groups.push(ALL);
    }
    for &group in &groups {
        let series_shown = if rules.unpaced { 0..1 } else { 0..SERIES };
        for series in series_shown {
            let withheld = series == 0 && !rules.response;
            let [a, b] = [0, 1].map(|side: usize| -> Vec<Windows> {
                laps.runs[side].iter().map(|run| histograms(run, group, series)).collect()
            });
            let compared = Sides { baseline: &a, other: &b, paired: rules.paired, seed };
            pair.ratios.extend(ratios(&compared, both, group, series, withheld, options));
            if withheld {
                continue;
            }
            pair.shifts.extend(shift(&laps.pairs, group, series, options.margin, seed));
            if series == 0 || !rules.response {
                pair.shapes.extend(shape(&compared, group, series));
            }
        }
        pair.discordances.extend(discordance(&laps.pairs, group));
    }
    pair.throughput = rate_ratio(both, |op| op.ops_per_second, |window| window.completed);
    pair.goodput = rate_ratio(both, |op| op.ok_per_second, |window| window.completed_ok);
    pair.variance = variance(both, usize::from(!rules.response));
    Ok(pair)
}

fn estimate(log: &LogRatio) -> Estimate {
    Estimate { value: log.value.exp(), low: log.low.exp(), high: log.high.exp() }
}

fn plain(found: &LogRatio) -> Estimate {
    Estimate { value: found.value, low: found.low.max(0.0), high: found.high }
}

fn ratios(
    sides: &Sides,
    runs: [&[Contestant]; 2],
    group: usize,
    series: usize,
    withheld: bool,
    options: &Options,
) -> Vec<Ratio> {
    let qs: Vec<f64> = options.percentiles.iter().map(|percentile| percentile.share()).collect();
    let found = if withheld { vec![None; qs.len()] } else { sides.ratios(&qs) };
    let row = |(percentile, found): (&super::quantile::Percentile, Option<LogRatio>)| {
        let (verdict, p) = match &found {
            None if withheld => (Verdict::Withheld, None),
            None => (Verdict::Insufficient, None),
            Some(found) => {
                let (verdict, p) = verdict(found, options.margin);
                (verdict, Some(p))
            }
        };
        let of_side =
            |side| if withheld { None } else { side_quantile(side, group, series, percentile.text()) };
        Ratio {
            op: group_name(group).to_owned(),
            series: SERIES_NAMES[series].to_owned(),
            percentile: percentile.text().to_owned(),
            baseline_ns: of_side(runs[0]),
            other_ns: of_side(runs[1]),
            ratio: found.as_ref().map(estimate),
            detectable: found.map(|found| found.detectable().exp_m1()),
            verdict_alone: verdict,
            verdict,
            p_adjusted: p,
        }
    };
    options.percentiles.iter().zip(found).map(row).collect()
}

/// By the interval, and how likely one like it is if the verdict were wrong.
fn verdict(found: &LogRatio, margin: f64) -> (Verdict, f64) {
    let (low, high) = ((1.0 - margin).ln(), (1.0 + margin).ln());
    let faster = found.p_beyond(low, false);
    let slower = found.p_beyond(high, true);
    let equivalent = found.p_beyond(low, true).max(found.p_beyond(high, false));
    if found.high < low {
        (Verdict::Faster, faster)
    } else if found.low > high {
        (Verdict::Slower, slower)
    } else if low < found.low && found.high < high {
        (Verdict::Equivalent, equivalent)
    } else {
        (Verdict::Inconclusive, faster.min(slower).min(equivalent))
    }
}

/// Holm's correction (1979) within each series: of many verdicts, with probability 95 % none is wrong.
pub fn holm(ratios: &mut [&mut Ratio]) {
    for series in SERIES_NAMES {
        let mut family: Vec<&mut &mut Ratio> =
            ratios.iter_mut().filter(|ratio| ratio.series == series && ratio.p_adjusted.is_some()).collect();
        family.sort_by(|one, other| one.p_adjusted.partial_cmp(&other.p_adjusted).expect("numbers"));
        let (count, mut highest) = (family.len(), 0f64);
        for (rank, ratio) in family.into_iter().enumerate() {
            let p = ratio.p_adjusted.unwrap_or(1.0) * (count - rank) as f64;
            highest = highest.max(p.min(1.0));
            ratio.p_adjusted = Some(highest);
            let claims =
                [Verdict::Faster, Verdict::Slower, Verdict::Equivalent].contains(&ratio.verdict_alone);
            if claims && highest > 0.05 {
                ratio.verdict = Verdict::Inconclusive;
            }
        }
    }
}

/// Sums over the paired runs, window by window.
fn summed(pairs: &[Vec<Vec<PairTally>>], group: usize) -> Vec<PairTally> {
    let windows = pairs.first().map_or(0, |pair| pair[group].len());
    let sum = |window: usize| {
        let mut sum = PairTally::default();
        for tally in pairs.iter().map(|pair| &pair[group][window]) {
            sum.both += tally.both;
            sum.first_only += tally.first_only;
            sum.second_only += tally.second_only;
            sum.neither += tally.neither;
            for series in 0..SERIES {
                sum.less[series] += tally.less[series];
                sum.same[series] += tally.same[series];
            }
        }
        for series in 0..SERIES {
            let medians: Vec<f64> =
                pairs.iter().filter_map(|pair| pair[group][window].median_ln[series]).collect();
            sum.median_ln[series] =
                (!medians.is_empty()).then(|| medians.iter().sum::<f64>() / medians.len() as f64);
        }
        sum
    };
    (0..windows).map(sum).collect()
}

/// A share over all windows, with an interval that allows for dependence between them.
fn share(parts: &[(f64, f64)]) -> Option<Estimate> {
    let (sum, all) = parts.iter().fold((0.0, 0.0), |(sum, all), (part, of)| (sum + part, all + of));
    if all == 0.0 {
        return None;
    }
    let value = sum / all;
    let residuals: Vec<f64> = parts.iter().map(|(part, of)| part - value * of).collect();
    let reach = student_t(parts.len() as f64 - 1.0) * variance_of_sum(&residuals).sqrt() / all;
    Some(Estimate { value, low: value - reach, high: value + reach })
}

fn shift(
    pairs: &[Vec<Vec<PairTally>>],
    group: usize,
    series: usize,
    margin: f64,
    seed: u64,
) -> Option<PairedShift> {
    let windows = summed(pairs, group);
    let medians: Vec<f64> = windows.iter().filter_map(|window| window.median_ln[series]).collect();
    let factor = pseudo_median(&medians, seed)?;
    let faster = |window: &PairTally| {
        (window.less[series] as f64 + window.same[series] as f64 / 2.0, window.both as f64)
    };
    let share_faster = share(&windows.iter().map(faster).collect::<Vec<_>>())?;
    Some(PairedShift {
        op: group_name(group).to_owned(),
        series: SERIES_NAMES[series].to_owned(),
        pairs: windows.iter().map(|window| window.both).sum(),
        factor: estimate(&factor),
        share_faster: Estimate {
            low: share_faster.low.max(0.0),
            high: share_faster.high.min(1.0),
            ..share_faster
        },
        verdict: verdict(&factor, margin).0,
    })
}

fn discordance(pairs: &[Vec<Vec<PairTally>>], group: usize) -> Option<Discordance> {
    let windows = summed(pairs, group);
    let sum = |of: fn(&PairTally) -> u64| windows.iter().map(of).sum::<u64>();
    let difference = |window: &PairTally| {
        let all = window.both + window.first_only + window.second_only + window.neither;
        (window.second_only as f64 - window.first_only as f64, all as f64)
    };
    Some(Discordance {
        op: group_name(group).to_owned(),
        both: sum(|window| window.both),
        baseline_only: sum(|window| window.first_only),
        other_only: sum(|window| window.second_only),
        neither: sum(|window| window.neither),
        difference: share(&windows.iter().map(difference).collect::<Vec<_>>())?,
    })
}

fn shape(sides: &Sides, group: usize, series: usize) -> Option<Shape> {
    let percents: Vec<f64> = (1..=99).map(f64::from).chain([99.5, 99.9, 99.99]).collect();
    let found = sides.shape(&percents)?;
    let point = |&(percent, a, b, [value, low, high]): &(f64, f64, f64, [f64; 3])| ShapePoint {
        percent,
        baseline_ns: a.exp().round() as u64,
        other_ns: b.exp().round() as u64,
        ratio: Estimate { value: value.exp(), low: low.exp(), high: high.exp() },
    };
    Some(Shape {
        op: group_name(group).to_owned(),
        series: SERIES_NAMES[series].to_owned(),
        points: found.points.iter().map(point).collect(),
        ks: plain(&found.ks),
        wasserstein_ln: plain(&found.wasserstein),
        a12: plain(&found.a12),
    })
}

fn rate_ratio(
    sides: [&[Contestant]; 2],
    total: fn(&OpReport) -> Option<f64>,
    of_window: fn(&super::report::Window) -> u64,
) -> Option<RateRatio> {
    let mut rates = [0.0; 2];
    // Of ln rate: variance, and the degrees of freedom behind it.
    let mut variances = [Some((0.0, 0.0)); 2];
    for (index, side) in sides.iter().enumerate() {
        let of_runs: Vec<f64> = side.iter().map(|run| total(&run.report.all)).collect::<Option<_>>()?;
        rates[index] = of_runs.iter().sum::<f64>() / side.len() as f64;
        variances[index] = if side.len() > 1 {
            let n = side.len() as f64;
            let squares: f64 = of_runs.iter().map(|rate| (rate / rates[index] - 1.0).powi(2)).sum();
            Some((squares / (n - 1.0) / n, n - 1.0))
        } else {
            // Windows within the schedule; the last one is not full.
            let windows: Vec<f64> = side[0]
                .report
                .all
                .windows
                .iter()
                .filter(|one| one.ops > 0)
                .map(|one| of_window(one) as f64)
                .collect();
            let windows = &windows[..windows.len().saturating_sub(1)];
            let sum: f64 = windows.iter().sum();
            (windows.len() >= 10 && sum > 0.0).then(|| {
                let mean = sum / windows.len() as f64;
                let residuals: Vec<f64> = windows.iter().map(|one| one - mean).collect();
                (variance_of_sum(&residuals) / (sum * sum), windows.len() as f64 - 1.0)
            })
        };
    }
    if rates[0] <= 0.0 {
        return None;
    }
    let ratio = rates[1] / rates[0];
    let interval = match variances {
        [Some((one, degrees)), Some((other, more))] => {
            let reach = student_t(degrees.min(more)) * (one + other).sqrt();
            Some((ratio * (-reach).exp(), ratio * reach.exp()))
        }
        _ => None,
    };
    Some(RateRatio { baseline: rates[0], other: rates[1], ratio, interval })
}

fn variance(sides: [&[Contestant]; 2], series: usize) -> Option<VarianceShares> {
    if sides.iter().any(|side| side.len() < 2) {
        return None;
    }
    let (mut squares, mut degrees, mut within, mut count) = (0.0, 0.0, 0.0, 0.0);
    for side in sides {
        let mut ln_medians = Vec::new();
        for run in side {
            let summary = if series == 0 { &run.report.all.response.ok } else { &run.report.all.service.ok };
            let quantile = summary.percentiles.get("50")?.as_ref()?;
            ln_medians.push((quantile.value_ns?.max(1) as f64).ln());
            let interval = quantile.interval?;
            let (low, high) = (interval.low_ns?.max(1) as f64, interval.high_ns?.max(1) as f64);
            within += ((high / low).ln() / (2.0 * 1.96)).powi(2);
            count += 1.0;
        }
        let mean = ln_medians.iter().sum::<f64>() / ln_medians.len() as f64;
        squares += ln_medians.iter().map(|one| (one - mean).powi(2)).sum::<f64>();
        degrees += ln_medians.len() as f64 - 1.0;
    }
    let within = within / count;
    Some(VarianceShares {
        between_runs: (squares / degrees - within).max(0.0).sqrt(),
        within_run: within.sqrt(),
    })
}

/// One run against itself: its odd stretches of windows against its even ones.
pub fn self_check(run: &Contestant, options: &Options) -> Result<SelfCheck> {
    let windows = window_count(&[run.report]);
    let laps = join(&[run.member], &[cut_ns(run.report)], windows, &[])?;
    let stretch = STRETCH.min(windows / 6).max(1);
    let mut ratios = Vec::new();
    let kinds: Vec<usize> = (0..ALL).filter(|&group| laps.runs[0].ops[group] > 0).collect();
    let groups = if kinds.len() == 1 { kinds } else { [kinds, vec![ALL]].concat() };
    for group in groups {
        let mut halves: [Vec<_>; 2] = Default::default();
        for (index, window) in laps.runs[0].histograms[group].iter().enumerate() {
            halves[index / stretch % 2].push(window[0].clone());
        }
        let [odd, even] = halves.map(|half| [Windows::new(half)]);
        let sides = Sides { baseline: &odd, other: &even, paired: false, seed: run.seed };
        let own = Options { margin: 0.0, ..options.clone() };
        // The percentiles of halves are not in the report.
        ratios.extend(self::ratios(&sides, [&[], &[]], group, 0, false, &own));
    }
    ratios.iter_mut().for_each(|ratio| (ratio.baseline_ns, ratio.other_ns) = (None, None));
    let intervals = ratios.iter().filter(|ratio| ratio.ratio.is_some()).count();
    let alarm = |ratio: &&Ratio| ratio.ratio.is_some_and(|one| one.low > 1.0 || one.high < 1.0);
    Ok(SelfCheck {
        of: run.report.label.clone(),
        how: format!(
            "stretches of {stretch} of its {windows} windows, the odd ones against the even ones; without a shared trace"
        ),
        intervals,
        false_alarms: ratios.iter().filter(alarm).count(),
        ratios,
    })
}

/// Two runs of one set-up against each other: whatever differs is a false alarm.
pub fn twin_check(one: &Contestant, other: &Contestant, options: &Options) -> Result<Option<SelfCheck>> {
    if !same_setup(&one.member.meta, &other.member.meta) {
        return Ok(None);
    }
    let sides = [one, other].map(|run| Side { label: run.report.label.clone(), runs: Vec::new() });
    let runs = [*one, *other];
    let sides: Vec<Side> =
        sides.into_iter().enumerate().map(|(index, side)| Side { runs: vec![index], ..side }).collect();
    let own = Options { margin: 0.0, ..options.clone() };
    let ratios = pair(&sides, 0, 1, &runs, &own)?.ratios;
    let intervals = ratios.iter().filter(|ratio| ratio.ratio.is_some()).count();
    let alarm = |ratio: &&Ratio| ratio.ratio.is_some_and(|one| one.low > 1.0 || one.high < 1.0);
    Ok(Some(SelfCheck {
        of: format!("{} and {}", one.report.label, other.report.label),
        how: "two runs of the same trace on the same set-up".to_owned(),
        intervals,
        false_alarms: ratios.iter().filter(alarm).count(),
        ratios,
    }))
}
