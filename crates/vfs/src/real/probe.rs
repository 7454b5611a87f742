//! Decides whether the journal of a file system can be relied on. The decision uses the properties
//! that `real/journal.rs` has read.
//!
//! The durability modes `group` and `journal` depend on one property of ext4's journal: a commit,
//! which includes a device flush, makes everything before it durable. A refusal states the
//! condition under which this property would not hold (docs/durability.md, "Durability modes").
use std::time::Duration;

/// ext4's default commit interval.
const INTERVAL: Duration = Duration::from_secs(5);

/// The properties of the file system that contains a directory.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Whether the file system is ext4 itself, and not one that is stacked on ext4.
    pub ext4: bool,
    /// The kernel's name of the file system's block device, such as `sda1`; `None` if it has no
    /// device.
    pub device: Option<String>,
    /// The entries of `/proc/fs/jbd2`.
    pub journals: Vec<String>,
    /// The text of `/proc/fs/ext4/DEVICE/options`, if it can be read.
    pub options: Option<String>,
    /// The text of `/proc/fs/ext4/DEVICE/fc_info`, if it can be read: the number of fast commits
    /// since the mount, and more.
    pub fast_commits: Option<String>,
}

/// A journal that can be relied on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Journal {
    /// The name of the journal's entry in `/proc/fs/jbd2`.
    pub name: String,
    /// The interval at which the journal commits periodically, if there is anything to commit.
    pub interval: Duration,
}

/// Returns the journal that commits the files of a directory. The error is the reason why no
/// journal can be relied on.
pub fn judge(facts: &Facts) -> Result<Journal, String> {
    if !facts.ext4 {
        return Err("the directory is not on ext4 itself".into());
    }
    let device = facts.device.as_ref().ok_or("the file system has no block device of its own")?;
    let internal = facts.journals.iter().find(|journal| is_internal(journal, device));
    let name = internal.ok_or_else(|| format!("{device} has no journal, or one on another device"))?;
    let options = facts.options.as_ref().ok_or_else(|| format!("/proc/fs/ext4/{device}/options cannot be read"))?;
    let refused = ["nobarrier", "barrier=0", "journal_async_commit"];
    let has = |names: &[&str]| options.lines().map(str::trim).find(|option| names.contains(option));
    if let Some(option) = has(&refused) {
        return Err(format!("{device} is mounted with {option}"));
    }
    if has(&FAST_COMMITS).is_some() || facts.fast_commits.as_deref().is_some_and(made_fast_commits) {
        return Err(format!(
            "{device} makes fast commits, which leave of a nameless file what cannot be mounted again"
        ));
    }
    Ok(Journal { name: name.clone(), interval: interval(options) })
}

/// Mount options that show the ext4 feature "fast commits". Not every kernel shows them, so a
/// journal is also refused if it has made fast commits since the mount.
const FAST_COMMITS: [&str; 2] = ["fast_commit", "fc_debug_force"];

fn made_fast_commits(text: &str) -> bool {
    let count = text.lines().find_map(|line| line.trim().strip_suffix(" commits")?.parse().ok());
    count.is_some_and(|count: u64| count > 0)
}

fn interval(options: &str) -> Duration {
    let seconds = options.lines().find_map(|line| line.trim().strip_prefix("commit=")?.parse().ok());
    seconds.map_or(INTERVAL, Duration::from_secs)
}

/// Returns whether `journal` is inside `device`. An internal journal is named by the device, a
/// hyphen and an inode number; an external journal only by its own device.
fn is_internal(journal: &str, device: &str) -> bool {
    let inode = journal.strip_prefix(device).and_then(|rest| rest.strip_prefix('-'));
    inode.is_some_and(|inode| !inode.is_empty() && inode.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sound() -> Facts {
        Facts {
            ext4: true,
            device: Some("sda1".into()),
            journals: vec!["sdb1-8".into(), "sda1-8".into()],
            options: Some("rw\nbarrier\ncommit=5\ndata=ordered\n".into()),
            fast_commits: Some("fc stats:\n0 commits\n0 ineligible\n".into()),
        }
    }

    #[test]
    fn a_reliable_journal_is_accepted() {
        let five = Duration::from_secs(5);
        assert_eq!(judge(&sound()), Ok(Journal { name: "sda1-8".into(), interval: five }));
        let rare = Facts { options: Some("barrier\ncommit=300".into()), ..sound() };
        assert_eq!(judge(&rare).unwrap().interval, Duration::from_secs(300));
        assert_eq!(judge(&Facts { options: Some("barrier\ncommit=x".into()), ..sound() }).unwrap().interval, five);
        let named_with_hyphen = Facts { device: Some("dm-0".into()), journals: vec!["dm-0-8".into()], ..sound() };
        judge(&named_with_hyphen).unwrap();
    }

    #[test]
    fn each_refusal_names_its_reason() {
        let options = |text: &str| Facts { options: Some(text.into()), ..sound() };
        let journals = |names: &[&str]| Facts { journals: names.iter().map(|n| n.to_string()).collect(), ..sound() };
        let cases = [
            (Facts { ext4: false, ..sound() }, "not on ext4"),
            (Facts { device: None, ..sound() }, "no block device"),
            (journals(&[]), "no journal"),
            (journals(&["sdc1"]), "on another device"),
            (journals(&["sda11-8", "sda1-", "sda1-8x"]), "no journal"),
            (Facts { options: None, ..sound() }, "cannot be read"),
            (options("rw\nnobarrier\n"), "nobarrier"),
            (options("rw\nbarrier=0\n"), "barrier=0"),
            (options("barrier\njournal_async_commit\n"), "journal_async_commit"),
            (options("barrier\nfc_debug_force\n"), "fast commits"),
            (Facts { fast_commits: Some("fc stats:\n12 commits\n".into()), ..sound() }, "fast commits"),
        ];
        for (facts, reason) in cases {
            let why = judge(&facts).expect_err(reason);
            assert!(why.contains(reason), "{why:?} does not say {reason:?}");
        }
    }
}
