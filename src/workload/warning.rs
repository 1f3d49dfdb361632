//! What a workload file says that is legal but probably not meant. Each doubt is a named case with
//! advice; with `--strict` the caller turns them into errors.

use std::fmt;

use super::properties::{Source, visible};

/// Something legal in the settings that deserves a second look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Warning {
    /// No property has this name.
    UnknownKey {
        /// The name as written.
        key: String,
        /// Where it was written.
        origin: Source,
        /// The known property with the most similar name.
        suggestion: Option<&'static str>,
    },
    /// A backslash was read as an escape although the value looks like a Windows path.
    Backslash {
        /// The property.
        key: String,
        /// Where it was written.
        origin: Source,
        /// What was read.
        value: String,
    },
    /// The file is not UTF-8 and was read as ISO-8859-1.
    NotUtf8 {
        /// The file.
        path: String,
    },
    /// `insertorder` is neither `hashed` nor `ordered`.
    ReadAsOrdered {
        /// What was written.
        value: String,
        /// Where it was written.
        origin: Source,
    },
    /// Some proportions are given, and defaults that were not mentioned change the mix.
    DefaultMix {
        /// The mix that results, for instance `READ 47.5 %, UPDATE 2.5 %, INSERT 50 %`.
        mix: String,
        /// The proportions left at a default that is not zero.
        unmentioned: String,
    },
    /// The setting is understood but changes nothing.
    NoEffect {
        /// The property.
        key: &'static str,
        /// Its value.
        value: String,
        /// Where it was written.
        origin: Source,
        /// Why, and what to do instead.
        because: &'static str,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::UnknownKey { key, origin, suggestion: Some(name) } => {
                write!(out, "unknown property {key} ({origin}) has no effect; did you mean {name}?")
            }
            Warning::UnknownKey { key, origin, suggestion: None } => {
                write!(out, "unknown property {key} ({origin}) has no effect")
            }
            Warning::Backslash { key, origin, value } => write!(
                out,
                "{key} ({origin}) was read as \"{}\": a backslash starts an escape in a property file; \
                 write \\\\ or / in a path",
                visible(value)
            ),
            Warning::NotUtf8 { path } => {
                write!(out, "{path} is not UTF-8 and was read as ISO-8859-1; save it as UTF-8")
            }
            Warning::ReadAsOrdered { value, origin } => write!(
                out,
                "insertorder={value} ({origin}) is read as ordered, as YCSB does with anything but hashed; \
                 write ordered"
            ),
            Warning::DefaultMix { mix, unmentioned } => write!(
                out,
                "the mix is {mix}; left at their defaults: {unmentioned}; set them to 0 if that is not meant"
            ),
            Warning::NoEffect { key, value, origin, because } => {
                write!(out, "{key}={value} ({origin}) has no effect: {because}")
            }
        }
    }
}
