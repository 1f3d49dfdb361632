//! The loop for statement traces: a session claims a transaction and executes its statements one after
//! the other. It stands beside [`super::lane`]'s loop for single operations, which must not get slower.
//!
//! The first statement starts at the transaction's time, each other one when the one before has ended.
//! A transaction that the database refuses because of others (40001, 1213, SQLITE_BUSY …) is taken back
//! and, if retries were asked for, tried again whole, with the same parameters; its rows keep the times
//! of the last try. Without BEGIN every statement stands for itself, and only it is tried again.
//!
//! When a statement finally fails, its row says why; those after it were never sent and are UNMET;
//! those before it did what their rows say, and were taken back with the transaction.

use std::sync::atomic::{AtomicU64, Ordering};

use super::inflight::InFlight;
use super::lane::{Lane, Reconnected, Waited, is_broken, timed_out};
use super::observe::Observer;
use crate::clock::Clock;
use crate::driver::statements::{Action, Call};
use crate::driver::{Driver, Session};
use crate::op::{NEVER_NS, OpKind, Outcome, Recovery, Sample, Status};
use crate::statement::{Schema, Statements};
use crate::trace::meta::TransactionsMeta;
use crate::trace::ops::OpBlock;

/// What a statement trace adds to a run.
#[derive(Debug)]
pub struct Transactions {
    /// Its statements.
    pub statements: Statements,
    /// Its tables.
    pub schema: Schema,
    /// Position of each kind's statement.
    positions: Vec<usize>,
    ok: AtomicU64,
    failed: AtomicU64,
    retries: AtomicU64,
}

impl Transactions {
    /// Of a trace's statements and tables.
    pub fn new(statements: &Statements, schema: Schema) -> Transactions {
        let mut positions = vec![0; OpKind::ALL.len()];
        for (position, statement) in statements.0.iter().enumerate() {
            if let Some(kind) = OpKind::from_name(&statement.name) {
                positions[kind as usize] = position;
            }
        }
        let none = || AtomicU64::new(0);
        Transactions {
            statements: statements.clone(),
            schema,
            positions,
            ok: none(),
            failed: none(),
            retries: none(),
        }
    }

    /// How they ended, for the footer.
    pub fn meta(&self, planned: u64) -> TransactionsMeta {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        TransactionsMeta {
            planned,
            ok: load(&self.ok),
            failed: load(&self.failed),
            retries: load(&self.retries),
        }
    }

    fn action(&self, ops: &OpBlock, row: usize) -> Action {
        match ops.kind(row) {
            OpKind::Begin => Action::Begin,
            OpKind::Commit => Action::Commit,
            OpKind::Rollback => Action::Rollback,
            kind => {
                let (statement, table) = (self.positions[kind as usize], ops.table(row).unwrap_or(0));
                Action::Statement { statement, table }
            }
        }
    }

    /// May a statement that stands for itself be sent again, although it may have had its effect?
    fn only_reads(&self, action: Action) -> bool {
        matches!(action, Action::Statement { statement, .. } if self.statements.0[statement].returns_rows)
    }
}

/// How a try of a transaction ended.
enum Tried {
    /// Every statement was OK.
    Done,
    /// A statement failed; its row is the last one that is kept.
    Failed { row: usize, outcome: Outcome },
    /// The run is over, and others write the rows that are kept.
    Closed,
}

impl<D: Driver, C: Clock, O: Observer> Lane<D, C, O> {
    /// Executes transactions on connection number `number` until the trace is exhausted or the run is
    /// stopped.
    pub async fn run_transactions(&self, number: u32, mut session: D::Session) {
        let shared = &*self.shared;
        let transactions = shared.transactions.as_ref().expect("this is a statement trace");
        let in_flight = &shared.in_flight[number as usize];
        // Memory that is reused from one transaction to the next.
        let mut samples: Vec<Sample> = Vec::new();
        let mut sink = self.observer.sink();
        while let Some((block, unit)) = self.claim().await {
            let ops = &block.ops;
            let rows = ops.rows_of(unit);
            let txn = ops.txn(rows.start).unwrap_or(NEVER_NS);
            let begins = ops.kind(rows.start) == OpKind::Begin;
            let scheduled_ns = shared.pace.intended_ns(block.first_unit + unit as u64, ops.at_ns(rows.start));
            if let Some(at_ns) = scheduled_ns {
                match self.wait_until(at_ns).await {
                    Waited::InTime => {}
                    Waited::TooLate { lag_ns }
                        if shared.policy.drop_late_ns.is_some_and(|limit| lag_ns > limit) =>
                    {
                        transactions.failed.fetch_add(1, Ordering::Relaxed);
                        for row in rows {
                            self.log(not_executed(ops, row, number, at_ns, Status::Dropped)).await;
                        }
                        continue;
                    }
                    Waited::TooLate { .. } => {}
                    Waited::Stopped => break,
                }
            }

            in_flight.belong_to(txn);
            let intended_ns = scheduled_ns.unwrap_or_else(|| self.clock.now_ns());
            let (mut attempt, mut from, mut broken) = (1, rows.start, false);
            let mut given_up = false;
            loop {
                let began_ns = if from == rows.start { intended_ns } else { self.clock.now_ns() };
                let tried = self
                    .try_rows(&mut session, ops, from..rows.end, began_ns, attempt, number, &mut sink)
                    .await;
                let (row, mut outcome) = match tried {
                    Tried::Closed => return,
                    Tried::Done => {
                        transactions.ok.fetch_add(1, Ordering::Relaxed);
                        break;
                    }
                    Tried::Failed { row, outcome } => (row, outcome),
                };
                let action = transactions.action(ops, row);
                if begins && action != Action::Commit {
                    nothing_lasts(&mut outcome);
                }
                // The cell still says that rows are being logged: nobody else takes them over.
                let code = shared.failures.note(ops.kind(row), &outcome, false);
                broken = is_broken(&outcome);
                given_up = outcome.status == Status::Timeout;
                if begins && !broken && row > rows.start {
                    let undo = Call { id: ops.id(row), action: Action::Rollback, parameters: &[] };
                    let undone = self.limited_call(&mut session, &undo, &mut sink).await;
                    broken = is_broken(&undone);
                }
                let again = attempt <= shared.policy.retries
                    && may_retry(transactions, action, begins, &outcome)
                    && !shared.stop.is_requested();
                if again && self.recover(number, &mut session, &mut broken, attempt).await {
                    transactions.retries.fetch_add(1, Ordering::Relaxed);
                    attempt += 1;
                    let mut ended = in_flight.ended();
                    if begins {
                        ended.clear();
                    } else {
                        ended.pop();
                        from = row;
                    }
                    drop(ended);
                    in_flight.logged();
                    continue;
                }
                transactions.failed.fetch_add(1, Ordering::Relaxed);
                let mut ended = in_flight.ended();
                let last = ended.last_mut().expect("the row that failed");
                last.code = code;
                let gave_up_ns = self.clock.now_ns();
                for row in row + 1..rows.end {
                    shared.failures.note(ops.kind(row), &aborted(), false);
                    ended.push(not_executed(ops, row, number, gave_up_ns, Status::Unmet));
                }
                break;
            }
            std::mem::swap(&mut samples, &mut *in_flight.ended());
            for sample in samples.drain(..) {
                self.log(sample).await;
            }
            in_flight.logged();
            if broken && self.replace(number, &mut session, given_up).await != Reconnected::Yes {
                break;
            }
        }
        self.close(session);
    }

    /// Executes rows of one transaction, one after the other, and keeps their samples in the session's
    /// cell. After the last one, or one that failed, the cell is left in the state of logging.
    #[expect(clippy::too_many_arguments, reason = "one caller; a struct would only rename them")]
    async fn try_rows(
        &self,
        session: &mut D::Session,
        ops: &OpBlock,
        rows: std::ops::Range<usize>,
        mut intended_ns: u64,
        attempt: u32,
        number: u32,
        sink: &mut O::Sink,
    ) -> Tried {
        let shared = &*self.shared;
        let transactions = shared.transactions.as_ref().expect("this is a statement trace");
        let in_flight: &InFlight = &shared.in_flight[number as usize];
        let mut parameters: Vec<&[u8]> = Vec::new();
        for row in rows.clone() {
            parameters.clear();
            parameters.extend(ops.inline_values(row).into_iter().flatten());
            let action = transactions.action(ops, row);
            let call = Call { id: ops.id(row), action, parameters: &parameters };
            let start_ns = self.clock.now_ns().max(intended_ns);
            if !in_flight.begin(call.id, ops.kind(row), intended_ns, start_ns, NEVER_NS) {
                return Tried::Closed;
            }
            if attempt > 1 {
                in_flight.again(attempt, start_ns);
            }
            let mut outcome = self.limited_call(session, &call, sink).await;
            let end_ns = self.clock.now_ns();
            if !in_flight.end() {
                return Tried::Closed;
            }
            // A driver whose calls block ends them itself, by whatever error it gets then.
            let expired = shared.policy.op_timeout_ns.is_some_and(|limit_ns| end_ns - start_ns >= limit_ns);
            if expired && outcome.status != Status::Ok {
                outcome.status = Status::Timeout;
            }
            let unanswered = outcome.status == Status::Timeout && shared.policy.op_timeout_ns.is_some();
            in_flight.ended().push(Sample {
                op_id: call.id,
                intended_ns,
                start_ns,
                end_ns: if unanswered { NEVER_NS } else { end_ns },
                blocked_ns: NEVER_NS,
                last_start_ns: if attempt > 1 { start_ns } else { NEVER_NS },
                txn: ops.txn(row).unwrap_or(NEVER_NS),
                session: number,
                rows: outcome.rows,
                attempts: attempt,
                code: 0,
                read_end_ns: NEVER_NS,
                batch: NEVER_NS,
                observed: 0,
                kind: ops.kind(row),
                status: outcome.status,
            });
            if outcome.status != Status::Ok {
                return Tried::Failed { row, outcome };
            }
            if row + 1 < rows.end {
                in_flight.logged();
            }
            intended_ns = end_ns;
        }
        Tried::Done
    }

    /// One statement, within its deadline.
    #[inline]
    async fn limited_call(&self, session: &mut D::Session, call: &Call<'_>, sink: &mut O::Sink) -> Outcome {
        let Some(timeout_ns) = self.shared.policy.op_timeout_ns else {
            return session.call(call, sink).await;
        };
        let deadline_ns = self.clock.now_ns() + timeout_ns;
        tokio::select! {
            biased;
            outcome = session.call(call, sink) => outcome,
            () = self.clock.wait_until(deadline_ns) => timed_out("no answer within --op-timeout"),
        }
    }

    /// Makes another try possible: a new connection, or a pause. False if the run is stopped meanwhile.
    async fn recover(&self, number: u32, session: &mut D::Session, broken: &mut bool, attempt: u32) -> bool {
        if *broken {
            *broken = self.reconnect(number, session, None).await != Reconnected::Yes;
            return !*broken;
        }
        // At once, as sysbench does it, then after pauses that double from about 1 ms to 50.
        if attempt == 1 {
            return !self.shared.stop.is_requested();
        }
        let pause_ns = super::backoff_ns(self.shared.seed, number, attempt - 2) / 20;
        !matches!(self.wait_until(self.clock.now_ns() + pause_ns).await, Waited::Stopped)
    }
}

/// Before its COMMIT nothing of a transaction lasts, whatever became of the statement.
fn nothing_lasts(outcome: &mut Outcome) {
    if let Some(failure) = &mut outcome.failure
        && failure.recovery == Recovery::Ambiguous
    {
        failure.recovery = Recovery::Reconnect;
    }
}

/// May the transaction be tried again? Not after a deadline, and not where it may have had its effect. A
/// row that was there already may be one that another transaction has just put back, as in sysbench.
fn may_retry(transactions: &Transactions, action: Action, begins: bool, outcome: &Outcome) -> bool {
    let Some(failure) = &outcome.failure else { return false };
    match failure.recovery {
        _ if outcome.status == Status::Timeout => false,
        Recovery::Retry | Recovery::Reconnect => true,
        Recovery::Ambiguous => transactions.only_reads(action),
        Recovery::Fatal => begins && outcome.status == Status::Duplicate,
    }
}

/// Why a statement is UNMET.
fn aborted() -> Outcome {
    let message = "not executed: an earlier statement of its transaction did not succeed";
    Outcome::failed(Status::Unmet, Recovery::Fatal, "", message)
}

/// The row of a statement that was not executed.
fn not_executed(ops: &OpBlock, row: usize, session: u32, intended_ns: u64, status: Status) -> Sample {
    Sample {
        op_id: ops.id(row),
        intended_ns,
        start_ns: NEVER_NS,
        end_ns: NEVER_NS,
        blocked_ns: NEVER_NS,
        last_start_ns: NEVER_NS,
        txn: ops.txn(row).unwrap_or(NEVER_NS),
        session,
        rows: 0,
        attempts: 0,
        code: 0,
        read_end_ns: NEVER_NS,
        batch: NEVER_NS,
        observed: 0,
        kind: ops.kind(row),
        status,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::rc::Rc;
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::clock::ManualClock;
    use crate::driver::{Kind, Preparation, Rows, ServerInfo, TableSpec, Target, TargetError};
    use crate::op::Op;
    use crate::replay::feed::Feed;
    use crate::replay::observe::Unobserved;
    use crate::replay::pace::Pace;
    use crate::replay::{Failures, Policy, Shared};
    use crate::statement::Statement;
    use crate::trace::chunk::{ChunkBuilder, Row, RowValues, TraceWriter};
    use crate::trace::meta::{Phase, TraceMeta};
    use crate::trace::ops::TraceReader;

    thread_local! {
        /// The clock of the test on this thread: connections come from a driver that lanes share.
        static CLOCK: RefCell<Rc<ManualClock>> = RefCell::default();
    }

    /// Answers that are no OK after 1 ns: the number of the call, the time it takes, and the answer; none: it is
    /// never answered.
    type Script = Vec<(usize, u64, Option<Outcome>)>;

    /// A database whose calls end as the script says.
    #[derive(Clone, Default)]
    struct Scripted {
        script: Script,
        /// What was asked, on which connection.
        log: Arc<Mutex<Vec<String>>>,
    }

    struct ScriptedSession {
        database: Scripted,
        connection: usize,
    }

    impl Scripted {
        fn note(&self, line: String) -> usize {
            let mut log = self.log.lock().unwrap();
            log.push(line);
            log.iter().filter(|line| line.contains(": ")).count() - 1
        }
    }

    impl Driver for Scripted {
        const KINDS: &'static [Kind] = &[];
        const BLOCKING: bool = false;
        type Session = ScriptedSession;
        fn open(_target: &Target) -> Result<Scripted, TargetError> {
            Ok(Scripted::default())
        }
        async fn prepare(&self, _: &TableSpec, _: Preparation) -> Result<ServerInfo, TargetError> {
            Ok(ServerInfo::default())
        }
        async fn connect(&self, _: &TableSpec, _: u32) -> Result<ScriptedSession, TargetError> {
            unreachable!("this is a statement trace")
        }
        async fn connect_statements(&self, _: &Statements, _: u32) -> Result<ScriptedSession, TargetError> {
            let mut log = self.log.lock().unwrap();
            let connection = 1 + log.iter().filter(|line| line.starts_with("connect")).count();
            log.push(format!("connect {connection}"));
            drop(log);
            Ok(ScriptedSession { database: self.clone(), connection })
        }
    }

    impl Session for ScriptedSession {
        async fn read<R: Rows>(&mut self, _: &Op<'_>, _: &mut R) -> Outcome {
            Outcome::UNSUPPORTED
        }
        async fn update(&mut self, _: &Op<'_>) -> Outcome {
            Outcome::UNSUPPORTED
        }
        async fn insert(&mut self, _: &Op<'_>) -> Outcome {
            Outcome::UNSUPPORTED
        }
        async fn scan<R: Rows>(&mut self, _: &Op<'_>, _: &mut R) -> Outcome {
            Outcome::UNSUPPORTED
        }
        async fn delete(&mut self, _: &Op<'_>) -> Outcome {
            Outcome::UNSUPPORTED
        }
        fn cancel(&mut self) -> impl Future<Output = ()> + 'static {
            self.database.note(format!("cancel {}", self.connection));
            std::future::ready(())
        }
        async fn call<R: Rows>(&mut self, call: &Call<'_>, _: &mut R) -> Outcome {
            let asked = match call.action {
                Action::Begin => "BEGIN".to_owned(),
                Action::Commit => "COMMIT".to_owned(),
                Action::Rollback => "ROLLBACK".to_owned(),
                Action::Statement { .. } => format!("add {}", call.id),
            };
            let number = self.database.note(format!("{}: {asked}", self.connection));
            match self.database.script.iter().find(|line| line.0 == number) {
                Some((_, _, None)) => std::future::pending().await,
                Some((_, takes_ns, Some(outcome))) => {
                    CLOCK.with_borrow(|clock| clock.advance_ns(*takes_ns));
                    outcome.clone()
                }
                None => {
                    CLOCK.with_borrow(|clock| clock.advance_ns(1));
                    Outcome::ok(1)
                }
            }
        }
    }

    /// Transactions of BEGIN, two statements and COMMIT.
    fn reader(folder: &std::path::Path, transactions: u64) -> TraceReader {
        let path = folder.join("t.run.parquet");
        let add = OpKind::register("add").expect("a free slot");
        let mut chunk = ChunkBuilder::new(8);
        for id in 0..4 * transactions {
            let kind = [OpKind::Begin, add, add, OpKind::Commit][id as usize % 4];
            let (fields, values) = (None, RowValues::None);
            let row = Row { kind, key: b"", fields, values, scan_len: None, at_ns: None, after: None };
            chunk.push_in(id, &row, Some(id / 4));
        }
        let mut writer = TraceWriter::create(&path, false).unwrap();
        writer.append(writer.encoder().encode(&mut chunk).unwrap()).unwrap();
        let mut meta = TraceMeta::empty("t", Phase::Run);
        meta.statements = statements();
        meta.schema = Some(Schema::default());
        meta.transactions = Some(transactions);
        writer.finish(meta).unwrap();
        TraceReader::open(&path).unwrap()
    }

    fn statements() -> Statements {
        Statements(vec![Statement {
            name: "add".to_owned(),
            sql: "UPDATE t SET n = n + 1".to_owned(),
            dialects: Default::default(),
            repeat: None,
            types: Vec::new(),
            tables: Vec::new(),
            groups: 1,
            returns_rows: false,
        }])
    }

    /// Replays transactions with a deadline of 50 ns and up to five retries: the status, start and end of
    /// each row, what was asked of the database, and how the transactions ended.
    #[expect(clippy::type_complexity, reason = "three answers of one run")]
    fn replayed(transactions: u64, script: Script) -> (Vec<(Status, u64, u64)>, Vec<String>, [u64; 3]) {
        let folder = tempfile::tempdir().unwrap();
        let feed = Feed::default();
        feed.fill(reader(folder.path(), transactions), None);
        let driver = Scripted { script, ..Scripted::default() };
        let log = driver.log.clone();
        let shared = Arc::new(Shared {
            driver,
            table: TableSpec { name: String::new(), fields: vec![], field_length: 0, shapes: vec![] },
            pace: Pace::Unpaced,
            feed,
            completions: None,
            policy: Policy { op_timeout_ns: Some(50), retries: 5, ..Policy::default() },
            failures: Failures::default(),
            stop: Default::default(),
            seed: 1,
            in_flight: Shared::<Scripted>::cells(1),
            connecting: Shared::<Scripted>::turns(),
            transactions: Some(Transactions::new(&statements(), Schema::default())),
        });
        let clock = Rc::new(ManualClock::default());
        CLOCK.set(clock.clone());
        let (ring, mut samples) = rtrb::RingBuffer::new(64);
        let lane = Lane {
            shared: shared.clone(),
            clock,
            block: RefCell::default(),
            log: RefCell::new(ring),
            stalls: Cell::new(0),
            reconnecting_ns: Cell::new(0),
            closing_ns: RefCell::default(),
            observer: Unobserved,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let session = shared.driver.connect_statements(&statements(), 0).await.unwrap();
            lane.run_transactions(0, session).await;
        });
        let rows = std::iter::from_fn(|| samples.pop().ok());
        let rows: Vec<Sample> = rows.collect();
        let ids: Vec<u64> = rows.iter().map(|row| row.op_id).collect();
        assert_eq!(ids, (0..4 * transactions).collect::<Vec<_>>(), "each row once");
        let ended = shared.transactions.as_ref().unwrap().meta(transactions);
        let rows = rows.iter().map(|row| (row.status, row.start_ns, row.end_ns)).collect();
        let log = log.lock().unwrap().clone();
        (rows, log, [ended.ok, ended.failed, ended.retries])
    }

    const NEVER: u64 = NEVER_NS;

    #[test]
    fn a_statement_without_an_answer_ends_its_transaction_at_the_deadline_and_takes_its_connection_along() {
        let (rows, log, ended) = replayed(2, vec![(2, 0, None)]);
        assert_eq!(
            rows,
            [
                (Status::Ok, 0, 1),
                (Status::Ok, 1, 2),
                (Status::Timeout, 2, NEVER),
                (Status::Unmet, NEVER, NEVER),
                (Status::Ok, 52, 53),
                (Status::Ok, 53, 54),
                (Status::Ok, 54, 55),
                (Status::Ok, 55, 56),
            ]
        );
        // The statement is cancelled; nothing more is asked on that connection, not even ROLLBACK: the end
        // of a connection takes its transaction back. And nothing is tried again.
        let asked = [
            "connect 1",
            "1: BEGIN",
            "1: add 1",
            "1: add 2",
            "cancel 1",
            "connect 2",
            "2: BEGIN",
            "2: add 5",
            "2: add 6",
            "2: COMMIT",
        ];
        assert_eq!((log, ended), (asked.map(str::to_owned).to_vec(), [1, 1, 0]));
    }

    #[test]
    fn a_commit_without_an_answer_is_not_sent_again_because_nobody_knows() {
        let (rows, log, ended) = replayed(2, vec![(3, 0, None)]);
        let statuses: Vec<Status> = rows.iter().map(|row| row.0).collect();
        assert_eq!(statuses[..4], [Status::Ok, Status::Ok, Status::Ok, Status::Timeout]);
        assert_eq!(rows[3], (Status::Timeout, 3, NEVER));
        assert_eq!(log.iter().filter(|line| line.ends_with(": COMMIT")).count(), 2, "{log:?}");
        assert_eq!(log[5..7], ["cancel 1", "connect 2"].map(str::to_owned));
        assert_eq!(ended, [1, 1, 0]);
    }

    #[test]
    fn a_driver_that_ends_a_statement_itself_keeps_its_connection_and_takes_the_transaction_back() {
        // As SQLite does it: it waits for a lock until the deadline, and then calls it a conflict.
        let busy = Outcome::failed(Status::Conflict, Recovery::Retry, "SQLITE_BUSY", "database is locked");
        let (rows, log, ended) = replayed(2, vec![(1, 50, Some(busy))]);
        assert_eq!(rows[1], (Status::Timeout, 1, NEVER), "it was not answered");
        assert_eq!([rows[2].0, rows[3].0], [Status::Unmet; 2]);
        let asked = ["connect 1", "1: BEGIN", "1: add 1", "1: ROLLBACK", "1: BEGIN"];
        assert_eq!(log[..5], asked.map(str::to_owned));
        assert_eq!(ended, [1, 1, 0], "a deadline is not extended by another try");
    }

    #[test]
    fn a_conflict_is_tried_again_within_the_deadline_of_each_statement() {
        let conflict = Outcome::failed(Status::Conflict, Recovery::Retry, "40001", "again");
        let (rows, log, ended) = replayed(1, vec![(2, 49, Some(conflict))]);
        assert!(rows.iter().all(|row| row.0 == Status::Ok), "{rows:?}");
        assert_eq!(log.iter().filter(|line| line.ends_with("BEGIN")).count(), 2, "{log:?}");
        assert_eq!(ended, [1, 0, 1]);
    }
}
