//! How databases are written by those who make them. Labels stay the words of `--db`, because they are what
//! `--baseline` takes and what programs look for; a heading is for people.

/// The word of `--db`, and the name.
const NAMES: &[(&str, &str)] = &[
    ("cockroach", "CockroachDB"),
    ("fjall", "fjall"),
    ("herddb", "HerdDB"),
    ("jdbc", "JDBC"),
    ("mariadb", "MariaDB"),
    ("mysql", "MySQL"),
    ("postgres", "PostgreSQL"),
    ("redis", "Redis"),
    ("riak", "Riak"),
    ("sim", "sim"),
    ("sqlite", "SQLite"),
    ("tidb", "TiDB"),
    ("yugabyte", "YugabyteDB"),
];

/// A label (`sqlite`, `sqlite #2`) as it stands in a heading; a name that somebody chose stays as it is.
pub(super) fn written(label: &str) -> String {
    let (word, number) = label.split_at(label.find(' ').unwrap_or(label.len()));
    let name = NAMES.iter().find(|(known, _)| *known == word).map_or(word, |(_, name)| name);
    format!("{name}{number}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_makers_and_nobody_elses() {
        let labels = ["sqlite", "postgres #2", "fjall", "before", "my sqlite", "oracle #1", ""];
        let expected = ["SQLite", "PostgreSQL #2", "fjall", "before", "my sqlite", "oracle #1", ""];
        assert_eq!(labels.map(written), expected);
    }
}
