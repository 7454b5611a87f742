//! Names for processes, for what is named after the one that made it and may outlive it.
use std::fs;

/// A name for a process that no later process gets: its id and when it started, in clock ticks since boot.
///
/// `None` if there is no such process.
pub fn identity(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program stands in parentheses and may hold anything; field 22 is the 20th behind it.
    let start = stat.rsplit_once(')')?.1.split_whitespace().nth(19)?;
    Some(format!("{pid}-{start}"))
}

/// Whether the process of an [`identity`] still runs.
pub fn is_alive(name: &str) -> bool {
    let pid = name.split('-').next().and_then(|pid| pid.parse().ok());
    pid.and_then(identity).is_some_and(|found| found == name)
}
