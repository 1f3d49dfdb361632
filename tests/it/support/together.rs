//! Tests that mostly wait, run together: the first that is asked for starts all that were, each in a
//! thread of its own, so that on a machine with two processors they take as long as the longest.

use std::collections::HashMap;
use std::sync::Mutex;
use std::thread::JoinHandle;

/// The tests of a module, by name.
pub type Tests = &'static [(&'static str, fn())];

/// Those that were started and not yet waited for.
pub type Started = Mutex<Option<HashMap<&'static str, JoinHandle<()>>>>;

/// Waits for the test `name` of `module`; the first call starts all of them that the filters on the
/// command line admit.
pub fn wait(module: &str, tests: Tests, started: &Started, name: &str) {
    let handle = {
        let mut started = started.lock().unwrap_or_else(|poison| poison.into_inner());
        let handles = started.get_or_insert_with(|| {
            let filters: Vec<String> =
                std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
            let wanted = |name: &str| {
                let path = format!("{module}::{name}");
                filters.is_empty() || filters.iter().any(|filter| path.contains(filter.as_str()))
            };
            let start = |&(name, test): &(&'static str, fn())| {
                let builder = std::thread::Builder::new().name(format!("{module}::{name}"));
                (name, builder.spawn(test).expect("a thread"))
            };
            tests.iter().filter(|(name, _)| wanted(name)).map(start).collect()
        });
        handles.remove(name)
    };
    match handle {
        Some(handle) => {
            if let Err(panic) = handle.join() {
                // Said again here: what the thread said was captured for the test that started it.
                let words = panic.downcast_ref::<String>().map(String::as_str);
                let words = words.or(panic.downcast_ref::<&str>().copied());
                panic!("{}", words.unwrap_or("the test panicked"));
            }
        }
        // Not among the filtered, for instance by --exact with another way of writing it.
        None => tests.iter().find(|(known, _)| *known == name).expect("a test of the table").1(),
    }
}

/// Declares tests that run together.
macro_rules! together {
    ($($(#[$attribute:meta])* fn $name:ident() $body:block)*) => {
        static STARTED: $crate::support::together::Started = std::sync::Mutex::new(None);
        const TESTS: $crate::support::together::Tests = &[$((stringify!($name), bodies::$name)),*];

        mod bodies {
            use super::*;
            $($(#[$attribute])* pub fn $name() $body)*
        }

        $(#[test]
        fn $name() {
            let module = module_path!().split_once("::").map_or("", |(_, module)| module);
            $crate::support::together::wait(module, TESTS, &STARTED, stringify!($name));
        })*
    };
}

pub(crate) use together;
