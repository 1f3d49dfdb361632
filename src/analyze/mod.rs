//! From result files to a report: exact percentiles over every op that was scheduled, failures
//! included, for one run or several side by side.
//!
//! `scan` reads the rows (at flat memory, in parallel), `quantile` makes percentiles exact, `tables`
//! does the tabular work, `report` is the outcome as plain data and `render` gives it a form.

pub mod bootstrap;
pub mod by;
pub mod caveat;
mod compare;
mod footers;
pub mod hdr;
pub mod interval;
mod join;
mod merge;
pub mod pictures;
pub mod quantile;
pub mod render;
pub mod report;
mod scan;
mod series;
pub mod sparse;
pub mod steady;
mod tables;
pub mod transactions;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use xxhash_rust::xxh3::xxh3_64;

use self::by::By;
use self::caveat::FewOps;
use self::compare::{Contestant, Entrant, side_named};
use self::interval::Ends;
use self::merge::Member;
use self::quantile::{Histogram, Percentile, Request};
use self::render::units;
use self::report::{
    Caveat, Check, Comparison, DEFINITIONS, FailureRow, Interval, Named, NotedCaveat, OpReport, Quantile,
    Report, RequestReport, Requests, RunReport, SCHEMA_VERSION, Series, Side, Summary, WarmUp, Window,
};
use self::scan::{Distribution, Tally, View, position};
use self::series::{IntervalWindows, Lengths};
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
    /// What is left out at the beginning of every run.
    pub warmup: Warmup,
    /// A difference up to this share does not matter in practice.
    pub margin: f64,
    /// The side that the others are compared with: label, run, file or name; otherwise the first.
    pub baseline: Option<String>,
    /// Compare distributions, even of different traces, instead of op by op.
    pub unpaired: bool,
    /// Compare runs with themselves, too.
    pub self_check: bool,
    /// Group the ops of every run by this, too.
    pub by: Option<By>,
    /// Read footers only: percentiles of histograms, nothing over time, no comparison.
    pub footers: bool,
}

/// What is left out at the beginning of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Warmup {
    /// As much as MSER-5 says.
    Auto,
    /// Ops with an intended start before this, ns since the run began.
    Until(u64),
}

impl fmt::Display for Warmup {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warmup::Auto => out.write_str("auto"),
            Warmup::Until(0) => out.write_str("0"),
            Warmup::Until(ns) => out.write_str(&units::exact(*ns)),
        }
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            percentiles: percentiles(DEFAULT_PERCENTILES).expect("the default is valid"),
            window_ns: 1_000_000_000,
            warmup: Warmup::Until(0),
            margin: 0.03,
            baseline: None,
            unpaired: false,
            self_check: false,
            by: None,
            footers: false,
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

/// Analyses result files; a folder stands for every `*.parquet` in it. `NAME=FILE` puts a file on the
/// side of this name.
pub fn analyze(paths: &[PathBuf], options: &Options) -> Result<Report> {
    let files = open_all(&expand(paths)?)?;
    let members = if options.footers { footers::pool(files) } else { merge::members(files)? };
    let analyze_run = if options.footers { footers::report } else { analyze_run };
    let labels = labels(&members);
    let line_ups = line_ups(&members, &labels, options)?;
    let mut runs = Vec::new();
    for (member, label) in members.iter().zip(labels) {
        runs.push(analyze_run(member, label, options)?);
    }
    let contestants: Vec<Contestant> = members
        .iter()
        .zip(&runs)
        .map(|(member, report)| Contestant { member, report, seed: seed(&member.meta) })
        .collect();
    let mut comparisons = Vec::new();
    for line_up in line_ups {
        comparisons.push(compare(line_up, &contestants, &runs, options)?);
    }
    let mut self_checks = Vec::new();
    if options.self_check && !options.footers {
        for (index, run) in contestants.iter().enumerate() {
            self_checks.push(compare::self_check(run, options)?);
            if let Some(next) = contestants.get(index + 1) {
                self_checks.extend(compare::twin_check(run, next, options)?);
            }
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
        self_checks,
    })
}

/// `NAME=FILE` as name and file; a path that exists is one, whatever it looks like.
fn named(path: &Path) -> (Option<String>, PathBuf) {
    let parts = path.to_str().filter(|_| !path.exists()).and_then(|text| text.split_once('='));
    match parts.filter(|(name, _)| !name.is_empty() && !name.contains(['/', '\\'])) {
        Some((name, file)) => (Some(name.to_owned()), PathBuf::from(file)),
        None => (None, path.to_owned()),
    }
}

/// The files that the arguments stand for.
fn expand(paths: &[PathBuf]) -> Result<Vec<(Option<String>, PathBuf)>> {
    let mut all = Vec::new();
    for path in paths {
        let (side, path) = named(path);
        all.extend(files_of(&path)?.into_iter().map(|file| (side.clone(), file)));
    }
    Ok(all)
}

fn files_of(path: &Path) -> Result<Vec<PathBuf>> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if name.starts_with('.') && name.ends_with(".segments") {
        return Err(unfinished_run(path));
    }
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
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
    Ok(inside)
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
fn open_all(paths: &[(Option<String>, PathBuf)]) -> Result<Vec<(Option<String>, RunFile)>> {
    let mut files: Vec<(Option<String>, RunFile)> = Vec::new();
    for (side, path) in paths {
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
            .map(|(_, file)| file)
            .find(|one| one.meta.run_id == file.meta.run_id && one.meta.started_at == file.meta.started_at);
        if let Some(twin) = twin {
            bail!(
                "{} and {} are the same run ({}); give each run once",
                twin.path().display(),
                path.display(),
                file.meta.run_id
            );
        }
        files.push((side.clone(), file));
    }
    Ok(files)
}

/// Short names: the database, numbered where a phase has several runs of it.
fn labels(members: &[Member]) -> Vec<String> {
    let same = |one: &RunMeta, other: &RunMeta| one.phase == other.phase && one.db == other.db;
    members
        .iter()
        .enumerate()
        .map(|(index, one)| {
            let count = members.iter().filter(|other| same(&one.meta, &other.meta)).count();
            let before = members[..index].iter().filter(|other| same(&one.meta, &other.meta)).count();
            if count > 1 { format!("{} #{}", one.meta.db, before + 1) } else { one.meta.db.clone() }
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
    /// By percentile: the shares at the ends of its interval. None for a series without intervals.
    ends: Option<Vec<Option<Ends>>>,
}

impl Question {
    fn new(tally: &Tally, members: Vec<usize>, unanswered: u64) -> Question {
        let finite = tally.union(&members);
        Question { count: finite.count() + unanswered, finite, members, ends: None }
    }

    /// Adds intervals, from the windows of its group.
    fn with_intervals(
        mut self,
        windows: &IntervalWindows,
        of_series: usize,
        percentiles: &[Percentile],
    ) -> Question {
        let with_failures = self.count > self.finite.count();
        let ends = |rank: u64| {
            let known = rank <= self.finite.count();
            known.then(|| windows.ends(of_series, with_failures, rank)).flatten()
        };
        self.ends = Some(self.ranks(percentiles).map(ends).collect());
        self
    }

    /// The interval in ns: its ends are read off buckets 1/2048 wide, away from the middle.
    fn interval(&self, ends: Ends) -> Interval {
        let rank = |share: f64| ((share * self.count as f64).ceil() as u64).clamp(1, self.count);
        Interval {
            low_ns: self.finite.bounds(rank(ends.low)).map(|(low, _)| low),
            high_ns: self.finite.bounds(rank(ends.high)).map(|(_, high)| high),
            effective: ends.effective,
        }
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
        let quantile = |(index, percentile): (usize, &Percentile)| {
            let quantile = (self.count > 0).then(|| {
                let rank = percentile.rank(self.count);
                let value_ns = (rank <= self.finite.count()).then(|| *values.next().expect("one per rank"));
                let ends = self.ends.as_ref().map(|ends| ends[index]);
                Quantile {
                    value_ns,
                    unanswered: value_ns.is_none(),
                    above: self.count - rank,
                    interval: ends.flatten().map(|ends| self.interval(ends)),
                    insufficient: ends == Some(None) && value_ns.is_some(),
                }
            });
            (percentile.text().to_owned(), quantile)
        };
        Summary {
            percentiles: Named(percentiles.iter().enumerate().map(quantile).collect()),
            count: self.count,
            unanswered: self.count - self.finite.count(),
            min_ns: self.finite.min(),
            mean_ns: self.finite.mean(),
            max_ns: self.finite.max(),
        }
    }
}

/// The first scan, twice if only that shows what to cut.
fn tallied(member: &Member, options: &Options, lengths: Lengths) -> Result<(Tally, View, WarmUp)> {
    let sources = member.sources();
    let fine_ns = lengths.fine_ns();
    let rate = member.meta.target_per_second.filter(|rate| *rate > 0.0);
    let gap_ns = rate.map_or(0, |rate| (1e9 / rate) as u64);
    let mut view = View { window_ns: fine_ns, from_ns: 0, late_ns: gap_ns.max(series::NOTICEABLE_LAG_NS) };
    if let Warmup::Until(ns) = options.warmup {
        view.from_ns = ns.next_multiple_of(fine_ns);
    }
    let mut tally = scan::tally(&sources, view)?;
    let all = series::gather(&tally, &OpKind::ALL, fine_ns, lengths.interval_ns);
    let last_intended_ns = tally.last_intended_ns.unwrap_or(0);
    let mut warmup = series::warm_up(&all, lengths.interval_ns, last_intended_ns);
    if options.warmup == Warmup::Auto && warmup.suggested_ns.is_some_and(|ns| ns > 0) {
        view.from_ns = warmup.suggested_ns.unwrap_or(0);
        tally = scan::tally(&sources, view)?;
    }
    warmup.asked = options.warmup.to_string();
    warmup.cut_ns = view.from_ns;
    warmup.cut_ops = tally.cut.iter().flatten().sum();
    let first = all.range(view.from_ns / lengths.interval_ns..).next();
    warmup.lag_at_cut_ns =
        first.and_then(|(_, window)| window.histograms[2].quantile(0.5)).filter(|_| view.from_ns > 0);
    Ok((tally, view, warmup))
}

fn analyze_run(member: &Member, label: String, options: &Options) -> Result<RunReport> {
    let meta = member.meta.clone();
    let lengths = Lengths::new(options.window_ns, meta.elapsed_ns, meta.rows);
    let fine_ns = lengths.fine_ns();
    let (tally, view, warmup) = tallied(member, options, lengths)?;
    let kinds = tally.kinds();
    let mut groups = vec![Group::new(&tally, kinds.clone())];
    groups.extend(kinds.iter().map(|&kind| Group::new(&tally, vec![kind])));
    let of_group = |group: &Group, length_ns: u64| series::gather(&tally, &group.kinds, fine_ns, length_ns);
    let over_time: Vec<series::Series> =
        groups.iter().map(|group| of_group(group, lengths.interval_ns)).collect();

    // Per group: response, service, lag; of each the successes, then all attempts.
    let mut questions = Vec::new();
    for (group, over_time) in groups.iter().zip(&over_time) {
        use Distribution::{LagFailed, LagOk, Response, Service, ServiceFailed};
        let failed = group.ops - group.ok;
        let windows = IntervalWindows::new(over_time, lengths.interval_ns, view.from_ns);
        for (index, distribution) in [Response, Service].into_iter().enumerate() {
            for unanswered in [0, failed] {
                let question = Question::new(&tally, group.members(&[distribution]), unanswered);
                questions.push(question.with_intervals(&windows, index, &options.percentiles));
            }
        }
        let never_started = failed - tally.union(&group.members(&[LagFailed])).count();
        questions.push(Question::new(&tally, group.members(&[LagOk]), 0));
        questions.push(Question::new(&tally, group.members(&[LagOk, LagFailed]), never_started));
        questions.push(Question::new(&tally, group.members(&[ServiceFailed]), 0));
    }
    let divided = divided(&tally, &meta);
    questions.extend(divided.then(|| of_requests(&tally)).into_iter().flatten());
    questions.push(Question::new(&tally, vec![position(OpKind::Scan, Distribution::PerRow)], 0));
    let wanted = questions.iter().map(|question| question.request(&options.percentiles)).collect();
    let answers = scan::select(&member.sources(), view, &tally, wanted)?;
    let mut summaries = questions
        .iter()
        .zip(&answers)
        .map(|(question, values)| question.summary(&options.percentiles, values));

    let span_ns = match (tally.first_intended_ns, tally.last_end_ns) {
        (Some(first), Some(last)) => last.saturating_sub(first),
        _ => 0,
    };
    let last_intended_ns = tally.last_intended_ns.unwrap_or(0);
    let with_rows = groups.iter().zip(&over_time).skip(1).filter(|(group, _)| group.ops > 0);
    let by_kind: Vec<(String, &series::Series)> =
        with_rows.map(|(group, series)| (group.kinds[0].name().to_owned(), series)).collect();
    let seed = seed(&meta);
    let change_points =
        series::change_points(&over_time[0], &by_kind, lengths.interval_ns, last_intended_ns, seed);
    let is_paced = meta.pace != "unpaced" && meta.pace != PACE_UNKNOWN && meta.rows > 0;
    let load = is_paced
        .then(|| series::load(&tally, &over_time[0], lengths.interval_ns, meta.sustained.as_ref(), seed));
    let busy_ns: u64 = over_time[0].values().map(|window| window.busy_ns).sum();
    let whole_ns = tally.last_end_ns.unwrap_or(0).saturating_sub(if view.from_ns == 0 {
        tally.first_intended_ns.unwrap_or(0)
    } else {
        0
    });
    let in_flight_mean = (whole_ns > 0).then(|| busy_ns as f64 / whole_ns as f64);
    let mut op_reports = Vec::new();
    for group in groups {
        let mut next = || summaries.next().expect("seven per group");
        let mut series = || Series { ok: next(), all: next() };
        let (response, service, lag) = (series(), series(), series());
        let failed_service = Some(next()).filter(|failed| failed.count > 0);
        let shown = of_group(&group, lengths.shown_ns);
        let windows = series::windows(&shown, lengths.shown_ns, tally.last_end_ns);
        let report = op_report(group, span_ns, [response, service, lag], windows);
        op_reports.push(OpReport { failed_service, ..report });
    }
    let requests = divided.then(|| requests(&tally, &mut summaries));
    let scan_per_row = summaries.next().filter(|per_row| per_row.count > 0);
    let all = op_reports.remove(0);
    let names = kinds.iter().map(|kind| kind.name().to_owned());
    let ops = names.zip(op_reports.into_iter().map(|one| (one.ops > 0).then_some(one)));

    let mut checks = checks(&meta, &tally, &all);
    checks.extend(more_checks(&meta, &tally, &all, in_flight_mean, whole_ns));
    let mut run = report_of(member, label, all, Named(ops.collect()));
    run.first_intended_ns = tally.first_intended_ns;
    run.last_end_ns = tally.last_end_ns;
    run.span_ns = span_ns;
    run.warmup = Some(warmup);
    run.load = load;
    run.requests = requests;
    run.scan_per_row = scan_per_row;
    if member.files.len() == 1 {
        run.integrity = footers::integrity(&meta, &options.percentiles)?;
    }
    run.change_points = change_points;
    run.interval_window_ns = (meta.rows > 0).then_some(lengths.interval_ns);
    run.in_flight_mean = in_flight_mean;
    run.failures = failures(&tally)?;
    run.checks = checks;
    if run.pace == PACE_UNKNOWN {
        // Without due times, a lag of 0 would be an invention.
        let of_kinds = run.ops.0.iter_mut().filter_map(|(_, one)| one.as_mut());
        of_kinds.chain([&mut run.all]).for_each(|op| op.lag = Series::unknown(&options.percentiles));
    }
    run.caveats = caveats(&run, &tally, options, member.meta.histograms.len());
    if let Some(by) = &options.by {
        run.groups = Some(by::groups(member, &run, by, &options.percentiles)?);
    }
    Ok(run)
}

/// Are there read-modify-writes, and is it known of all of them when their reads ended?
fn divided(tally: &Tally, meta: &RunMeta) -> bool {
    let in_transactions = meta.config.get("rmw").is_some_and(|rmw| rmw == "transaction");
    tally.undivided == 0 && !in_transactions && tally.halves.iter().flatten().any(|count| *count > 0)
}

/// What to ask about requests: all of them, then of reads and of updates response, service and failures.
fn of_requests(tally: &Tally) -> Vec<Question> {
    use Distribution::{
        ReadHalf, ReadHalfFailed, ReadHalfResponse, Response, Service, ServiceFailed, UpdateHalf,
        UpdateHalfFailed,
    };
    let half = |distribution| position(OpKind::ReadModifyWrite, distribution);
    let single = OpKind::ALL.into_iter().filter(|kind| *kind != OpKind::ReadModifyWrite);
    let mut all: Vec<usize> = single.map(|kind| position(kind, Service)).collect();
    all.extend([half(ReadHalf), half(UpdateHalf)]);
    let mut questions = vec![Question::new(tally, all, 0)];
    for (kind, halves) in [
        // An update ends when its read-modify-write does.
        (OpKind::Read, [ReadHalfResponse, ReadHalf, ReadHalfFailed]),
        (OpKind::Update, [Response, UpdateHalf, UpdateHalfFailed]),
    ] {
        for (own, of_half) in [Response, Service, ServiceFailed].into_iter().zip(halves) {
            questions.push(Question::new(tally, vec![position(kind, own), half(of_half)], 0));
        }
    }
    questions
}

/// The answers to [`of_requests`].
fn requests(tally: &Tally, summaries: &mut impl Iterator<Item = Summary>) -> Requests {
    let mut next = || summaries.next().expect("seven for requests");
    let all = next();
    let mut of = |kind: OpKind, half: usize| {
        let count = |status: Status| {
            tally.counts[kind as usize][status as usize] + tally.halves[half][status as usize]
        };
        let statuses = Status::ALL.into_iter().map(|status| (status.name().to_owned(), count(status)));
        let statuses: Vec<(String, u64)> = statuses.filter(|(_, count)| *count > 0).collect();
        let ok = count(Status::Ok);
        RequestReport {
            ok,
            failed: statuses.iter().map(|(_, count)| count).sum::<u64>() - ok,
            statuses: Named(statuses),
            response: next(),
            service: next(),
            failed_service: Some(next()).filter(|failed| failed.count > 0),
        }
    };
    Requests { all, read: of(OpKind::Read, 0), update: of(OpKind::Update, 1) }
}

/// What a run's footer says, and these numbers; the rest is to be filled in.
fn report_of(member: &Member, label: String, all: OpReport, ops: Named<Option<OpReport>>) -> RunReport {
    let meta = member.meta.clone();
    RunReport {
        file: member.files[0].path().display().to_string(),
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
        parts: member.parts.clone(),
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
        closing_ns: meta.closing_ns,
        collections: meta.collections,
        integrity: None,
        first_intended_ns: None,
        last_end_ns: None,
        span_ns: 0,
        warmup: None,
        load: None,
        change_points: Vec::new(),
        interval_window_ns: None,
        in_flight_mean: None,
        all,
        requests: None,
        scan_per_row: None,
        groups: None,
        ops,
        failures: Vec::new(),
        errors: meta.errors,
        checks: Vec::new(),
        caveats: Vec::new(),
    }
}

/// Of everything random about a run: the footer, which tells runs apart.
fn seed(meta: &RunMeta) -> u64 {
    xxh3_64(serde_json::to_string(meta).expect("a footer is plain data").as_bytes())
}

fn op_report(group: Group, span_ns: u64, series: [Series; 3], windows: Vec<Window>) -> OpReport {
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
        failed_service: None,
        windows,
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
            let count = tally.in_file(kind, status);
            if count > 0 {
                scanned.entry(kind.name().to_owned()).or_default().insert(status.name().to_owned(), count);
            }
        }
    }
    let mut footer = meta.counts.clone();
    footer.values_mut().for_each(|statuses| statuses.retain(|_, count| *count > 0));
    footer.retain(|_, statuses| !statuses.is_empty());
    let cut: u64 = tally.cut.iter().flatten().sum();
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
            meta.rows == all.ops + cut && all.ops == all.ok + all.failed,
            match cut {
                0 => format!("{} rows, {} OK, {} failed", meta.rows, all.ok, all.failed),
                cut => {
                    format!("{} rows, {} OK, {} failed, {cut} cut off", meta.rows, all.ok, all.failed)
                }
            },
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

/// Identities between numbers that were added up in different ways.
fn more_checks(
    meta: &RunMeta,
    tally: &Tally,
    all: &OpReport,
    in_flight_mean: Option<f64>,
    whole_ns: u64,
) -> Vec<Check> {
    let check = |what: &str, holds: bool, detail: String| Check { what: what.to_owned(), holds, detail };
    let cut: u64 = tally.cut.iter().flatten().sum();
    let in_windows: u64 = all.windows.iter().map(|window| window.ops).sum();
    let completed: u64 = all.windows.iter().map(|window| window.completed).sum();
    let mut checks = vec![
        check(
            "ops of all windows = rows",
            in_windows == all.ops + cut,
            format!("{in_windows} in windows, {} rows", all.ops + cut),
        ),
        check(
            "goodput <= throughput, in total and in every window",
            all.ok <= all.ops && all.windows.iter().all(|window| window.completed_ok <= window.completed),
            format!("{} OK of {}; {completed} answered", all.ok, all.ops),
        ),
    ];
    let busy_ends = tally.last_end_ns.is_none_or(|end| meta.elapsed_ns == 0 || end <= meta.elapsed_ns);
    if tally.files == 1 {
        checks.push(check(
            "the run lasted until its last answer",
            busy_ends,
            format!("{} by the footer, last answer at {}", meta.elapsed_ns, tally.last_end_ns.unwrap_or(0)),
        ));
    }
    // Little's law: N = X · R. Both sides know every answered op, one by the clock, one by its latency.
    if let (Some(in_flight), true) = (in_flight_mean, tally.answered > 0 && whole_ns > 0) {
        let rate = tally.answered as f64 * 1e9 / whole_ns as f64;
        let mean_ns = tally.service_ns as f64 / tally.answered as f64;
        let expected = rate * mean_ns / 1e9;
        checks.push(check(
            "Little's law: ops in the database = rate x mean time in it",
            (in_flight - expected).abs() <= 1e-6 * expected.max(1e-3),
            format!("{in_flight:.3} in flight; {rate:.1}/s x {:.3} ms = {expected:.3}", mean_ns / 1e6),
        ));
    }
    checks
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
    caveats.extend(run.warmup.as_ref().and_then(|warmup| warm_up_caveat(warmup, run)));
    let few: Vec<FewOps> =
        run.ops.0.iter().filter_map(|(op, of_kind)| few_ops(op, of_kind.as_ref()?, options)).collect();
    if !few.is_empty() {
        caveats.push(Caveat::FewOps { ops: few });
    }
    caveats.into_iter().map(Caveat::noted).collect()
}

/// What was cut, or what might have to be: more than 5 % of the schedule.
fn warm_up_caveat(warmup: &WarmUp, run: &RunReport) -> Option<Caveat> {
    if warmup.cut_ns > 0 {
        let lag_after = warmup.lag_at_cut_ns.map(units::duration).unwrap_or_default();
        return Some(Caveat::WarmUpCut {
            until: units::exact(warmup.cut_ns),
            ops: warmup.cut_ops,
            lag_after,
        });
    }
    let suggested_ns = warmup.suggested_ns?;
    if warmup.no_steady_state {
        return Some(Caveat::NoSteadyState);
    }
    (suggested_ns as f64 > 0.05 * run.elapsed_ns as f64)
        .then(|| Caveat::WarmUp { suggested: units::exact(suggested_ns) })
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

/// Who is compared with whom in a phase.
struct LineUp {
    phase: Phase,
    /// Numbers of its runs.
    runs: Vec<usize>,
    sides: Vec<Side>,
    sides_chosen: String,
    baseline: usize,
}

/// By the footers alone, so that a baseline that is not there is told before any row is read.
fn line_ups(members: &[Member], labels: &[String], options: &Options) -> Result<Vec<LineUp>> {
    let mut line_ups = Vec::new();
    let (mut all_sides, mut named) = (Vec::new(), false);
    for phase in [Phase::Load, Phase::Run] {
        let entrants: Vec<Entrant> = (0..members.len())
            .filter(|&run| members[run].meta.phase == phase)
            .map(|run| Entrant { run, member: &members[run], label: &labels[run] })
            .collect();
        if entrants.is_empty() {
            continue;
        }
        let (sides, sides_chosen) = compare::sides(&entrants);
        let found = options.baseline.as_deref().and_then(|wanted| side_named(wanted, &sides, &entrants));
        named |= found.is_some();
        all_sides.extend(sides.iter().map(|side| side.label.clone()));
        if let (Some(wanted), None, true) = (&options.baseline, found, sides.len() > 1) {
            return Err(no_such_side(wanted, sides.iter().map(|side| side.label.as_str())));
        }
        let runs = entrants.iter().map(|entrant| entrant.run).collect();
        line_ups.push(LineUp { phase, runs, sides, sides_chosen, baseline: found.unwrap_or(0) });
    }
    match &options.baseline {
        Some(wanted) if !named => Err(no_such_side(wanted, all_sides.iter().map(String::as_str))),
        _ => Ok(line_ups),
    }
}

fn no_such_side<'a>(wanted: &str, sides: impl Iterator<Item = &'a str>) -> anyhow::Error {
    let sides: Vec<&str> = sides.collect();
    anyhow::anyhow!("--baseline {wanted:?} names none of the sides: {}", sides.join(", "))
}

/// Puts the runs of one phase side by side.
fn compare(
    line_up: LineUp,
    contestants: &[Contestant],
    runs: &[RunReport],
    options: &Options,
) -> Result<Comparison> {
    let LineUp { phase, runs: members, mut sides, mut sides_chosen, baseline } = line_up;
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
    let pairs = if members.len() > 1 && !options.footers {
        compare::pairs(&sides, baseline, contestants, options)?
    } else {
        (sides, sides_chosen) = (Vec::new(), String::new());
        Vec::new()
    };
    Ok(Comparison { phase, runs: members, same_trace, worst_windows, caveats, sides, sides_chosen, pairs })
}
