//! Loading in batches: several rows in one request (`--load-batch`). It is a way to fill a table, not to
//! measure operations, so it is kept out of the loop that does.
//!
//! Every operation keeps its row. Those of one request share its start, its end and its `batch`, the
//! number of the first of them; each has the intended start of its own. A request that the database
//! refuses as a whole (one row is there already) is executed again row by row, so that only the row that
//! is to blame fails.

use std::rc::Rc;
use std::sync::Arc;

use super::feed::Block;
use super::lane::{Lane, Reconnected, is_broken, materialise_fields, may_retry, timed_out, unexecuted};
use super::observe::Observer;
use crate::clock::Clock;
use crate::driver::{Driver, Session};
use crate::op::{Field, NEVER_NS, Op, OpKind, Outcome, Recovery, Sample, Status};

impl<D: Driver, C: Clock, O: Observer> Lane<D, C, O> {
    /// Executes inserts, up to `most` at a time, on connection number `number`, until the trace is
    /// exhausted or the run is stopped.
    pub async fn run_batches(&self, number: u32, most: usize, session: &mut D::Session) {
        let shared = &*self.shared;
        let in_flight = &shared.in_flight[number as usize * most..][..most];
        loop {
            let mut claimed: Vec<(Rc<Arc<Block>>, usize)> = Vec::with_capacity(most);
            while claimed.len() < most
                && let Some(next) = self.claim().await
            {
                claimed.push(next);
            }
            if claimed.is_empty() {
                return;
            }
            let mut bytes: Vec<Vec<u8>> = vec![Vec::new(); claimed.len()];
            let fields: Vec<Vec<Field<'_>>> = claimed
                .iter()
                .zip(&mut bytes)
                .map(|((block, row), bytes)| materialise_fields(&block.ops, *row, bytes, Vec::new()))
                .collect();
            let ops: Vec<Op<'_>> = claimed
                .iter()
                .zip(&fields)
                .map(|((block, row), fields)| Op {
                    id: block.ops.id(*row),
                    kind: block.ops.kind(*row),
                    key: block.ops.key(*row),
                    fields,
                    scan_len: 0,
                })
                .collect();
            let scheduled = |(block, row): &(Rc<Arc<Block>>, usize)| {
                shared.pace.intended_ns(block.ops.first_row + *row as u64, block.ops.at_ns(*row))
            };
            // The request goes out when the last of its rows is due.
            if let Some(at_ns) = claimed.last().and_then(scheduled)
                && self.stopped_before(at_ns).await
            {
                return;
            }
            let start_ns = self.clock.now_ns();
            let intended: Vec<u64> =
                claimed.iter().map(|one| scheduled(one).unwrap_or(start_ns).min(start_ns)).collect();
            for ((cell, op), &intended_ns) in in_flight.iter().zip(&ops).zip(&intended) {
                if !cell.begin(op.id, op.kind, intended_ns, start_ns, NEVER_NS) {
                    return;
                }
            }
            let (outcome, attempts, last_start_ns) = self.try_batch(number, session, &ops, start_ns).await;
            let end_ns = self.clock.now_ns();
            let alone = outcome.status != Status::Ok && is_fatal(&outcome) && ops.len() > 1;
            let mut broken = is_broken(&outcome);
            for ((cell, op), &intended_ns) in in_flight.iter().zip(&ops).zip(&intended) {
                let mut sample = Sample {
                    intended_ns,
                    start_ns,
                    end_ns,
                    last_start_ns,
                    attempts,
                    rows: outcome.rows / ops.len() as u32,
                    status: outcome.status,
                    batch: ops[0].id,
                    ..unexecuted(op, number, intended_ns)
                };
                if alone {
                    let own_start_ns = self.clock.now_ns();
                    let outcome = match broken {
                        true => Outcome::failed(
                            Status::Unavailable,
                            Recovery::Reconnect,
                            "",
                            "the connection was lost",
                        ),
                        false => session.insert(op).await,
                    };
                    broken |= is_broken(&outcome);
                    sample.batch = NEVER_NS;
                    sample.attempts = 2;
                    sample.last_start_ns = own_start_ns;
                    sample.end_ns = self.clock.now_ns();
                    sample.rows = outcome.rows;
                    sample.status = outcome.status;
                    sample.code = shared.failures.note(OpKind::Insert, &outcome, false);
                } else if outcome.status != Status::Ok {
                    sample.code = shared.failures.note(OpKind::Insert, &outcome, false);
                    if outcome.status == Status::Timeout {
                        sample.end_ns = NEVER_NS;
                    }
                }
                if !cell.end() {
                    return;
                }
                self.complete(&sample);
                self.log(sample).await;
                cell.logged();
            }
            let given_up = outcome.status == Status::Timeout;
            if broken && self.replace(number, session, given_up).await != Reconnected::Yes {
                return;
            }
        }
    }

    /// Sends a batch, again if that is allowed and sensible: how it ended, tries, start of the last.
    async fn try_batch(
        &self,
        number: u32,
        session: &mut D::Session,
        ops: &[Op<'_>],
        start_ns: u64,
    ) -> (Outcome, u32, u64) {
        let shared = &*self.shared;
        let deadline_ns = shared.policy.op_timeout_ns.map(|timeout_ns| start_ns + timeout_ns);
        let (mut attempts, mut last_start_ns) = (1, NEVER_NS);
        loop {
            let outcome = match deadline_ns {
                None => session.insert_batch(ops).await,
                Some(deadline_ns) => tokio::select! {
                    biased;
                    outcome = session.insert_batch(ops) => outcome,
                    () = self.clock.wait_until(deadline_ns) => timed_out("no answer within --op-timeout"),
                },
            };
            let again = outcome.status != Status::Ok
                && attempts <= shared.policy.retries
                && may_retry(OpKind::Insert, &outcome, shared.policy.unique_writes)
                && !shared.stop.is_requested();
            if !again {
                return (outcome, attempts, last_start_ns);
            }
            if is_broken(&outcome) {
                if self.reconnect(number, session, deadline_ns).await != Reconnected::Yes {
                    return (outcome, attempts, last_start_ns);
                }
            } else {
                let backoff_ns = super::backoff_ns(shared.seed, number, attempts - 1);
                if self.stopped_before(self.clock.now_ns() + backoff_ns).await {
                    return (outcome, attempts, last_start_ns);
                }
            }
            attempts += 1;
            last_start_ns = self.clock.now_ns();
        }
    }
}

/// Would the same request fail again?
fn is_fatal(outcome: &Outcome) -> bool {
    outcome.failure.as_ref().is_none_or(|failure| failure.recovery == Recovery::Fatal)
}
