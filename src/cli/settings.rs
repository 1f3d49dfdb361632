//! Property files and `-p` settings, shared by the commands that take them, and what must never be
//! printed of them.

use anyhow::{Context, Result, bail};
use clap::Args;

use super::say::note;
use crate::workload::{Properties, Warning, builtin};

/// `-P` and `-p`.
#[derive(Debug, Clone, Default, Args)]
pub struct PropertyArgs {
    /// Property file; may be repeated, later files win
    #[arg(short = 'P', value_name = "FILE")]
    pub files: Vec<String>,
    /// Property; beats every file wherever it stands
    #[arg(short = 'p', value_name = "NAME=VALUE")]
    pub settings: Vec<String>,
    /// Treat warnings about settings as errors
    #[arg(long)]
    pub strict: bool,
}

impl PropertyArgs {
    /// Reads the files, then the `-p` settings, on top of `properties`.
    pub fn read_into(&self, properties: &mut Properties) -> Result<()> {
        for file in &self.files {
            // What `load` and `run` name when a file is not there but comes with the program.
            if let Some(name) = file.strip_prefix("built-in ") {
                properties.add_file(file, &builtin::find(name)?.bytes)?;
                continue;
            }
            let bytes =
                std::fs::read(file).with_context(|| format!("cannot read the property file {file}"))?;
            properties.add_file(file, &bytes)?;
        }
        for setting in &self.settings {
            properties.add_argument(setting)?;
        }
        Ok(())
    }
}

/// Prints warnings to standard error; under `--strict` they are an error.
pub fn report_warnings(warnings: &[Warning], strict: bool) -> Result<()> {
    for warning in warnings {
        note!("warning: {warning}");
    }
    if strict && !warnings.is_empty() {
        bail!("{} warning(s) about settings, and --strict was given", warnings.len());
    }
    Ok(())
}

/// The value of a property as it may be shown and stored: secrets are replaced.
pub fn redacted(name: &str, value: &str) -> String {
    let name = name.to_ascii_lowercase();
    if ["pass", "pwd", "secret", "token", "apikey", "api_key"].iter().any(|secret| name.contains(secret)) {
        return "***".to_owned();
    }
    redacted_url(value)
}

/// A text without the passwords of the URLs and connection strings in it.
pub fn redacted_url(text: &str) -> String {
    let mut text = text.to_owned();
    // scheme://user:password@host: the password may itself hold any character but ends at the last @.
    if let Some(scheme) = text.find("://") {
        let authority = scheme + 3;
        if let Some(at) = text.rfind('@').filter(|&at| at > authority)
            && let Some(colon) = text[authority..at].find(':')
        {
            text.replace_range(authority + colon + 1..at, "***");
        }
    }
    // Oracle's jdbc:oracle:thin:user/password@host has no //.
    if text.starts_with("jdbc:oracle:")
        && let Some(at) = text.rfind('@')
        && let Some(slash) = text[..at].find('/')
    {
        text.replace_range(slash + 1..at, "***");
    }
    // password=… in a query or a key=value connection string, where blanks may surround the = and
    // quotes the value.
    let mut from = 0;
    while let Some(found) = text[from..].to_ascii_lowercase().find("password") {
        from += found + "password".len();
        let Some(rest) = text[from..].trim_start().strip_prefix('=') else { continue };
        let rest = rest.trim_start();
        let begin = text.len() - rest.len();
        let end = begin + secret_length(rest);
        text.replace_range(begin..end, "***");
        from = begin + 3;
    }
    text
}

/// The bytes of the value that `text` begins with: to the closing quote that no backslash precedes,
/// or to the end of the setting.
fn secret_length(text: &str) -> usize {
    let quoted = text.starts_with('\'');
    let mut escaped = false;
    for (at, character) in text.char_indices().skip(usize::from(quoted)) {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '\'' if quoted => return at + 1,
            '&' | ' ' | ';' if !quoted => return at,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_survives() {
        for (shown, given) in [
            (
                "postgres://root:***@h:1/db?sslmode=disable",
                "postgres://root:p@ss:w/rd@h:1/db?sslmode=disable",
            ),
            ("postgres://root@h:1/db", "postgres://root@h:1/db"),
            ("host=h password=*** user=u", "host=h password=s3cret user=u"),
            ("host=h password=*** user=u", "host=h password='s3 cret' user=u"),
            ("host=h password=*** user=u", r"host=h password='s3\' c\\ret' user=u"),
            ("host=h password = *** user=u", r"host=h password = s3\ cret user=u"),
            ("no password here, password=***", "no password here, password=s3cret"),
            (
                "jdbc:postgresql://h/x?user=a&password=***&ssl=true",
                "jdbc:postgresql://h/x?user=a&password=b&ssl=true",
            ),
            ("jdbc:oracle:thin:u/***@h:1521:x", "jdbc:oracle:thin:u/s3@cr/t@h:1521:x"),
            ("traces/x", "traces/x"),
        ] {
            assert_eq!(redacted("url", given), shown);
        }
        assert_eq!(redacted("pg.password", "s3cret"), "***");
        assert_eq!(redacted("db.passwd", "s3cret"), "***");
    }
}
