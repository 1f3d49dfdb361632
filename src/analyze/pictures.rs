//! What the charts of the HTML report show: each run cut into at most [`MOST_CELLS`] stretches of time,
//! and each distribution into a few hundred points. The size does not depend on how long a run was or how
//! many ops it had, and nothing is averaged: a percentile of a stretch is that of all its ops.
//!
//! It is a scan of its own, so that no other report pays for it.

use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::Serialize;

use super::quantile::Histogram;
use super::report::{Report, RunReport};
use super::scan::each_row_group;
use crate::op::{NEVER_NS, OpKind};
use crate::trace::meta::PACE_UNKNOWN;
use crate::trace::runs::{RunFile, RunTimes};

/// The name of all kinds together.
const ALL: &str = "ALL";
/// Stretches of time in a chart: one every few pixels.
const MOST_CELLS: u64 = 200;
/// Stretches of all runs of a report together, so that a report of many runs stays small, too.
const ALL_CELLS: u64 = 3_000;
/// Each power of two is cut into 64 buckets: latencies of a stretch are known to 1.6 %.
const SUB_BITS: u32 = 6;
const BUCKETS: usize = (64 - SUB_BITS as usize + 1) << SUB_BITS;
/// Buckets that make one row of the heat map: eight rows for each power of two.
const HEAT_BITS: u32 = SUB_BITS - 3;

/// The pictures of a report, one for each of its runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pictures {
    /// In the order of [`Report::runs`]; none for a run without rows.
    pub runs: Vec<Option<Picture>>,
}

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Picture {
    /// Length of a stretch, ns.
    pub cell_ns: u64,
    /// How many.
    pub cells: usize,
    /// Per kind that occurs, and all together first.
    pub kinds: Vec<KindPicture>,
    /// Response of all kinds over time.
    pub heat: Heat,
}

/// One kind of op, by stretch.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KindPicture {
    /// Its name, or `ALL`.
    pub op: String,
    /// Ops due in it.
    pub due: Vec<u64>,
    /// Of these, not OK in the end.
    pub failed: Vec<u64>,
    /// Ops that ended in it, OK.
    pub done: Vec<u64>,
    /// Ops that were due and had not started when it ended.
    pub waiting: Vec<u64>,
    /// Ops in the database when it ended (those that were never answered are left out).
    pub in_flight: Vec<u64>,
    /// Of the ops due in it that ended OK.
    pub response: Bands,
    /// The same.
    pub service: Bands,
    /// Of the run.
    pub curve: Curve,
}

/// Percentiles per stretch, ns; none without ops.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bands {
    /// Median.
    pub p50: Vec<Option<u64>>,
    /// 90th percentile.
    pub p90: Vec<Option<u64>>,
    /// 99th percentile.
    pub p99: Vec<Option<u64>>,
    /// The longest, exactly.
    pub max: Vec<Option<u64>>,
}

/// The distributions of a run, by percentile.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Curve {
    /// Percentages: 0 to 99 by one, then each further nine in ten steps, then 100.
    pub percent: Vec<f64>,
    /// Response at each, ns, to 1/2048.
    pub response: Vec<u64>,
    /// Service time at each.
    pub service: Vec<u64>,
}

/// How many ops took how long, when.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Heat {
    /// The shortest response of each row, ns, ascending, and the end of the last one.
    pub edges: Vec<u64>,
    /// Per stretch, from its first occupied row on: that row, then the counts.
    pub columns: Vec<Vec<u64>>,
}

#[inline]
fn bucket(value: u64) -> usize {
    let shift = 63 - (value | (1 << SUB_BITS)).leading_zeros() - SUB_BITS;
    ((shift as usize) << SUB_BITS) + (value >> shift) as usize
}

/// The smallest value of a bucket.
fn low(bucket: usize) -> u64 {
    let shift = ((bucket >> SUB_BITS) as u32).saturating_sub(1);
    ((bucket - ((shift as usize) << SUB_BITS)) as u64) << shift
}

/// Counts of one kind while scanning.
struct Tally {
    due: Vec<u64>,
    failed: Vec<u64>,
    done: Vec<u64>,
    /// Changes of the number of ops waiting and in flight.
    waiting: Vec<i64>,
    in_flight: Vec<i64>,
    /// By stretch and bucket. Allocated zeroed, so that pages nobody touches cost nothing.
    response: Vec<u32>,
    service: Vec<u32>,
    response_max: Vec<u64>,
    service_max: Vec<u64>,
    whole: [Histogram; 2],
}

impl Tally {
    fn new(cells: usize) -> Tally {
        Tally {
            due: vec![0; cells],
            failed: vec![0; cells],
            done: vec![0; cells],
            waiting: vec![0; cells],
            in_flight: vec![0; cells],
            response: vec![0; cells * BUCKETS],
            service: vec![0; cells * BUCKETS],
            response_max: vec![0; cells],
            service_max: vec![0; cells],
            whole: [Histogram::default(), Histogram::default()],
        }
    }

    fn merge(&mut self, other: &Tally) {
        fn add<T: Copy + std::ops::AddAssign>(to: &mut [T], from: &[T]) {
            to.iter_mut().zip(from).for_each(|(to, from)| *to += *from);
        }
        fn raise(to: &mut [u64], from: &[u64]) {
            to.iter_mut().zip(from).for_each(|(to, from)| *to = (*to).max(*from));
        }
        add(&mut self.due, &other.due);
        add(&mut self.failed, &other.failed);
        add(&mut self.done, &other.done);
        add(&mut self.waiting, &other.waiting);
        add(&mut self.in_flight, &other.in_flight);
        add(&mut self.response, &other.response);
        add(&mut self.service, &other.service);
        raise(&mut self.response_max, &other.response_max);
        raise(&mut self.service_max, &other.service_max);
        self.whole.iter_mut().zip(&other.whole).for_each(|(to, from)| to.merge(from));
    }
}

/// How a run is cut.
#[derive(Clone, Copy)]
struct Grid {
    cell_ns: u64,
    cells: usize,
    /// Added to every time: the start of this file after that of the run.
    offset_ns: u64,
    /// Ops due before it are not part of the distributions.
    cut_ns: u64,
}

impl Grid {
    #[inline]
    fn cell(&self, at_ns: u64) -> usize {
        (((at_ns + self.offset_ns) / self.cell_ns) as usize).min(self.cells - 1)
    }
}

/// One per kind that occurs.
type Tallies = Vec<Option<Box<Tally>>>;

fn none() -> Tallies {
    OpKind::ALL.iter().map(|_| None).collect()
}

fn add(rows: &RunTimes, grid: Grid, tallies: &mut [Option<Box<Tally>>]) {
    for row in 0..rows.kinds.len() {
        let (intended, start, end) = (rows.intended_ns[row] as u64, rows.start_ns[row], rows.end_ns[row]);
        let tally = tallies[rows.kinds[row] as usize].get_or_insert_with(|| Box::new(Tally::new(grid.cells)));
        let due = grid.cell(intended);
        tally.due[due] += 1;
        if start != NEVER_NS {
            tally.waiting[due] += 1;
            tally.waiting[grid.cell(start)] -= 1;
        }
        if start != NEVER_NS && end != NEVER_NS {
            tally.in_flight[grid.cell(start)] += 1;
            tally.in_flight[grid.cell(end)] -= 1;
        }
        if !rows.statuses[row].is_success() || end == NEVER_NS {
            tally.failed[due] += 1;
            continue;
        }
        tally.done[grid.cell(end)] += 1;
        let latencies = [end.saturating_sub(intended), end.saturating_sub(start)];
        tally.response[due * BUCKETS + bucket(latencies[0])] += 1;
        tally.service[due * BUCKETS + bucket(latencies[1])] += 1;
        tally.response_max[due] = tally.response_max[due].max(latencies[0]);
        tally.service_max[due] = tally.service_max[due].max(latencies[1]);
        if intended + grid.offset_ns >= grid.cut_ns {
            tally.whole.iter_mut().zip(latencies).for_each(|(whole, latency)| whole.record(latency));
        }
    }
}

/// 1, 2 or 5 times a power of ten, so that the stretches of a chart have a length that can be said.
fn round_up(ns: u64) -> u64 {
    let mut step = 1;
    loop {
        for factor in [1, 2, 5] {
            if step * factor >= ns {
                return step * factor;
            }
        }
        step *= 10;
    }
}

/// Looks at the rows of every run once more.
pub fn pictures(report: &Report) -> Result<Pictures> {
    let cells = (ALL_CELLS / report.runs.len().max(1) as u64).clamp(20, MOST_CELLS);
    Ok(Pictures { runs: report.runs.iter().map(|run| picture(run, cells)).collect::<Result<_>>()? })
}

fn picture(run: &RunReport, most_cells: u64) -> Result<Option<Picture>> {
    // A report made of footers has no rows to look at.
    if run.rows == 0 || run.histogram_error.is_some() {
        return Ok(None);
    }
    let parts: Vec<(PathBuf, u64)> = if run.parts.is_empty() {
        vec![(PathBuf::from(&run.file), 0)]
    } else {
        run.parts.iter().map(|part| (PathBuf::from(&part.file), part.offset_ns)).collect()
    };
    let end_ns = run.last_end_ns.unwrap_or(0).max(run.elapsed_ns) + 1;
    let cell_ns = round_up(end_ns.div_ceil(most_cells));
    let cells = end_ns.div_ceil(cell_ns) as usize;
    let cut_ns = run.warmup.as_ref().map_or(0, |warmup| warmup.cut_ns);
    let mut tallies = none();
    for (path, offset_ns) in parts {
        scan(&path, Grid { cell_ns, cells, offset_ns, cut_ns }, &mut tallies)?;
    }
    let mut all = Tally::new(cells);
    tallies.iter().flatten().for_each(|one| all.merge(one));
    let of_kinds = OpKind::ALL.iter().zip(&tallies).filter_map(|(kind, tally)| Some((kind, tally.as_ref()?)));
    let mut kinds = vec![kind_picture(ALL, &all, run)];
    kinds.extend(of_kinds.map(|(kind, tally)| kind_picture(kind.name(), tally, run)));
    Ok(Some(Picture { cell_ns, cells, kinds, heat: heat(&all.response, cells) }))
}

fn scan(path: &Path, grid: Grid, tallies: &mut [Option<Box<Tally>>]) -> Result<()> {
    let file = RunFile::open(path)?;
    let parts: Vec<Tallies> = each_row_group(&file, none, |row_group, tallies| {
        file.scan_times(row_group, false, false, |rows| add(rows, grid, tallies))
    })?;
    for part in parts {
        for (to, from) in tallies.iter_mut().zip(part) {
            match (to, from) {
                (Some(to), Some(from)) => to.merge(&from),
                (to @ None, from) => *to = from,
                (_, None) => {}
            }
        }
    }
    Ok(())
}

fn kind_picture(op: &str, tally: &Tally, run: &RunReport) -> KindPicture {
    let running = |changes: &[i64]| {
        let mut level = 0i64;
        let add = |change: &i64| {
            level += change;
            level.max(0) as u64
        };
        changes.iter().map(add).collect()
    };
    let mut service = bands(&tally.service, &tally.service_max);
    if run.pace == "unpaced" || run.pace == PACE_UNKNOWN {
        // The same as the response: once is enough.
        service = bands(&[], &[]);
    }
    KindPicture {
        op: op.to_owned(),
        due: tally.due.clone(),
        failed: tally.failed.clone(),
        done: tally.done.clone(),
        waiting: running(&tally.waiting),
        in_flight: running(&tally.in_flight),
        response: bands(&tally.response, &tally.response_max),
        service,
        curve: curve(&tally.whole),
    }
}

fn bands(counts: &[u32], max: &[u64]) -> Bands {
    let mut found = Bands { p50: Vec::new(), p90: Vec::new(), p99: Vec::new(), max: Vec::new() };
    for (cell, &max) in counts.chunks(BUCKETS).zip(max) {
        let count: u64 = cell.iter().map(|&count| u64::from(count)).sum();
        found.max.push((count > 0).then_some(max));
        let ranks = [50, 90, 99].map(|percent| (count * percent).div_ceil(100));
        let mut values = [None; 3];
        let (mut below, mut next) = (0, 0);
        for (index, &here) in cell.iter().enumerate() {
            below += u64::from(here);
            while next < 3 && below >= ranks[next] && count > 0 {
                // The middle of the bucket, and never more than the longest.
                values[next] = Some(low(index).midpoint(low(index + 1).saturating_sub(1)).min(max));
                next += 1;
            }
            if below == count {
                break;
            }
        }
        let [p50, p90, p99] = values;
        found.p50.push(p50);
        found.p90.push(p90);
        found.p99.push(p99);
    }
    found
}

/// Shares in units of 10^-9, ascending: whole percents, then ten steps for every further nine as long as
/// it takes to come to the last op.
fn shares(count: u64) -> Vec<u64> {
    const WHOLE: u64 = 1_000_000_000;
    let mut shares: Vec<u64> = (0..100).map(|percent| percent * (WHOLE / 100)).collect();
    let mut rest = WHOLE / 100;
    while rest >= 10 && u128::from(count) * u128::from(rest) > u128::from(WHOLE) {
        shares.extend((1..10).map(|step| WHOLE - rest + step * (rest / 10)));
        rest /= 10;
    }
    shares.push(WHOLE);
    shares
}

fn curve(whole: &[Histogram; 2]) -> Curve {
    let count = whole[0].count();
    if count == 0 {
        return Curve { percent: Vec::new(), response: Vec::new(), service: Vec::new() };
    }
    let shares = shares(count);
    let ranks: Vec<u64> = shares
        .iter()
        .map(|&share| ((u128::from(count) * u128::from(share)).div_ceil(1_000_000_000) as u64).max(1))
        .collect();
    let percent = shares.iter().map(|&share| share as f64 / 1e7).collect();
    let [response, service] = [0, 1].map(|series| whole[series].near_ranks(&ranks));
    Curve { percent, response, service }
}

fn heat(counts: &[u32], cells: usize) -> Heat {
    let rows = BUCKETS >> HEAT_BITS;
    let mut table = vec![0u64; cells * rows];
    for (cell, counts) in counts.chunks(BUCKETS).enumerate() {
        for (index, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            table[cell * rows + (index >> HEAT_BITS)] += u64::from(count);
        }
    }
    let used = |row: usize| (0..cells).any(|cell| table[cell * rows + row] > 0);
    let Some(first) = (0..rows).find(|&row| used(row)) else {
        return Heat { edges: Vec::new(), columns: Vec::new() };
    };
    let last = (first..rows).rev().find(|&row| used(row)).unwrap_or(first);
    let columns = (0..cells).map(|cell| {
        let column = &table[cell * rows + first..=cell * rows + last];
        let Some(from) = column.iter().position(|&count| count > 0) else { return Vec::new() };
        let to = column.iter().rposition(|&count| count > 0).unwrap_or(from);
        std::iter::once(from as u64).chain(column[from..=to].iter().copied()).collect()
    });
    Heat { edges: (first..=last + 1).map(|row| low(row << HEAT_BITS)).collect(), columns: columns.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_narrow_and_in_order() {
        let mut last = 0;
        for value in (0..5000).chain((13..63).flat_map(|bit| [(1u64 << bit) - 1, 1 << bit, 3 << (bit - 1)])) {
            let index = bucket(value);
            assert!(index < BUCKETS && low(index) <= value, "{value}");
            assert!(
                low(index + 1) > value && (low(index + 1) - low(index)) <= (value / 64).max(1),
                "{value}"
            );
            assert!(value < 5000 || index >= last);
            last = index;
        }
    }

    #[test]
    fn stretches_have_round_lengths_and_points_go_as_far_as_the_ops() {
        assert_eq!([0, 1, 3, 21, 600_000_001].map(round_up), [1, 1, 5, 50, 1_000_000_000]);
        assert_eq!(shares(50).len(), 101);
        let percent = |count| shares(count).iter().rev().nth(1).map(|&share| share as f64 / 1e7);
        assert_eq!(percent(1_000), Some(99.9));
        assert_eq!(percent(1_000_000), Some(99.9999));
        assert!(shares(u64::MAX).len() < 200);
    }
}
