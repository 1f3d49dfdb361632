//! Results of statement traces, by transaction and by statement: how long transactions took, and which
//! statement of them (or their COMMIT) took the time.
//!
//! The latency of a transaction = end of its last row − intended start of its first one, so it holds the
//! tries that the database refused. Only transactions whose every statement ended OK have one.

use std::path::PathBuf;

use anyhow::{Result, bail};
use serde::Serialize;

use crate::op::{NEVER_NS, OpKind, Status};
use crate::trace::meta::{Phase, TransactionsMeta};
use crate::trace::runs::RunFile;

/// Latencies in nanoseconds, exact: percentiles are the smallest value that this share does not exceed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Latency {
    /// How many.
    pub count: u64,
    /// All of them together.
    pub sum_ns: u64,
    /// The shortest.
    pub min_ns: u64,
    /// The mean.
    pub mean_ns: f64,
    /// The median.
    pub p50_ns: u64,
    /// 19 of 20 are not longer.
    pub p95_ns: u64,
    /// 99 of 100 are not longer.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

impl Latency {
    fn of(mut values: Vec<u64>) -> Option<Latency> {
        values.sort_unstable();
        let (&min_ns, &max_ns) = (values.first()?, values.last()?);
        let count = values.len();
        let at = |percent: usize| values[(count * percent).div_ceil(100).max(1) - 1];
        let sum: u128 = values.iter().map(|&value| u128::from(value)).sum();
        Some(Latency {
            count: count as u64,
            sum_ns: sum as u64,
            min_ns,
            mean_ns: sum as f64 / count as f64,
            p50_ns: at(50),
            p95_ns: at(95),
            p99_ns: at(99),
            max_ns,
        })
    }
}

/// What a statement does, by its first word, as sysbench counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// SELECT.
    Read,
    /// INSERT, UPDATE, DELETE and the like.
    Write,
    /// BEGIN, COMMIT.
    Other,
}

/// One statement of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StatementReport {
    /// Its name.
    pub name: String,
    /// What it does.
    pub class: Class,
    /// Rows in the result.
    pub ops: u64,
    /// Of these, OK.
    pub ok: u64,
    /// Of these, sent to the database.
    pub sent: u64,
    /// Share of the time of all statements, 0 to 1.
    pub share: f64,
    /// end − start of those that ended OK.
    pub service: Option<Latency>,
}

/// One result of a statement trace.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TransactionReport {
    /// The file.
    pub path: String,
    /// Name of the workload.
    pub test: String,
    /// Load or run.
    pub phase: Phase,
    /// The database.
    pub db: String,
    /// Its version.
    pub version: String,
    /// Connections.
    pub sessions: u32,
    /// From the start to the last answer.
    pub elapsed_ns: u64,
    /// Every row of the trace is there.
    pub complete: bool,
    /// How transactions ended.
    pub transactions: TransactionsMeta,
    /// Transactions that ended OK, a second.
    pub per_second: f64,
    /// Of the transactions that ended OK.
    pub latency: Option<Latency>,
    /// By statement, in the order of the trace.
    pub statements: Vec<StatementReport>,
    /// Statements that ended because the connection broke or did not answer.
    pub lost: u64,
    /// Transactions that ended OK, of each session that has any.
    pub by_session: Vec<u64>,
    /// Time of these, ns.
    pub busy_by_session_ns: Vec<u64>,
}

/// What is known of a transaction while its rows come.
#[derive(Debug, Clone, Copy)]
struct Seen {
    txn: u64,
    session: i32,
    intended_ns: u64,
    end_ns: u64,
    ok: bool,
}

/// Analyses results of statement traces: files, or folders of them. Others are left out of a folder and
/// refused as files.
pub fn analyze(paths: &[PathBuf]) -> Result<Vec<TransactionReport>> {
    let mut reports = Vec::new();
    for path in paths {
        if !path.is_dir() {
            let file = RunFile::open(path)?;
            if file.meta.transactions.is_none() {
                bail!("{} has no transactions: it is a result of single operations", path.display());
            }
            reports.push(report(&file)?);
            continue;
        }
        let mut files: Vec<PathBuf> = std::fs::read_dir(path)?.flatten().map(|entry| entry.path()).collect();
        files.retain(|file| file.extension().is_some_and(|extension| extension == "parquet"));
        files.sort();
        for file in files {
            let Ok(file) = RunFile::open(&file) else { continue };
            if file.meta.transactions.is_some() {
                reports.push(report(&file)?);
            }
        }
    }
    if reports.is_empty() {
        bail!(
            "there is no result of a statement trace; make one, for instance `ycsb-trace gen oltp_read_write`, then replay it"
        );
    }
    Ok(reports)
}

fn report(file: &RunFile) -> Result<TransactionReport> {
    let meta = &file.meta;
    let mut seen: Vec<Seen> = Vec::new();
    let mut service: Vec<Vec<u64>> = vec![Vec::new(); OpKind::ALL.len()];
    let mut counts = vec![(0u64, 0u64, 0u64); OpKind::ALL.len()];
    let mut lost = 0;
    for group in 0..file.row_groups() {
        file.scan_transactions(group, |block| {
            let columns = &block.columns;
            for row in 0..block.txn.len() {
                let (kind, status) = (columns.kinds[row], columns.statuses[row]);
                let (start_ns, end_ns) = (columns.start_ns[row], columns.end_ns[row]);
                let ok = status == Status::Ok;
                let count = &mut counts[kind as usize];
                *count = (count.0 + 1, count.1 + u64::from(ok), count.2 + u64::from(start_ns != NEVER_NS));
                lost += u64::from(matches!(status, Status::Unavailable | Status::Timeout));
                if ok {
                    service[kind as usize].push(end_ns - start_ns);
                }
                let intended_ns = columns.intended_ns[row] as u64;
                match seen.last_mut().filter(|last| last.txn == block.txn[row]) {
                    Some(last) => last.add(intended_ns, end_ns, ok),
                    None => {
                        let (txn, session) = (block.txn[row], block.sessions[row]);
                        seen.push(Seen { txn, session, intended_ns, end_ns, ok });
                    }
                }
            }
        })?;
    }
    // The rows of a transaction are together, but for those that a full buffer parted.
    seen.sort_by_key(|seen| seen.txn);
    seen.dedup_by(|later, first| {
        let same = later.txn == first.txn;
        if same {
            first.add(later.intended_ns, later.end_ns, later.ok);
        }
        same
    });
    let ok: Vec<&Seen> = seen.iter().filter(|seen| seen.ok).collect();
    let mut by_session = vec![(0u64, 0u64); meta.sessions as usize];
    for seen in &ok {
        if let Some(session) = by_session.get_mut(seen.session as usize) {
            *session = (session.0 + 1, session.1 + seen.end_ns.saturating_sub(seen.intended_ns));
        }
    }
    by_session.retain(|session| session.0 > 0);
    let latency = Latency::of(ok.iter().map(|seen| seen.end_ns.saturating_sub(seen.intended_ns)).collect());
    let total_ns: u128 = service.iter().flatten().map(|&ns| u128::from(ns)).sum();
    let mut kinds: Vec<OpKind> = vec![OpKind::Begin];
    kinds.extend(meta.statements.iter().filter_map(|name| OpKind::from_name(name)));
    kinds.extend([OpKind::Commit, OpKind::Rollback]);
    let statements = kinds
        .into_iter()
        .filter(|&kind| counts[kind as usize].0 > 0)
        .map(|kind| {
            let values = std::mem::take(&mut service[kind as usize]);
            let sum: u128 = values.iter().map(|&ns| u128::from(ns)).sum();
            let (ops, ok, sent) = counts[kind as usize];
            StatementReport {
                name: kind.name().to_owned(),
                class: class(kind, meta.server.statements.get(kind.name()).map(String::as_str)),
                ops,
                ok,
                sent,
                share: if total_ns == 0 { 0.0 } else { sum as f64 / total_ns as f64 },
                service: Latency::of(values),
            }
        })
        .collect();
    let suffix = format!(".{}", meta.phase.name());
    Ok(TransactionReport {
        path: file.path().display().to_string(),
        test: meta.trace.strip_suffix(&suffix).unwrap_or(&meta.trace).to_owned(),
        phase: meta.phase,
        db: meta.db.clone(),
        version: meta.server.version.clone(),
        sessions: meta.sessions,
        elapsed_ns: meta.elapsed_ns,
        complete: meta.complete,
        transactions: meta.transactions.unwrap_or_default(),
        per_second: ok.len() as f64 * 1e9 / meta.elapsed_ns.max(1) as f64,
        latency,
        statements,
        lost,
        by_session: by_session.iter().map(|session| session.0).collect(),
        busy_by_session_ns: by_session.iter().map(|session| session.1).collect(),
    })
}

impl Seen {
    fn add(&mut self, intended_ns: u64, end_ns: u64, ok: bool) {
        self.intended_ns = self.intended_ns.min(intended_ns);
        self.ok &= ok;
        // What never ended leaves the transaction without an end; it is not OK either.
        self.end_ns = if end_ns == NEVER_NS { self.end_ns } else { self.end_ns.max(end_ns) };
    }
}

fn class(kind: OpKind, text: Option<&str>) -> Class {
    let first = text.unwrap_or_default().split_whitespace().next().unwrap_or_default().to_ascii_uppercase();
    match first.as_str() {
        "SELECT" | "WITH" | "VALUES" | "TABLE" => Class::Read,
        "" if kind == OpKind::Insert => Class::Write,
        "" | "BEGIN" | "COMMIT" | "ROLLBACK" => Class::Other,
        _ => Class::Write,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_occurred() {
        let latency = Latency::of((1..=20).rev().collect()).unwrap();
        let seen = (latency.min_ns, latency.p50_ns, latency.p95_ns, latency.p99_ns, latency.max_ns);
        assert_eq!(seen, (1, 10, 19, 20, 20));
        assert_eq!((latency.sum_ns, latency.mean_ns), (210, 10.5));
        assert_eq!(Latency::of(Vec::new()), None);
        assert_eq!(Latency::of(vec![7]).unwrap().p95_ns, 7);
    }

    #[test]
    fn statements_are_classed_as_sysbench_counts_them() {
        let of = |text| class(OpKind::Commit, Some(text));
        assert_eq!(of("SELECT SUM(k) FROM t"), Class::Read);
        assert_eq!(of("delete from t"), Class::Write);
        assert_eq!(class(OpKind::Commit, None), Class::Other);
    }
}
