//! From texts to values: reads properties by name with their defaults from the table, and remembers
//! what was read and where it came from.

use super::SpecError;
use super::properties::{Properties, Setting, Source};
use super::table;

/// Reads typed values. Numbers and booleans may have blanks around them (YCSB stumbles over those).
pub(super) struct Settings<'a> {
    properties: &'a Properties,
}

impl<'a> Settings<'a> {
    pub(super) fn new(properties: &'a Properties) -> Settings<'a> {
        Settings { properties }
    }

    /// What somebody set, if anybody did.
    pub(super) fn given(&self, name: &str) -> Option<&'a Setting> {
        self.properties.get(name)
    }

    /// The setting, or the table's default.
    pub(super) fn text(&self, name: &'static str) -> Setting {
        self.given(name).cloned().unwrap_or_else(|| {
            let row = table::find(name).unwrap_or_else(|| panic!("{name} must be a row of PROPERTIES"));
            Setting { value: row.default.to_owned(), source: Source::Default }
        })
    }

    /// A whole number ≥ 0.
    pub(super) fn count(&self, name: &'static str) -> Result<u64, SpecError> {
        let setting = self.text(name);
        // Java's syntax has a sign; Rust's parser takes only the plus.
        setting.value.trim().parse().map_err(|_| bad(name, &setting, "a whole number ≥ 0, such as 1000"))
    }

    /// A whole number from 0 to `most`.
    pub(super) fn small(&self, name: &'static str, most: u32) -> Result<u32, SpecError> {
        let count = self.count(name)?;
        match u32::try_from(count) {
            Ok(count) if count <= most => Ok(count),
            _ => Err(bad(name, &self.text(name), &format!("at most {most}"))),
        }
    }

    /// A finite number ≥ 0.
    pub(super) fn real(&self, name: &'static str) -> Result<f64, SpecError> {
        let setting = self.text(name);
        match setting.value.trim().parse::<f64>() {
            Ok(number) if number.is_finite() && number >= 0.0 => Ok(number + 0.0),
            _ => Err(bad(name, &setting, "a number ≥ 0, such as 0.5")),
        }
    }

    /// A number from 0 to 1.
    pub(super) fn fraction(&self, name: &'static str) -> Result<f64, SpecError> {
        let number = self.real(name)?;
        if number > 1.0 {
            return Err(bad(name, &self.text(name), "a fraction from 0 to 1, such as 0.2"));
        }
        Ok(number)
    }

    /// A boolean, by any of its usual names.
    pub(super) fn flag(&self, name: &'static str) -> Result<bool, SpecError> {
        let setting = self.text(name);
        match setting.value.trim().to_ascii_lowercase().as_str() {
            "true" | "yes" | "1" | "on" => Ok(true),
            "false" | "no" | "0" | "off" => Ok(false),
            _ => Err(bad(name, &setting, "true or false")),
        }
    }

    /// One of a few words.
    pub(super) fn choice(
        &self,
        name: &'static str,
        legal: &[&'static str],
    ) -> Result<&'static str, SpecError> {
        let setting = self.text(name);
        let word = setting.value.trim();
        legal.iter().copied().find(|&choice| choice == word).ok_or_else(|| {
            let (last, others) = legal.split_last().expect("there is always a choice");
            bad(name, &setting, &format!("{} or {last}", others.join(", ")))
        })
    }
}

/// A value that cannot be used, with what would be legal.
pub(super) fn bad(key: &'static str, setting: &Setting, expected: &str) -> SpecError {
    SpecError::Value {
        key,
        value: setting.value.clone(),
        origin: setting.source.clone(),
        expected: expected.to_owned(),
    }
}
