//! What the documents promise: every command line in them is one that the program takes, every file
//! they name is there, and what they copy from the sources is what the sources say.

use std::path::{Path, PathBuf};

use clap::CommandFactory;
use ycsb_trace::cli::Cli;
#[cfg(all(feature = "sqlite", feature = "fjall", feature = "postgres"))]
use ycsb_trace::driver;

const DOCUMENTS: [&str; 11] = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "analysis/README.md",
    "docs/databases.md",
    "docs/faults.md",
    "docs/reference-benchmarks.md",
    "docs/verification.md",
    "traces/README.md",
    "workloads/README.md",
];

fn file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn text(path: &str) -> String {
    std::fs::read_to_string(file(path)).unwrap_or_else(|cause| panic!("{path}: {cause}"))
}

/// The command lines of a document's ```sh blocks, with continuation lines joined.
fn commands(document: &str) -> Vec<String> {
    let mut found = Vec::new();
    for block in document.split("```sh\n").skip(1) {
        let block = block.split("```").next().unwrap_or_default().replace("\\\n", " ");
        found.extend(block.lines().map(|line| line.split(" #").next().unwrap_or_default().trim().to_owned()));
    }
    found.retain(|line| line.starts_with("ycsb-trace "));
    found
}

#[test]
fn every_command_line_in_the_documents_is_understood() {
    let mut seen = 0;
    for document in DOCUMENTS {
        for command in commands(&text(document)) {
            if ["analyze", "load", "run"]
                .iter()
                .any(|name| command.starts_with(&format!("ycsb-trace {name} ")))
                && !cfg!(feature = "analyze")
            {
                continue;
            }
            if let Err(complaint) = Cli::understand(command.split_whitespace()) {
                panic!("{document}: {command}\n{complaint}");
            }
            seen += 1;
        }
    }
    assert!(seen >= 9, "only {seen} command lines were found");
}

/// Flags that the text mentions with their command, such as `replay --target`.
#[test]
fn every_flag_the_documents_name_is_one_of_its_command() {
    let program = Cli::command();
    let mut seen = 0;
    for document in DOCUMENTS {
        for command in program.get_subcommands() {
            for mention in text(document).split(&format!("`{} --", command.get_name())).skip(1) {
                let end =
                    mention.find(|c: char| !c.is_ascii_lowercase() && c != '-').unwrap_or(mention.len());
                let flag = &mention[..end];
                let known = command.get_arguments().any(|argument| argument.get_long() == Some(flag));
                assert!(known, "{document}: {} has no --{flag}", command.get_name());
                seen += 1;
            }
        }
    }
    assert!(seen >= 8, "only {seen} flags were found");
}

#[test]
fn every_file_the_documents_link_to_is_there() {
    for document in DOCUMENTS {
        let folder = file(document).parent().expect("a folder").to_owned();
        for link in text(document).split("](").skip(1) {
            let link = link.split(')').next().unwrap_or_default();
            let path = link.split('#').next().unwrap_or_default();
            if path.is_empty() || path.contains("://") {
                continue;
            }
            assert!(folder.join(path).exists(), "{document} links to {link}");
        }
    }
}

#[cfg(all(feature = "sqlite", feature = "fjall", feature = "postgres"))]
#[test]
fn the_readme_lists_the_databases_of_the_program() {
    let readme = text("README.md");
    for kind in driver::kinds() {
        let row = format!(
            "| `{}` | {} | {} | {} |",
            kind.names[0],
            kind.names[1..].join(", "),
            kind.default_address,
            kind.about
        );
        let row = row.replace("|  |", "| |");
        assert!(readme.contains(&row), "README.md lacks the row\n{row}");
    }
}

/// One section for each kind: what `databases NAME` says is said there in the same words.
#[cfg(all(feature = "sqlite", feature = "fjall", feature = "postgres"))]
#[test]
fn the_page_of_databases_says_what_the_program_says() {
    let page = text("docs/databases.md");
    let sections: Vec<&str> = page.split("\n### ").skip(1).collect();
    for kind in driver::kinds() {
        let name = kind.names[0];
        let title = format!("`{name}`");
        let section = sections.iter().find(|section| section.starts_with(&title));
        let section = section.unwrap_or_else(|| panic!("docs/databases.md has no section ### {title}"));
        let plain = section.replace("\\\n", " ").split_whitespace().collect::<Vec<_>>().join(" ");
        let defaults = kind.defaults.iter().map(|(what, words)| format!("* {what}: {words}"));
        let facts = [kind.example.to_owned(), format!("* tested against: {}", kind.tested_against)];
        for fact in facts.into_iter().chain(defaults) {
            assert!(plain.contains(&fact), "the section ### {title} of docs/databases.md lacks\n{fact}");
        }
        let parsed = Cli::understand(kind.example.split_whitespace());
        assert!(parsed.is_ok(), "{}\n{}", kind.example, parsed.unwrap_err());
    }
}

#[test]
fn the_worked_example_is_the_driver_that_is_tested() {
    let driver = text("tests/it/memory.rs");
    let contributing = text("CONTRIBUTING.md");
    let (_, shown) = contributing.split_once("```rust\n").expect("a block of Rust");
    let (shown, _) = shown.split_once("```").expect("its end");
    assert!(driver.contains(shown), "CONTRIBUTING.md shows another text than tests/it/memory.rs");
}
