//! The words of a YCSB command line in our form. Its long options have one dash (`-threads 200`),
//! which to every other program is a row of short ones; and which dash was used says whose command
//! line it is.

use std::ffi::OsString;

/// YCSB's options that have a value, and ours.
const WITH_VALUE: [(&str, &str); 6] = [
    ("-threads", "--threads"),
    ("-target", "--target"),
    ("-db", "--class"),
    ("-cp", "--cp"),
    ("-jvm-args", "--jvm-args"),
    ("-l", "--label"),
];

/// YCSB's options without one. The phase is said by the command.
const BARE: [(&str, Option<&str>); 3] = [("-s", Some("--status")), ("-load", None), ("-t", None)];

/// Rewrites the options of `load` and `run`; every other command line stays as it is.
pub fn in_our_form(words: Vec<OsString>) -> Vec<OsString> {
    let phase = words.get(1).and_then(|word| word.to_str());
    if !matches!(phase, Some("load" | "run")) {
        return words;
    }
    let mut rest = words.into_iter();
    let mut ours: Vec<OsString> = rest.by_ref().take(2).collect();
    let mut one_dash = false;
    let mut two_dashes = false;
    while let Some(word) = rest.next() {
        let text = word.to_str().unwrap_or_default();
        let (name, glued) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
        if let Some((_, our)) = WITH_VALUE.iter().find(|(their, _)| *their == name) {
            one_dash = true;
            // One word, so that a value which begins with a dash stays a value.
            let value = glued.map(OsString::from).or_else(|| rest.next());
            let mut word = OsString::from(our);
            if let Some(value) = value {
                word.push("=");
                word.push(value);
            }
            ours.push(word);
        } else if let Some((_, our)) = BARE.iter().find(|(their, _)| *their == text) {
            one_dash = true;
            ours.extend(our.map(OsString::from));
        } else {
            two_dashes |= matches!(name, "--threads" | "--target" | "--interval" | "--table");
            let takes_value = matches!(text, "-p" | "-P");
            ours.push(word);
            if takes_value {
                ours.extend(rest.next());
            }
        }
    }
    if one_dash || two_dashes {
        ours.push(format!("--form={}", if one_dash { "ycsb" } else { "go-ycsb" }).into());
    }
    ours
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours(line: &str) -> String {
        let words = in_our_form(line.split(' ').map(OsString::from).collect());
        words.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn one_dash_is_ycsbs_form_and_two_are_go_ycsbs() {
        assert_eq!(
            ours(
                "ycsb-trace load jdbc -s -P workloads/workloada -P herd.properties -cp a.jar:b.jar -threads 200"
            ),
            "ycsb-trace load jdbc --status -P workloads/workloada -P herd.properties --cp=a.jar:b.jar --threads=200 \
             --form=ycsb"
        );
        assert_eq!(
            ours("ycsb-trace run cockroach -P w --threads 96 -p pg.host=h"),
            "ycsb-trace run cockroach -P w --threads 96 -p pg.host=h --form=go-ycsb"
        );
        assert_eq!(ours("ycsb-trace run pg -P w"), "ycsb-trace run pg -P w");
        assert_eq!(
            ours("ycsb-trace run basic -P -s -p -t"),
            "ycsb-trace run basic -P -s -p -t",
            "values stay"
        );
        assert_eq!(
            ours("ycsb-trace run basic -jvm-args=-Xmx1g"),
            "ycsb-trace run basic --jvm-args=-Xmx1g --form=ycsb"
        );
        assert_eq!(ours("ycsb-trace replay -s"), "ycsb-trace replay -s", "ours alone");
    }
}
