//! The files YCSB workloads are written in: Java's property syntax, read as `java.util.Properties`
//! reads it, except that the bytes are UTF-8. Every setting keeps the place it came from, because
//! "which of the three files set this?" is the first question when a mix is not the expected one.

use std::collections::BTreeMap;
use std::fmt;

use thiserror::Error;

use super::warning::Warning;

/// Where a setting was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Nowhere: YCSB's default applies.
    Default,
    /// In a property file.
    File {
        /// The file as the user named it.
        path: String,
        /// 1-based line on which the setting begins.
        line: u32,
    },
    /// With `-p name=value`, which beats every file.
    CommandLine,
    /// With a flag of its own, which beats `-p`.
    Flag(&'static str),
}

impl Source {
    /// Of two sources the higher one decides.
    pub fn rank(&self) -> u8 {
        match self {
            Source::Default => 0,
            Source::File { .. } => 1,
            Source::CommandLine => 2,
            Source::Flag(_) => 3,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Default => out.write_str("default"),
            Source::File { path, line } => write!(out, "{path}:{line}"),
            Source::CommandLine => out.write_str("-p"),
            Source::Flag(name) => write!(out, "--{name}"),
        }
    }
}

/// The value of a property and the place that decided it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// The value as text; blanks at its end are kept, as Java does.
    pub value: String,
    /// Where it was made.
    pub source: Source,
}

/// Why a text is no list of settings.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum PropertiesError {
    /// `-p` without `=`.
    #[error("-p {argument}: expected name=value, for instance -p recordcount=1000")]
    NoEquals {
        /// The argument as given.
        argument: String,
    },
    /// `\u` without four hexadecimal digits, or half of a surrogate pair.
    #[error(
        "{path}:{line}: {escape} is not a character; write \\u and four hexadecimal digits, e.g. \\u00e9"
    )]
    BadEscape {
        /// The file.
        path: String,
        /// 1-based line on which the setting begins.
        line: u32,
        /// The text that was understood as an escape.
        escape: String,
    },
}

/// Settings by name. Files are added in order and the later one wins; a setting from the command
/// line beats every file, wherever it stands.
#[derive(Debug, Clone, Default)]
pub struct Properties {
    settings: BTreeMap<String, Setting>,
    warnings: Vec<Warning>,
}

impl Properties {
    /// No settings at all.
    pub fn new() -> Properties {
        Properties::default()
    }

    /// Adds the settings of a file; `path` is the name shown in messages.
    pub fn add_file(&mut self, path: &str, bytes: &[u8]) -> Result<(), PropertiesError> {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => {
                self.warnings.push(Warning::NotUtf8 { path: path.to_owned() });
                bytes.iter().map(|&byte| char::from(byte)).collect()
            }
        };
        for (line, text) in logical_lines(&text) {
            let (raw_key, raw_value) = split(&text);
            let place = |escape| PropertiesError::BadEscape { path: path.to_owned(), line, escape };
            let key = unescape(raw_key).map_err(place)?;
            let value = unescape(raw_value).map_err(place)?;
            let source = Source::File { path: path.to_owned(), line };
            if looks_like_a_path(raw_value) {
                let (key, origin, value) = (key.clone(), source.clone(), value.clone());
                self.warnings.push(Warning::Backslash { key, origin, value });
            }
            if self.settings.get(&key).is_none_or(|older| older.source.rank() <= source.rank()) {
                self.settings.insert(key, Setting { value, source });
            }
        }
        Ok(())
    }

    /// Adds a `name=value` from the command line, split at the first `=` and otherwise untouched.
    pub fn add_argument(&mut self, argument: &str) -> Result<(), PropertiesError> {
        let Some((name, value)) = argument.split_once('=') else {
            return Err(PropertiesError::NoEquals { argument: argument.to_owned() });
        };
        self.set(name, value);
        Ok(())
    }

    /// Makes a setting with the rank of the command line; flags that stand for a property use it.
    pub fn set(&mut self, name: &str, value: &str) {
        let setting = Setting { value: value.to_owned(), source: Source::CommandLine };
        self.settings.insert(name.to_owned(), setting);
    }

    /// Makes a setting by the flag of this name.
    pub fn set_flag(&mut self, name: &str, value: &str, flag: &'static str) {
        let setting = Setting { value: value.to_owned(), source: Source::Flag(flag) };
        self.settings.insert(name.to_owned(), setting);
    }

    /// The setting of `name`, if somebody made it.
    pub fn get(&self, name: &str) -> Option<&Setting> {
        self.settings.get(name)
    }

    /// Every setting, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Setting)> {
        self.settings.iter().map(|(name, setting)| (name.as_str(), setting))
    }

    /// Doubts about the syntax, in the order in which they were met.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }
}

/// A value as it may be shown in one line: characters that cannot be seen are replaced by their
/// pictures, so that a tab read from `C:\temp` does not look like what was written.
pub fn visible(value: &str) -> String {
    let picture = |character: char| match character {
        '\0'..='\x1f' => char::from_u32(0x2400 + character as u32).expect("a control picture"),
        '\x7f' => '␡',
        other => other,
    };
    value.chars().map(picture).collect()
}

const BLANKS: [char; 3] = [' ', '\t', '\x0c'];

/// Comment-free lines with their continuations joined, and the 1-based number of the first.
fn logical_lines(text: &str) -> Vec<(u32, String)> {
    // CR, LF and CRLF all end a line; an LF after a CR only adds an empty line, so count it away.
    let mut natural = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(['\r', '\n']).unwrap_or(rest.len());
        natural.push(&rest[..end]);
        rest = &rest[end..];
        rest = rest.strip_prefix("\r\n").or_else(|| rest.get(1..)).unwrap_or("");
    }
    let mut lines = (1..).zip(natural);
    let mut logical = Vec::new();
    while let Some((number, line)) = lines.next() {
        let line = line.trim_start_matches(BLANKS);
        if line.is_empty() || line.starts_with(['#', '!']) {
            continue;
        }
        let mut joined = line.to_owned();
        while continues(&joined) {
            joined.pop();
            let Some((_, next)) = lines.next() else { break };
            joined.push_str(next.trim_start_matches(BLANKS));
        }
        logical.push((number, joined));
    }
    logical
}

/// Does the line end in an odd number of backslashes?
fn continues(line: &str) -> bool {
    line.bytes().rev().take_while(|&byte| byte == b'\\').count() % 2 == 1
}

/// Splits at the first separator that is not escaped: blanks, and among them at most one `=` or `:`.
fn split(line: &str) -> (&str, &str) {
    let mut escaped = false;
    let mut end = line.len();
    for (at, character) in line.char_indices() {
        if !escaped && (BLANKS.contains(&character) || matches!(character, '=' | ':')) {
            end = at;
            break;
        }
        escaped = character == '\\' && !escaped;
    }
    let value = line[end..].trim_start_matches(BLANKS);
    let value = value.strip_prefix(['=', ':']).unwrap_or(value);
    (&line[..end], value.trim_start_matches(BLANKS))
}

/// Replaces escapes; `Err` is the text of the one that stands for no character.
fn unescape(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let Some(escape) = rest.chars().next() else { break };
        if escape == 'u' {
            let (character, length) = unicode_escape(rest)?;
            out.push(character);
            rest = &rest[length..];
            continue;
        }
        out.push(match escape {
            't' => '\t',
            'n' => '\n',
            'r' => '\r',
            'f' => '\x0c',
            other => other,
        });
        rest = &rest[escape.len_utf8()..];
    }
    out.push_str(rest);
    Ok(out)
}

/// Reads `uXXXX`, or `uXXXX\uXXXX` for a character outside the basic plane; the second number is
/// the length read.
fn unicode_escape(text: &str) -> Result<(char, usize), String> {
    let unit = |from: usize| {
        let digits = text.get(from..from + 4)?;
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        u16::from_str_radix(digits, 16).ok()
    };
    let bad = || format!("\\{}", text.chars().take(5).collect::<String>());
    let first = unit(1).ok_or_else(bad)?;
    if let Some(character) = char::from_u32(u32::from(first)) {
        return Ok((character, 5));
    }
    let second = if text.get(5..7) == Some("\\u") { unit(7) } else { None };
    let pair = char::decode_utf16([first, second.ok_or_else(bad)?]).next();
    match pair {
        Some(Ok(character)) => Ok((character, 11)),
        _ => Err(bad()),
    }
}

/// `C:\temp`, or a backslash before a letter or digit that is no escape: probably a path whose
/// separators were just lost.
fn looks_like_a_path(raw: &str) -> bool {
    let bytes = raw.as_bytes();
    let single =
        |at: usize| bytes.get(at) == Some(&b'\\') && bytes.get(at + 1).is_some_and(|&next| next != b'\\');
    if bytes.first().is_some_and(u8::is_ascii_alphabetic) && bytes.get(1) == Some(&b':') && single(2) {
        return true;
    }
    let mut at = 0;
    while let Some(found) = raw[at..].find('\\') {
        let next = raw[at + found + 1..].chars().next();
        if next.is_some_and(|next| next.is_alphanumeric() && !matches!(next, 't' | 'n' | 'r' | 'f' | 'u')) {
            return true;
        }
        at += found + 1 + next.map_or(0, char::len_utf8);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Properties {
        let mut properties = Properties::new();
        properties.add_file("file", text.as_bytes()).unwrap();
        properties
    }

    fn value<'a>(properties: &'a Properties, name: &str) -> &'a str {
        &properties.get(name).unwrap_or_else(|| panic!("{name} is not set")).value
    }

    /// Splits a line of RFC 4180 CSV.
    fn csv_cells(line: &str) -> Vec<String> {
        let mut cells = vec![String::new()];
        let mut quoted = false;
        let mut characters = line.chars().peekable();
        while let Some(character) = characters.next() {
            let cell = cells.last_mut().unwrap();
            match character {
                '"' if quoted && characters.peek() == Some(&'"') => {
                    cell.push('"');
                    characters.next();
                }
                '"' => quoted = !quoted,
                ',' if !quoted => cells.push(String::new()),
                other => cell.push(other),
            }
        }
        cells
    }

    #[test]
    fn files_are_read_as_java_reads_them() {
        let csv = include_str!("../../tests/golden/vectors/properties_syntax.csv");
        // We read UTF-8 as go-ycsb does, and a byte-order mark is no part of the first name.
        let utf8_rows = ["caf\u{e9}=\u{e9}", "a=\u{feff}1"];
        let marked = "\u{feff}a=1";
        let mut checked = 0;
        for line in csv.lines().skip(2) {
            let cells = csv_cells(line);
            let text: String = serde_json::from_str(&cells[0]).unwrap();
            if text == marked {
                assert_eq!(value(&parse(&text), "a"), "1");
                continue;
            }
            let column = if utf8_rows.contains(&text.as_str()) { 2 } else { 1 };
            let expected: BTreeMap<String, String> = serde_json::from_str(&cells[column]).unwrap();
            let read: BTreeMap<String, String> =
                parse(&text).iter().map(|(name, setting)| (name.to_owned(), setting.value.clone())).collect();
            assert_eq!(read, expected, "{text:?}");
            checked += 1;
        }
        assert_eq!(checked, 48);
    }

    #[test]
    fn the_whole_grammar_is_understood() {
        let text = "# comment\r\n! also comment\r\nrecordcount=1000   \r\n  operationcount : 20\r\nfieldlength 7\r\n\
                    table=user\\\r\n    table\r\ndb.url=jdbc:postgresql://h:5432/x?a=b&c=d#frag\r\n\
                    esc=caf\\u00e9\r\nempty=\r\nreadproportion=0.5\r\nreadproportion=0.9\r\n\
                    win=C:\\temp\\new\r\n";
        let properties = parse(text);
        for (name, expected) in [
            ("recordcount", "1000   "),
            ("operationcount", "20"),
            ("fieldlength", "7"),
            ("table", "usertable"),
            ("db.url", "jdbc:postgresql://h:5432/x?a=b&c=d#frag"),
            ("esc", "caf\u{e9}"),
            ("empty", ""),
            ("readproportion", "0.9"),
            ("win", "C:\temp\new"),
        ] {
            assert_eq!(value(&properties, name), expected);
        }
        assert_eq!(properties.iter().count(), 9);
        let shown: Vec<String> = properties.warnings().iter().map(ToString::to_string).collect();
        let expected = "win (file:13) was read as \"C:␉emp␊ew\": a backslash starts an escape in a \
                        property file; write \\\\ or / in a path";
        assert_eq!(shown, [expected]);
        assert_eq!(properties.get("readproportion").unwrap().source.to_string(), "file:12");
        assert_eq!(properties.get("db.url").unwrap().source.to_string(), "file:8");
    }

    #[test]
    fn the_command_line_beats_files_wherever_it_stands() {
        let (a, b) = ("operationcount=7\nthreadcount=2\n", "operationcount=9\n");
        let mut after = Properties::new();
        after.add_file("a", a.as_bytes()).unwrap();
        after.add_file("b", b.as_bytes()).unwrap();
        assert_eq!(value(&after, "operationcount"), "9");
        after.add_argument("operationcount=5").unwrap();
        after.add_argument("url=x=y").unwrap();
        let mut before = Properties::new();
        before.add_argument("operationcount=5").unwrap();
        before.add_argument("url=x=y").unwrap();
        before.add_file("a", a.as_bytes()).unwrap();
        before.add_file("b", b.as_bytes()).unwrap();
        for properties in [after, before] {
            assert_eq!(value(&properties, "operationcount"), "5");
            assert_eq!(properties.get("operationcount").unwrap().source.to_string(), "-p");
            assert_eq!(value(&properties, "url"), "x=y");
            assert_eq!(value(&properties, "threadcount"), "2");
            assert_eq!(properties.get("threadcount").unwrap().source.to_string(), "a:2");
        }
    }

    #[test]
    fn an_argument_without_an_equals_sign_is_refused() {
        let error = Properties::new().add_argument("recordcount").unwrap_err();
        assert_eq!(
            error.to_string(),
            "-p recordcount: expected name=value, for instance -p recordcount=1000"
        );
    }

    #[test]
    fn escapes_reach_beyond_the_basic_plane_and_bad_ones_are_named() {
        assert_eq!(value(&parse("a=\\ud83d\\ude00!"), "a"), "\u{1f600}!");
        for bad in ["\\u12", "\\uzzzz", "\\u+123", "\\ud83d", "\\ud83dx", "\\ude00", "\\u\u{e9}\u{e9}"] {
            let text = format!("x=1\na={bad}");
            let error = Properties::new().add_file("f", text.as_bytes()).unwrap_err();
            assert!(error.to_string().starts_with("f:2: \\u"), "{bad}: {error}");
        }
    }

    #[test]
    fn a_file_in_latin_1_is_read_with_a_warning() {
        let mut properties = Properties::new();
        properties.add_file("f", b"a=caf\xe9").unwrap();
        assert_eq!(value(&properties, "a"), "caf\u{e9}");
        assert_eq!(properties.warnings(), [Warning::NotUtf8 { path: "f".into() }]);
    }

    #[test]
    fn only_suspicious_backslashes_raise_a_doubt() {
        assert!(parse("a=C:\\\\temp\nb=tab\\there\nc=x\\=y\nd=\\u0041\n").warnings().is_empty());
        assert_eq!(parse("a=data\\workloads\n").warnings().len(), 1);
        assert_eq!(parse("a=D:\\new\n").warnings().len(), 1);
    }

    #[test]
    fn a_comment_is_not_continued_and_lines_are_counted_through_continuations() {
        let properties = parse("# no \\\na=1 \\\n\n\nb=2\\\\\nc=3\r\rd=4");
        assert_eq!(value(&properties, "a"), "1 ");
        assert_eq!(value(&properties, "b"), "2\\");
        assert_eq!(properties.get("c").unwrap().source.to_string(), "file:6");
        assert_eq!(properties.get("d").unwrap().source.to_string(), "file:8");
    }
}
