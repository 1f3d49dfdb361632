//! The workloads that come with the program, so that `gen workloadd` works in any directory.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Name and text of every workload in the binary: YCSB's core workloads, then go-ycsb's variants.
pub static BUILTIN: &[(&str, &str)] = &[
    ("workloada", include_str!("../../workloads/workloada")),
    ("workloadb", include_str!("../../workloads/workloadb")),
    ("workloadc", include_str!("../../workloads/workloadc")),
    ("workloadd", include_str!("../../workloads/workloadd")),
    ("workloade", include_str!("../../workloads/workloade")),
    ("workloadf", include_str!("../../workloads/workloadf")),
    ("go_workloada", include_str!("../../workloads/go_workloada")),
    ("go_workloadb", include_str!("../../workloads/go_workloadb")),
    ("go_workloadc", include_str!("../../workloads/go_workloadc")),
    ("go_workloadd", include_str!("../../workloads/go_workloadd")),
    ("go_workloade", include_str!("../../workloads/go_workloade")),
    ("go_workloadf", include_str!("../../workloads/go_workloadf")),
];

/// Name and text of every transactional workload in the binary: the OLTP tests of sysbench.
pub static TRANSACTIONAL: &[(&str, &str)] = &[
    ("oltp_point_select", include_str!("../../workloads/oltp_point_select.toml")),
    ("oltp_read_only", include_str!("../../workloads/oltp_read_only.toml")),
    ("oltp_read_write", include_str!("../../workloads/oltp_read_write.toml")),
    ("oltp_write_only", include_str!("../../workloads/oltp_write_only.toml")),
    ("oltp_insert", include_str!("../../workloads/oltp_insert.toml")),
    ("oltp_delete", include_str!("../../workloads/oltp_delete.toml")),
    ("oltp_update_index", include_str!("../../workloads/oltp_update_index.toml")),
    ("oltp_update_non_index", include_str!("../../workloads/oltp_update_non_index.toml")),
    ("select_random_points", include_str!("../../workloads/select_random_points.toml")),
    ("select_random_ranges", include_str!("../../workloads/select_random_ranges.toml")),
    ("bulk_insert", include_str!("../../workloads/bulk_insert.toml")),
];

/// How a workload is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// YCSB's properties.
    Properties,
    /// Tables, statements and transactions, in TOML.
    Transactional,
}

/// A workload's text and where it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Short name, for the trace: the file's name without folders and `.properties`.
    pub name: String,
    /// What messages call it: the path, or `built-in NAME`.
    pub label: String,
    /// What it is written in.
    pub form: Form,
    /// The file.
    pub bytes: Vec<u8>,
}

/// Why there is no such workload.
#[derive(Debug, Error)]
pub enum FindError {
    /// No file and no built-in workload has this name.
    #[error("no workload {name}: no such file here or in workloads/, and the built-in ones are {known}")]
    Unknown {
        /// The name as given.
        name: String,
        /// Names of the built-in workloads.
        known: String,
    },
    /// A script for sysbench.
    #[error(
        "{path} is a script of sysbench, which this program does not execute; its OLTP tests are built in \
         (oltp_read_write …), and transactions of your own are written in a .toml file: docs/oltp.md"
    )]
    Lua {
        /// The file, or the name of one.
        path: String,
    },
    /// The file exists and cannot be read.
    #[error("cannot read the workload file {path}: {cause}")]
    Unreadable {
        /// The file.
        path: String,
        /// The system's reason.
        cause: io::Error,
    },
}

/// Finds a workload by what the user wrote: a path, else a file of that name in `workloads/`, else
/// a built-in one, for which the letter alone will do (`d`, `go_d`).
pub fn find(name: &str) -> Result<Found, FindError> {
    find_in(Path::new(""), name)
}

/// [`find`] with `directory` in place of the current one.
fn find_in(directory: &Path, name: &str) -> Result<Found, FindError> {
    // A test by the name of its script, as sysbench is given it: the script itself is not looked at.
    if let Some(test) = name.strip_suffix(".lua") {
        let test = Path::new(test).file_name().map_or(test.into(), |file| file.to_string_lossy());
        let known = TRANSACTIONAL.iter().any(|(builtin, _)| *builtin == test);
        let lua = || FindError::Lua { path: name.to_owned() };
        return if known { find_in(directory, &test) } else { Err(lua()) };
    }
    let toml = format!("{name}.toml");
    for path in [PathBuf::from(name), Path::new("workloads").join(name), Path::new("workloads").join(&toml)] {
        let place = directory.join(&path);
        if place.is_file() {
            let label = path.display().to_string();
            return match std::fs::read(&place) {
                Ok(bytes) => Ok(Found { name: short_name(name), form: form_of(&path), label, bytes }),
                Err(cause) => Err(FindError::Unreadable { path: label, cause }),
            };
        }
    }
    let short = name.strip_prefix("./").unwrap_or(name);
    let short = short.strip_prefix("workloads/").unwrap_or(short);
    let short = short.strip_suffix(".toml").unwrap_or(short);
    if let Some((builtin, text)) = TRANSACTIONAL.iter().find(|(builtin, _)| *builtin == short) {
        return Ok(Found {
            name: (*builtin).to_owned(),
            label: format!("built-in {builtin}"),
            form: Form::Transactional,
            bytes: text.as_bytes().to_vec(),
        });
    }
    let is_letter = |builtin: &str| builtin.replacen("workload", "", 1) == short;
    match BUILTIN.iter().find(|(builtin, _)| *builtin == short || is_letter(builtin)) {
        Some((builtin, text)) => Ok(Found {
            name: (*builtin).to_owned(),
            label: format!("built-in {builtin}"),
            form: Form::Properties,
            bytes: text.as_bytes().to_vec(),
        }),
        None => {
            let known = BUILTIN.iter().chain(TRANSACTIONAL).map(|row| row.0).collect::<Vec<_>>().join(", ");
            Err(FindError::Unknown { name: name.to_owned(), known })
        }
    }
}

fn short_name(path: &str) -> String {
    let file = Path::new(path).file_name().map_or(path.into(), |file| file.to_string_lossy());
    let short = file.strip_suffix(".properties").or(file.strip_suffix(".toml"));
    short.unwrap_or(&file).to_owned()
}

fn form_of(path: &Path) -> Form {
    if path.extension().is_some_and(|extension| extension == "toml") {
        Form::Transactional
    } else {
        Form::Properties
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Properties, WorkloadSpec};

    #[test]
    fn a_name_a_letter_and_a_path_all_work() {
        let nowhere = tempfile::tempdir().unwrap();
        for name in ["workloadd", "d", "./workloadd", "workloads/workloadd", "./workloads/workloadd"] {
            let found = find_in(nowhere.path(), name).unwrap();
            assert_eq!(
                (found.name.as_str(), found.label.as_str()),
                ("workloadd", "built-in workloadd"),
                "{name}"
            );
        }
        assert_eq!(find_in(nowhere.path(), "go_e").unwrap().name, "go_workloade");
        let path = nowhere.path().join("mine.properties");
        std::fs::write(&path, "recordcount=1").unwrap();
        let found = find(path.to_str().unwrap()).unwrap();
        assert_eq!((found.name.as_str(), found.bytes.as_slice()), ("mine", b"recordcount=1".as_slice()));
    }

    #[test]
    fn a_script_of_sysbench_stands_for_its_test_and_others_are_refused() {
        let nowhere = tempfile::tempdir().unwrap();
        for name in ["oltp_read_write.lua", "/usr/share/sysbench/oltp_read_write.lua"] {
            let found = find_in(nowhere.path(), name).unwrap();
            assert_eq!((found.name.as_str(), found.form), ("oltp_read_write", Form::Transactional), "{name}");
        }
        let error = find_in(nowhere.path(), "mine/pay.lua").unwrap_err().to_string();
        assert!(error.starts_with("mine/pay.lua is a script of sysbench"), "{error}");
    }

    #[test]
    fn files_come_before_built_in_workloads() {
        let here = tempfile::tempdir().unwrap();
        std::fs::create_dir(here.path().join("workloads")).unwrap();
        std::fs::create_dir(here.path().join("workloadb")).unwrap();
        std::fs::write(here.path().join("workloads/workloada"), "x=1").unwrap();
        assert_eq!(find_in(here.path(), "workloada").unwrap().label, "workloads/workloada");
        // A folder is no workload.
        assert_eq!(find_in(here.path(), "workloadb").unwrap().label, "built-in workloadb");
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let error = find("workloadz").unwrap_err().to_string();
        assert!(error.starts_with("no workload workloadz:"), "{error}");
        assert!(BUILTIN.iter().all(|(name, _)| error.contains(name)), "{error}");
    }

    #[test]
    fn every_built_in_workload_is_accepted_without_a_doubt() {
        for (name, text) in BUILTIN {
            let mut properties = Properties::new();
            properties.add_file(name, text.as_bytes()).unwrap();
            let (spec, warnings) = WorkloadSpec::from_properties(name, &properties, true, true).unwrap();
            assert_eq!(warnings, [], "{name}");
            assert_eq!((spec.record_count, spec.operation_count, spec.field_count), (1000, 1000, 10));
            let sum: f64 = spec.op_chooser().shares().iter().map(|entry| entry.1).sum();
            assert_eq!(sum, 1.0, "{name}");
        }
    }
}
