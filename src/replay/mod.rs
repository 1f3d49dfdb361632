//! Executes a trace against a database and keeps every operation.
//!
//! This file sets a run up and takes it down: reader thread, lanes with their connections, recorder
//! thread, a common start. The loop that is measured is [`lane`], and nothing else.

pub mod batch;
pub mod feed;
pub mod inflight;
pub mod lane;
pub mod observe;
pub mod order;
pub mod pace;
pub mod recorder;
pub mod stop;
pub mod sustained;
pub mod transactions;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use rtrb::RingBuffer;
use tokio::sync::Semaphore;

use self::feed::Feed;
use self::inflight::InFlight;
use self::lane::Lane;
use self::observe::{Checks, IntegrityRule, Known, Observer, Unobserved, Verifier};
use self::order::Completions;
use self::pace::Pace;
use self::recorder::{LaneLog, Over, Recorded, Settings, Snapshot};
use self::stop::Stop;
use self::transactions::Transactions;
use crate::clock::{self, Clock, MonotonicClock, Origin};
use crate::driver::{Collector, Driver, Preparation, ServerInfo, Session, TableSpec, Target, TargetError};
use crate::op::{OpKind, Outcome, Recovery, Sample, Status};
use crate::rng::{Purpose, Stream};
use crate::statement::Parameters;
use crate::trace::meta::{
    CollectorMeta, ErrorMeta, HostMeta, IntegrityMeta, OverheadMeta, Phase, RunMeta, ServerMeta, TraceMeta,
};
use crate::trace::ops::TraceReader;
use crate::trace::runs::RunWriter;
use crate::trace::{FileError, GENERATOR, RESULT_VERSION};
use crate::verify::written::Fingerprints;

/// Samples that all rings together can hold while the recorder is busy.
const RING_SAMPLES: usize = 1 << 18;

/// Hashes of values that came back, for all rings together.
const RING_HASHES: usize = 1 << 20;

/// How long operations in flight may take after the run has been stopped.
const DRAIN_LIMIT: Duration = Duration::from_secs(5);

/// Whether an operation waits for the one it depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// It waits for its `after`.
    Deps,
    /// It also waits for the operation before it on the same key.
    Key,
    /// It does not; a read that finds nothing although the trace inserts its row is labelled RACE.
    None,
}

impl Order {
    /// The name in a result's footer.
    pub const fn name(self) -> &'static str {
        match self {
            Order::Deps => "deps",
            Order::Key => "key",
            Order::None => "none",
        }
    }
}

/// How a read-modify-write is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rmw {
    /// As a read, then an update: another write may come between, and is then lost.
    #[default]
    Statements,
    /// In one transaction of the database.
    Transaction,
}

impl Rmw {
    /// The name in a result's footer, under `config`.
    pub const fn name(self) -> &'static str {
        match self {
            Rmw::Statements => "statements",
            Rmw::Transaction => "transaction",
        }
    }
}

/// What is verified while replaying.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verification {
    /// The traces whose writes are everything that may come back; none: values are only logged.
    pub writes: Vec<PathBuf>,
    /// What values must be, in a trace with `dataintegrity`; `writes` are not read then.
    pub integrity: Option<IntegrityRule>,
}

/// What is done about operations that fail, hang or come too late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Operations wait for those they depend on.
    pub waits: bool,
    /// Tries after the first.
    pub retries: u32,
    /// An operation without an answer after this time is given up, with its connection.
    pub op_timeout_ns: Option<u64>,
    /// An operation that could not start within this time of its intended start is dropped.
    pub drop_late_ns: Option<u64>,
    /// How a read-modify-write is executed.
    pub rmw: Rmw,
    /// A write that may have happened is not sent again.
    pub unique_writes: bool,
    /// Rows that a load writes in one request.
    pub load_batch: u32,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            waits: false,
            retries: 0,
            op_timeout_ns: None,
            drop_late_ns: None,
            rmw: Rmw::Statements,
            unique_writes: false,
            load_batch: 1,
        }
    }
}

/// Everything about one replay, decided before it begins.
pub struct ReplayPlan {
    /// The trace file.
    pub trace: PathBuf,
    /// The database.
    pub target: Target,
    /// Table name, if not the trace's.
    pub table: Option<String>,
    /// What may be done to the table.
    pub preparation: Preparation,
    /// Connections.
    pub sessions: u32,
    /// Threads for a driver that does not block.
    pub lanes: u32,
    /// When operations start.
    pub pace: Pace,
    /// Target of a fixed rate, for the footer.
    pub target_per_second: Option<f64>,
    /// Factor on the trace's times, for the footer.
    pub speed: f64,
    /// Which operations wait for others.
    pub order: Order,
    /// Tries after the first.
    pub retries: u32,
    /// Deadline of an operation.
    pub op_timeout: Option<Duration>,
    /// Lag at which an operation is dropped instead of executed.
    pub drop_late: Option<Duration>,
    /// How a read-modify-write is executed.
    pub rmw: Rmw,
    /// Rows that the load writes in one request.
    pub load_batch: u32,
    /// Keep and check what comes back.
    pub verification: Option<Verification>,
    /// Folder for the result.
    pub results: PathBuf,
    /// The run ends after this time.
    pub time_limit: Option<Duration>,
    /// Time between snapshots.
    pub interval: Duration,
    /// Every setting, without secrets, for the footer.
    pub config: BTreeMap<String, String>,
}

/// What the caller is told while a run goes on.
pub enum Event {
    /// The database answered and the sessions are open; time begins now.
    Started {
        /// Who answered.
        server: ServerInfo,
        /// What will be executed.
        trace: Box<TraceMeta>,
        /// The file that will hold the result.
        result: PathBuf,
    },
    /// The rows of a statement trace's load are there, and its tables get their indexes.
    Finishing {
        /// Tables that are finished.
        done: usize,
        /// Tables in all.
        tables: usize,
    },
    /// An interval has passed.
    Progress {
        /// What happened in it.
        snapshot: Snapshot,
        /// Operations that should have started by now but have not; none without a schedule.
        backlog: Option<u64>,
    },
}

/// A run that has ended.
pub struct Finished {
    /// The result file.
    pub path: PathBuf,
    /// Its footer.
    pub meta: RunMeta,
    /// The last interval, if nobody was told of it while the run went on.
    pub last: Option<Snapshot>,
    /// Why the trace could not be read to its end.
    pub trace_failure: Option<FileError>,
}

/// The disk could not take the result; the run was stopped, and what was written is kept.
#[derive(Debug, thiserror::Error)]
#[error(
    "the result could not be written and the run was stopped: {cause:#}. The operations written so far are in {}; \
     make room, then run `ycsb-trace repair {}`", folder.display(), folder.display()
)]
pub struct ResultLost {
    /// Where the closed segments are.
    pub folder: PathBuf,
    /// The first error.
    pub cause: anyhow::Error,
}

/// What the lanes of a run share.
pub struct Shared<D: Driver> {
    driver: D,
    table: TableSpec,
    pace: Pace,
    feed: Feed,
    /// Kept only if the trace has dependencies.
    completions: Option<Completions>,
    policy: Policy,
    failures: Failures,
    stop: Arc<Stop>,
    seed: u64,
    /// The operation under way of each session.
    in_flight: Box<[InFlight]>,
    /// Permission to open a connection.
    connecting: Semaphore,
    /// What a statement trace adds.
    transactions: Option<Transactions>,
}

/// Connections that are being opened at once: a server that comes back is not run over.
const CONNECTING: usize = 8;

/// Time for opening a connection, with everything that is prepared on it.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

impl<D: Driver> Shared<D> {
    fn cells(sessions: u32) -> Box<[InFlight]> {
        (0..sessions).map(|_| InFlight::default()).collect()
    }

    fn turns() -> Semaphore {
        Semaphore::new(CONNECTING)
    }

    /// Time for opening a connection again: whoever wants answers within a second does not wait ten
    /// for a connection that hangs.
    fn connect_limit(&self) -> Duration {
        let timeout = self.policy.op_timeout_ns.map_or(CONNECT_LIMIT, Duration::from_nanos);
        timeout.clamp(Duration::from_secs(1), CONNECT_LIMIT)
    }

    /// Opens connection `number`, when it is its turn.
    async fn connect(&self, number: u32, limit: Duration) -> Result<D::Session, TargetError> {
        let _turn = self.connecting.acquire().await.expect("nobody closes it");
        let connecting = async {
            match &self.transactions {
                Some(transactions) => self.driver.connect_statements(&transactions.statements, number).await,
                None => self.driver.connect(&self.table, number).await,
            }
        };
        match tokio::time::timeout(limit, connecting).await {
            Ok(connected) => connected,
            Err(_) => Err(TargetError::Unusable(format!(
                "connection {number} was not open after {} s; is the server overloaded, or something \
                 between it and us holding data back?",
                limit.as_secs_f64()
            ))),
        }
    }
}

/// Error codes and messages. Locked on failures only.
#[derive(Debug, Default)]
pub struct Failures(Mutex<FailureTable>);

#[derive(Debug, Default)]
struct FailureTable {
    /// Text of each code; a sample's `code` is a position here, and 0 is no code.
    codes: Vec<String>,
    numbers: HashMap<String, u32>,
    /// First message and count of each code and of failures without one.
    errors: BTreeMap<String, (String, u64)>,
}

/// The code of a read that found nothing because it did not wait for its insert.
const RACE: &str = "RACE";

/// Mismatches of one kind whose message is kept.
const TOLD_MISMATCHES: u64 = 5;
/// Precedes the code of a write that may or may not have had its effect.
const AMBIGUOUS: &str = "AMBIGUOUS";

/// Does it leave the table in another state?
const fn changes(kind: OpKind) -> bool {
    kind.writes() || matches!(kind, OpKind::Delete | OpKind::Commit) || kind.is_statement()
}

impl Failures {
    /// Counts a failure and returns the position of its code.
    fn note(&self, kind: OpKind, outcome: &Outcome, raced: bool) -> u32 {
        let ambiguous;
        let (code, message) = match &outcome.failure {
            Some(failure) if failure.recovery == Recovery::Ambiguous && changes(kind) => {
                ambiguous = format!("{AMBIGUOUS} {}", failure.code);
                (ambiguous.trim_end(), failure.message.as_str())
            }
            Some(failure) => (failure.code.as_str(), failure.message.as_str()),
            None if raced => (RACE, "found nothing: it did not wait for the insert it depends on"),
            None => return 0,
        };
        let mut table = self.0.lock().expect("no panic under this lock");
        let label = if code.is_empty() { outcome.status.name() } else { code };
        match table.errors.get_mut(label) {
            Some((text, count)) => {
                // Of what must not happen at all, the first few are told, not only the first.
                if outcome.status == Status::Mismatch && *count < TOLD_MISMATCHES {
                    *text = format!("{text}; {message}");
                }
                *count += 1;
            }
            None => {
                table.errors.insert(label.to_owned(), (message.to_owned(), 1));
            }
        }
        if code.is_empty() {
            return 0;
        }
        if let Some(&number) = table.numbers.get(code) {
            return number;
        }
        if table.codes.is_empty() {
            table.codes.push(String::new());
        }
        let number = table.codes.len() as u32;
        table.codes.push(code.to_owned());
        table.numbers.insert(code.to_owned(), number);
        number
    }

    fn codes(&self) -> Vec<String> {
        self.0.lock().expect("no panic under this lock").codes.clone()
    }

    fn errors(&self) -> Vec<ErrorMeta> {
        let table = self.0.lock().expect("no panic under this lock");
        let error = |(code, (message, count)): (&String, &(String, u64))| ErrorMeta {
            code: code.clone(),
            message: message.clone(),
            count: *count,
        };
        table.errors.iter().map(error).collect()
    }
}

/// Waiting time before connection attempt `attempt` + 1: doubling from 20 ms to 1 s, with a jitter
/// from the seed so that sessions do not come back all at once.
fn backoff_ns(seed: u64, session: u32, attempt: u32) -> u64 {
    let base = (20_000_000u64 << attempt.min(6)).min(1_000_000_000);
    let jitter = Stream::at(seed, Purpose::Backoff, u64::from(session) << 32 | u64::from(attempt)).unit();
    (base as f64 * (0.5 + 0.5 * jitter)) as u64
}

/// Why a run ended that should not have ended so.
pub const LANE_PANICKED: &str = "a lane panicked";

/// Executes a trace. `on_event` is called from another thread than the lanes' and may take its time.
pub fn replay<D: Driver>(
    plan: &ReplayPlan,
    stop: &Arc<Stop>,
    mut on_event: impl FnMut(Event),
) -> Result<Finished> {
    let reader = TraceReader::open(&plan.trace)?;
    let trace = reader.meta().clone();
    let driver = D::open(&plan.target)?;
    let load_batch = if trace.phase == Phase::Load { plan.load_batch.max(1) } else { 1 };
    if load_batch > 1 && !trace.statements.is_empty() {
        let what = "--load-batch: the requests of a statement trace are in the trace".to_owned();
        return Err(TargetError::Request(what).into());
    }
    if load_batch > 1 {
        let (db, values) = (&plan.target.db, trace.field_names.len() + 1);
        let what = match D::Session::BATCH_VALUES / values {
            _ if D::Session::BATCH_VALUES == 0 => {
                format!("--load-batch: {db} takes one row in a request here")
            }
            most if most < load_batch as usize => {
                format!(
                    "--load-batch {load_batch}: of rows with {values} values, {db} takes at most {most} in a request"
                )
            }
            _ => String::new(),
        };
        if !what.is_empty() {
            return Err(TargetError::Request(what).into());
        }
    }
    let collected_before = driver.collections();
    let table = TableSpec {
        name: plan.table.clone().unwrap_or_else(|| trace.table.clone()),
        fields: trace.field_names.clone(),
        field_length: trace.field_length,
        shapes: trace.driver_shapes(),
    };
    let written = match &plan.verification {
        Some(verification) if !verification.writes.is_empty() => {
            let traces: Vec<&Path> = verification.writes.iter().map(PathBuf::as_path).collect();
            Some(Arc::new(Fingerprints::of(&traces)?))
        }
        _ => None,
    };
    let transactions = match &trace.schema {
        Some(schema) if !trace.statements.is_empty() => {
            Some(Transactions::new(&trace.statements, schema.clone()))
        }
        _ => None,
    };
    let server = current_thread_runtime()?.block_on(async {
        match &transactions {
            Some(transactions) => driver.prepare_schema(&transactions.schema, plan.preparation).await,
            None => driver.prepare(&table, plan.preparation).await,
        }
    })?;

    let mut server = server;
    for statement in &trace.statements.0 {
        let (text, _) = statement.text("", Parameters::Dollar, 0, 1);
        server.statements.entry(statement.name.clone()).or_insert(text);
    }
    let lanes = if D::BLOCKING { plan.sessions } else { plan.lanes.min(plan.sessions) }.max(1);
    let mut meta = begin_meta(plan, &trace, &server, lanes);
    meta.overhead = measure_overhead()?;
    let writer = RunWriter::create(&plan.results, &mut meta)?;
    let result = writer.target().to_owned();

    let shared = Arc::new(Shared {
        driver,
        table,
        pace: plan.pace,
        feed: Feed::for_lanes(lanes),
        completions: (trace.dependent_ops > 0 || plan.order == Order::Key)
            .then(|| Completions::new(trace.first_op_id, trace.rows)),
        policy: Policy {
            waits: plan.order != Order::None,
            retries: plan.retries,
            op_timeout_ns: plan.op_timeout.map(|timeout| timeout.as_nanos() as u64),
            drop_late_ns: plan.drop_late.map(|limit| limit.as_nanos() as u64),
            rmw: plan.rmw,
            unique_writes: plan.verification.is_some(),
            load_batch,
        },
        failures: Failures::default(),
        stop: stop.clone(),
        seed: trace.seed,
        in_flight: Shared::<D>::cells(plan.sessions * load_batch),
        connecting: Shared::<D>::turns(),
        transactions,
    });
    let feeding = {
        let shared = shared.clone();
        let by_key = plan.order == Order::Key;
        spawn("trace reader", move || {
            shared.feed.fill(reader, shared.completions.as_ref().filter(|_| by_key))
        })?
    };

    // Every lane reports once when its sessions are open and once when it has ended.
    let (report, reports) = mpsc::channel();
    let mut logs = Vec::new();
    let mut starts = Vec::new();
    for lane in 0..lanes {
        let (log, samples) = RingBuffer::new((RING_SAMPLES / lanes as usize).max(256));
        let (start, started) = mpsc::channel();
        starts.push(start);
        let sessions: Vec<u32> = (0..plan.sessions).filter(|session| session % lanes == lane).collect();
        let (shared, report) = (shared.clone(), report.clone());
        let name = format!("lane {lane}");
        let mut hashes = None;
        if plan.verification.is_some() {
            let (hash_log, consumer) = RingBuffer::new((RING_HASHES / lanes as usize).max(1024));
            hashes = Some(consumer);
            let known = match (plan.verification.as_ref().and_then(|one| one.integrity), &written) {
                (Some(rule), _) => Known::Integrity(rule, RefCell::default()),
                (None, Some(written)) => Known::Written(written.clone()),
                (None, None) => Known::Nothing,
            };
            let field_names = Arc::new(trace.field_names.clone());
            let observer = Verifier { log: RefCell::new(hash_log), known, field_names };
            spawn(&name, move || run_lane(shared, sessions, log, observer, started, &report))?;
        } else {
            spawn(&name, move || run_lane(shared, sessions, log, Unobserved, started, &report))?;
        }
        logs.push(LaneLog { samples, hashes });
    }
    drop(report);
    let opened = wait_for_lanes(&reports, lanes);
    if let Err(failure) = opened {
        shared.feed.close();
        writer.discard();
        return Err(failure);
    }

    meta.started_at = jiff::Timestamp::now().to_string();
    let origin = Origin::after(Duration::from_millis(5));
    let cpu_before_ns = clock::process_cpu_ns();
    on_event(Event::Started { server, trace: Box::new(trace.clone()), result });
    for start in &starts {
        let _ = start.send(origin);
    }

    let (snapshots, progress) = sync_channel(16);
    let recording = spawn_recorder(&shared, logs, writer, plan.interval, snapshots)?;
    let ending = watch(plan, &shared, trace.units(), origin, &progress, &reports, lanes, &mut on_event);
    shared.feed.close();
    let Recorded { tally, lags, writer, disk_failure } = recording
        .join()
        .map_err(|_| anyhow!("the recorder panicked; `ycsb-trace repair` keeps what it has written"))?;
    let last = progress.try_iter().last();
    let _ = feeding.join();
    if let Some(cause) = disk_failure {
        return Err(ResultLost { folder: writer.folder().to_owned(), cause }.into());
    }
    let trace_failure = shared.feed.take_failure();
    meta.ended_because = match &trace_failure {
        Some(failure) => format!("the trace could not be read to its end: {failure}"),
        None => ending.why.to_owned(),
    };
    tally.fill(&mut meta);
    meta.elapsed_ns = tally.last_end_ns;
    meta.complete = meta.rows == trace.rows;
    meta.interrupted = ending.interrupted;
    meta.errors = shared.failures.errors();
    meta.recorder_stalls = ending.stalls;
    meta.closing_ns = ending.closing_ns;
    meta.closing_ns.sort_unstable();
    meta.integrity = ending.checks.map(|checks| {
        let [ok, wrong, nothing] = checks.counts;
        IntegrityMeta { ok, wrong, nothing, hdr: recorder::encoded(&checks.took) }
    });
    meta.collections = collected_since(&collected_before, shared.driver.collections());
    if plan.pace != Pace::Unpaced {
        let cpu_ns = clock::process_cpu_ns() - cpu_before_ns;
        let cpu_share = cpu_ns as f64 / (origin.elapsed_ns().max(1) * meta.host.cpus.max(1)) as f64;
        let median_service_ns = tally.all_kinds(0).value_at_quantile(0.5);
        let (sessions, reconnecting_ns) = (u64::from(plan.sessions), ending.reconnecting_ns);
        let capacity = sustained::Capacity { sessions, reconnecting_ns, cpu_share };
        meta.sustained = sustained::judge(&lags, median_service_ns, &capacity);
    }
    let mut finishing = Ok(());
    if let Some(transactions) = &shared.transactions {
        meta.transactions = Some(transactions.meta(trace.units()));
        if trace.phase == Phase::Load && meta.complete && ending.why == "trace exhausted" {
            let began = std::time::Instant::now();
            finishing = finish_tables(&shared, plan.sessions, &mut on_event);
            meta.config.insert("finish_tables_ms".to_owned(), began.elapsed().as_millis().to_string());
        }
    }
    let folder = writer.folder().to_owned();
    let path = writer.finish(&meta).map_err(|cause| ResultLost { folder, cause })?;
    finishing?;
    Ok(Finished { path, meta, last, trace_failure })
}

/// What collectors of garbage did since they stood at `before`, which lists none if there was no machine then.
fn collected_since(before: &[Collector], now: Vec<Collector>) -> Vec<CollectorMeta> {
    let since = |Collector { name, count, time_ms }| {
        let then = before.iter().find(|collector| collector.name == name);
        let (count_then, time_then) = then.map_or((0, 0), |then| (then.count, then.time_ms));
        CollectorMeta { name, count: count - count_then, time_ms: time_ms - time_then }
    };
    now.into_iter().map(since).collect()
}

/// Makes the indexes of a statement trace's tables, several tables at a time.
fn finish_tables<D: Driver>(
    shared: &Arc<Shared<D>>,
    sessions: u32,
    on_event: &mut impl FnMut(Event),
) -> Result<()> {
    let transactions = shared.transactions.as_ref().expect("this is a statement trace");
    let tables = transactions.schema.tables.len();
    let turns = std::rc::Rc::new(Semaphore::new((sessions as usize).clamp(1, CONNECTING)));
    on_event(Event::Finishing { done: 0, tables });
    let local = tokio::task::LocalSet::new();
    current_thread_runtime()?.block_on(local.run_until(async {
        let mut works = tokio::task::JoinSet::new();
        for position in 0..tables {
            let (shared, turns) = (shared.clone(), turns.clone());
            works.spawn_local(async move {
                let _turn = turns.acquire().await.expect("nobody closes it");
                let schema = &shared.transactions.as_ref().expect("as above").schema;
                shared.driver.finish_table(schema, &schema.tables[position]).await
            });
        }
        let mut done = 0;
        while let Some(finished) = works.join_next().await {
            finished.context("the making of an index panicked")??;
            done += 1;
            on_event(Event::Finishing { done, tables });
        }
        Ok(())
    }))
}

fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<std::thread::JoinHandle<T>> {
    let builder = std::thread::Builder::new().name(name.to_owned());
    builder.spawn(work).with_context(|| format!("cannot start the thread of the {name}"))
}

/// Runs the futures of one thread.
pub fn current_thread_runtime() -> Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().context("cannot start an async runtime")
}

/// What a lane says about itself.
enum LaneReport {
    Opened(Result<(), TargetError>),
    Ended { stalls: u64, reconnecting_ns: u64, closing_ns: Vec<u64>, checks: Option<Checks> },
}

/// One lane, from opening its connections to the end of the run.
fn run_lane<D: Driver, O: Observer>(
    shared: Arc<Shared<D>>,
    numbers: Vec<u32>,
    log: rtrb::Producer<Sample>,
    observer: O,
    started: mpsc::Receiver<Origin>,
    report: &mpsc::Sender<LaneReport>,
) {
    let runtime = current_thread_runtime().expect("a runtime for the lane");
    let opened = runtime.block_on(async {
        let mut sessions = Vec::with_capacity(numbers.len());
        for &number in &numbers {
            sessions.push(shared.connect(number, CONNECT_LIMIT).await?);
        }
        Ok(sessions)
    });
    let sessions = match opened {
        Ok(sessions) => sessions,
        Err(failure) => {
            let _ = report.send(LaneReport::Opened(Err(failure)));
            return;
        }
    };
    let _ = report.send(LaneReport::Opened(Ok(())));
    let Ok(origin) = started.recv() else { return };
    let local = tokio::task::LocalSet::new();
    let lane = runtime.block_on(local.run_until(async {
        let clock = MonotonicClock::new(origin);
        clock.wait_until(0).await;
        let lane = std::rc::Rc::new(Lane {
            shared,
            clock,
            block: RefCell::default(),
            log: RefCell::new(log),
            stalls: Cell::new(0),
            reconnecting_ns: Cell::new(0),
            closing_ns: RefCell::default(),
            observer,
        });
        let tasks: Vec<_> = numbers
            .into_iter()
            .zip(sessions)
            .map(|(number, session)| {
                let lane = lane.clone();
                tokio::task::spawn_local(async move {
                    match lane.shared.transactions {
                        Some(_) => lane.run_transactions(number, session).await,
                        None => lane.run_session(number, session).await,
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("a session does not panic");
        }
        lane
    }));
    let _ = report.send(LaneReport::Ended {
        stalls: lane.stalls.get(),
        reconnecting_ns: lane.reconnecting_ns.get(),
        closing_ns: lane.closing_ns.take(),
        checks: lane.observer.checks(),
    });
}

/// Returns when every lane has opened its connections, or the first failure.
fn wait_for_lanes(reports: &mpsc::Receiver<LaneReport>, lanes: u32) -> Result<()> {
    for _ in 0..lanes {
        match reports.recv() {
            Ok(LaneReport::Opened(opened)) => opened?,
            Ok(LaneReport::Ended { .. }) | Err(_) => return Err(anyhow!("a lane ended before it began")),
        }
    }
    Ok(())
}

fn spawn_recorder<D: Driver>(
    shared: &Arc<Shared<D>>,
    logs: Vec<LaneLog>,
    writer: RunWriter,
    interval: Duration,
    snapshots: SyncSender<Snapshot>,
) -> Result<std::thread::JoinHandle<Recorded>> {
    let shared = shared.clone();
    spawn("recorder", move || {
        let settings = Settings { interval, snapshots };
        let stop = shared.stop.clone();
        let stop_run = || {
            stop.request();
        };
        let over = Over {
            in_flight: &shared.in_flight,
            per_session: shared.policy.load_batch,
            insisted: &|| shared.stop.is_insisted(),
        };
        recorder::record(logs, writer, &shared.failures, &settings, &over, stop_run)
    })
}

/// How a run ended.
struct Ending {
    why: &'static str,
    interrupted: bool,
    stalls: u64,
    reconnecting_ns: u64,
    closing_ns: Vec<u64>,
    checks: Option<Checks>,
}

/// Passes snapshots on until every lane has ended, or is not worth waiting for.
#[expect(clippy::too_many_arguments, reason = "one caller, and each is a part of the run")]
fn watch<D: Driver>(
    plan: &ReplayPlan,
    shared: &Shared<D>,
    trace_units: u64,
    origin: Origin,
    progress: &mpsc::Receiver<Snapshot>,
    reports: &mpsc::Receiver<LaneReport>,
    lanes: u32,
    on_event: &mut impl FnMut(Event),
) -> Ending {
    let mut ending = Ending {
        why: "trace exhausted",
        interrupted: false,
        stalls: 0,
        reconnecting_ns: 0,
        closing_ns: Vec::new(),
        checks: None,
    };
    let mut running = lanes;
    let mut stopped_at = None;
    while running > 0 {
        match reports.recv_timeout(Duration::from_millis(20)) {
            Ok(LaneReport::Ended { stalls, reconnecting_ns, closing_ns, checks }) => {
                if let Some(checks) = checks {
                    ending.checks.get_or_insert_default().merge(&checks);
                }
                ending.stalls += stalls;
                ending.reconnecting_ns += reconnecting_ns;
                ending.closing_ns.extend(closing_ns);
                running -= 1;
            }
            Ok(LaneReport::Opened(_)) | Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                ending.why = LANE_PANICKED;
                break;
            }
        }
        while let Ok(snapshot) = progress.try_recv() {
            let backlog = match plan.pace {
                Pace::Rate(rate) => {
                    let due = rate.due(origin.elapsed_ns()).min(trace_units);
                    Some(due.saturating_sub(shared.feed.claimed()))
                }
                Pace::Unpaced | Pace::Arrivals(_) => None,
            };
            on_event(Event::Progress { snapshot, backlog });
        }
        let over = plan.time_limit.is_some_and(|limit| u128::from(origin.elapsed_ns()) >= limit.as_nanos());
        if over && !shared.stop.is_requested() {
            ending.why = "time limit";
            shared.stop.request();
        }
        if shared.stop.is_requested() {
            if ending.why == "trace exhausted" {
                ending.why = "interrupted";
                ending.interrupted = true;
            }
            let stopped_at = *stopped_at.get_or_insert_with(std::time::Instant::now);
            if stopped_at.elapsed() >= DRAIN_LIMIT {
                // What is still in flight will not be waited for: the recorder ends on the second
                // request.
                shared.stop.request();
            }
            if shared.stop.is_insisted() {
                break;
            }
        }
    }
    ending
}

fn begin_meta(plan: &ReplayPlan, trace: &TraceMeta, server: &ServerInfo, lanes: u32) -> RunMeta {
    let stamp = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string();
    let stem = plan.trace.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let system = rustix::system::uname();
    RunMeta {
        kind: "result".to_owned(),
        format_version: RESULT_VERSION,
        generator: GENERATOR.to_owned(),
        run_id: format!("{stem}-{}-{stamp}", plan.target.db),
        trace: stem,
        trace_hash: trace.content_hash.clone(),
        phase: trace.phase,
        trace_rows: trace.rows,
        shard: trace.run_shard(),
        db: plan.target.db.clone(),
        server: ServerMeta {
            address: server.address.clone(),
            version: server.version.clone(),
            settings: server.settings.clone(),
            statements: server.statements.clone(),
        },
        config: plan.config.clone(),
        sessions: plan.sessions,
        lanes,
        pace: plan.pace.name().to_owned(),
        target_per_second: plan.target_per_second,
        speed: plan.speed,
        order: plan.order.name().to_owned(),
        host: HostMeta {
            name: system.nodename().to_string_lossy().into_owned(),
            system: format!("{} {}", system.sysname().to_string_lossy(), system.release().to_string_lossy()),
            cpus: std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u64),
        },
        started_at: jiff::Timestamp::now().to_string(),
        elapsed_ns: 0,
        ended_because: "killed".to_owned(),
        complete: false,
        interrupted: true,
        rows: 0,
        statements: trace.statements.0.iter().map(|statement| statement.name.clone()).collect(),
        transactions: None,
        counts: BTreeMap::new(),
        errors: Vec::new(),
        overhead: OverheadMeta::default(),
        recorder_stalls: 0,
        sustained: None,
        closing_ns: Vec::new(),
        collections: Vec::new(),
        integrity: None,
        histograms: Vec::new(),
    }
}

/// What this program costs on this machine, now: reading the clock, and the lateness of a wait.
fn measure_overhead() -> Result<OverheadMeta> {
    const READS: u64 = 10_000;
    const WAITS: u64 = 50;
    current_thread_runtime()?.block_on(async {
        let clock = MonotonicClock::new(Origin::after(Duration::ZERO));
        let from_ns = clock.now_ns();
        for _ in 0..READS {
            std::hint::black_box(clock.now_ns());
        }
        let clock_read_ns = (clock.now_ns() - from_ns) / READS;
        let mut late = Vec::new();
        for _ in 0..WAITS {
            let at_ns = clock.now_ns() + 300_000;
            clock.wait_until(at_ns).await;
            late.push(clock.now_ns() - at_ns);
        }
        late.sort_unstable();
        let at = |permille: usize| late[(late.len() * permille).div_ceil(1000) - 1];
        Ok(OverheadMeta { clock_read_ns, wake_late_p50_ns: at(500), wake_late_p99_ns: at(990) })
    })
}
