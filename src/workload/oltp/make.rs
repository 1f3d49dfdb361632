//! Draws transactions. Each is a function of (seed, number of the transaction): its numbers come from
//! one stream and its texts from another, so threads and shards cannot change anything.

use super::{Argument, Choice, Draw, Group, OltpSpec, Step};
use crate::rng::{Purpose, Stream, mix};

/// What a row of a trace is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowOf {
    /// BEGIN.
    Begin,
    /// COMMIT.
    Commit,
    /// A statement, by its position.
    Statement {
        /// Position among the statements of the phase.
        statement: usize,
        /// Position among the statement's tables, if it names one.
        table: Option<u32>,
    },
}

/// The value of a draw.
#[derive(Debug, Clone, Copy)]
enum Value {
    Number(i64),
    /// Position among the step's draws: its text is in the scratch.
    Text(usize),
}

/// Memory for the parameters of one statement.
#[derive(Debug, Default, Clone)]
struct Parameters {
    lens: Vec<u32>,
    bytes: Vec<u8>,
}

impl Parameters {
    fn clear(&mut self) {
        self.lens.clear();
        self.bytes.clear();
    }

    fn push(&mut self, value: &[u8]) {
        self.bytes.extend_from_slice(value);
        self.lens.push(value.len() as u32);
    }

    fn push_number(&mut self, value: i64) {
        let before = self.bytes.len();
        use std::io::Write as _;
        write!(self.bytes, "{value}").expect("writing to memory");
        self.lens.push((self.bytes.len() - before) as u32);
    }
}

/// Makes the rows of transactions.
#[derive(Debug)]
pub struct Maker<'a> {
    spec: &'a OltpSpec,
    seed: u64,
    total_weight: f64,
    uniques: u64,
    parameters: Vec<Parameters>,
    values: Vec<Value>,
    texts: Vec<Vec<u8>>,
}

impl<'a> Maker<'a> {
    /// For one seed.
    pub fn new(spec: &'a OltpSpec, seed: u64) -> Maker<'a> {
        let uniques =
            spec.kinds.iter().map(|kind| kind.steps.iter().map(|step| step.of(&Draw::Unique)).sum());
        Maker {
            spec,
            seed,
            total_weight: spec.kinds.iter().map(|kind| kind.weight).sum(),
            uniques: uniques.max().unwrap_or(0),
            parameters: Vec::new(),
            values: Vec::new(),
            texts: Vec::new(),
        }
    }

    /// Rows of transaction `number` of the run.
    pub fn run_rows(&self, number: u64) -> u64 {
        self.spec.kinds[self.kind(number)].rows()
    }

    /// Has every transaction of the run the same number of rows? Then this is it.
    pub fn constant_rows(&self) -> Option<u64> {
        let rows = self.spec.kinds[0].rows();
        self.spec.kinds.iter().all(|kind| kind.rows() == rows).then_some(rows)
    }

    fn kind(&self, number: u64) -> usize {
        if self.spec.kinds.len() == 1 {
            return 0;
        }
        let mut left = Stream::at(self.seed, Purpose::Transaction, number).unit() * self.total_weight;
        for (position, kind) in self.spec.kinds.iter().enumerate() {
            left -= kind.weight;
            if left < 0.0 {
                return position;
            }
        }
        self.spec.kinds.len() - 1
    }

    /// Makes transaction `number` of the run: hands each row with its parameters to `each`.
    pub fn run(&mut self, number: u64, mut each: impl FnMut(RowOf, &[u32], &[u8])) {
        let spec = self.spec;
        let kind = &spec.kinds[self.kind(number)];
        let mut numbers = Stream::at(self.seed, Purpose::StatementNumber, number);
        let mut texts = Stream::at(self.seed, Purpose::StatementText, number);
        let mut unique = number * self.uniques;
        if kind.begins {
            each(RowOf::Begin, &[], &[]);
        }
        for step in &kind.steps {
            let group = &spec.groups[step.group];
            let tables = group.tables.len() as u64;
            let table = match step.choice {
                Choice::Uniform if tables == 1 => 0,
                Choice::Uniform => numbers.below(tables),
                Choice::RoundRobin => number % tables,
            };
            let mut sequence = number / tables * step.of(&Draw::Sequence);
            for _ in 0..step.times {
                let turn = (group, number);
                self.draw_step(step, turn, &mut numbers, &mut texts, &mut unique, &mut sequence);
                for (call, parameters) in step.calls.iter().zip(&self.parameters) {
                    let table = call.on_table.then_some(table as u32);
                    let row = RowOf::Statement { statement: call.statement, table };
                    each(row, &parameters.lens, &parameters.bytes);
                }
            }
        }
        if kind.begins {
            each(RowOf::Commit, &[], &[]);
        }
    }

    /// Draws what the statements of a step need, once for each group of parameters.
    fn draw_step(
        &mut self,
        step: &Step,
        (group, number): (&Group, u64),
        numbers: &mut Stream,
        texts: &mut Stream,
        unique: &mut u64,
        sequence: &mut u64,
    ) {
        self.parameters.resize(step.calls.len().max(self.parameters.len()), Parameters::default());
        self.texts.resize(step.draws.len().max(self.texts.len()), Vec::new());
        self.parameters.iter_mut().for_each(Parameters::clear);
        for repetition in 0..step.repeat {
            self.values.clear();
            for (position, draw) in step.draws.iter().enumerate() {
                let value = match draw {
                    Draw::Text(template) => {
                        fill(template, texts, &mut self.texts[position]);
                        Value::Text(position)
                    }
                    Draw::Unique => {
                        *unique += 1;
                        Value::Number(unique_number(self.seed, *unique - 1))
                    }
                    Draw::Sequence => {
                        *sequence += 1;
                        Value::Number(*sequence as i64)
                    }
                    _ => Value::Number(number_of(self.spec, draw, (group, number), numbers)),
                };
                self.values.push(value);
            }
            for (call, parameters) in step.calls.iter().zip(&mut self.parameters) {
                if repetition > 0 && !call.repeats {
                    continue;
                }
                for argument in &call.arguments {
                    evaluate(argument, &self.values, &self.texts, parameters);
                }
            }
        }
    }

    /// Makes INSERT `number` of the load: hands the row with its parameters to `each`.
    pub fn load(&self, mut number: u64, mut each: impl FnMut(RowOf, &[u32], &[u8])) {
        let spec = self.spec;
        for (position, group) in spec.groups.iter().enumerate() {
            let inserts = group.inserts() * group.tables.len() as u64;
            if number >= inserts {
                number -= inserts;
                continue;
            }
            let table = number / group.inserts();
            let first = number % group.inserts() * group.rows_per_insert;
            let end = (first + group.rows_per_insert).min(group.load_rows);
            let mut parameters = Parameters::default();
            let mut text = Vec::new();
            for row in first..end {
                let index = mix(mix(position as u64 ^ 0x6c6f6164) ^ table) ^ row;
                let mut numbers = Stream::at(self.seed, Purpose::StatementNumber, index);
                let mut texts = Stream::at(self.seed, Purpose::StatementText, index);
                for draw in &group.load {
                    match draw {
                        None | Some(Draw::Sequence | Draw::Unique) => parameters.push_number(row as i64 + 1),
                        Some(Draw::Text(template)) => {
                            fill(template, &mut texts, &mut text);
                            parameters.push(&text);
                        }
                        Some(draw) => {
                            parameters.push_number(number_of(spec, draw, (group, row), &mut numbers))
                        }
                    }
                }
            }
            let row = RowOf::Statement { statement: position, table: Some(table as u32) };
            each(row, &parameters.lens, &parameters.bytes);
            return;
        }
    }
}

/// The number of a draw, for transaction (row of a load) `turn`.
fn number_of(spec: &OltpSpec, draw: &Draw, (group, turn): (&Group, u64), rng: &mut Stream) -> i64 {
    match draw {
        Draw::Row => spec.rand.draw(rng, 1, group.drawn_rows as i64),
        Draw::Value { low, high, parts } => {
            let bound =
                |part: u64| low + (i128::from(high - low) * i128::from(part) / i128::from(*parts)) as i64;
            let part = turn % parts;
            spec.rand.draw(rng, bound(part), bound(part + 1))
        }
        Draw::Uniform { low, high } => {
            low.wrapping_add(rng.between(0, high.wrapping_sub(*low) as u64) as i64)
        }
        Draw::Text(_) | Draw::Unique | Draw::Sequence => unreachable!("drawn by the caller"),
    }
}

fn evaluate(argument: &Argument, values: &[Value], texts: &[Vec<u8>], parameters: &mut Parameters) {
    let mut sum = argument.constant;
    for &(draw, minus) in &argument.draws {
        match values[draw] {
            Value::Text(position) => return parameters.push(&texts[position]),
            Value::Number(value) => sum = sum.wrapping_add(if minus { -value } else { value }),
        }
    }
    parameters.push_number(sum);
}

/// A text by a template: `#` becomes a digit, `@` a letter. One draw of 64 bits gives eight
/// characters, each by the next part of its product: the bias is below 10⁻⁷.
fn fill(template: &str, rng: &mut Stream, text: &mut Vec<u8>) {
    text.clear();
    let (mut bits, mut left) = (0u64, 0);
    for byte in template.bytes() {
        let (first, choices) = match byte {
            b'#' => (b'0', 10),
            b'@' => (b'a', 26),
            other => {
                text.push(other);
                continue;
            }
        };
        if left == 0 {
            (bits, left) = (rng.bits(), 8);
        }
        let product = u128::from(bits) * choices;
        text.push(first + (product >> 64) as u8);
        (bits, left) = (product as u64, left - 1);
    }
}

/// The `index`-th of 2³² different numbers, as SQL's INTEGER: a bijection (MurmurHash3's finaliser) of
/// a start that the seed chooses.
fn unique_number(seed: u64, index: u64) -> i64 {
    let start = Stream::at(seed, Purpose::Unique, 0).bits();
    let mut x = (start.wrapping_add(index)) as u32;
    x = (x ^ (x >> 16)).wrapping_mul(0x85eb_ca6b);
    x = (x ^ (x >> 13)).wrapping_mul(0xc2b2_ae35);
    i64::from(x ^ (x >> 16)) - (1 << 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_keep_their_form_and_use_every_character() {
        let mut text = Vec::new();
        let mut seen = [0u32; 256];
        for key in 0..2_000 {
            fill("##-@@ é", &mut Stream::from_key(key), &mut text);
            let text = std::str::from_utf8(&text).unwrap();
            assert!(text.ends_with(" é") && text.as_bytes()[2] == b'-', "{text}");
            text.bytes().for_each(|byte| seen[usize::from(byte)] += 1);
        }
        assert!((b'0'..=b'9').all(|digit| (300..500).contains(&seen[usize::from(digit)])), "{seen:?}");
        assert!((b'a'..=b'z').all(|letter| (90..220).contains(&seen[usize::from(letter)])), "{seen:?}");
    }

    #[test]
    fn unique_numbers_do_not_repeat_and_fit_an_integer() {
        let mut drawn: Vec<i64> = (0..100_000).map(|index| unique_number(3, index)).collect();
        assert!(drawn.iter().all(|&number| i32::try_from(number).is_ok()));
        drawn.sort_unstable();
        drawn.dedup();
        assert_eq!(drawn.len(), 100_000);
    }
}
