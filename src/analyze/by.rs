//! The ops of a run by something else than their kind: which session, key or size was slow?
//!
//! Two more scans, like those of the run itself: percentiles are exact, memory is a few histograms per
//! group, so there are never more than [`MOST_GROUPS`] groups. Where the trace decides, there is a byte for
//! each of its ops besides, and, to find the most frequent keys, a bounded number of counters.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use xxhash_rust::xxh3::xxh3_64;

use super::merge::Member;
use super::quantile::{Histogram, Percentile, Request, Selector};
use super::report::{Groups, Named, OpReport, Quantile, RunReport, Series, Summary};
use super::scan::{STATUSES, Source, each_part};
use crate::op::{NEVER_NS, Status};
use crate::trace::FileError;
use crate::trace::ops::TraceReader;

/// The most groups there can be.
const MOST_GROUPS: u64 = 64;
/// Keys that get a group of their own.
const HOT_KEYS: usize = 20;
/// Keys that are counted at once, to find those: of a trace with no more different keys every one.
const COUNTED_KEYS: usize = 1 << 16;

/// The most frequent of many numbers, by the counters of Misra and Gries (1982), taken down together:
/// twice as many as are kept, then all are lowered by the first one that is not kept, and those at 0
/// go. That takes its value from at least `kept` + 1 counters at once, so a number is missed by no more than
/// a share 1/`kept` of all, and what is more frequent is still there.
struct Frequent {
    kept: usize,
    counts: HashMap<u64, u64>,
    /// By how much any count may be too low.
    missed: u64,
}

impl Frequent {
    fn new(kept: usize) -> Frequent {
        Frequent { kept, counts: HashMap::new(), missed: 0 }
    }

    fn add(&mut self, number: u64) {
        *self.counts.entry(number).or_default() += 1;
        if self.counts.len() > 2 * self.kept {
            let mut counts: Vec<u64> = self.counts.values().copied().collect();
            let (_, lowered, _) = counts.select_nth_unstable_by(self.kept, |one, other| other.cmp(one));
            let lowered = *lowered;
            self.missed += lowered;
            self.counts.retain(|_, count| {
                *count = count.saturating_sub(lowered);
                *count > 0
            });
        }
    }

    /// What is left, and by how much a count may be too low: a number that occurs more often is there.
    fn finish(self) -> (HashMap<u64, u64>, u64) {
        (self.counts, self.missed)
    }
}

/// What ops are grouped by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum By {
    /// Kind.
    Op,
    /// Connection.
    Session,
    /// How it ended, and the database's code.
    Code,
    /// Key, of this trace.
    Key(PathBuf),
    /// Bytes written, of this trace.
    Size(PathBuf),
}

impl By {
    /// Names on the command line.
    pub const NAMES: [&'static str; 5] = ["op", "key", "size", "session", "code"];

    /// From the command line.
    pub fn new(name: &str, trace: Option<&Path>) -> Result<By> {
        let trace = || {
            trace.map(Path::to_owned).ok_or_else(|| {
                anyhow!("--by {name} needs the trace that was replayed: a result holds no {name}s; add --trace FILE")
            })
        };
        Ok(match name {
            "op" => By::Op,
            "session" => By::Session,
            "code" => By::Code,
            "key" => By::Key(trace()?),
            "size" => By::Size(trace()?),
            other => bail!("nothing can be grouped by {other:?}"),
        })
    }

    fn name(&self) -> &'static str {
        match self {
            By::Op => "op",
            By::Session => "session",
            By::Code => "code",
            By::Key(_) => "key",
            By::Size(_) => "size",
        }
    }

    fn about(&self) -> &'static str {
        match self {
            By::Op => "kind of op",
            By::Session => "connection, or a range of them",
            By::Code => "how the op ended, and the database's code",
            By::Key(_) => "the most frequent keys of the trace, most frequent first, and the others together",
            By::Size(_) => "bytes written by an op, all fields together, by powers of two",
        }
    }
}

/// What tells groups apart; they are shown in this order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Key {
    Number(u64),
    Ending(Status, String),
}

/// Groups of the ops of a trace, by op number.
struct Plan {
    names: Vec<String>,
    group: Vec<u8>,
    first: u64,
    /// Of the keys, those that others may equal in frequency that have no group.
    uncertain: usize,
}

/// Numbers of one group.
#[derive(Default)]
struct Tally {
    statuses: [u64; STATUSES],
    /// Response, service, lag of OK ops, lag of the others.
    histograms: [Histogram; 4],
}

impl Tally {
    fn add(&mut self, status: Status, intended: u64, start: u64, end: u64) {
        self.statuses[status as usize] += 1;
        each_value(status, intended, start, end, |series, value| self.histograms[series].record(value));
    }

    fn merge(&mut self, other: &Tally) {
        self.statuses.iter_mut().zip(&other.statuses).for_each(|(one, other)| *one += other);
        self.histograms.iter_mut().zip(&other.histograms).for_each(|(one, other)| one.merge(other));
    }
}

fn each_value(status: Status, intended: u64, start: u64, end: u64, mut each: impl FnMut(usize, u64)) {
    let started = start != NEVER_NS;
    if status.is_success() && started && end != NEVER_NS {
        each(0, end.saturating_sub(intended));
        each(1, end.saturating_sub(start));
        each(2, start.saturating_sub(intended));
    } else if !status.is_success() && started {
        each(3, start.saturating_sub(intended));
    }
}

/// Groups the ops of a run.
pub fn groups(member: &Member, run: &RunReport, by: &By, percentiles: &[Percentile]) -> Result<Groups> {
    let named = |groups, about| Groups { by: by.name().to_owned(), about, groups };
    if *by == By::Op {
        let with_rows = run.ops.0.iter().filter_map(|(name, op)| Some((name, op.as_ref()?)));
        let kinds =
            with_rows.map(|(name, op)| (name.clone(), OpReport { windows: Vec::new(), ..op.clone() }));
        return Ok(named(Named(kinds.collect()), by.about().to_owned()));
    }
    let plan = match by {
        By::Key(trace) | By::Size(trace) => Some(plan(by, trace, run)?),
        _ => None,
    };
    let from_ns = run.warmup.as_ref().map_or(0, |warmup| warmup.cut_ns);
    let sessions_per_group = u64::from(run.sessions).div_ceil(MOST_GROUPS).max(1);
    let sources = member.sources();
    let row_groups: Vec<(Source, usize)> = sources
        .iter()
        .flat_map(|&source| (0..source.file.row_groups()).map(move |row_group| (source, row_group)))
        .collect();
    let scan = |part: usize, each: &mut dyn FnMut(&Key, Status, u64, u64, u64)| -> Result<(), FileError> {
        let (source, row_group) = row_groups[part];
        let from_ns = from_ns.saturating_sub(source.offset_ns);
        if let Some(plan) = &plan {
            return source.file.scan(row_group, |rows| {
                for row in 0..rows.kinds.len() {
                    let at = (rows.op_id[row] as u64).wrapping_sub(plan.first) as usize;
                    let key = Key::Number(plan.group.get(at).map_or(u64::MAX, |group| u64::from(*group)));
                    let intended = rows.intended_ns[row] as u64;
                    if intended >= from_ns {
                        each(&key, rows.statuses[row], intended, rows.start_ns[row], rows.end_ns[row]);
                    }
                }
            });
        }
        source.file.scan_times(row_group, *by == By::Code, *by == By::Session, |rows| {
            for row in 0..rows.kinds.len() {
                let status = rows.statuses[row];
                let key = match by {
                    By::Session => Key::Number(rows.sessions[row] as u32 as u64 / sessions_per_group),
                    _ => Key::Ending(status, rows.code(row).to_owned()),
                };
                let intended = rows.intended_ns[row] as u64;
                if intended >= from_ns {
                    each(&key, status, intended, rows.start_ns[row], rows.end_ns[row]);
                }
            }
        })
    };
    let parts = each_part(row_groups.len(), HashMap::<Key, Tally>::new, |part, tallies| {
        scan(part, &mut |key, status, intended, start, end| {
            let tally = match tallies.get_mut(key) {
                Some(tally) => tally,
                None => tallies.entry(key.clone()).or_default(),
            };
            tally.add(status, intended, start, end);
        })
    })?;
    let mut tallies: BTreeMap<Key, Tally> = BTreeMap::new();
    for (key, tally) in parts.into_iter().flatten() {
        tallies.entry(key).or_default().merge(&tally);
    }
    let numbers: HashMap<Key, usize> =
        tallies.keys().enumerate().map(|(number, key)| (key.clone(), number)).collect();

    // Per group: response, service, lag; of each the successes, then all.
    let mut questions: Vec<(Vec<usize>, u64)> = Vec::new();
    for (number, tally) in tallies.values().enumerate() {
        let ops: u64 = tally.statuses.iter().sum();
        let failed = ops - tally.statuses[Status::Ok as usize];
        let never_started = failed - tally.histograms[3].count();
        for series in 0..2 {
            questions.push((vec![number * 4 + series], 0));
            questions.push((vec![number * 4 + series], failed));
        }
        questions.push((vec![number * 4 + 2], 0));
        questions.push((vec![number * 4 + 2, number * 4 + 3], never_started));
    }
    let histograms: Vec<Histogram> =
        tallies.values_mut().flat_map(|tally| std::mem::take(&mut tally.histograms)).collect();
    let known = |members: &[usize]| members.iter().map(|&member| histograms[member].count()).sum::<u64>();
    let request = |(members, unanswered): &(Vec<usize>, u64)| {
        let (known, unanswered) = (known(members), *unanswered);
        let all = known + unanswered;
        let ranks = percentiles.iter().filter(|_| all > 0).map(|percentile| percentile.rank(all));
        Request { members: members.clone(), ranks: ranks.filter(|&rank| rank <= known).collect() }
    };
    let mut selector = Selector::new(&histograms, questions.iter().map(request).collect());
    while !selector.is_settled() {
        let collector = || selector.collector().expect("not settled yet");
        let parts = each_part(row_groups.len(), collector, |part, collector| {
            scan(part, &mut |key, status, intended, start, end| {
                let Some(number) = numbers.get(key) else { return };
                each_value(status, intended, start, end, |series, value| {
                    collector.offer(number * 4 + series, value);
                });
            })
        })?;
        selector.absorb(parts).map_err(|_| anyhow!("{} changed while it was read; try again", run.file))?;
    }
    let answers = selector.answers();
    let mut summaries = questions.iter().zip(&answers).map(|((members, unanswered), values)| {
        let mut union = Histogram::default();
        members.iter().for_each(|&member| union.merge(&histograms[member]));
        summary(&union, *unanswered, percentiles, values)
    });
    let name = |key: &Key| match (key, &plan) {
        (Key::Number(number), Some(plan)) => {
            plan.names.get(*number as usize).cloned().unwrap_or_else(|| "not in the trace".to_owned())
        }
        (Key::Number(number), None) if sessions_per_group == 1 => number.to_string(),
        (Key::Number(number), None) => {
            let first = number * sessions_per_group;
            format!("{first}-{}", first + sessions_per_group - 1)
        }
        (Key::Ending(status, code), _) if code.is_empty() => status.name().to_owned(),
        (Key::Ending(status, code), _) => format!("{} {code}", status.name()),
    };
    let mut groups = Vec::new();
    for (key, tally) in &tallies {
        let mut next = || summaries.next().expect("six per group");
        let mut series = || Series { ok: next(), all: next() };
        let all = [series(), series(), series()];
        groups.push((name(key), op_report(tally, run.span_ns, all)));
    }
    if matches!(by, By::Code) {
        groups.sort_by_key(|(_, op)| std::cmp::Reverse(op.ops));
    }
    let mut about = by.about().to_owned();
    if let Some(uncertain) = plan.as_ref().map(|plan| plan.uncertain).filter(|&uncertain| uncertain > 0) {
        about += &format!("; of the last {uncertain} others may be as frequent");
    }
    Ok(named(Named(groups), about))
}

fn summary(known: &Histogram, unanswered: u64, percentiles: &[Percentile], values: &[u64]) -> Summary {
    let count = known.count() + unanswered;
    let mut values = values.iter();
    let quantile = |percentile: &Percentile| {
        let quantile = (count > 0).then(|| {
            let rank = percentile.rank(count);
            let value_ns = (rank <= known.count()).then(|| *values.next().expect("one per rank"));
            let unanswered = value_ns.is_none();
            Quantile { value_ns, unanswered, above: count - rank, interval: None, insufficient: false }
        });
        (percentile.text().to_owned(), quantile)
    };
    Summary {
        percentiles: Named(percentiles.iter().map(quantile).collect()),
        count,
        unanswered,
        min_ns: known.min(),
        mean_ns: known.mean(),
        max_ns: known.max(),
    }
}

fn op_report(tally: &Tally, span_ns: u64, [response, service, lag]: [Series; 3]) -> OpReport {
    let ops: u64 = tally.statuses.iter().sum();
    let ok = tally.statuses[Status::Ok as usize];
    let per_second = |count: u64| (span_ns > 0).then(|| count as f64 * 1e9 / span_ns as f64);
    let statuses = Status::ALL
        .into_iter()
        .map(|status| (status.name().to_owned(), tally.statuses[status as usize]))
        .filter(|(_, count)| *count > 0)
        .collect();
    OpReport {
        ops,
        ok,
        failed: ops - ok,
        error_rate: if ops == 0 { 0.0 } else { (ops - ok) as f64 / ops as f64 },
        ops_per_second: per_second(ops),
        ok_per_second: per_second(ok),
        statuses: Named(statuses),
        response,
        service,
        lag,
        failed_service: None,
        windows: Vec::new(),
    }
}

/// Reads the trace of a run: which op belongs to which group.
fn plan(by: &By, path: &Path, run: &RunReport) -> Result<Plan> {
    let open = || TraceReader::open(path).context("cannot group by what the trace says");
    let mut reader = open()?;
    if reader.meta().content_hash != run.trace_hash {
        bail!(
            "{} is not the trace that {} replayed (content {} / {})",
            path.display(),
            run.file,
            reader.meta().content_hash,
            run.trace_hash
        );
    }
    let first = reader.meta().first_op_id;
    let mut plan = Plan { names: Vec::new(), group: Vec::new(), first, uncertain: 0 };
    match by {
        By::Key(_) => {
            let mut candidates = Frequent::new(COUNTED_KEYS);
            while let Some(block) = reader.next_block()? {
                (0..block.len()).for_each(|row| candidates.add(xxh3_64(block.key(row).as_bytes())));
            }
            let (mut counts, missed) = candidates.finish();
            if missed > 0 {
                // Which keys they are is known; now how often they really occur.
                counts.values_mut().for_each(|count| *count = 0);
                let mut reader = open()?;
                while let Some(block) = reader.next_block()? {
                    for row in 0..block.len() {
                        if let Some(count) = counts.get_mut(&xxh3_64(block.key(row).as_bytes())) {
                            *count += 1;
                        }
                    }
                }
            }
            let mut hot: Vec<(u64, u64)> = counts.into_iter().collect();
            hot.sort_unstable_by_key(|&(hash, count)| (std::cmp::Reverse(count), hash));
            hot.truncate(HOT_KEYS);
            plan.uncertain = hot.iter().filter(|(_, count)| *count <= missed).count();
            let places: HashMap<u64, u8> =
                hot.iter().enumerate().map(|(place, (hash, _))| (*hash, place as u8)).collect();
            plan.names = vec![String::new(); hot.len()];
            plan.names.push("others".to_owned());
            let mut reader = open()?;
            while let Some(block) = reader.next_block()? {
                for row in 0..block.len() {
                    let key = block.key(row);
                    let place = places.get(&xxh3_64(key.as_bytes())).copied().unwrap_or(hot.len() as u8);
                    if plan.names[usize::from(place)].is_empty() {
                        plan.names[usize::from(place)] = key.to_owned();
                    }
                    plan.group.push(place);
                }
            }
        }
        _ => {
            plan.names.push("no values".to_owned());
            plan.names.extend((0..=32).map(|bits| match bits {
                0 => "0 to 1 bytes".to_owned(),
                bits => format!("{} to {} bytes", 1u64 << bits, (2u64 << bits) - 1),
            }));
            while let Some(block) = reader.next_block()? {
                for row in 0..block.len() {
                    let inline =
                        block.inline_values(row).map(|values| values.map(<[u8]>::len).sum::<usize>());
                    let seeded =
                        || block.seeded_values(row).map(|(_, lens)| lens.iter().sum::<i32>() as usize);
                    let bytes = inline.or_else(seeded);
                    plan.group.push(bytes.map_or(0, |bytes| 1 + bytes.max(1).ilog2().min(32) as u8));
                }
            }
        }
    }
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Stream;

    #[test]
    fn frequent_numbers_are_found_with_few_counters_and_the_promise_holds() {
        // A tenth of the draws is 1 to 5, the others are all different, in an order that favours them.
        let mut random = Stream::from_key(1);
        let mut truth: HashMap<u64, u64> = HashMap::new();
        let mut frequent = Frequent::new(50);
        for draw in 0..100_000u64 {
            let number = if random.below(10) == 0 { 1 + random.below(5) } else { 1000 + draw };
            *truth.entry(number).or_default() += 1;
            frequent.add(number);
            assert!(frequent.counts.len() <= 100, "the memory is bounded");
        }
        let (counts, missed) = frequent.finish();
        assert!(missed <= 100_000 / 50, "{missed}");
        for (number, &count) in &truth {
            let found = counts.get(number).copied().unwrap_or(0);
            assert!(found <= count && count <= found + missed, "{number}: {found} of {count}, {missed}");
        }
        assert!((1..=5).all(|number| counts.contains_key(&number)), "each is more frequent than {missed}");
    }

    #[test]
    fn few_numbers_are_counted_exactly() {
        let mut frequent = Frequent::new(10);
        (0..1000).for_each(|draw| frequent.add(draw % 20));
        let (counts, missed) = frequent.finish();
        assert_eq!((counts.len(), missed), (20, 0));
        assert!(counts.values().all(|&count| count == 50));
    }
}
