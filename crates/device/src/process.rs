//! Names for processes, for what is named after the one that made it and may outlive it.
use std::fs;

/// A name for a process that no later process gets: its id and when it started, in clock ticks since boot.
///
/// `None` if there is no such process, or if it has ended and was not waited for, even if a thread of it still waits for something.
pub fn identity(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program stands in parentheses and may hold anything; behind it come the state and, as field 22, the start.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    if let "Z" | "X" = fields.next()? {
        return None;
    }
    Some(format!("{pid}-{}", fields.nth(18)?))
}

/// Whether the process of an [`identity`] still runs.
pub fn is_alive(name: &str) -> bool {
    let pid = name.split('-').next().and_then(|pid| pid.parse().ok());
    pid.and_then(identity).is_some_and(|found| found == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{path::Path, process::Command, thread, time::Duration};

    #[test]
    fn one_that_has_ended_is_gone_though_it_stands_in_the_list() {
        let mut ended = Command::new("true").spawn().unwrap();
        while identity(ended.id()).is_some() {
            thread::sleep(Duration::from_millis(1));
        }
        assert!(Path::new(&format!("/proc/{}", ended.id())).exists());
        ended.wait().unwrap();
    }
}
