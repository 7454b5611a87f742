//! Decides whether a test is skipped or fails if the machine lacks something that the test
//! requires.
//!
//! By default such a test is skipped and prints the reason. On a continuous-integration machine,
//! skipped tests could go unnoticed. There, the variable `TERRACE_REQUIRE` names the requirements
//! that must be present, separated by commas, or is `all`. A test whose named requirement is
//! missing then fails.
use std::{env, fmt::Display};

/// The environment variable that turns skipped tests into failures.
const VARIABLE: &str = "TERRACE_REQUIRE";

/// Returns the object that a test requires, if the machine has it.
///
/// `name` is the word for the requirement in `TERRACE_REQUIRE`: `blkio`, `bpf`, `chromium`, `fio`,
/// `leveldb`, `loop`, `memcg`, `mkfs`, `peers`, `qemu`, `root`, `strace`, `tracefs`, `valgrind`.
/// If the requirement is missing, this function prints `skipped: <reason>` and returns `None`. The
/// test must then return.
///
/// ```
/// # use terrace_peers::{leveldb::Library, require};
/// let Some(library) = require("leveldb", Library::load()) else { return };
/// println!("LevelDB {}.{}", library.version().0, library.version().1);
/// ```
///
/// # Panics
/// If the requirement is missing and `TERRACE_REQUIRE` names it.
pub fn require<T, E: Display>(name: &str, found: Result<T, E>) -> Option<T> {
    match found {
        Ok(thing) => Some(thing),
        Err(reason) if is_named(&env::var(VARIABLE).unwrap_or_default(), name) => {
            panic!("{VARIABLE} requires `{name}`: {reason}")
        }
        Err(reason) => {
            println!("skipped: {reason}");
            None
        }
    }
}

fn is_named(list: &str, name: &str) -> bool {
    list.split(',').map(str::trim).any(|word| word == name || word == "all")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_names_its_words_and_all_names_everything() {
        assert!(is_named("root, leveldb", "leveldb"));
        assert!(is_named("all", "loop"));
        assert!(!is_named("", "leveldb"));
        assert!(!is_named("leveldbs,root", "leveldb"));
    }

    #[test]
    fn an_available_requirement_is_returned() {
        assert_eq!(require("root", Ok::<_, String>(7)), Some(7));
    }
}
