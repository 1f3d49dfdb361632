//! The numbers and switches of a transactional workload: declared with their defaults in its file,
//! under sysbench's names, and set with `-p` or, those of [`super::known`], by flags. `table_size` and
//! `table-size` are one option, because sysbench takes both.

use std::collections::BTreeMap;

use super::known::{Form, KNOWN};
use super::{Place, Trouble};
use crate::workload::{Properties, Setting, Source};

/// An option in force.
#[derive(Debug, Clone, PartialEq)]
struct OptionValue {
    value: toml::Value,
    source: Source,
}

/// Every option of a workload, with its value.
#[derive(Debug, Clone)]
pub struct Options {
    values: BTreeMap<String, OptionValue>,
    unknown: Vec<(String, Source)>,
}

/// Properties that replay and drivers read: not ours, and no mistake.
const OTHERS: &[&str] = &[
    "threadcount",
    "target",
    "maxexecutiontime",
    "table",
    "dropdata",
    "operationcount",
    "events",
    "recordcount",
    "table-size",
    "silence",
    "command",
    "measurementtype",
];

/// The name as files write it.
fn canonical(name: &str) -> String {
    name.replace('_', "-")
}

impl Options {
    /// The options that a file declares, with the settings on top.
    pub fn new(declared: BTreeMap<String, toml::Value>, settings: &Properties) -> Result<Options, Trouble> {
        let mut values: BTreeMap<String, OptionValue> = BTreeMap::new();
        for known in KNOWN {
            if let Some(value) = known.everywhere.and_then(|text| value_of(known.form, text)) {
                values.insert(known.name.to_owned(), OptionValue { value, source: Source::Default });
            }
        }
        for (name, value) in declared {
            values.insert(canonical(&name), OptionValue { value, source: Source::Default });
        }
        let mut options = Options { values, unknown: Vec::new() };
        // YCSB's name for the rows of a table comes first, so that ours can overrule it.
        let alias = settings.get("recordcount").map(|setting| ("table-size", setting));
        let mut settings: Vec<(&str, &Setting)> = alias.into_iter().chain(settings.iter()).collect();
        // An option has two spellings, and the source decides, not the spelling.
        settings.sort_by_key(|(_, setting)| setting.source.rank());
        for (name, setting) in settings {
            options.set(name, setting)?;
        }
        Ok(options)
    }

    fn set(&mut self, name: &str, setting: &Setting) -> Result<(), Trouble> {
        let name = canonical(name);
        let Some(option) = self.values.get_mut(&name) else {
            // A flag is typed for this workload; a property may be meant for somebody else.
            if matches!(setting.source, Source::Flag(_)) {
                return Err(self.no_flag(setting));
            }
            if !OTHERS.contains(&name.as_str()) && !name.contains('.') {
                self.unknown.push((name, setting.source.clone()));
            }
            return Ok(());
        };
        let text = setting.value.trim();
        let form = match &option.value {
            toml::Value::Integer(_) => Form::Count,
            toml::Value::Float(_) => Form::Number,
            toml::Value::Boolean(_) => Form::Switch,
            _ => Form::Word,
        };
        let Some(value) = value_of(form, text) else {
            let expected = match form {
                Form::Count => "a whole number",
                Form::Number => "a number",
                Form::Switch => "on or off",
                Form::Word => "a word",
            };
            return Err(Trouble::nowhere(format!("{name}={text} ({}): expected {expected}", setting.source)));
        };
        *option = OptionValue { value, source: setting.source.clone() };
        Ok(())
    }

    fn no_flag(&self, setting: &Setting) -> Trouble {
        let flags: Vec<String> = KNOWN
            .iter()
            .filter(|known| known.everywhere.is_none() && self.has(known.name))
            .map(|known| format!("--{}", known.name))
            .collect();
        let flags = if flags.is_empty() { "only --rand-…".to_owned() } else { flags.join(", ") };
        Trouble::nowhere(format!(
            "{} {}: this workload has no such option; it has {flags}",
            setting.source, setting.value
        ))
    }

    /// Is there such an option?
    pub fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// Its whole number.
    pub fn int(&self, name: &str) -> Result<i64, Trouble> {
        match self.values.get(name).map(|option| &option.value) {
            Some(toml::Value::Integer(value)) => Ok(*value),
            Some(toml::Value::Boolean(value)) => Ok(i64::from(*value)),
            Some(_) => Err(self.wrong(name, "a whole number")),
            None => Err(self.missing(name)),
        }
    }

    /// Its number.
    pub fn float(&self, name: &str) -> Result<f64, Trouble> {
        match self.values.get(name).map(|option| &option.value) {
            Some(toml::Value::Float(value)) => Ok(*value),
            Some(toml::Value::Integer(value)) => Ok(*value as f64),
            Some(_) => Err(self.wrong(name, "a number")),
            None => Err(self.missing(name)),
        }
    }

    /// Its text, of whatever type it is.
    pub fn text(&self, name: &str) -> String {
        self.values.get(name).map_or(String::new(), |option| text_of(&option.value))
    }

    /// A condition: `name`, `!name`, `true` or `false`; an option that is a number holds if it is not 0.
    pub fn holds(&self, condition: &str, place: Place) -> Result<bool, Trouble> {
        let (name, expected) = match condition.trim().strip_prefix('!') {
            Some(name) => (name.trim(), false),
            None => (condition.trim(), true),
        };
        let value = match name {
            "true" => 1,
            "false" => 0,
            name => self.int(name).map_err(|trouble| trouble.at(place))?,
        };
        Ok((value != 0) == expected)
    }

    /// A count: a number, or the name of an option that holds one.
    pub fn count(&self, text: &str, place: Place) -> Result<u64, Trouble> {
        let value = match text.trim().parse::<i64>() {
            Ok(value) => value,
            Err(_) => self.int(text.trim()).map_err(|trouble| trouble.at(place))?,
        };
        let wrong = || Trouble { place, what: format!("{text} is {value}, and a count cannot be negative") };
        u64::try_from(value).map_err(|_| wrong())
    }

    /// A value that cannot be used.
    pub fn wrong(&self, name: &str, expected: &str) -> Trouble {
        let source = self.values.get(name).map_or(String::new(), |option| format!(" ({})", option.source));
        Trouble::nowhere(format!("{name}={}{source}: expected {expected}", self.text(name)))
    }

    fn missing(&self, name: &str) -> Trouble {
        let known: Vec<&str> = self.values.keys().map(String::as_str).collect();
        let hint = nearest(name, known.iter().copied())
            .map_or(format!("the options are {}", known.join(", ")), |near| format!("did you mean {near}?"));
        Trouble::nowhere(format!("there is no option {name:?}; {hint}"))
    }

    /// Doubts: settings that nobody reads.
    pub fn doubts(&self) -> Vec<String> {
        let sentence = |(name, source): &(String, Source)| {
            let hint = nearest(name, self.values.keys().map(String::as_str))
                .map_or(String::new(), |near| format!("; did you mean {near}?"));
            format!("unknown option {name} ({source}) has no effect{hint}")
        };
        self.unknown.iter().map(sentence).collect()
    }

    /// Every option with its value and where that came from.
    pub fn effective(&self) -> impl Iterator<Item = (&str, Setting)> {
        self.values.iter().map(|(name, option)| {
            (name.as_str(), Setting { value: text_of(&option.value), source: option.source.clone() })
        })
    }
}

/// A value as it is written on a command line; none if it has another form.
fn value_of(form: Form, text: &str) -> Option<toml::Value> {
    match form {
        Form::Count => text.parse().ok().map(toml::Value::Integer),
        Form::Number => text.parse().ok().filter(|value: &f64| value.is_finite()).map(toml::Value::Float),
        Form::Switch => match text.to_ascii_lowercase().as_str() {
            "true" | "on" | "1" | "yes" => Some(toml::Value::Boolean(true)),
            "false" | "off" | "0" | "no" => Some(toml::Value::Boolean(false)),
            _ => None,
        },
        Form::Word => Some(toml::Value::String(text.to_owned())),
    }
}

fn text_of(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Boolean(value) => if *value { "on" } else { "off" }.to_owned(),
        toml::Value::Integer(value) => value.to_string(),
        toml::Value::Float(value) => value.to_string(),
        _ => String::new(),
    }
}

/// The known name that was probably meant.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let near = known.map(|known| (strsim::damerau_levenshtein(name, known), known)).min()?;
    (near.0 <= 2.max(name.len() / 4)).then_some(near.1)
}
