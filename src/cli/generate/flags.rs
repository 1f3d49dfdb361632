//! The options of transactional workloads as flags of `gen`, made from the table of them, so that people can
//! type what they type for sysbench.

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

use crate::workload::oltp::known::{Form, KNOWN, Known};

/// Those that were given, in the order of the table.
#[derive(Debug, Clone, Default)]
pub struct OptionFlags(pub Vec<(&'static Known, String)>);

fn flag(known: &'static Known) -> Arg {
    let arg = Arg::new(known.name)
        .long(known.name)
        .help(known.about)
        .help_heading("Options of transactional workloads, as in sysbench (each test has some of them)")
        .allow_negative_numbers(true);
    let arg = match known.form {
        Form::Count => arg.value_name("N"),
        Form::Number => arg.value_name("X"),
        Form::Word => arg.value_name("NAME"),
        // `--skip-trx` alone is on, so the next word cannot be its value.
        Form::Switch => {
            arg.value_name("on|off").num_args(0..=1).require_equals(true).default_missing_value("on")
        }
    };
    // sysbench's own help writes them with an underscore. clap keeps names that live as long as the program.
    let underscored: &'static str = known.name.replace('-', "_").leak();
    if underscored == known.name { arg } else { arg.alias(underscored) }
}

impl Args for OptionFlags {
    fn augment_args(command: Command) -> Command {
        command.args(KNOWN.iter().map(flag))
    }

    fn augment_args_for_update(command: Command) -> Command {
        OptionFlags::augment_args(command)
    }
}

impl FromArgMatches for OptionFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<OptionFlags, clap::Error> {
        let given = |known: &'static Known| Some((known, matches.get_one::<String>(known.name)?.clone()));
        Ok(OptionFlags(KNOWN.iter().filter_map(given).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = OptionFlags::from_arg_matches(matches)?;
        Ok(())
    }
}
