//! From result files to a report: exact percentiles over every op that was scheduled, failures
//! included, for one run or several side by side.
//!
//! `scan` reads the rows (at flat memory, in parallel), `quantile` makes percentiles exact, `tables`
//! does the tabular work, `report` is the outcome as plain data and `render` gives it a form.

pub mod caveat;
pub mod hdr;
pub mod pictures;
pub mod quantile;
pub mod render;
pub mod report;
mod scan;
mod tables;
pub mod transactions;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use self::caveat::FewOps;
use self::quantile::{Histogram, Percentile, Request};
use self::render::units;
use self::report::{
    Caveat, Check, Comparison, DEFINITIONS, FailureRow, Named, NotedCaveat, OpReport, Quantile, Report,
    RunReport, SCHEMA_VERSION, Series, Summary, Window,
};
use self::scan::{Distribution, KINDS, Tally, position};
use crate::op::{OpKind, Status};
use crate::trace::meta::{PACE_UNKNOWN, Phase, RunMeta};
use crate::trace::runs::{RunFile, unfinished};
use crate::trace::{FileError, GENERATOR};

/// The percentiles that a report shows unless told otherwise.
pub const DEFAULT_PERCENTILES: &str = "50,90,95,99,99.9,99.99";

/// A percentile with fewer ops above it than this gets a caveat.
const ENOUGH_ABOVE: u64 = 10;

/// What to compute.
#[derive(Debug, Clone)]
pub struct Options {
    /// In the order of the report, each once.
    pub percentiles: Vec<Percentile>,
    /// Length of a window; not 0.
    pub window_ns: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            percentiles: percentiles(DEFAULT_PERCENTILES).expect("the default is valid"),
            window_ns: 1_000_000_000,
        }
    }
}

/// Parses a list such as `50,99,99.9`; a percentile given twice counts once.
pub fn percentiles(list: &str) -> Result<Vec<Percentile>, String> {
    let mut percentiles: Vec<Percentile> = Vec::new();
    for text in list.split(',') {
        let percentile: Percentile = text.parse()?;
        if !percentiles.contains(&percentile) {
            percentiles.push(percentile);
        }
    }
    Ok(percentiles)
}

/// Analyses result files; a folder stands for every `*.parquet` in it.
pub fn analyze(paths: &[PathBuf], options: &Options) -> Result<Report> {
    let files = open_all(&expand(paths)?)?;
    let mut runs = Vec::new();
    let labels = labels(&files);
    for (file, label) in files.iter().zip(labels) {
        runs.push(analyze_run(file, label, options)?);
    }
    let mut comparisons = Vec::new();
    for phase in [Phase::Load, Phase::Run] {
        let members: Vec<usize> = (0..runs.len()).filter(|&run| runs[run].phase == phase).collect();
        if !members.is_empty() {
            comparisons.push(compare(phase, members, &runs)?);
        }
    }
    let definitions = DEFINITIONS.iter().map(|&(word, meaning)| (word.to_owned(), meaning.to_owned()));
    Ok(Report {
        schema_version: SCHEMA_VERSION,
        generator: GENERATOR.to_owned(),
        definitions: Named(definitions.collect()),
        percentiles: options.percentiles.iter().map(|one| one.text().to_owned()).collect(),
        window_ns: options.window_ns,
        runs,
        comparisons,
        self_checks: Vec::new(),
    })
}

/// The files that the arguments stand for.
fn expand(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with('.') && name.ends_with(".segments") {
            return Err(unfinished_run(path));
        }
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let listing = || format!("cannot list {}", path.display());
        let mut inside = Vec::new();
        for entry in std::fs::read_dir(path).with_context(listing)? {
            let entry = entry.with_context(listing)?.path();
            let hidden = entry.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
            if !hidden && entry.extension().is_some_and(|extension| extension == "parquet") {
                inside.push(entry);
            }
        }
        if inside.is_empty() {
            if unfinished(path).is_ok_and(|found| !found.is_empty()) {
                return Err(unfinished_run(path));
            }
            bail!("the folder {} holds no results (*.parquet)", path.display());
        }
        inside.sort();
        files.extend(inside);
    }
    Ok(files)
}

fn unfinished_run(path: &Path) -> anyhow::Error {
    let folder = if path.is_dir() { path } else { path.parent().unwrap_or(Path::new(".")) };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    anyhow::anyhow!(
        "{} is an unfinished run: its replay is still going on or was killed. If it was killed, \
         `ycsb-trace repair {}` makes a result from the segments that were closed",
        path.display(),
        folder.display()
    )
}

/// Opens every file, and refuses to count one run twice.
fn open_all(paths: &[PathBuf]) -> Result<Vec<RunFile>> {
    let mut files: Vec<RunFile> = Vec::new();
    for path in paths {
        let file = match RunFile::open(path) {
            Err(FileError::Io { .. })
                if !path.exists() && unfinished(path).is_ok_and(|one| !one.is_empty()) =>
            {
                return Err(unfinished_run(path));
            }
            other => other.context("cannot analyze this file")?,
        };
        let twin = files
            .iter()
            .find(|one| one.meta.run_id == file.meta.run_id && one.meta.started_at == file.meta.started_at);
        if let Some(twin) = twin {
            bail!(
                "{} and {} are the same run ({}); give each run once",
                twin.path().display(),
                path.display(),
                file.meta.run_id
            );
        }
        files.push(file);
    }
    Ok(files)
}

/// Short names: the database, numbered where a phase has several runs of it.
fn labels(files: &[RunFile]) -> Vec<String> {
    let same = |one: &RunMeta, other: &RunMeta| one.phase == other.phase && one.db == other.db;
    files
        .iter()
        .enumerate()
        .map(|(index, file)| {
            let count = files.iter().filter(|other| same(&file.meta, &other.meta)).count();
            let before = files[..index].iter().filter(|other| same(&file.meta, &other.meta)).count();
            if count > 1 { format!("{} #{}", file.meta.db, before + 1) } else { file.meta.db.clone() }
        })
        .collect()
}

/// Ops that are summed up together: one kind, or all of them.
struct Group {
    kinds: Vec<OpKind>,
    ops: u64,
    ok: u64,
    statuses: Named<u64>,
}

impl Group {
    fn new(tally: &Tally, kinds: Vec<OpKind>) -> Group {
        let of_status = |status: Status| -> u64 {
            kinds.iter().map(|&kind| tally.counts[kind as usize][status as usize]).sum()
        };
        let statuses: Vec<(String, u64)> = Status::ALL
            .into_iter()
            .map(|status| (status.name().to_owned(), of_status(status)))
            .filter(|(_, count)| *count > 0)
            .collect();
        let ops = statuses.iter().map(|(_, count)| count).sum();
        Group { ops, ok: of_status(Status::Ok), statuses: Named(statuses), kinds }
    }

    fn members(&self, distributions: &[Distribution]) -> Vec<usize> {
        let of_kind = |&kind: &OpKind| distributions.iter().map(move |&one| position(kind, one));
        self.kinds.iter().flat_map(of_kind).collect()
    }
}

/// One population of one series of one group: what to ask the file for, and what is known already.
struct Question {
    finite: Histogram,
    /// Everyone, the never answered included.
    count: u64,
    members: Vec<usize>,
}

impl Question {
    fn new(tally: &Tally, members: Vec<usize>, unanswered: u64) -> Question {
        let finite = tally.union(&members);
        Question { count: finite.count() + unanswered, finite, members }
    }

    /// The ranks that hold an answered op; the others are infinite.
    fn request(&self, percentiles: &[Percentile]) -> Request {
        let ranks = self.ranks(percentiles).filter(|&rank| rank <= self.finite.count()).collect();
        Request { members: self.members.clone(), ranks }
    }

    fn ranks(&self, percentiles: &[Percentile]) -> impl Iterator<Item = u64> {
        percentiles.iter().filter(|_| self.count > 0).map(|percentile| percentile.rank(self.count))
    }

    fn summary(&self, percentiles: &[Percentile], values: &[u64]) -> Summary {
        let mut values = values.iter();
        let quantile = |percentile: &Percentile| {
            let quantile = (self.count > 0).then(|| {
                let rank = percentile.rank(self.count);
                let value_ns = (rank <= self.finite.count()).then(|| *values.next().expect("one per rank"));
                Quantile {
                    value_ns,
                    unanswered: value_ns.is_none(),
                    above: self.count - rank,
                    interval: None,
                    insufficient: false,
                }
            });
            (percentile.text().to_owned(), quantile)
        };
        Summary {
            percentiles: Named(percentiles.iter().map(quantile).collect()),
            count: self.count,
            unanswered: self.count - self.finite.count(),
            min_ns: self.finite.min(),
            mean_ns: self.finite.mean(),
            max_ns: self.finite.max(),
        }
    }
}

fn analyze_run(file: &RunFile, label: String, options: &Options) -> Result<RunReport> {
    let tally = scan::tally(file, options.window_ns)?;
    let mut groups = vec![Group::new(&tally, OpKind::ALL.to_vec())];
    groups.extend(OpKind::ALL.into_iter().map(|kind| Group::new(&tally, vec![kind])));

    // Per group: response, service, lag; of each the successes, then all attempts.
    let mut questions = Vec::new();
    for group in &groups {
        use Distribution::{LagFailed, LagOk, Response, Service};
        let failed = group.ops - group.ok;
        for distribution in [Response, Service] {
            questions.push(Question::new(&tally, group.members(&[distribution]), 0));
            questions.push(Question::new(&tally, group.members(&[distribution]), failed));
        }
        let never_started = failed - tally.union(&group.members(&[LagFailed])).count();
        questions.push(Question::new(&tally, group.members(&[LagOk]), 0));
        questions.push(Question::new(&tally, group.members(&[LagOk, LagFailed]), never_started));
    }
    let requests = questions.iter().map(|question| question.request(&options.percentiles)).collect();
    let answers = scan::select(file, &tally, requests)?;
    let mut summaries = questions
        .iter()
        .zip(&answers)
        .map(|(question, values)| question.summary(&options.percentiles, values));

    let mut windows = tables::windows(&tally.windows, options.window_ns)?;
    let span_ns = match (tally.first_intended_ns, tally.last_end_ns) {
        (Some(first), Some(last)) => last.saturating_sub(first),
        _ => 0,
    };
    let mut op_reports = Vec::new();
    for group in groups {
        let mut next = || summaries.next().expect("six per group");
        let mut series = || Series { ok: next(), all: next() };
        let (response, service, lag) = (series(), series(), series());
        let name = if group.kinds.len() == KINDS { tables::ALL } else { group.kinds[0].name() };
        op_reports.push(op_report(group, span_ns, [response, service, lag], windows.remove(name)));
    }
    let all = op_reports.remove(0);
    // The kinds of YCSB always, statements where they occur.
    let of_kinds = OpKind::ALL.into_iter().zip(op_reports);
    let ops = of_kinds
        .filter(|(kind, one)| OpKind::YCSB.contains(kind) || one.ops > 0)
        .map(|(kind, one)| (kind.name().to_owned(), (one.ops > 0).then_some(one)));

    let meta = file.meta.clone();
    let checks = checks(&meta, &tally, &all);
    let mut run = RunReport {
        file: file.path().display().to_string(),
        label,
        run_id: meta.run_id,
        trace: meta.trace,
        trace_hash: meta.trace_hash,
        phase: meta.phase,
        db: meta.db,
        server: meta.server,
        config: meta.config,
        sessions: meta.sessions,
        lanes: meta.lanes,
        pace: meta.pace,
        target_per_second: meta.target_per_second,
        speed: meta.speed,
        order: meta.order,
        host: meta.host,
        parts: Vec::new(),
        histogram_error: None,
        started_at: meta.started_at,
        elapsed_ns: meta.elapsed_ns,
        ended_because: meta.ended_because,
        complete: meta.complete,
        interrupted: meta.interrupted,
        trace_rows: meta.trace_rows,
        rows: meta.rows,
        recorder_stalls: meta.recorder_stalls,
        sustained: meta.sustained,
        overhead: meta.overhead,
        first_intended_ns: tally.first_intended_ns,
        last_end_ns: tally.last_end_ns,
        span_ns,
        warmup: None,
        load: None,
        change_points: Vec::new(),
        interval_window_ns: None,
        in_flight_mean: None,
        all,
        groups: None,
        ops: Named(ops.collect()),
        failures: failures(&tally)?,
        errors: meta.errors,
        checks,
        caveats: Vec::new(),
    };
    if run.pace == PACE_UNKNOWN {
        // Without due times, a lag of 0 would be an invention.
        let of_kinds = run.ops.0.iter_mut().filter_map(|(_, one)| one.as_mut());
        of_kinds.chain([&mut run.all]).for_each(|op| op.lag = Series::unknown(&options.percentiles));
    }
    run.caveats = caveats(&run, &tally, options, file.meta.histograms.len());
    Ok(run)
}

fn op_report(group: Group, span_ns: u64, series: [Series; 3], windows: Option<Vec<Window>>) -> OpReport {
    let per_second = |count: u64| (span_ns > 0).then(|| count as f64 * 1e9 / span_ns as f64);
    let [response, service, lag] = series;
    let failed = group.ops - group.ok;
    OpReport {
        ops: group.ops,
        ok: group.ok,
        failed,
        error_rate: if group.ops == 0 { 0.0 } else { failed as f64 / group.ops as f64 },
        ops_per_second: per_second(group.ops),
        ok_per_second: per_second(group.ok),
        statuses: group.statuses,
        response,
        service,
        lag,
        windows: windows.unwrap_or_default(),
    }
}

fn failures(tally: &Tally) -> Result<Vec<FailureRow>> {
    let row = |((kind, status, code), &count): (&(OpKind, Status, String), &u64)| FailureRow {
        op: kind.name().to_owned(),
        status: status.name().to_owned(),
        code: code.clone(),
        count,
    };
    tables::failures(tally.failures.iter().map(row).collect())
}

/// The identities that a sound result satisfies.
fn checks(meta: &RunMeta, tally: &Tally, all: &OpReport) -> Vec<Check> {
    let mut scanned: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
    for kind in OpKind::ALL {
        for status in Status::ALL {
            let count = tally.counts[kind as usize][status as usize];
            if count > 0 {
                scanned.entry(kind.name().to_owned()).or_default().insert(status.name().to_owned(), count);
            }
        }
    }
    let mut footer = meta.counts.clone();
    footer.values_mut().for_each(|statuses| statuses.retain(|_, count| *count > 0));
    footer.retain(|_, statuses| !statuses.is_empty());
    let by_footer: u64 = footer.values().flat_map(BTreeMap::values).sum();
    let check = |what: &str, holds: bool, detail: String| Check { what: what.to_owned(), holds, detail };
    vec![
        check(
            "rows = sum of the footer's counts",
            meta.rows == by_footer,
            format!("{} rows, the footer's counts add up to {by_footer}", meta.rows),
        ),
        check(
            "counts per op and status in the footer = those of the rows",
            scanned == footer,
            format!("footer {footer:?}, rows {scanned:?}"),
        ),
        check(
            "rows = OK + failed",
            meta.rows == all.ops && all.ops == all.ok + all.failed,
            format!("{} rows, {} OK, {} failed", meta.rows, all.ok, all.failed),
        ),
        check(
            "a complete run has every op of its trace",
            !meta.complete || meta.rows == meta.trace_rows,
            format!("{} rows, {} ops in the trace", meta.rows, meta.trace_rows),
        ),
        check(
            "intended <= start <= end in every row, and an OK has all three",
            tally.impossible == 0,
            format!("{} rows break it", tally.impossible),
        ),
    ]
}

/// When not to believe a run.
fn caveats(run: &RunReport, tally: &Tally, options: &Options, histograms: usize) -> Vec<NotedCaveat> {
    let mut caveats = Vec::new();
    for check in run.checks.iter().filter(|check| !check.holds) {
        caveats.push(Caveat::CheckFailed { what: check.what.clone(), detail: check.detail.clone() });
    }
    match (run.rows, histograms) {
        (0, 0) => caveats.push(Caveat::Empty),
        (0, _) => caveats.push(Caveat::OnlyHistograms),
        _ => {}
    }
    if run.interrupted {
        caveats.push(Caveat::Interrupted);
    }
    if !run.complete {
        let because = run.ended_because.clone();
        caveats.push(Caveat::Incomplete { rows: run.rows, trace_rows: run.trace_rows, because });
    }
    if run.recorder_stalls > 0 {
        caveats.push(Caveat::RecorderStalls { count: run.recorder_stalls });
    }
    if run.pace == PACE_UNKNOWN {
        caveats.push(Caveat::Imported);
    } else if is_unpaced(run) {
        caveats.push(Caveat::Unpaced);
    } else {
        caveats.extend(not_sustained(run).or_else(|| large_lag(tally)));
    }
    let few: Vec<FewOps> =
        run.ops.0.iter().filter_map(|(op, of_kind)| few_ops(op, of_kind.as_ref()?, options)).collect();
    if !few.is_empty() {
        caveats.push(Caveat::FewOps { ops: few });
    }
    caveats.into_iter().map(Caveat::noted).collect()
}

/// The high percentiles of a kind that rest on hardly any ops. Low ones of few ops are rough too, but
/// nobody mistakes them for a tail.
fn few_ops(op: &str, of_kind: &OpReport, options: &Options) -> Option<FewOps> {
    let high: Percentile = "90".parse().expect("a percentile");
    let above: Vec<(String, u64)> = options
        .percentiles
        .iter()
        .filter(|percentile| percentile.at_least(&high) && percentile.text() != "100" && of_kind.ok > 0)
        .map(|percentile| (percentile.text().to_owned(), of_kind.ok - percentile.rank(of_kind.ok)))
        .filter(|(_, above)| *above < ENOUGH_ABOVE)
        .collect();
    let few = FewOps { op: op.to_owned(), ok: of_kind.ok, above: Named(above) };
    (!few.above.0.is_empty()).then_some(few)
}

/// Does the run have no schedule?
fn is_unpaced(run: &RunReport) -> bool {
    run.pace == "unpaced"
}

/// The verdict of the replay itself.
fn not_sustained(run: &RunReport) -> Option<Caveat> {
    let verdict = run.sustained.as_ref().filter(|verdict| !verdict.sustained)?;
    Some(Caveat::NotSustained {
        since: units::duration(verdict.since_ns.unwrap_or(0)),
        growth: units::duration(verdict.lag_growth_ns_per_s),
        cause: verdict.cause.clone().unwrap_or_default(),
    })
}

/// Below this nobody notices a lag.
const NOTICEABLE_LAG_NS: u64 = 10_000_000;

/// p99 of the lag beyond 10 ms and beyond ten times the median service time, whichever percentiles are asked for.
fn large_lag(tally: &Tally) -> Option<Caveat> {
    let near = |distribution: Distribution, percentile: &str| {
        let members: Vec<usize> = OpKind::ALL.into_iter().map(|kind| position(kind, distribution)).collect();
        tally.union(&members).near(&percentile.parse().expect("a percentile"))
    };
    let lag_p99 = near(Distribution::LagOk, "99")?;
    let service_p50 = near(Distribution::Service, "50")?;
    (lag_p99 > service_p50.saturating_mul(10).max(NOTICEABLE_LAG_NS)).then(|| Caveat::LargeLag {
        lag_p99: units::duration(lag_p99),
        service_p50: units::duration(service_p50),
    })
}

/// Puts the runs of one phase side by side.
fn compare(phase: Phase, members: Vec<usize>, runs: &[RunReport]) -> Result<Comparison> {
    let side: Vec<&RunReport> = members.iter().map(|&run| &runs[run]).collect();
    let all_equal = |one: fn(&RunReport) -> String| side.iter().all(|run| one(run) == one(side[0]));
    let same_trace = all_equal(|run| run.trace_hash.clone());
    let mut caveats = Vec::new();
    if !same_trace {
        caveats.push(Caveat::DifferentTraces);
    }
    if !all_equal(|run| format!("{} {:?} {}", run.pace, run.target_per_second, run.speed)) {
        caveats.push(Caveat::DifferentPace);
    }
    if !all_equal(|run| run.sessions.to_string()) {
        caveats.push(Caveat::DifferentSessions);
    }
    let worst_windows = tables::worst_windows(&side)?;
    let caveats = caveats.into_iter().map(Caveat::noted).collect();
    Ok(Comparison {
        phase,
        runs: members,
        same_trace,
        worst_windows,
        caveats,
        sides: Vec::new(),
        sides_chosen: String::new(),
        pairs: Vec::new(),
    })
}
