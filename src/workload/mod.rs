//! What a trace is made from: the settings of a YCSB workload, typed and checked once, so that
//! nothing after this module parses a text or meets an impossible value.
//!
//! Settings keep YCSB's names, defaults and meanings, the surprising ones included (a file that
//! sets only `insertproportion` still has 95 % reads by weight), and say so in a [`Warning`]. What
//! YCSB reads silently as something else, or fails on an hour later, is an error here.

pub mod builtin;
pub mod dist;
mod mix;
pub mod oltp;
pub mod properties;
mod settings;
pub mod table;
mod warning;

use std::path::Path;
use std::sync::OnceLock;

use thiserror::Error;

pub use dist::{Distribution, Horizon, LengthDraw};
pub use mix::OpChooser;
pub use properties::{Properties, PropertiesError, Setting, Source, visible};
pub use warning::Warning;

use crate::op::OpKind;
use crate::record::{KeyFormat, KeyOrder, Tool};
use dist::{DistributionRow, Histogram, Zipfian};
use settings::{Settings, bad};
use table::{Group, PROPERTIES};

/// YCSB's exponent of Zipf's law.
const YCSB_THETA: f64 = 0.99;

/// Record numbers stay below 2⁶³, as in YCSB.
const MOST_RECORDS: u64 = i64::MAX as u64;

/// How Zipf's law is computed (property `zipf`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZipfMode {
    /// As YCSB does: `zipfian` is a hashed rank among 10¹⁰, whatever the table's size.
    Ycsb,
    /// By the law itself over the table's rows, with any exponent.
    Exact,
}

/// Why settings make no workload. Each message names the property, its value, where it was set and
/// what to try.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SpecError {
    /// A value that cannot be used.
    #[error("{key}={value} ({origin}): expected {expected}")]
    Value {
        /// The property.
        key: &'static str,
        /// Its value, as written.
        value: String,
        /// Where it was set.
        origin: Source,
        /// What would be legal.
        expected: String,
    },
    /// A property without which there is no trace.
    #[error("{key} is not set: {advice}")]
    Missing {
        /// The property.
        key: &'static str,
        /// What to set.
        advice: &'static str,
    },
    /// Values that are legal alone and impossible together.
    #[error("{settings}: {problem}")]
    Conflict {
        /// The settings and where they were made.
        settings: String,
        /// Why they do not fit, and what to change.
        problem: String,
    },
}

/// A workload, checked. Counts are rows or operations, lengths are bytes.
#[derive(Debug, Clone)]
pub struct WorkloadSpec {
    /// Name of the workload file, for the trace's name.
    pub name: String,
    /// Table name.
    pub table: String,
    /// Rows in the table before the run phase (`recordcount`).
    pub record_count: u64,
    /// Operations of the run phase; 0 if only a load was asked for and the property is not set.
    pub operation_count: u64,
    /// Number of the first row loaded.
    pub insert_start: u64,
    /// Rows loaded, and the rows the run chooses from.
    pub insert_count: u64,
    /// Number of the first row the run inserts: `record_count`.
    pub first_insert: u64,
    /// Fields per row.
    pub field_count: u32,
    /// A field's name is this and its number.
    pub field_name_prefix: String,
    /// Longest value, in bytes.
    pub field_length: u32,
    /// Do reads and scans fetch every field, or one?
    pub read_all_fields: bool,
    /// Do reads name every field instead of asking for all?
    pub read_all_fields_by_name: bool,
    /// Do updates write every field, or one?
    pub write_all_fields: bool,
    /// Values are functions of key, field and length alone, those of [`WorkloadSpec::tool`].
    pub data_integrity: bool,
    /// Whose hash makes the keys, and scatters `zipfian`.
    pub tool: Tool,
    /// How Zipf's law is computed.
    pub zipf: ZipfMode,
    /// Exponent of Zipf's law.
    pub zipfian_constant: f64,
    /// Share of the rows that are hot.
    pub hotspot_data_fraction: f64,
    /// Share of the requests that go to hot rows.
    pub hotspot_op_fraction: f64,
    /// Percent of the requests that fall on the newest `exponential_frac` of the rows.
    pub exponential_percentile: f64,
    /// Share of the rows meant by `exponential_percentile`.
    pub exponential_frac: f64,
    weights: [(OpKind, f64); 5],
    distribution: &'static DistributionRow,
    field_lengths: LengthDraw,
    scan_lengths: LengthDraw,
    key_format: KeyFormat,
    effective: Vec<(&'static str, Setting)>,
    /// The sum under `latest` takes up to a third of a second: added once, shared by every chunk.
    latest: OnceLock<Zipfian>,
}

/// Kinds of operation and their properties, in the order in which YCSB draws them.
const PROPORTIONS: [(OpKind, &str); 5] = [
    (OpKind::Read, "readproportion"),
    (OpKind::Update, "updateproportion"),
    (OpKind::Insert, "insertproportion"),
    (OpKind::Scan, "scanproportion"),
    (OpKind::ReadModifyWrite, "readmodifywriteproportion"),
];

impl WorkloadSpec {
    /// Interprets and checks all settings, for the phases that are wanted.
    pub fn from_properties(
        name: &str,
        properties: &Properties,
        load: bool,
        run: bool,
    ) -> Result<(WorkloadSpec, Vec<Warning>), SpecError> {
        let settings = Settings::new(properties);
        let mut warnings = doubts(properties);
        check_workload_class(&settings)?;

        let weights = proportions(&settings)?;
        let insert_only = weights.iter().all(|&(kind, weight)| weight == 0.0 || kind == OpKind::Insert);
        let chooses = run && !insert_only;
        if run {
            check_mix(&settings, &weights, &mut warnings)?;
        }
        let rows = row_counts(&settings, load, run, chooses)?;
        let operation_count = operation_count(&settings, run)?;
        if rows.record_count.checked_add(operation_count).is_none_or(|most| most > MOST_RECORDS) {
            return Err(conflict(
                &settings,
                &["recordcount", "operationcount"],
                "record numbers would exceed 2^63",
            ));
        }

        let (zipf, zipfian_constant) = zipf_settings(&settings)?;
        let distribution = dist::find(settings.choice("requestdistribution", &table::distribution_names())?)
            .expect("the legal names are those of the table");
        let field_lengths = field_lengths(&settings)?;
        let key_format = key_format(&settings, &mut warnings)?;
        if settings.flag("dataintegrity")? {
            // As in both tools, which have to know how long a value must be.
            if !matches!(field_lengths, LengthDraw::Constant(_)) {
                return Err(conflict(
                    &settings,
                    &["dataintegrity", "fieldlengthdistribution"],
                    "values that can be checked have a constant length",
                ));
            }
        }
        let field_count = settings.small("fieldcount", 10_000)?;
        if field_count == 0 {
            return Err(bad("fieldcount", &settings.text("fieldcount"), "at least 1 field"));
        }

        let spec = WorkloadSpec {
            name: name.to_owned(),
            table: settings.text("table").value,
            record_count: rows.record_count,
            operation_count,
            insert_start: rows.insert_start,
            insert_count: rows.insert_count,
            first_insert: rows.record_count,
            field_count,
            field_name_prefix: settings.text("fieldnameprefix").value,
            field_length: field_lengths.longest(),
            read_all_fields: settings.flag("readallfields")?,
            read_all_fields_by_name: settings.flag("readallfieldsbyname")?,
            write_all_fields: settings.flag("writeallfields")?,
            data_integrity: settings.flag("dataintegrity")?,
            tool: tool(&settings)?,
            zipf,
            zipfian_constant,
            hotspot_data_fraction: settings.fraction("hotspotdatafraction")?,
            hotspot_op_fraction: settings.fraction("hotspotopnfraction")?,
            exponential_percentile: settings.real("exponential.percentile")?,
            exponential_frac: settings.real("exponential.frac")?,
            weights,
            distribution,
            field_lengths,
            scan_lengths: scan_lengths(&settings)?,
            key_format,
            effective: effective(&settings, &rows),
            latest: OnceLock::new(),
        };
        if spec.table.trim().is_empty() {
            return Err(bad("table", &settings.text("table"), "a table name"));
        }
        if chooses {
            spec.check_distribution(&settings)?;
        }
        Ok((spec, warnings))
    }

    /// Names of the fields, by number.
    pub fn field_names(&self) -> Vec<String> {
        (0..self.field_count).map(|number| format!("{}{number}", self.field_name_prefix)).collect()
    }

    /// Chooses the kind of each operation of the run.
    ///
    /// # Panics
    /// If all proportions are 0, which is accepted only for a spec without a run phase.
    pub fn op_chooser(&self) -> OpChooser {
        OpChooser::new(&self.weights)
    }

    /// The share of inserts among the run's operations, from 0 to 1.
    pub fn insert_fraction(&self) -> f64 {
        let sum: f64 = self.weights.iter().map(|entry| entry.1).sum();
        if sum > 0.0 { self.weights[2].1 / sum } else { 0.0 }
    }

    /// Name of the request distribution.
    pub fn request_distribution(&self) -> &'static str {
        self.distribution.name
    }

    /// Chooses the record of each read, update, scan and read-modify-write. Quick to make again for
    /// every chunk.
    pub fn key_chooser(&self) -> Box<dyn Distribution> {
        (self.distribution.build)(self)
    }

    /// Draws the length of each value, in bytes.
    pub fn field_lengths(&self) -> LengthDraw {
        self.field_lengths.clone()
    }

    /// Draws the rows asked for by each scan.
    pub fn scan_lengths(&self) -> LengthDraw {
        self.scan_lengths.clone()
    }

    /// How keys are written.
    pub fn key_format(&self) -> KeyFormat {
        self.key_format.clone()
    }

    /// Every workload property with the value that applies and the place it came from, in the
    /// order of [`PROPERTIES`].
    pub fn effective(&self) -> &[(&'static str, Setting)] {
        &self.effective
    }

    /// Room that zipfian leaves for rows the run will insert: twice those expected, as in YCSB,
    /// which takes the proportion as it stands; the exact mode takes its share.
    pub(in crate::workload) fn expected_new_keys(&self) -> u64 {
        let inserts = match self.zipf {
            ZipfMode::Ycsb => self.weights[2].1,
            ZipfMode::Exact => self.insert_fraction(),
        };
        // A float beyond the range saturates; the sum with the loaded rows must fit too.
        ((self.operation_count as f64 * inserts * 2.0) as u64).min(MOST_RECORDS)
    }

    /// YCSB's generator under `latest`: over the loaded records minus one.
    pub(in crate::workload) fn latest_zipfian(&self) -> Zipfian {
        self.latest.get_or_init(|| Zipfian::new(dist::Positions::of(self).loaded - 1, YCSB_THETA)).clone()
    }

    fn check_distribution(&self, settings: &Settings<'_>) -> Result<(), SpecError> {
        match self.distribution.name {
            "hotspot" => {
                let hot = dist::hot_records(self.insert_count, self.hotspot_data_fraction);
                let (fraction, share) = ("hotspotdatafraction", "hotspotopnfraction");
                if hot == 0 && self.hotspot_op_fraction > 0.0 {
                    let problem = format!("no row of {} is hot, and requests go there", self.insert_count);
                    return Err(conflict(
                        settings,
                        &[fraction, share],
                        &format!("{problem}; raise {fraction}"),
                    ));
                }
                if hot == self.insert_count && self.hotspot_op_fraction < 1.0 {
                    let problem = format!("all {hot} rows are hot, and requests go to the others");
                    return Err(conflict(
                        settings,
                        &[fraction, share],
                        &format!("{problem}; lower {fraction}"),
                    ));
                }
            }
            "exponential" => {
                let (percentile, frac) = ("exponential.percentile", "exponential.frac");
                if !(self.exponential_percentile > 0.0 && self.exponential_percentile < 100.0) {
                    return Err(bad(percentile, &settings.text(percentile), "more than 0 and less than 100"));
                }
                if self.exponential_frac == 0.0 {
                    return Err(bad(frac, &settings.text(frac), "more than 0, such as 0.8571428571"));
                }
                let share = dist::share_existing(self.exponential_percentile, self.exponential_frac);
                if share < 0.01 {
                    let problem = "99 of 100 draws would fall beyond the oldest row; this is nearly uniform, so use \
                                   requestdistribution=uniform";
                    return Err(conflict(settings, &[percentile, frac], problem));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// Doubts that need no interpretation: about the syntax, and names nobody reads, each with the one
/// that was probably meant. They often explain why the rest is refused.
pub fn doubts(properties: &Properties) -> Vec<Warning> {
    let mut warnings = properties.warnings().to_vec();
    for (key, setting) in properties.iter().filter(|(key, _)| !table::is_known(key)) {
        let suggestion = table::suggestion(key);
        warnings.push(Warning::UnknownKey {
            key: key.to_owned(),
            origin: setting.source.clone(),
            suggestion,
        });
    }
    warnings
}

/// A conflict between settings, with the value and place of each.
fn conflict(settings: &Settings<'_>, names: &[&'static str], problem: &str) -> SpecError {
    let shown: Vec<String> = names
        .iter()
        .map(|name| {
            let setting = settings.text(name);
            format!("{name}={} ({})", setting.value, setting.source)
        })
        .collect();
    SpecError::Conflict { settings: shown.join(", "), problem: problem.to_owned() }
}

fn check_workload_class(settings: &Settings<'_>) -> Result<(), SpecError> {
    let class = settings.text("workload");
    match class.value.trim() {
        "core" | "site.ycsb.workloads.CoreWorkload" | "com.yahoo.ycsb.workloads.CoreWorkload" => Ok(()),
        _ => Err(bad("workload", &class, "the core workload: site.ycsb.workloads.CoreWorkload or core")),
    }
}

fn proportions(settings: &Settings<'_>) -> Result<[(OpKind, f64); 5], SpecError> {
    let mut weights = PROPORTIONS.map(|(kind, _)| (kind, 0.0));
    for (entry, (_, property)) in weights.iter_mut().zip(PROPORTIONS) {
        entry.1 = settings.real(property)?;
    }
    Ok(weights)
}

/// The mix must have a kind of operation; and defaults that were not meant deserve a word.
fn check_mix(
    settings: &Settings<'_>,
    weights: &[(OpKind, f64); 5],
    warnings: &mut Vec<Warning>,
) -> Result<(), SpecError> {
    let sum: f64 = weights.iter().map(|entry| entry.1).sum();
    if sum == 0.0 {
        let names = PROPORTIONS.map(|entry| entry.1);
        return Err(conflict(
            settings,
            &names,
            "no operation is left to do; give at least one of them a weight",
        ));
    }
    if !sum.is_finite() {
        return Err(conflict(settings, &PROPORTIONS.map(|entry| entry.1), "the sum is beyond every number"));
    }
    let mentioned = PROPORTIONS.iter().any(|(_, property)| settings.given(property).is_some());
    let unmentioned: Vec<String> = PROPORTIONS
        .iter()
        .zip(weights)
        .filter(|((_, property), (_, weight))| *weight > 0.0 && settings.given(property).is_none())
        .map(|((_, property), (_, weight))| format!("{property} = {weight}"))
        .collect();
    if mentioned && !unmentioned.is_empty() && (sum - 1.0).abs() > 1e-9 {
        let mix: Vec<String> = weights
            .iter()
            .filter(|entry| entry.1 > 0.0)
            .map(|(kind, weight)| format!("{} {:.4} %", kind.name(), weight / sum * 100.0))
            .collect();
        warnings.push(Warning::DefaultMix { mix: mix.join(", "), unmentioned: unmentioned.join(" and ") });
    }
    Ok(())
}

/// Which rows there are.
struct RowCounts {
    record_count: u64,
    insert_start: u64,
    insert_count: u64,
}

fn row_counts(settings: &Settings<'_>, load: bool, run: bool, chooses: bool) -> Result<RowCounts, SpecError> {
    let record_count = settings.count("recordcount")?;
    let insert_start = settings.count("insertstart")?;
    let given_count = match settings.given("insertcount") {
        Some(_) => Some(settings.count("insertcount")?),
        None => None,
    };
    // YCSB reads 0 as 2,147,483,647. A load of a stated number of rows needs no recordcount.
    if record_count == 0 && (chooses || (load && !run && given_count.is_none())) {
        return Err(match settings.given("recordcount") {
            Some(setting) => bad("recordcount", setting, "the number of rows in the table, at least 1"),
            None => SpecError::Missing {
                key: "recordcount",
                advice: "give the number of rows, e.g. -p recordcount=1000",
            },
        });
    }
    let mut names = vec!["recordcount", "insertstart"];
    if given_count.is_some() {
        names.push("insertcount");
    }
    let end = given_count.map_or(Some(insert_start), |count| insert_start.checked_add(count));
    let limit = if record_count == 0 && !run { MOST_RECORDS } else { record_count };
    match end {
        Some(end) if end <= limit => {}
        _ => {
            let sum = if given_count.is_some() { "insertstart + insertcount" } else { "insertstart" };
            let shown = end.map_or("more than 2^64".to_owned(), |end| end.to_string());
            let problem = format!(
                "{sum} = {shown} is beyond recordcount = {limit}; the rows loaded must be among the table's"
            );
            return Err(conflict(settings, &names, &problem));
        }
    }
    let insert_count = given_count.unwrap_or(record_count.saturating_sub(insert_start));
    if chooses && insert_count == 0 {
        return Err(conflict(settings, &names, "no row is left to choose from; raise insertcount"));
    }
    Ok(RowCounts { record_count, insert_start, insert_count })
}

fn operation_count(settings: &Settings<'_>, run: bool) -> Result<u64, SpecError> {
    match settings.given("operationcount") {
        Some(_) => settings.count("operationcount"),
        None if run => Err(SpecError::Missing {
            key: "operationcount",
            advice: "a trace has an end; give its number of operations, e.g. -p operationcount=100000",
        }),
        None => Ok(0),
    }
}

fn zipf_settings(settings: &Settings<'_>) -> Result<(ZipfMode, f64), SpecError> {
    let theta = settings.real("zipfian.constant")?;
    match settings.choice("zipf", &["ycsb", "exact"])? {
        "exact" => Ok((ZipfMode::Exact, theta)),
        _ if theta == YCSB_THETA => Ok((ZipfMode::Ycsb, theta)),
        _ => Err(bad(
            "zipfian.constant",
            &settings.text("zipfian.constant"),
            "0.99, which YCSB's generator is made for; add zipf=exact for any other exponent",
        )),
    }
}

fn tool(settings: &Settings<'_>) -> Result<Tool, SpecError> {
    Ok(match settings.choice("keys", &["ycsb", "go-ycsb"])? {
        "ycsb" => Tool::Ycsb,
        _ => Tool::GoYcsb,
    })
}

fn key_format(settings: &Settings<'_>, warnings: &mut Vec<Warning>) -> Result<KeyFormat, SpecError> {
    let insert_order = settings.text("insertorder");
    let order = match (insert_order.value.trim(), tool(settings)?) {
        ("hashed", Tool::Ycsb) => KeyOrder::HashedYcsb,
        ("hashed", Tool::GoYcsb) => KeyOrder::HashedGo,
        ("ordered", _) => KeyOrder::Ordered,
        _ => {
            warnings.push(Warning::ReadAsOrdered { value: insert_order.value, origin: insert_order.source });
            KeyOrder::Ordered
        }
    };
    let prefix = settings.text("keyprefix").value;
    Ok(KeyFormat { prefix, order, zero_padding: settings.small("zeropadding", 100)? })
}

fn field_lengths(settings: &Settings<'_>) -> Result<LengthDraw, SpecError> {
    let high = settings.small("fieldlength", i32::MAX as u32)?;
    let low = settings.small("minfieldlength", i32::MAX as u32)?;
    let rule =
        settings.choice("fieldlengthdistribution", &["constant", "uniform", "zipfian", "histogram"])?;
    // The default minimum of 1 must not forbid empty values of constant length.
    if low > high && (matches!(rule, "uniform" | "zipfian") || settings.given("minfieldlength").is_some()) {
        return Err(conflict(
            settings,
            &["minfieldlength", "fieldlength"],
            "the shortest is longer than the longest",
        ));
    }
    Ok(match rule {
        "constant" => LengthDraw::Constant(high),
        "uniform" => LengthDraw::Uniform { low, high },
        "zipfian" => {
            LengthDraw::Zipfian { low, high, ranks: Zipfian::new(u64::from(high - low) + 1, YCSB_THETA) }
        }
        _ => {
            let setting = settings.text("fieldlengthhistogram");
            let unusable = |reason: String| {
                bad("fieldlengthhistogram", &setting, &format!("a histogram file ({reason})"))
            };
            let text = std::fs::read_to_string(Path::new(setting.value.trim()))
                .map_err(|cause| unusable(format!("cannot read it: {cause}")))?;
            LengthDraw::Histogram(Histogram::parse(&text).map_err(unusable)?)
        }
    })
}

fn scan_lengths(settings: &Settings<'_>) -> Result<LengthDraw, SpecError> {
    let low = settings.small("minscanlength", i32::MAX as u32)?;
    let high = settings.small("maxscanlength", i32::MAX as u32)?;
    if low > high {
        return Err(conflict(
            settings,
            &["minscanlength", "maxscanlength"],
            "the shortest is longer than the longest",
        ));
    }
    Ok(match settings.choice("scanlengthdistribution", &["uniform", "zipfian"])? {
        "uniform" => LengthDraw::Uniform { low, high },
        _ => LengthDraw::Zipfian { low, high, ranks: Zipfian::new(u64::from(high - low) + 1, YCSB_THETA) },
    })
}

/// Values as they apply: blanks around them gone, the default that is computed filled in.
fn effective(settings: &Settings<'_>, rows: &RowCounts) -> Vec<(&'static str, Setting)> {
    let workload_rows = PROPERTIES.iter().filter(|row| row.group == Group::Workload);
    let text_rows = ["table", "keyprefix", "fieldnameprefix"];
    workload_rows
        .map(|row| {
            let mut setting = settings.text(row.name);
            if !text_rows.contains(&row.name) {
                setting.value = setting.value.trim().to_owned();
            }
            if row.name == "insertcount" && setting.source == Source::Default {
                setting.value = rows.insert_count.to_string();
            }
            (row.name, setting)
        })
        .collect()
}

#[cfg(test)]
mod tests;
