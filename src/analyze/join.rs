//! The same operation on several databases: rows of results joined by `op_id`, in flat memory.
//!
//! Rows are nearly in the order of their ops, but not quite (an op that took a minute comes a minute
//! late), and a result says nowhere which ops a row group holds. So the numbers are read once to find
//! out, and then the ops are walked through in chunks: each chunk reads the row groups that touch it.
//! Chunks are whole windows and independent of each other, so threads share them.

use std::ops::Range;

use anyhow::Result;

use super::merge::Member;
use super::scan::{KINDS, Source, each_part};
use super::sparse::{Filling, Sparse};
use crate::op::NEVER_NS;
use crate::trace::FileError;

/// Ops that are joined at a time: 17 bytes each, per run and thread.
const CHUNK_OPS: u64 = 1 << 20;
/// Kinds, and all of them together.
pub const GROUPS: usize = KINDS + 1;
/// The place of all kinds together.
pub const ALL: usize = KINDS;
/// Response and service.
pub const SERIES: usize = 2;

/// One run, by group and window.
pub struct RunWindows {
    /// Response and service of the ops that ended OK.
    pub histograms: Vec<Vec<[Sparse; SERIES]>>,
    /// Rows.
    pub ops: [u64; GROUPS],
}

/// Ops of one window in two runs.
#[derive(Debug, Clone, Copy, Default)]
pub struct PairTally {
    /// OK in both.
    pub both: u64,
    /// OK in the first only.
    pub first_only: u64,
    /// OK in the second only.
    pub second_only: u64,
    /// OK in neither.
    pub neither: u64,
    /// By series, of those OK in both: the second took less time; both took the same.
    pub less: [u64; SERIES],
    /// See `less`.
    pub same: [u64; SERIES],
    /// By series: median of ln(second / first); none without pairs.
    pub median_ln: [Option<f64>; SERIES],
}

/// Runs, joined.
pub struct Joined {
    /// In the order given.
    pub runs: Vec<RunWindows>,
    /// For each pair of runs asked for: by group and window.
    pub pairs: Vec<Vec<Vec<PairTally>>>,
}

/// A row group and the ops in it.
struct Part<'a> {
    source: Source<'a>,
    row_group: usize,
    ids: Range<u64>,
}

/// Which ops the row groups of a run hold, and the first op at or after `from_ns`.
fn survey<'a>(member: &'a Member, from_ns: u64) -> Result<(Vec<Part<'a>>, u64), FileError> {
    let sources = member.sources();
    let row_groups: Vec<(Source, usize)> = sources
        .iter()
        .flat_map(|&source| (0..source.file.row_groups()).map(move |row_group| (source, row_group)))
        .collect();
    let found = each_part(row_groups.len(), Vec::new, |index, found: &mut Vec<(usize, u64, u64, u64)>| {
        let (source, row_group) = row_groups[index];
        let (mut low, mut high, mut first) = (u64::MAX, 0, u64::MAX);
        source.file.scan_ids(row_group, from_ns > 0, |ids, intended_ns| {
            for (row, &id) in ids.iter().enumerate() {
                (low, high) = (low.min(id as u64), high.max(id as u64 + 1));
                let late_enough = from_ns == 0 || intended_ns[row] as u64 + source.offset_ns >= from_ns;
                if late_enough {
                    first = first.min(id as u64);
                }
            }
        })?;
        found.push((index, low, high, first));
        Ok(())
    })?;
    let mut found: Vec<(usize, u64, u64, u64)> = found.into_iter().flatten().collect();
    found.sort_unstable();
    let first = found.iter().map(|(.., first)| *first).min().unwrap_or(0);
    let part = |(index, low, high, _): (usize, u64, u64, u64)| {
        let (source, row_group) = row_groups[index];
        Part { source, row_group, ids: low..high.max(low) }
    };
    Ok((found.into_iter().map(part).collect(), first))
}

/// One run's ops of a chunk, by position.
struct Chunk {
    /// 0: no row; otherwise 1 + the number of the kind.
    kinds: Vec<u8>,
    /// Response and service; [`NEVER_NS`] if it did not end OK.
    latencies: [Vec<u64>; SERIES],
}

impl Chunk {
    fn new(ops: usize) -> Chunk {
        Chunk { kinds: vec![0; ops], latencies: [vec![NEVER_NS; ops], vec![NEVER_NS; ops]] }
    }

    fn read(&mut self, parts: &[Part], ids: &Range<u64>, from_ns: u64) -> Result<(), FileError> {
        let size = (ids.end - ids.start) as usize;
        self.kinds[..size].fill(0);
        self.latencies.iter_mut().for_each(|one| one[..size].fill(NEVER_NS));
        for part in parts.iter().filter(|part| part.ids.start < ids.end && ids.start < part.ids.end) {
            part.source.file.scan(part.row_group, |rows| {
                for row in 0..rows.kinds.len() {
                    let id = rows.op_id[row] as u64;
                    let intended = rows.intended_ns[row] as u64;
                    if !ids.contains(&id) || intended + part.source.offset_ns < from_ns {
                        continue;
                    }
                    let at = (id - ids.start) as usize;
                    self.kinds[at] = 1 + rows.kinds[row] as u8;
                    let (start, end) = (rows.start_ns[row], rows.end_ns[row]);
                    if rows.statuses[row].is_success() && start != NEVER_NS && end != NEVER_NS {
                        self.latencies[0][at] = end.saturating_sub(intended);
                        self.latencies[1][at] = end.saturating_sub(start);
                    }
                }
            })?;
        }
        Ok(())
    }
}

/// What one window gives.
struct WindowOutcome {
    window: usize,
    runs: Vec<([[Sparse; SERIES]; GROUPS], [u64; GROUPS])>,
    pairs: Vec<[PairTally; GROUPS]>,
}

/// Joins runs by op over `windows` windows of equally many ops. `from_ns`: per run, ops before it are
/// left out. `pairs`: positions of the runs to compare op by op.
pub fn join(
    members: &[&Member],
    from_ns: &[u64],
    windows: usize,
    pairs: &[(usize, usize)],
) -> Result<Joined> {
    let surveys: Vec<(Vec<Part>, u64)> =
        members.iter().zip(from_ns).map(|(member, &from)| survey(member, from)).collect::<Result<_, _>>()?;
    let first = surveys.iter().map(|(_, first)| *first).max().unwrap_or(0);
    let of_run = |(parts, _): &(Vec<Part>, u64)| parts.iter().map(|part| part.ids.end).max().unwrap_or(0);
    // Up to where every run got: an interrupted one is compared as far as it went.
    let last = surveys.iter().map(of_run).min().unwrap_or(0).max(first);
    let ops = last - first;
    let windows = windows.clamp(1, ops.max(1) as usize);
    let border = |window: usize| first + (u128::from(ops) * window as u128 / windows as u128) as u64;
    let mut chunks: Vec<Range<usize>> = Vec::new();
    for window in 0..windows {
        match chunks.last_mut() {
            Some(chunk) if border(window + 1) - border(chunk.start) <= CHUNK_OPS => chunk.end = window + 1,
            _ => chunks.push(window..window + 1),
        }
    }
    let largest = chunks.iter().map(|chunk| border(chunk.end) - border(chunk.start)).max().unwrap_or(0);
    struct State {
        chunks: Vec<Chunk>,
        fillings: [[Filling; SERIES]; GROUPS],
        outcomes: Vec<WindowOutcome>,
    }
    let state = || State {
        chunks: members.iter().map(|_| Chunk::new(largest as usize)).collect(),
        fillings: std::array::from_fn(|_| Default::default()),
        outcomes: Vec::new(),
    };
    let states = each_part(chunks.len(), state, |index, state| -> Result<(), FileError> {
        let ids = border(chunks[index].start)..border(chunks[index].end);
        for ((chunk, (parts, _)), &from_ns) in state.chunks.iter_mut().zip(&surveys).zip(from_ns) {
            chunk.read(parts, &ids, from_ns)?;
        }
        for window in chunks[index].clone() {
            let range = (border(window) - ids.start) as usize..(border(window + 1) - ids.start) as usize;
            let runs = state.chunks.iter().map(|chunk| tally_run(chunk, &range, &mut state.fillings));
            let runs = runs.collect();
            let pair = |&(first, second): &(usize, usize)| {
                tally_pair(&state.chunks[first], &state.chunks[second], &range)
            };
            state.outcomes.push(WindowOutcome { window, runs, pairs: pairs.iter().map(pair).collect() });
        }
        Ok(())
    })?;
    let mut outcomes: Vec<WindowOutcome> = states.into_iter().flat_map(|state| state.outcomes).collect();
    outcomes.sort_by_key(|outcome| outcome.window);
    let empty = || RunWindows { histograms: vec![Vec::new(); GROUPS], ops: [0; GROUPS] };
    let mut joined = Joined {
        runs: members.iter().map(|_| empty()).collect(),
        pairs: vec![vec![Vec::new(); GROUPS]; pairs.len()],
    };
    for outcome in outcomes {
        for (run, (histograms, ops)) in joined.runs.iter_mut().zip(outcome.runs) {
            for (group, histograms) in histograms.into_iter().enumerate() {
                run.histograms[group].push(histograms);
                run.ops[group] += ops[group];
            }
        }
        for (pair, tallies) in joined.pairs.iter_mut().zip(outcome.pairs) {
            pair.iter_mut().zip(tallies).for_each(|(group, tally)| group.push(tally));
        }
    }
    Ok(joined)
}

fn tally_run(
    chunk: &Chunk,
    range: &Range<usize>,
    fillings: &mut [[Filling; SERIES]; GROUPS],
) -> ([[Sparse; SERIES]; GROUPS], [u64; GROUPS]) {
    let mut ops = [0; GROUPS];
    for at in range.clone() {
        let Some(kind) = chunk.kinds[at].checked_sub(1) else { continue };
        ops[usize::from(kind)] += 1;
        for (series, latencies) in chunk.latencies.iter().enumerate() {
            if latencies[at] != NEVER_NS {
                fillings[usize::from(kind)][series].record(latencies[at]);
            }
        }
    }
    let mut histograms: [[Sparse; SERIES]; GROUPS] =
        std::array::from_fn(|group| std::array::from_fn(|series| fillings[group][series].take()));
    let (kinds, all) = histograms.split_at_mut(ALL);
    for of_kind in kinds {
        all[0].iter_mut().zip(of_kind).for_each(|(all, of_kind)| all.merge(of_kind));
    }
    ops[ALL] = ops[..ALL].iter().sum();
    (histograms, ops)
}

fn tally_pair(first: &Chunk, second: &Chunk, range: &Range<usize>) -> [PairTally; GROUPS] {
    let mut tallies = [PairTally::default(); GROUPS];
    let mut differences: [[Vec<f64>; SERIES]; GROUPS] = std::array::from_fn(|_| Default::default());
    for at in range.clone() {
        let kind = first.kinds[at];
        if kind == 0 || second.kinds[at] != kind {
            continue;
        }
        let ok = [first, second].map(|chunk| chunk.latencies[0][at] != NEVER_NS);
        for group in [usize::from(kind - 1), ALL] {
            let tally = &mut tallies[group];
            match ok {
                [true, true] => tally.both += 1,
                [true, false] => tally.first_only += 1,
                [false, true] => tally.second_only += 1,
                [false, false] => tally.neither += 1,
            }
            if ok != [true, true] {
                continue;
            }
            for (series, differences) in differences[group].iter_mut().enumerate() {
                let (a, b) = (first.latencies[series][at], second.latencies[series][at]);
                tally.less[series] += u64::from(b < a);
                tally.same[series] += u64::from(a == b);
                differences.push((b.max(1) as f64).ln() - (a.max(1) as f64).ln());
            }
        }
    }
    for (tally, differences) in tallies.iter_mut().zip(&mut differences) {
        for (median, differences) in tally.median_ln.iter_mut().zip(differences) {
            let middle = differences.len() / 2;
            *median = (!differences.is_empty())
                .then(|| *differences.select_nth_unstable_by(middle, f64::total_cmp).1);
        }
    }
    tallies
}
