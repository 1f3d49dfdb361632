//! The hot loop. Everything that is measured happens here, and nothing else does: a reader can check
//! in this file that the three times of a sample are what they say.
//!
//! A *lane* is one thread with its sessions. A session claims the next operation of the trace, makes
//! it ready, waits for its intended time, executes it and logs it. Nothing here allocates, locks or
//! formats while operations succeed.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rtrb::Producer;

use super::feed::Block;
use super::observe::Observer;
use super::order::Completion;
use super::{Rmw, Shared};
use crate::clock::Clock;
use crate::driver::{self, Driver, Session};
use crate::op::{Field, NEVER_NS, Op, OpKind, Outcome, Recovery, Sample, Status};
use crate::record;
use crate::trace::ops::OpBlock;

/// What the sessions of one lane share. `O` receives the rows: without verification it is empty, and
/// the loop is the same machine code as without it.
pub struct Lane<D: Driver, C: Clock, O: Observer> {
    /// What all lanes share.
    pub shared: Arc<Shared<D>>,
    /// Time.
    pub clock: C,
    /// The block that this lane claims from.
    pub block: RefCell<Option<Rc<Arc<Block>>>>,
    /// Where samples go.
    pub log: RefCell<Producer<Sample>>,
    /// Times that the log was full.
    pub stalls: Cell<u64>,
    /// Time that sessions were without a connection, ns, all of them together.
    pub reconnecting_ns: Cell<u64>,
    /// Time that closing each connection took, ns.
    pub closing_ns: RefCell<Vec<u64>>,
    /// What is kept of the rows that come back.
    pub observer: O,
}

impl<D: Driver, C: Clock, O: Observer> Lane<D, C, O> {
    /// Executes operations on connection number `number` until the trace is exhausted or the run is
    /// stopped.
    pub async fn run_session(&self, number: u32, mut session: D::Session) {
        match self.shared.policy.load_batch {
            1 => self.run_operations(number, &mut session).await,
            most => self.run_batches(number, most as usize, &mut session).await,
        }
        self.close(session);
    }

    /// Closes a connection, and notes how long that takes.
    pub(super) fn close(&self, session: D::Session) {
        let from_ns = self.clock.now_ns();
        drop(session);
        self.closing_ns.borrow_mut().push(self.clock.now_ns() - from_ns);
    }

    /// One operation at a time.
    async fn run_operations(&self, number: u32, session: &mut D::Session) {
        let shared = &*self.shared;
        let in_flight = &shared.in_flight[number as usize];
        // Memory in which operations are made ready, reused from one to the next.
        let mut spare_fields = Vec::new();
        let mut bytes = Vec::new();
        let mut sink = self.observer.sink();
        // Claiming and logging are calls, and futures only where they have to wait.
        while let Some((block, row)) =
            if let claimed @ Some(_) = self.claim_of_block() { claimed } else { self.claim().await }
        {
            let ops = &block.ops;
            let index = ops.first_row + row as u64;
            let fields = materialise_fields(ops, row, &mut bytes, spare_fields);
            let op = Op {
                id: ops.id(row),
                kind: ops.kind(row),
                key: ops.key(row),
                fields: &fields,
                scan_len: ops.scan_len(row),
            };

            let scheduled_ns = shared.pace.intended_ns(index, ops.at_ns(row));
            if let Some(at_ns) = scheduled_ns {
                match self.wait_until(at_ns).await {
                    Waited::InTime => {}
                    Waited::TooLate { lag_ns }
                        if shared.policy.drop_late_ns.is_some_and(|limit| lag_ns > limit) =>
                    {
                        let sample = Sample { status: Status::Dropped, ..unexecuted(&op, number, at_ns) };
                        spare_fields = recycle(fields);
                        self.complete(&sample);
                        self.log(sample).await;
                        continue;
                    }
                    Waited::TooLate { .. } => {}
                    Waited::Stopped => break,
                }
            }
            let Ok(order) = self.ready(ops.after(row), block.previous_on_key(row)).await else { break };
            if order.completion == Completion::Failed {
                let intended_ns = scheduled_ns.unwrap_or_else(|| self.clock.now_ns());
                let unmet = unexecuted(&op, number, intended_ns);
                let sample = Sample { status: Status::Unmet, blocked_ns: order.blocked_ns, ..unmet };
                shared.failures.note(op.kind, &dependency_failed(), false);
                spare_fields = recycle(fields);
                self.complete(&sample);
                self.log(sample).await;
                continue;
            }

            self.observer.begin(&mut sink, &op);
            let start_ns = self.clock.now_ns();
            let intended_ns = scheduled_ns.unwrap_or(start_ns);
            if !in_flight.begin(op.id, op.kind, intended_ns, start_ns, order.blocked_ns) {
                break;
            }
            let read_end_ns = Cell::new(NEVER_NS);
            let outcome = self.attempt(session, &op, start_ns, &mut sink, &read_end_ns).await;
            let end_ns = self.clock.now_ns();
            let outcome = self.observer.judge(&self.clock, &mut sink, &op, outcome);

            let mut sample = Sample {
                op_id: op.id,
                intended_ns,
                start_ns,
                end_ns,
                blocked_ns: order.blocked_ns,
                last_start_ns: NEVER_NS,
                txn: NEVER_NS,
                session: number,
                rows: outcome.rows,
                attempts: 1,
                code: 0,
                read_end_ns: NEVER_NS,
                batch: NEVER_NS,
                observed: 0,
                kind: op.kind,
                status: outcome.status,
            };
            let mut broken = false;
            if outcome.status != Status::Ok {
                let failed = (outcome, order.raced);
                broken = self.after_failure(session, &op, &mut sample, failed, &mut sink, &read_end_ns).await;
            }
            sample.read_end_ns = read_end_ns.get();
            spare_fields = recycle(fields);
            if !in_flight.end() {
                // The run has ended without waiting for it.
                break;
            }
            self.complete(&sample);
            sample.observed = self.observer.hand_over(&mut sink);
            if !self.try_log(&sample) {
                self.log(sample).await;
            }
            in_flight.logged();
            let given_up = sample.status == Status::Timeout;
            if broken && self.replace(number, session, given_up).await != Reconnected::Yes {
                break;
            }
        }
    }

    /// Executes the operation once, within its deadline.
    #[inline]
    async fn attempt(
        &self,
        session: &mut D::Session,
        op: &Op<'_>,
        start_ns: u64,
        sink: &mut O::Sink,
        read_end_ns: &Cell<u64>,
    ) -> Outcome {
        let Some(timeout_ns) = self.shared.policy.op_timeout_ns else {
            return self.execute(session, op, sink, read_end_ns).await;
        };
        tokio::select! {
            biased;
            outcome = self.execute(session, op, sink, read_end_ns) => outcome,
            () = self.clock.wait_until(start_ns + timeout_ns) => timed_out("no answer within --op-timeout"),
        }
    }

    #[inline]
    async fn execute(
        &self,
        session: &mut D::Session,
        op: &Op<'_>,
        sink: &mut O::Sink,
        read_end_ns: &Cell<u64>,
    ) -> Outcome {
        if op.kind == OpKind::ReadModifyWrite && self.shared.policy.rmw == Rmw::Transaction {
            return session.read_modify_write_transaction(op, sink).await;
        }
        driver::execute(session, op, sink, || read_end_ns.set(self.clock.now_ns())).await
    }

    /// What happens when an operation did not succeed at once: its error is counted, and it is tried
    /// again if that is allowed and sensible. Afterwards the sample has its final ending. Returns true
    /// if the connection has to be replaced before the next operation.
    #[cold]
    async fn after_failure(
        &self,
        session: &mut D::Session,
        op: &Op<'_>,
        sample: &mut Sample,
        (mut outcome, raced): (Outcome, bool),
        sink: &mut O::Sink,
        read_end_ns: &Cell<u64>,
    ) -> bool {
        let shared = &*self.shared;
        let deadline_ns = shared.policy.op_timeout_ns.map(|timeout_ns| sample.start_ns + timeout_ns);
        let expired = |now_ns: u64| deadline_ns.is_some_and(|deadline_ns| now_ns >= deadline_ns);
        let mut broken;
        loop {
            sample.code = shared.failures.note(op.kind, &outcome, raced);
            broken = is_broken(&outcome);
            let again = sample.attempts <= shared.policy.retries
                && may_retry(op.kind, &outcome, shared.policy.unique_writes)
                && !expired(self.clock.now_ns())
                && !shared.stop.is_requested();
            if !again {
                break;
            }
            if broken {
                if self.reconnect(sample.session, session, deadline_ns).await != Reconnected::Yes {
                    break;
                }
                broken = false;
            } else {
                let backoff_ns = super::backoff_ns(shared.seed, sample.session, sample.attempts - 1);
                if matches!(self.wait_until(self.clock.now_ns() + backoff_ns).await, Waited::Stopped) {
                    break;
                }
            }
            let now_ns = self.clock.now_ns();
            if expired(now_ns) {
                break;
            }
            sample.attempts += 1;
            sample.last_start_ns = now_ns;
            self.observer.begin(sink, op);
            shared.in_flight[sample.session as usize].again(sample.attempts, now_ns);
            read_end_ns.set(NEVER_NS);
            outcome = self.attempt(session, op, sample.start_ns, sink, read_end_ns).await;
            sample.end_ns = self.clock.now_ns();
            outcome = self.observer.judge(&self.clock, sink, op, outcome);
            sample.status = outcome.status;
            sample.rows = outcome.rows;
            if outcome.status == Status::Ok {
                sample.code = 0;
                break;
            }
        }
        if sample.status.is_success() {
            return broken;
        }
        let answered = sample.status == Status::Mismatch;
        if !answered && expired(sample.end_ns) {
            sample.status = Status::Timeout;
        }
        if sample.status == Status::Timeout && deadline_ns.is_some() {
            // Never answered: the latency is at least the deadline, and nobody knows more.
            sample.end_ns = NEVER_NS;
        }
        broken
    }

    /// Tells those who wait for this operation how it ended.
    #[inline]
    pub(super) fn complete(&self, sample: &Sample) {
        if let Some(completions) = &self.shared.completions {
            completions.record(sample.op_id, effect(sample.status));
        }
    }

    /// The next operation of the block at hand, unless it is exhausted or the run is stopped.
    #[inline]
    #[expect(clippy::redundant_allocation, reason = "all lanes count in the Arc, this one alone in the Rc")]
    fn claim_of_block(&self) -> Option<(Rc<Arc<Block>>, usize)> {
        let block = self.block.borrow();
        let block = block.as_ref().filter(|_| !self.shared.stop.is_requested())?;
        Some((block.clone(), block.claim()?))
    }

    /// The next operation of the trace, or `None` at its end or when the run is stopped.
    pub(super) async fn claim(&self) -> Option<(Rc<Arc<Block>>, usize)> {
        while !self.shared.stop.is_requested() {
            if let claimed @ Some(_) = self.claim_of_block() {
                return claimed;
            }
            let exhausted = self.block.borrow().clone();
            let next = self.shared.feed.block_after(exhausted.as_ref().map(|block| &***block)).await?;
            *self.block.borrow_mut() = Some(Rc::new(next));
        }
        None
    }

    /// Waits for a time, unless the run is stopped before.
    #[inline]
    pub(super) async fn wait_until(&self, at_ns: u64) -> Waited {
        let now_ns = self.clock.now_ns();
        if now_ns > at_ns {
            return Waited::TooLate { lag_ns: now_ns - at_ns };
        }
        tokio::select! {
            biased;
            () = self.clock.wait_until(at_ns) => Waited::InTime,
            () = self.shared.stop.requested() => Waited::Stopped,
        }
    }

    /// Waits for a time; true if the run is stopped before.
    pub(super) async fn stopped_before(&self, at_ns: u64) -> bool {
        matches!(self.wait_until(at_ns).await, Waited::Stopped)
    }

    /// Waits for the operations that this one must follow; an error if the run is stopped before.
    #[inline]
    async fn ready(&self, after: Option<u64>, previous_on_key: Option<u64>) -> Result<Readiness, Stopped> {
        let nothing = Readiness { completion: Completion::Met, blocked_ns: NEVER_NS, raced: false };
        let Some(completions) = &self.shared.completions else { return Ok(nothing) };
        if after.is_none() && previous_on_key.is_none() {
            return Ok(nothing);
        }
        let known = after.map_or(Some(Completion::Met), |after| completions.state(after));
        if !self.shared.policy.waits {
            return Ok(Readiness { raced: known != Some(Completion::Met), ..nothing });
        }
        let from_ns = self.clock.now_ns();
        let wait = async {
            if let Some(previous) = previous_on_key {
                // Only its place in the order matters, not how it ended.
                completions.wait(previous).await;
            }
            match after {
                Some(after) => completions.wait(after).await,
                None => Completion::Met,
            }
        };
        let completion = tokio::select! {
            biased;
            completion = wait => completion,
            () = self.shared.stop.requested() => return Err(Stopped),
        };
        Ok(Readiness { completion, blocked_ns: self.clock.now_ns() - from_ns, raced: false })
    }

    /// Hands a sample to the recorder; false if its buffer is full.
    #[inline]
    fn try_log(&self, sample: &Sample) -> bool {
        self.log.borrow_mut().push(*sample).is_ok()
    }

    /// Hands a sample to the recorder; waits while its buffer is full.
    pub(super) async fn log(&self, sample: Sample) {
        while !self.try_log(&sample) {
            self.stalls.set(self.stalls.get() + 1);
            if self.log.borrow().is_abandoned() {
                return;
            }
            std::thread::yield_now();
            if !O::IN_ORDER {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Replaces a broken connection. If what it was doing is given up, the server is told: it would go
    /// on otherwise.
    #[cold]
    pub(super) async fn replace(&self, number: u32, session: &mut D::Session, given_up: bool) -> Reconnected {
        let lost_ns = self.clock.now_ns();
        let cancelling = given_up.then(|| session.cancel());
        let cancelled = async {
            if let Some(cancelling) = cancelling {
                cancelling.await;
            }
        };
        let ((), reconnected) = tokio::join!(cancelled, self.reconnect(number, session, None));
        let took_ns = self.clock.now_ns() - lost_ns;
        self.reconnecting_ns.set(self.reconnecting_ns.get() + took_ns);
        reconnected
    }

    /// Opens connection `number` again, however long that takes, or until a deadline, or as long as
    /// there is something left to do with it.
    #[cold]
    pub(super) async fn reconnect(
        &self,
        number: u32,
        session: &mut D::Session,
        deadline_ns: Option<u64>,
    ) -> Reconnected {
        let shared = &*self.shared;
        let mut attempt = 0u32;
        loop {
            if shared.stop.is_requested() || deadline_ns.is_none() && shared.feed.is_exhausted() {
                return Reconnected::NotNeeded;
            }
            let now_ns = self.clock.now_ns();
            let left_ns = deadline_ns.map(|deadline_ns| deadline_ns.saturating_sub(now_ns));
            if left_ns == Some(0) {
                return Reconnected::TooLate;
            }
            let limit = shared.connect_limit().min(left_ns.map_or(Duration::MAX, Duration::from_nanos));
            let connected = tokio::select! {
                biased;
                () = shared.stop.requested() => return Reconnected::NotNeeded,
                connected = shared.connect(number, limit) => connected,
            };
            if let Ok(fresh) = connected {
                *session = fresh;
                return Reconnected::Yes;
            }
            let back_at_ns = self.clock.now_ns() + super::backoff_ns(shared.seed, number, attempt);
            let at_ns = back_at_ns.min(deadline_ns.unwrap_or(u64::MAX));
            if matches!(self.wait_until(at_ns).await, Waited::Stopped) {
                return Reconnected::NotNeeded;
            }
            attempt = attempt.saturating_add(1);
        }
    }
}

/// How an attempt to replace a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reconnected {
    /// There is a new connection.
    Yes,
    /// The deadline came first.
    TooLate,
    /// Nothing is left to do with it: the run ends.
    NotNeeded,
}

/// How a wait for an operation's time ended.
pub(super) enum Waited {
    /// At its time: what lag there is now is this program's and the machine's.
    InTime,
    /// It was past already: no session had been free.
    TooLate { lag_ns: u64 },
    /// The run was stopped.
    Stopped,
}

/// The run was stopped while waiting.
struct Stopped;

/// The state of an operation's dependency.
struct Readiness {
    completion: Completion,
    /// Time spent waiting; [`NEVER_NS`] if it depends on nothing.
    blocked_ns: u64,
    /// It starts although what it depends on has not completed (`--order none`).
    raced: bool,
}

/// The row of an operation that is not executed.
pub(super) fn unexecuted(op: &Op<'_>, session: u32, intended_ns: u64) -> Sample {
    Sample {
        op_id: op.id,
        intended_ns,
        start_ns: NEVER_NS,
        end_ns: NEVER_NS,
        blocked_ns: NEVER_NS,
        last_start_ns: NEVER_NS,
        txn: NEVER_NS,
        session,
        rows: 0,
        attempts: 0,
        code: 0,
        read_end_ns: NEVER_NS,
        batch: NEVER_NS,
        observed: 0,
        kind: op.kind,
        status: Status::Dropped,
    }
}

/// No answer in time. The connection may still get one, so it is replaced.
pub(super) fn timed_out(message: &str) -> Outcome {
    Outcome::failed(Status::Timeout, Recovery::Ambiguous, "", message)
}

/// Why an operation is UNMET.
fn dependency_failed() -> Outcome {
    let message = "not executed: the operation it depends on did not succeed";
    Outcome::failed(Status::Unmet, Recovery::Fatal, "", message)
}

/// May the operation be tried again? Where it is unknown whether the first try had its effect, only
/// if a second effect changes nothing: our updates write absolute values, but a second insert would
/// find the row of the first. With `unique_writes` never: a value must name one write.
pub(super) fn may_retry(kind: OpKind, outcome: &Outcome, unique_writes: bool) -> bool {
    match outcome.failure.as_ref().map(|failure| failure.recovery) {
        Some(Recovery::Retry | Recovery::Reconnect) => true,
        Some(Recovery::Ambiguous) => {
            outcome.status != Status::Timeout && kind != OpKind::Insert && !(unique_writes && kind.writes())
        }
        Some(Recovery::Fatal) | None => false,
    }
}

/// What an operation's ending means for those that wait for it: a row that was there already is as
/// good as one just inserted.
fn effect(status: Status) -> Completion {
    match status {
        Status::Ok | Status::Duplicate => Completion::Met,
        _ => Completion::Failed,
    }
}

/// Must the connection be replaced?
pub(super) fn is_broken(outcome: &Outcome) -> bool {
    outcome
        .failure
        .as_ref()
        .is_some_and(|failure| matches!(failure.recovery, Recovery::Reconnect | Recovery::Ambiguous))
}

/// Makes the fields of row `row` ready to execute. Inline values are borrowed from the block; seeded
/// values are made here, in `bytes`, before the clock starts.
#[inline]
pub(super) fn materialise_fields<'a>(
    ops: &'a OpBlock,
    row: usize,
    bytes: &'a mut Vec<u8>,
    mut fields: Vec<Field<'a>>,
) -> Vec<Field<'a>> {
    let Some(numbers) = ops.field_numbers(row) else { return fields };
    let numbers = numbers.iter().map(|&number| number as u32);
    if let Some(values) = ops.inline_values(row) {
        fields.extend(numbers.zip(values).map(|(number, value)| Field { number, value }));
    } else if let Some((seed, lens)) = ops.seeded_values(row) {
        bytes.clear();
        for (number, &len) in numbers.clone().zip(lens) {
            record::append_value(seed, number, len as usize, bytes);
        }
        let mut rest = bytes.as_slice();
        fields.extend(numbers.zip(lens).map(|(number, &len)| {
            let (value, tail) = rest.split_at(len as usize);
            rest = tail;
            Field { number, value }
        }));
    } else {
        fields.extend(numbers.map(|number| Field { number, value: &[] }));
    }
    fields
}

/// Takes the memory of a field list back: mapping an empty vector in place keeps its allocation
/// under another lifetime.
#[inline]
fn recycle(mut fields: Vec<Field<'_>>) -> Vec<Field<'static>> {
    fields.clear();
    fields.into_iter().map(|_| unreachable!("it is empty")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use crate::driver::{Kind, Preparation, Rows, ServerInfo, Session, TableSpec, Target, TargetError};
    use crate::replay::feed::Feed;
    use crate::replay::observe::Unobserved;
    use crate::replay::order::Completions;
    use crate::replay::pace::{Pace, Rate};
    use crate::replay::{Failures, Policy};
    use crate::trace::chunk::{ChunkBuilder, Row, RowValues, TraceWriter};
    use crate::trace::meta::{Phase, TraceMeta};
    use crate::trace::ops::TraceReader;

    /// A database whose n-th operation takes the n-th of these times on a manual clock.
    struct Scripted;

    struct ScriptedSession {
        clock: Rc<ManualClock>,
        script: Vec<(u64, Outcome)>,
        executed: usize,
    }

    impl Driver for Scripted {
        const KINDS: &'static [Kind] = &[];
        const BLOCKING: bool = false;
        type Session = ScriptedSession;
        fn open(_target: &Target) -> Result<Scripted, TargetError> {
            Ok(Scripted)
        }
        async fn prepare(&self, _: &TableSpec, _: Preparation) -> Result<ServerInfo, TargetError> {
            Ok(ServerInfo::default())
        }
        async fn connect(&self, _: &TableSpec, _: u32) -> Result<ScriptedSession, TargetError> {
            Err(TargetError::Unusable("a scripted connection opens once".to_owned()))
        }
    }

    impl ScriptedSession {
        fn next(&mut self) -> Outcome {
            let (takes_ns, outcome) = self.script[self.executed].clone();
            self.executed += 1;
            self.clock.advance_ns(takes_ns);
            outcome
        }
    }

    impl Session for ScriptedSession {
        async fn read<R: Rows>(&mut self, _: &Op<'_>, _: &mut R) -> Outcome {
            self.next()
        }
        async fn update(&mut self, _: &Op<'_>) -> Outcome {
            self.next()
        }
        async fn insert(&mut self, _: &Op<'_>) -> Outcome {
            self.next()
        }
        async fn scan<R: Rows>(&mut self, _: &Op<'_>, _: &mut R) -> Outcome {
            self.next()
        }
        async fn delete(&mut self, _: &Op<'_>) -> Outcome {
            self.next()
        }
    }

    /// A trace of these (kind, after) rows, as a reader.
    fn trace(rows: &[(OpKind, Option<u64>)]) -> (tempfile::TempDir, TraceReader) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.run.parquet");
        let mut chunk = ChunkBuilder::new(rows.len());
        for (id, &(kind, after)) in rows.iter().enumerate() {
            let written = kind.writes();
            chunk.push(
                id as u64,
                &Row {
                    kind,
                    key: format!("user{id}").as_bytes(),
                    fields: written.then_some(&[0]),
                    values: if written {
                        RowValues::Inline { lens: &[1], bytes: b"x" }
                    } else {
                        RowValues::None
                    },
                    scan_len: None,
                    at_ns: None,
                    after,
                },
            );
        }
        let mut writer = TraceWriter::create(&path, false).unwrap();
        let encoded = writer.encoder().encode(&mut chunk).unwrap();
        writer.append(encoded).unwrap();
        writer.finish(TraceMeta::empty("t", Phase::Run)).unwrap();
        let reader = TraceReader::open(&path).unwrap();
        (folder, reader)
    }

    fn run(
        rows: &[(OpKind, Option<u64>)],
        pace: Pace,
        waits: bool,
        script: Vec<(u64, Outcome)>,
    ) -> Vec<Sample> {
        run_by(rows, pace, Policy { waits, ..Policy::default() }, script)
    }

    fn run_by(
        rows: &[(OpKind, Option<u64>)],
        pace: Pace,
        policy: Policy,
        script: Vec<(u64, Outcome)>,
    ) -> Vec<Sample> {
        run_counted(rows, pace, policy, script).0
    }

    /// The samples, and the allocations of the session's loop.
    fn run_counted(
        rows: &[(OpKind, Option<u64>)],
        pace: Pace,
        policy: Policy,
        script: Vec<(u64, Outcome)>,
    ) -> (Vec<Sample>, u64) {
        let (_folder, reader) = trace(rows);
        let feed = Feed::default();
        feed.fill(reader, None);
        let shared = Arc::new(Shared {
            driver: Scripted,
            table: TableSpec { name: "t".into(), fields: vec![], field_length: 1, shapes: vec![] },
            pace,
            feed,
            completions: Some(Completions::new(0, rows.len() as u64)),
            policy,
            failures: Failures::default(),
            stop: Default::default(),
            seed: 1,
            in_flight: Shared::<Scripted>::cells(8),
            connecting: Shared::<Scripted>::turns(),
            transactions: None,
        });
        let clock = Rc::new(ManualClock::default());
        let (log, mut samples) = rtrb::RingBuffer::new(64);
        let lane = Lane {
            shared,
            clock: clock.clone(),
            block: RefCell::default(),
            log: RefCell::new(log),
            stalls: Cell::new(0),
            reconnecting_ns: Cell::new(0),
            closing_ns: RefCell::default(),
            observer: Unobserved,
        };
        let session = ScriptedSession { clock, script, executed: 0 };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut session = Some(session);
        let counted = allocation_counter::measure(|| {
            runtime.block_on(lane.run_session(7, session.take().expect("it is called once")));
        });
        (std::iter::from_fn(|| samples.pop().ok()).collect(), counted.count_total)
    }

    #[test]
    fn nothing_is_allocated_while_operations_succeed() {
        let a_ms_apart = Pace::Rate(Rate::per_second(1e3).unwrap());
        for pace in [Pace::Unpaced, a_ms_apart] {
            let allocations = |operations: usize| {
                let kinds = [OpKind::Read, OpKind::Update, OpKind::ReadModifyWrite, OpKind::Insert];
                let rows: Vec<_> =
                    kinds.into_iter().cycle().take(operations).map(|kind| (kind, None)).collect();
                let script = vec![(5, Outcome::ok(1)); 2 * operations];
                let (samples, allocations) = run_counted(&rows, pace, Policy::default(), script);
                assert_eq!(samples.len(), operations);
                allocations
            };
            // Memory of a session, and of a block at hand, is allocated once.
            assert_eq!(allocations(60), allocations(20), "{pace:?}");
        }
    }

    /// This test is the definition of coordinated omission, and of its absence.
    #[test]
    fn a_stall_is_charged_to_every_operation_it_delays() {
        let script = [1, 100, 1, 1].map(|takes_ns| (takes_ns, Outcome::ok(1))).to_vec();
        let ten_ns_apart = Pace::Rate(Rate::per_second(1e8).unwrap());
        let samples = run(&[(OpKind::Read, None); 4], ten_ns_apart, true, script);
        let response: Vec<u64> = samples.iter().map(|sample| sample.end_ns - sample.intended_ns).collect();
        let service: Vec<u64> = samples.iter().map(|sample| sample.end_ns - sample.start_ns).collect();
        let lag: Vec<u64> = samples.iter().map(|sample| sample.start_ns - sample.intended_ns).collect();
        assert_eq!(response, [1, 100, 91, 82]);
        assert_eq!(service, [1, 100, 1, 1]);
        assert_eq!(lag, [0, 0, 90, 81]);
        assert_eq!(samples.iter().map(|sample| sample.op_id).collect::<Vec<_>>(), [0, 1, 2, 3]);
    }

    #[test]
    fn without_a_pace_operations_follow_each_other_and_have_no_lag() {
        let script = [5, 7].map(|takes_ns| (takes_ns, Outcome::ok(1))).to_vec();
        let samples = run(&[(OpKind::Read, None); 2], Pace::Unpaced, true, script);
        let times: Vec<_> = samples.iter().map(|s| (s.intended_ns, s.start_ns, s.end_ns)).collect();
        assert_eq!(times, [(0, 0, 5), (5, 5, 12)]);
    }

    #[test]
    fn an_operation_whose_dependency_failed_is_unmet_and_not_executed() {
        let refused = Outcome::failed(Status::Rejected, Recovery::Fatal, "23514", "no");
        let script = vec![(5, refused), (7, Outcome::ok(1))];
        let rows = [(OpKind::Insert, None), (OpKind::Read, Some(0)), (OpKind::Read, None)];
        let samples = run(&rows, Pace::Unpaced, true, script);
        let ends: Vec<_> = samples.iter().map(|s| (s.status, s.code, s.attempts, s.start_ns)).collect();
        assert_eq!(
            ends,
            [(Status::Rejected, 1, 1, 0), (Status::Unmet, 0, 0, NEVER_NS), (Status::Ok, 0, 1, 5)]
        );
        assert_eq!(samples[1].blocked_ns, 0);
    }

    #[test]
    fn a_row_that_was_there_already_satisfies_those_that_need_it() {
        let script = vec![(5, Outcome::bare(Status::Duplicate)), (7, Outcome::ok(1))];
        let samples = run(&[(OpKind::Insert, None), (OpKind::Read, Some(0))], Pace::Unpaced, true, script);
        assert_eq!(samples[1].status, Status::Ok);
    }

    #[test]
    fn without_order_a_read_that_finds_nothing_too_early_is_labelled_a_race() {
        let refused = Outcome::failed(Status::Error, Recovery::Fatal, "", "no");
        let script =
            vec![(5, refused), (7, Outcome::bare(Status::NotFound)), (1, Outcome::bare(Status::NotFound))];
        let rows = [(OpKind::Insert, None), (OpKind::Read, Some(0)), (OpKind::Read, None)];
        let samples = run(&rows, Pace::Unpaced, false, script);
        assert_eq!(samples.iter().map(|s| s.code).collect::<Vec<_>>(), [0, 1, 0]);
    }

    #[test]
    fn with_unique_writes_one_that_may_have_happened_is_not_sent_again() {
        let ambiguous = Outcome::failed(Status::Unavailable, Recovery::Ambiguous, "", "gone");
        assert!(may_retry(OpKind::Update, &ambiguous, false));
        assert!(
            !may_retry(OpKind::Update, &ambiguous, true) && !may_retry(OpKind::Insert, &ambiguous, false)
        );
        assert!(may_retry(OpKind::Read, &ambiguous, true));
        let undone = Outcome::failed(Status::Conflict, Recovery::Retry, "40001", "again");
        assert!(may_retry(OpKind::ReadModifyWrite, &undone, true));
    }

    #[test]
    fn an_operation_that_was_tried_again_has_one_latency_and_the_start_of_its_last_attempt() {
        let conflict = Outcome::failed(Status::Conflict, Recovery::Retry, "40001", "again");
        let script = vec![(5, conflict.clone()), (7, conflict.clone()), (9, Outcome::ok(1))];
        let policy = Policy { retries: 2, ..Policy::default() };
        let samples = run_by(&[(OpKind::Update, None)], Pace::Unpaced, policy, script.clone());
        let sample = samples[0];
        assert_eq!((sample.status, sample.attempts, sample.code, sample.start_ns), (Status::Ok, 3, 0, 0));
        let backoff_ns = super::super::backoff_ns(1, 7, 0) + super::super::backoff_ns(1, 7, 1);
        assert_eq!(sample.last_start_ns, 5 + 7 + backoff_ns);
        assert_eq!(sample.end_ns, sample.last_start_ns + 9);
        let once = Policy { retries: 1, ..Policy::default() };
        let sample = run_by(&[(OpKind::Update, None)], Pace::Unpaced, once, script)[0];
        assert_eq!((sample.status, sample.attempts, sample.code), (Status::Conflict, 2, 1));
    }

    #[test]
    fn an_insert_that_may_have_happened_is_not_sent_again_and_is_labelled() {
        let lost = Outcome::failed(Status::Unavailable, Recovery::Ambiguous, "08006", "gone");
        let policy = Policy { retries: 9, ..Policy::default() };
        let sample = run_by(&[(OpKind::Insert, None)], Pace::Unpaced, policy, vec![(5, lost.clone())])[0];
        assert_eq!((sample.status, sample.attempts, sample.end_ns), (Status::Unavailable, 1, 5));
        let failures = Failures::default();
        assert_eq!(failures.note(OpKind::Insert, &lost, false), 1);
        assert_eq!(failures.note(OpKind::Read, &lost, false), 2);
        assert_eq!(failures.note(OpKind::Insert, &timed_out("no answer"), false), 3);
        assert_eq!(failures.codes(), ["", "AMBIGUOUS 08006", "08006", "AMBIGUOUS"]);
    }

    #[test]
    fn a_session_with_nothing_left_to_do_does_not_wait_for_the_server_to_come_back() {
        let lost = Outcome::failed(Status::Unavailable, Recovery::Reconnect, "08006", "gone");
        let samples = run(&[(OpKind::Read, None)], Pace::Unpaced, true, vec![(5, lost)]);
        assert_eq!(samples.len(), 1, "and it returned, although no connection can be opened");
    }

    #[test]
    fn an_answer_after_the_deadline_is_a_timeout_without_an_end() {
        let script = vec![
            (50, Outcome::ok(1)),
            (60, Outcome::failed(Status::Conflict, Recovery::Retry, "BUSY", "locked")),
        ];
        let policy = Policy { op_timeout_ns: Some(55), retries: 5, ..Policy::default() };
        let samples = run_by(&[(OpKind::Read, None); 2], Pace::Unpaced, policy, script);
        assert_eq!((samples[0].status, samples[0].end_ns), (Status::Ok, 50));
        assert_eq!(
            (samples[1].status, samples[1].end_ns, samples[1].attempts),
            (Status::Timeout, NEVER_NS, 1)
        );
    }
}
