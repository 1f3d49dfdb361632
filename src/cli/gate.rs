//! `--fail-if`: a sentence about the summary of a run that must not be true, for instance
//! `p99(READ) > 5ms`. For machines that decide by the exit code whether a change is accepted.
//!
//! ```text
//! gate    = measure ( ">" | ">=" | "<" | "<=" ) value
//! measure = ( "pNN" | "mean" | "max" ) [ "(" [ series "," ] [ KIND ] ")" ]   a latency: 5ms, 200us, 1s
//!         | "rate" [ "(" KIND ")" ]                                          operations a second: 900
//!         | "errors" [ "(" KIND ")" ]                                        a share: 0.1% or 0.001
//! series  = "response" (if none is named) | "service" | "lag"
//! ```

use std::fmt;

use hdrhistogram::Histogram;

use super::parse_duration;
use super::progress::{count_text, duration_text, rate_text};
use crate::op::OpKind;
use crate::replay::recorder::SERIES;
use crate::trace::meta::RunMeta;

/// A condition under which a run is refused.
#[derive(Debug, Clone, PartialEq)]
pub struct Gate {
    text: String,
    pub(super) measure: Measure,
    /// Without one, all kinds together.
    pub(super) kind: Option<OpKind>,
    comparison: Comparison,
    /// Nanoseconds, operations a second, or a share.
    limit: f64,
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Measure {
    Latency { statistic: Statistic, series: &'static str },
    Rate,
    Errors,
}

/// Of a latency.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Statistic {
    /// From 0 to 1.
    Quantile(f64),
    Mean,
    Max,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Comparison {
    Above,
    AtLeast,
    Below,
    AtMost,
}

/// What is wrong with a condition, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    text: String,
    /// In bytes.
    at: usize,
    message: String,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let blanks = self.text[..self.at].chars().count();
        write!(f, "{}\n  {}\n  {:blanks$}^", self.message, self.text, "")
    }
}

impl std::error::Error for Wrong {}

/// What is still to be read of a condition.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn blanks(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    fn take(&mut self, symbol: &str) -> bool {
        self.blanks();
        let found = self.text[self.at..].starts_with(symbol);
        self.at += if found { symbol.len() } else { 0 };
        found
    }

    /// A word and where it begins; empty if there is none.
    fn word(&mut self) -> (&'a str, usize) {
        self.blanks();
        let (begin, rest) = (self.at, &self.text[self.at..]);
        let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
        let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        self.at += length;
        (&rest[..length], begin)
    }

    fn wrong(&self, at: usize, message: impl Into<String>) -> Wrong {
        Wrong { text: self.text.to_owned(), at, message: message.into() }
    }
}

/// Understands a condition.
pub fn parse(text: &str) -> Result<Gate, Wrong> {
    let mut reader = Reader { text, at: 0 };
    let (name, begin) = reader.word();
    let mut measure = measure(name).ok_or_else(|| {
        reader.wrong(begin, "this is no measure; write pNN (for instance p99.9), mean, max, rate or errors")
    })?;
    let mut kind = None;
    if reader.take("(") {
        let (mut word, mut at) = reader.word();
        if let (Measure::Latency { series, .. }, Some(named)) =
            (&mut measure, SERIES.into_iter().find(|series| word.eq_ignore_ascii_case(series)))
        {
            *series = named;
            (word, at) = if reader.take(",") { reader.word() } else { ("", reader.at) };
        }
        if !word.is_empty() {
            kind = Some(kind_named(word).ok_or_else(|| {
                let kinds = OpKind::YCSB.map(OpKind::name).join(", ");
                reader.wrong(at, format!("this is no operation; write one of {kinds}"))
            })?);
        }
        if !reader.take(")") {
            return Err(reader.wrong(reader.at, "a ) is missing here"));
        }
    }
    let comparison = if reader.take(">=") {
        Comparison::AtLeast
    } else if reader.take(">") {
        Comparison::Above
    } else if reader.take("<=") {
        Comparison::AtMost
    } else if reader.take("<") {
        Comparison::Below
    } else {
        return Err(reader.wrong(reader.at, "write >, >=, < or <= here"));
    };
    reader.blanks();
    let (value, at) = (text[reader.at..].trim_end(), reader.at);
    let (limit, example) = match measure {
        Measure::Latency { .. } => (latency(value), "a time with its unit, for instance 5ms"),
        Measure::Rate => {
            let number = value.trim_end_matches("/s").trim_end();
            (number.parse().ok(), "operations a second, for instance 900")
        }
        Measure::Errors => (share(value), "a share, for instance 0.1% or 0.001"),
    };
    match limit.filter(|limit: &f64| limit.is_finite() && *limit >= 0.0) {
        Some(limit) => Ok(Gate { text: text.trim().to_owned(), measure, kind, comparison, limit }),
        None => Err(reader.wrong(at, format!("write {example} here"))),
    }
}

fn measure(name: &str) -> Option<Measure> {
    let statistic = match name.to_ascii_lowercase().as_str() {
        "rate" => return Some(Measure::Rate),
        "errors" => return Some(Measure::Errors),
        "mean" => Statistic::Mean,
        "max" => Statistic::Max,
        name => {
            let percent: f64 = name.strip_prefix('p')?.parse().ok()?;
            (0.0..=100.0).contains(&percent).then_some(Statistic::Quantile(percent / 100.0))?
        }
    };
    Some(Measure::Latency { statistic, series: "response" })
}

fn kind_named(name: &str) -> Option<OpKind> {
    if name.eq_ignore_ascii_case("RMW") {
        return Some(OpKind::ReadModifyWrite);
    }
    // A statement's name is known when the trace is open, and that is after the gates are read.
    let upper = OpKind::from_name(&name.to_ascii_uppercase());
    let is_name = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && !["response", "service", "lag"].contains(&name);
    upper.or_else(|| is_name.then(|| OpKind::register(name)).flatten())
}

/// Nanoseconds. A bare number would be seconds for other options: too easy to get wrong here.
fn latency(value: &str) -> Option<f64> {
    let unit = value.chars().last().is_some_and(|last| last.is_ascii_alphabetic());
    parse_duration(value).ok().filter(|_| unit).map(|duration| duration.as_nanos() as f64)
}

fn share(value: &str) -> Option<f64> {
    let share = match value.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().ok()? / 100.0,
        None => value.parse().ok()?,
    };
    (0.0..=1.0).contains(&share).then_some(share)
}

impl Gate {
    /// What to say if the run is refused.
    pub fn refusal(&self, meta: &RunMeta) -> Option<String> {
        self.judge(self.value(meta), self.counts(meta))
    }

    /// What to say if a run with this value, and so many failures of so many operations, is refused. A run
    /// without what the condition is about is refused, too: a gate that looks at nothing lets everything
    /// pass.
    pub(super) fn judge(&self, value: Option<f64>, (failed, ops): (u64, u64)) -> Option<String> {
        let what = self.kind.map_or(String::new(), |kind| format!(" {}", kind.name()));
        let Some(value) = value else {
            return Some(format!(
                "gate: the run has no{what} operation to judge by, so --fail-if '{}' refuses it",
                self.text
            ));
        };
        let refused = match self.comparison {
            Comparison::Above => value > self.limit,
            Comparison::AtLeast => value >= self.limit,
            Comparison::Below => value < self.limit,
            Comparison::AtMost => value <= self.limit,
        };
        let name = match self.measure {
            Measure::Latency { statistic, series } => {
                let name = match statistic {
                    Statistic::Quantile(quantile) => format!("p{}", (quantile * 1e8).round() / 1e6),
                    Statistic::Mean => "mean".to_owned(),
                    Statistic::Max => "max".to_owned(),
                };
                format!("{name} of the{what} {series} times")
            }
            Measure::Rate => format!("rate of{} operations", if what.is_empty() { " all" } else { &what }),
            Measure::Errors => {
                format!("share of failed{what} operations ({} of {})", count_text(failed), count_text(ops))
            }
        };
        refused.then(|| {
            format!("gate: the {name} is {}, so --fail-if '{}' refuses the run", self.show(value), self.text)
        })
    }

    fn show(&self, value: f64) -> String {
        match self.measure {
            Measure::Latency { .. } => duration_text(value as u64),
            Measure::Rate => rate_text(value),
            Measure::Errors => format!("{:.3} %", value * 100.0),
        }
    }

    /// Operations that failed, and all of them.
    fn counts(&self, meta: &RunMeta) -> (u64, u64) {
        let kinds = meta.counts.iter().filter(|(name, _)| self.kind.is_none_or(|kind| kind.name() == **name));
        let (mut failed, mut ops) = (0, 0);
        for (name, count) in kinds.flat_map(|(_, statuses)| statuses) {
            ops += count;
            failed += if name == "OK" { 0 } else { *count };
        }
        (failed, ops)
    }

    fn value(&self, meta: &RunMeta) -> Option<f64> {
        let (failed, ops) = self.counts(meta);
        match self.measure {
            Measure::Latency { statistic, series } => {
                let kinds = OpKind::ALL.into_iter().filter(|kind| self.kind.is_none_or(|only| only == *kind));
                let mut all = Histogram::<u64>::new(3).expect("3 digits are allowed");
                for histogram in kinds.filter_map(|kind| super::replay::histogram(meta, kind, series)) {
                    all.add(histogram).expect("it grows");
                }
                (!all.is_empty()).then(|| match statistic {
                    Statistic::Quantile(quantile) => all.value_at_quantile(quantile) as f64,
                    Statistic::Mean => all.mean(),
                    Statistic::Max => all.max() as f64,
                })
            }
            Measure::Rate => {
                (ops > 0 && meta.elapsed_ns > 0).then(|| ops as f64 * 1e9 / meta.elapsed_ns as f64)
            }
            Measure::Errors => (ops > 0).then(|| failed as f64 / ops as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_understood() {
        let gate = |text: &str| {
            let gate = parse(text).unwrap_or_else(|wrong| panic!("{wrong}"));
            (gate.measure, gate.kind, gate.comparison, gate.limit)
        };
        let p = |percent: f64, series| Measure::Latency {
            statistic: Statistic::Quantile(percent / 100.0),
            series,
        };
        let above = Comparison::Above;
        assert_eq!(gate("p99(READ) > 5ms"), (p(99.0, "response"), Some(OpKind::Read), above, 5e6));
        assert_eq!(
            gate(" P99.9( service , update )>=20us "),
            (p(99.9, "service"), Some(OpKind::Update), Comparison::AtLeast, 2e4)
        );
        assert_eq!(gate("p50(lag) > 1s"), (p(50.0, "lag"), None, above, 1e9));
        assert_eq!(gate("p50>1s"), (p(50.0, "response"), None, above, 1e9));
        let max = Measure::Latency { statistic: Statistic::Max, series: "response" };
        assert_eq!(gate("max(rmw) > 1m"), (max, Some(OpKind::ReadModifyWrite), above, 6e10));
        assert_eq!(gate("rate < 900"), (Measure::Rate, None, Comparison::Below, 900.0));
        assert_eq!(
            gate("rate(SCAN) <= 9.5 /s"),
            (Measure::Rate, Some(OpKind::Scan), Comparison::AtMost, 9.5)
        );
        assert_eq!(gate("errors > 0.1%"), (Measure::Errors, None, above, 0.001));
        assert_eq!(gate("errors(INSERT) > 0"), (Measure::Errors, Some(OpKind::Insert), above, 0.0));
    }

    #[test]
    fn what_is_not_understood_is_pointed_at() {
        for (text, at) in [
            ("", 0),
            ("q99 > 5ms", 0),
            ("p101 > 5ms", 0),
            ("p99(REED) > 5ms", 4),
            ("p99(service, REED) > 5ms", 13),
            ("rate(service) > 5", 5),
            ("p99(READ > 5ms", 9),
            ("p99(READ) = 5ms", 10),
            ("p99 > 5", 6),
            ("p99 >", 5),
            ("p99 > -5ms", 6),
            ("rate < many", 7),
            ("rate < 9 8", 7),
            ("errors > 101%", 9),
            ("errors > NaN", 9),
        ] {
            let wrong = parse(text).unwrap_err();
            assert_eq!(wrong.at, at, "{text:?}: {wrong}");
        }
        let wrong = parse("p99(REED) > 5ms").unwrap_err().to_string();
        assert_eq!(
            wrong,
            "this is no operation; write one of INSERT, READ, UPDATE, SCAN, READ_MODIFY_WRITE, DELETE\n  \
             p99(REED) > 5ms\n      ^"
        );
    }
}
