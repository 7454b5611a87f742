//! Unique names for processes. An object that a process creates, such as a mount directory,
//! contains its creator's unique name in its own name. A process id would not be enough: the
//! object may outlive its creator, and the kernel may then give the same id to another process.
use std::fs;

/// Returns a name that no later process gets: the process id and the start time in clock ticks
/// since boot.
///
/// Returns `None` if there is no such process. Also returns `None` for a process that ended and
/// whose parent has not waited for it yet, even if a thread of the process remains.
pub fn identity(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The text of `/proc/PID/stat` has the program's name in parentheses, which may contain any
    // character. The process state follows the name, and field 22 is the start time.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    if let "Z" | "X" = fields.next()? {
        return None;
    }
    Some(format!("{pid}-{}", fields.nth(18)?))
}

/// Returns whether the process with this [`identity`] is running.
pub fn is_alive(name: &str) -> bool {
    let pid = name.split('-').next().and_then(|pid| pid.parse().ok());
    pid.and_then(identity).is_some_and(|found| found == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{path::Path, process::Command, thread, time::Duration};

    #[test]
    fn a_zombie_process_does_not_count_as_running() {
        let mut ended = Command::new("true").spawn().unwrap();
        while identity(ended.id()).is_some() {
            thread::sleep(Duration::from_millis(1));
        }
        assert!(Path::new(&format!("/proc/{}", ended.id())).exists());
        ended.wait().unwrap();
    }
}
