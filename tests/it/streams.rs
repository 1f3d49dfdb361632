//! Nobody listens: a reader of a pipe that has gone, a full disk behind standard output.

use std::fs::OpenOptions;
use std::process::Stdio;

use crate::support::program::{Folder, Replayed};

#[test]
fn a_replay_goes_on_when_nobody_reads_what_it_says() {
    let folder = Folder::new();
    folder.ok("gen workloada --records 100 --ops 500");
    let arguments = "replay --db sim workloada --target 1000 --interval 50ms";
    let mut command = folder.command(&arguments.split(' ').collect::<Vec<_>>());
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
    drop((child.stdout.take(), child.stderr.take()));
    assert_eq!(child.wait().expect("a child of this process").code(), Some(0));
    let results = folder.names("results");
    assert_eq!(results.len(), 2, "{results:?}");
    for name in results {
        assert!(Replayed::read(&folder.path("results").join(name)).meta.complete);
    }
}

#[test]
fn a_command_whose_words_nobody_reads_ends_without_complaint() {
    let folder = Folder::new();
    folder.ok("gen workloada --records 10 --ops 20");
    for arguments in [
        "inspect traces/workloada.run.parquet",
        "inspect --json traces/workloada.run.parquet",
        "gen workloadb --records 10 --ops 20",
        "gen workloada --show-config",
        "databases",
        "databases sqlite",
        "workloads",
        "workloads a",
        "completions bash",
        "man",
        "repair traces",
    ] {
        let mut command = folder.command(&arguments.split(' ').collect::<Vec<_>>());
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("a child of this process");
        assert_eq!(output.status.code(), Some(0), "{arguments}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{arguments}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_behind_standard_output_is_an_error_and_costs_no_result() {
    let folder = Folder::new();
    folder.ok("gen workloada --records 10 --ops 20");
    for arguments in [
        "inspect traces/workloada.run.parquet",
        "gen workloada --show-config",
        "databases",
        "man",
        "replay --db sim workloada",
    ] {
        let full = OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
        let mut command = folder.command(&arguments.split(' ').collect::<Vec<_>>());
        let output = command.stdout(full).output().expect("the program starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments}: {said}");
        assert!(said.contains("No space left on device"), "{arguments}: {said}");
        assert!(!said.contains("panicked"), "{arguments}: {said}");
    }
    assert_eq!(folder.names("results").len(), 2, "both phases were replayed");
}
