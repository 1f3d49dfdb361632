//! A database that only takes time: the null case. With no latency it measures this program
//! itself; with a scripted latency it lets a user see what a stall does to percentiles, and a test
//! know the right answer. It stores nothing: every read finds a row, every write succeeds.

use std::time::Duration;

use super::{Driver, Kind, Preparation, Rows, ServerInfo, Session, TableSpec, Target, TargetError};
use crate::clock::{Clock, MonotonicClock, Origin};
use super::statements::{Action, Call};
use crate::op::{Op, Outcome, Recovery, Status};
use crate::statement::{Schema, Statements, Table};
use crate::rng::{Purpose, Stream};

/// How long one operation takes.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Latency {
    Constant(u64),
    Exponential { mean_ns: f64 },
}

/// A span of time in which nothing is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stall {
    begin_ns: u64,
    end_ns: u64,
}

/// The simulated database.
#[derive(Debug)]
pub struct Sim {
    latency: Latency,
    stalls: Vec<Stall>,
    /// Every so many commits of a connection are refused.
    conflicts: u64,
    seed: u64,
}

/// A connection to it.
#[derive(Debug)]
pub struct SimSession {
    latency: Latency,
    stalls: Vec<Stall>,
    conflicts: u64,
    commits: u64,
    seed: u64,
    clock: MonotonicClock,
}

impl Driver for Sim {
    const KINDS: &'static [Kind] = &[Kind {
        names: &["sim"],
        about: "no database: a scripted latency, for trying things out and measuring this program",
        default_address: "in this process",
        options: &[
            ("sim.latency", "0", "time of an operation: 0, 100us, or exponential:1ms (mean)"),
            ("sim.conflicts", "0", "of a statement trace: every so many COMMITs of a connection are refused with 40001"),
            ("sim.stalls", "", "spans without answers since the connection opened: BEGIN+LENGTH, e.g. 4s+2s,10s+1s"),
        ],
        example: "ycsb-trace replay --db sim workloada -p sim.latency=exponential:1ms",
        defaults: &[("an update", "nothing is kept: every operation is OK after its latency")],
        tested_against: "itself",
    }];
    const BLOCKING: bool = false;
    type Session = SimSession;

    fn open(target: &Target) -> Result<Sim, TargetError> {
        let latency = parse_latency(target.property("sim.latency").unwrap_or("0"))?;
        let stalls = parse_stalls(target.property("sim.stalls").unwrap_or(""))?;
        let text = target.property("sim.conflicts").unwrap_or("0");
        let conflicts = text
            .parse()
            .map_err(|_| TargetError::Request(format!("sim.conflicts={text:?} is not a number of COMMITs")))?;
        Ok(Sim { latency, stalls, conflicts, seed: target.seed })
    }

    async fn prepare(
        &self,
        _table: &TableSpec,
        _preparation: Preparation,
    ) -> Result<ServerInfo, TargetError> {
        self.info()
    }

    async fn connect(&self, _table: &TableSpec, _session: u32) -> Result<SimSession, TargetError> {
        Ok(self.session())
    }

    async fn prepare_schema(&self, _: &Schema, _: Preparation) -> Result<ServerInfo, TargetError> {
        self.info()
    }

    async fn finish_table(&self, _: &Schema, _: &Table) -> Result<(), TargetError> {
        Ok(())
    }

    async fn connect_statements(&self, _: &Statements, _session: u32) -> Result<SimSession, TargetError> {
        Ok(self.session())
    }
}

impl Sim {
    fn info(&self) -> Result<ServerInfo, TargetError> {
        let settings = [("latency", format!("{:?}", self.latency)), ("stalls", format!("{:?}", self.stalls))];
        Ok(ServerInfo {
            address: Sim::KINDS[0].default_address.to_owned(),
            version: format!("sim {}", env!("CARGO_PKG_VERSION")),
            settings: settings.map(|(name, value)| (name.to_owned(), value)).into(),
            ..ServerInfo::default()
        })
    }

    fn session(&self) -> SimSession {
        SimSession {
            latency: self.latency,
            stalls: self.stalls.clone(),
            conflicts: self.conflicts,
            commits: 0,
            seed: self.seed,
            clock: MonotonicClock::new(Origin::after(Duration::ZERO)),
        }
    }
}

impl SimSession {
    #[inline]
    async fn serve(&self, op_id: u64, rows: u32) -> Outcome {
        if self.latency != Latency::Constant(0) || !self.stalls.is_empty() {
            let start_ns = self.clock.now_ns();
            self.clock.wait_until(answer_ns(start_ns, self.service_ns(op_id), &self.stalls)).await;
        }
        Outcome::ok(rows)
    }

    fn service_ns(&self, op_id: u64) -> u64 {
        match self.latency {
            Latency::Constant(ns) => ns,
            Latency::Exponential { mean_ns } => {
                let unit = Stream::at(self.seed, Purpose::Service, op_id).unit();
                (-mean_ns * libm::log(1.0 - unit)) as u64
            }
        }
    }
}

/// When an operation that starts at `start_ns` and works for `service_ns` is answered: work stands
/// still during a stall.
fn answer_ns(start_ns: u64, service_ns: u64, stalls: &[Stall]) -> u64 {
    let mut end_ns = start_ns + service_ns;
    for stall in stalls {
        if start_ns < stall.end_ns && end_ns > stall.begin_ns {
            end_ns += stall.end_ns - stall.begin_ns.max(start_ns);
        }
    }
    end_ns
}

impl Session for SimSession {
    async fn read<R: Rows>(&mut self, op: &Op<'_>, _rows: &mut R) -> Outcome {
        self.serve(op.id, 1).await
    }
    async fn update(&mut self, op: &Op<'_>) -> Outcome {
        self.serve(op.id, 1).await
    }
    async fn insert(&mut self, op: &Op<'_>) -> Outcome {
        self.serve(op.id, 1).await
    }
    async fn scan<R: Rows>(&mut self, op: &Op<'_>, _rows: &mut R) -> Outcome {
        self.serve(op.id, op.scan_len).await
    }
    async fn delete(&mut self, op: &Op<'_>) -> Outcome {
        self.serve(op.id, 1).await
    }
    async fn read_modify_write_transaction<R: Rows>(&mut self, op: &Op<'_>, rows: &mut R) -> Outcome {
        self.read_modify_write(op, rows, || ()).await
    }
    async fn call<R: Rows>(&mut self, call: &Call<'_>, _rows: &mut R) -> Outcome {
        let outcome = self.serve(call.id, 1).await;
        if call.action == Action::Commit && self.conflicts > 0 {
            self.commits += 1;
            if self.commits.is_multiple_of(self.conflicts) {
                return Outcome::failed(Status::Conflict, Recovery::Retry, "40001", "a conflict that was asked for");
            }
        }
        outcome
    }
}

fn parse_latency(text: &str) -> Result<Latency, TargetError> {
    let wrong = || {
        TargetError::Request(format!(
            "sim.latency={text:?} is not a latency; write 0, 100us, or exponential:1ms"
        ))
    };
    let (exponential, duration) = match text.split_once(':') {
        Some(("exponential", mean)) => (true, mean),
        Some(("constant", value)) => (false, value),
        Some(_) => return Err(wrong()),
        None => (false, text),
    };
    let ns = parse_duration_ns(duration).ok_or_else(wrong)?;
    Ok(if exponential { Latency::Exponential { mean_ns: ns as f64 } } else { Latency::Constant(ns) })
}

fn parse_stalls(text: &str) -> Result<Vec<Stall>, TargetError> {
    let wrong = || {
        TargetError::Request(format!("sim.stalls={text:?} is not a list of spans; write e.g. 4s+2s"))
    };
    let mut stalls = Vec::new();
    for span in text.split(',').filter(|span| !span.is_empty()) {
        let (begin, length) = span.split_once('+').ok_or_else(wrong)?;
        let begin_ns = parse_duration_ns(begin).ok_or_else(wrong)?;
        let length_ns = parse_duration_ns(length).ok_or_else(wrong)?;
        stalls.push(Stall { begin_ns, end_ns: begin_ns + length_ns });
    }
    Ok(stalls)
}

/// `250us`, `1.5ms`, `2s`, `1m`; a bare 0 needs no unit.
fn parse_duration_ns(text: &str) -> Option<u64> {
    let text = text.trim();
    if text == "0" {
        return Some(0);
    }
    let digits = text.find(|c: char| c.is_ascii_alphabetic())?;
    let unit_ns = match &text[digits..] {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" => 60e9,
        _ => return None,
    };
    let value: f64 = text[..digits].trim().parse().ok()?;
    (value >= 0.0 && value.is_finite()).then_some((value * unit_ns) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_stands_still_during_a_stall() {
        let stalls = [Stall { begin_ns: 100, end_ns: 300 }];
        assert_eq!(answer_ns(10, 20, &stalls), 30, "done before it");
        assert_eq!(answer_ns(90, 20, &stalls), 310, "half done when it begins");
        assert_eq!(answer_ns(250, 20, &stalls), 320, "arrives during it");
        assert_eq!(answer_ns(300, 20, &stalls), 320, "arrives after it");
    }

    #[test]
    fn settings_are_understood_or_refused_by_name() {
        assert_eq!(parse_latency("1.5ms").unwrap(), Latency::Constant(1_500_000));
        assert_eq!(parse_latency("exponential:1ms").unwrap(), Latency::Exponential { mean_ns: 1e6 });
        assert_eq!(parse_stalls("4s+2s").unwrap(), [Stall { begin_ns: 4_000_000_000, end_ns: 6_000_000_000 }]);
        assert!(parse_latency("fast").unwrap_err().to_string().contains("sim.latency=\"fast\""));
        assert!(parse_stalls("4s").unwrap_err().to_string().contains("sim.stalls=\"4s\""));
    }
}
