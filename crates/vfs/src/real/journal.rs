//! ext4's journal: its properties, its progress, and a commit on demand.
use super::{folder::Folder, probe::Facts};
use crate::bpf::CommitIterator;
use nix::sys::{
    stat::{major, minor},
    statfs::{EXT4_SUPER_MAGIC, fstatfs},
};
use parking_lot::Mutex;
use std::{
    fs::{self, File},
    io,
    os::{fd::AsFd, unix::fs::MetadataExt},
};

/// Collects the properties of the file system that contains `folder`.
pub(super) fn facts(folder: &File) -> io::Result<Facts> {
    // The magic number of ext4 is also that of ext2 and ext3. This is intended, because the ext4
    // driver mounts these file systems too.
    let ext4 = fstatfs(folder)?.filesystem_type() == EXT4_SUPER_MAGIC;
    let device = folder.metadata()?.dev();
    let link = fs::read_link(format!("/sys/dev/block/{}:{}", major(device), minor(device))).ok();
    let device = link.and_then(|link| Some(link.file_name()?.to_str()?.to_owned()));
    let journals = fs::read_dir("/proc/fs/jbd2").map_or_else(
        |_| Vec::new(),
        |entries| entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect(),
    );
    let read = |name| fs::read_to_string(format!("/proc/fs/ext4/{}/{name}", device.as_ref()?)).ok();
    let (options, fast_commits) = (read("options"), read("fc_info"));
    Ok(Facts { ext4, device, journals, options, fast_commits })
}

/// Returns the number of commits that `journal`, an entry of `/proc/fs/jbd2`, has finished since
/// its file system was mounted.
///
/// Each call opens the file in `/proc` again, because an open file keeps returning the contents of
/// its first read.
pub(super) fn commits(journal: &str) -> io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/fs/jbd2/{journal}/info"))?;
    let count = text.split_whitespace().next().and_then(|word| word.parse().ok());
    count.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("the journal says {text:?}")))
}

/// A nameless file by which this process joins the running transaction of ext4's journal. Each
/// join changes the size of the file, so that the change belongs to the running transaction. A
/// sync of the file commits this transaction. Since transactions commit in order, the sync also
/// commits all earlier changes to any file of this file system. A sync of the directory instead of
/// the file is not enough: it waits only for the last transaction that changed the directory. That
/// transaction may be old, while blocks of files in the directory were allocated in a later one.
#[derive(Default)]
pub(super) struct JournalProbe(Mutex<Option<ProbeFile>>); // held during a join or a commit

struct ProbeFile {
    file: File,
    bytes: u64,
}

impl JournalProbe {
    /// Joins the running transaction of the file system that contains `folder`. Changes the size of
    /// the probe file: a change of the file's time alone would not detect an aborted journal.
    pub fn join(&self, folder: &Folder) -> io::Result<()> {
        self.with_file(folder, ProbeFile::join)
    }

    /// Commits the journal once. At return the commit is on the medium of the device.
    pub fn commit(&self, folder: &Folder) -> io::Result<()> {
        self.with_file(folder, |probe| {
            probe.join()?;
            probe.file.sync_all()
        })
    }

    /// Returns the newest committed transaction of the journal.
    pub fn committed(&self, folder: &Folder, iterator: &CommitIterator) -> io::Result<u32> {
        self.with_file(folder, |probe| Ok(iterator.transaction_state(probe.file.as_fd())?.committed))
    }

    fn with_file<T>(&self, folder: &Folder, act: impl FnOnce(&mut ProbeFile) -> io::Result<T>) -> io::Result<T> {
        let mut probe_file = self.0.lock();
        act(match probe_file.as_mut() {
            Some(probe) => probe,
            None => probe_file.insert(ProbeFile { file: folder.create_nameless()?, bytes: 0 }),
        })
    }
}

impl ProbeFile {
    fn join(&mut self) -> io::Result<()> {
        self.bytes ^= 1;
        self.file.set_len(self.bytes)
    }
}
