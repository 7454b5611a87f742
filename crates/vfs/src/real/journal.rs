//! ext4's journal, from outside: what the kernel says about it, how far it is, and a commit on demand.
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

/// What the kernel says about the file system that holds `folder`.
pub(super) fn facts(folder: &File) -> io::Result<Facts> {
    let ext4 = fstatfs(folder)?.filesystem_type() == EXT4_SUPER_MAGIC; // ext2's and ext3's too, which this driver serves
    let device = folder.metadata()?.dev();
    let link = fs::read_link(format!("/sys/dev/block/{}:{}", major(device), minor(device))).ok();
    let device = link.and_then(|link| Some(link.file_name()?.to_str()?.to_owned()));
    let journals = fs::read_dir("/proc/fs/jbd2").map_or_else(
        |_| Vec::new(),
        |entries| entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect(),
    );
    let told = |name| fs::read_to_string(format!("/proc/fs/ext4/{}/{name}", device.as_ref()?)).ok();
    let (options, fast_commits) = (told("options"), told("fc_info"));
    Ok(Facts { ext4, device, journals, options, fast_commits })
}

/// Commits that `journal`, an entry of `/proc/fs/jbd2`, has finished since its file system was mounted.
///
/// Opened anew each time: an open file goes on showing what was there when it was first read.
pub(super) fn commits(journal: &str) -> io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/fs/jbd2/{journal}/info"))?;
    let count = text.split_whitespace().next().and_then(|word| word.parse().ok());
    count.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("the journal says {text:?}")))
}

/// A nameless file whose size changes with each beat. It takes part in the transaction that runs then, so its sync commits
/// that one, and with it, since transactions commit in order, everything any file of this file system did before. Syncing
/// the directory is not enough: it waits for the last transaction that changed the directory, which may be an old one,
/// while the allocations of files in it belong to a later.
#[derive(Default)]
pub(super) struct Heart(Mutex<Option<Beating>>); // held during a beat or a commit

struct Beating {
    file: File,
    bytes: u64,
}

impl Heart {
    /// Joins the running transaction of the file system that holds `folder`. It must be the size that changes: a new time
    /// alone would not tell that the journal was aborted.
    pub fn beat(&self, folder: &Folder) -> io::Result<()> {
        self.beating(folder, Beating::beat)
    }

    /// One commit of its journal, down to the device's medium.
    pub fn commit(&self, folder: &Folder) -> io::Result<()> {
        self.beating(folder, |beating| {
            beating.beat()?;
            beating.file.sync_all()
        })
    }

    /// The newest transaction of its journal that is committed.
    pub fn committed(&self, folder: &Folder, iterator: &CommitIterator) -> io::Result<u32> {
        self.beating(folder, |beating| Ok(iterator.standing(beating.file.as_fd())?.committed))
    }

    fn beating<T>(&self, folder: &Folder, act: impl FnOnce(&mut Beating) -> io::Result<T>) -> io::Result<T> {
        let mut heart = self.0.lock();
        act(match heart.as_mut() {
            Some(beating) => beating,
            None => heart.insert(Beating { file: folder.create_nameless()?, bytes: 0 }),
        })
    }
}

impl Beating {
    fn beat(&mut self) -> io::Result<()> {
        self.bytes ^= 1;
        self.file.set_len(self.bytes)
    }
}
