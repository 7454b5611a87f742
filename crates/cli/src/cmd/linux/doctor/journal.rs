//! Reports on the journal of the file system: its commit interval, and whether a commit flushes
//! the drive's cache.
use super::{Finding, kernel_line, mount::Mount};
use std::fs;

/// Reports ext4's journal and mount options. For other file systems, reports that their journal
/// was not examined.
pub fn findings(mount: &Mount) -> Vec<Finding> {
    if mount.kind != "ext4" {
        return vec![Finding::new("journal", format!("not examined: {} is not ext4", mount.kind))];
    }
    let Some(device) = &mount.device else {
        return vec![Finding::new("journal", "unknown: cannot determine the block device")];
    };
    let options = fs::read_to_string(format!("/proc/fs/ext4/{device}/options")).unwrap_or_default();
    let journal = journal_of(device);
    let mut findings = vec![journal_finding(device, journal.as_deref())];
    if journal.is_some() {
        findings.push(commit_interval(&options));
    }
    findings.push(barriers(&options));
    findings
}

/// Returns the name of the entry in `/proc/fs/jbd2` for an internal journal of `device`. The name
/// consists of the device's name, a hyphen, and an inode number.
fn journal_of(device: &str) -> Option<String> {
    let names = fs::read_dir("/proc/fs/jbd2").ok()?.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let is_ours = |name: &String| {
        let inode = name.strip_prefix(device).and_then(|rest| rest.strip_prefix('-'));
        inode.is_some_and(|inode| !inode.is_empty() && inode.bytes().all(|byte| byte.is_ascii_digit()))
    };
    names.into_iter().find(is_ours)
}

fn journal_finding(device: &str, journal: Option<&str>) -> Finding {
    match journal {
        Some(name) => {
            let counter = kernel_line(format!("/proc/fs/jbd2/{name}/info")).unwrap_or_else(|error| error.to_string());
            Finding::new("journal", format!("internal, {name}: {counter}"))
        }
        None => Finding::new("journal", format!("none inside {device}")).advise(
            "after a power cut the file system itself needs fsck; `tune2fs -j` on the unmounted device adds a journal",
        ),
    }
}

fn commit_interval(options: &str) -> Finding {
    let seconds = options.lines().find_map(|line| line.strip_prefix("commit="));
    Finding::new("commit_interval", seconds.map_or("unknown".into(), |seconds| format!("{seconds} s")))
}

/// Reports whether the file system uses barriers. Without barriers a sync returns before the drive
/// has flushed its cache.
fn barriers(options: &str) -> Finding {
    let has = |name: &str| options.lines().any(|line| line == name);
    if has("nobarrier") || has("barrier=0") {
        return Finding::new("barriers", "off").advise(
            "synced writes may be lost at a power cut: remount with barrier=1 unless the drive's cache is protected",
        );
    }
    if has("journal_async_commit") {
        return Finding::new("barriers", "on, with journal_async_commit").advise("mount without journal_async_commit");
    }
    Finding::new("barriers", if has("barrier") || has("barrier=1") { "on" } else { "unknown" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn barriers_that_are_off_are_warned_of() {
        assert_eq!(barriers("rw\nbarrier\ncommit=5\n").value, "on");
        assert!(barriers("rw\nnobarrier\n").advice.is_some());
        assert_eq!(commit_interval("barrier\ncommit=30").value, "30 s");
    }
}
