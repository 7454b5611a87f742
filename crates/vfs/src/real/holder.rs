//! Who holds the lock on `LOCK`, for the error of the process that is kept out.
//!
//! The kernel names the holder of a lock of LevelDB's kind, and not of one of ours, which belongs to an open file. So a
//! writer of ours leaves its process id in `LOCK`, where LevelDB has nothing. What stands there may be old: it counts only
//! while that process has the file open.
use nix::{
    fcntl::{FcntlArg, fcntl},
    libc,
};
use std::{
    fs::{self, File},
    os::unix::fs::{FileExt, MetadataExt},
    process,
};

/// Digits of an id, and the end of a line.
const TEXT_BYTES_MAX: u64 = 11;

/// All of a file, to be locked so, or to be asked for.
pub(super) fn whole_file(kind: libc::c_int) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    }
}

/// Leaves this process's id in `lock`, which it holds alone. For messages only, so a failure is none. A file that holds
/// anything else, or has another name, is not ours to write. Whether it was done.
pub(super) fn sign(lock: &File) -> bool {
    let ours = |found: fs::Metadata| found.nlink() == 1 && (found.len() == 0 || signature(lock).is_some());
    let text = format!("{}\n", process::id());
    let write = || lock.write_all_at(text.as_bytes(), 0).and_then(|()| lock.set_len(text.len() as u64));
    lock.metadata().is_ok_and(ours) && write().is_ok()
}

/// Leaves `lock`, which was signed, as LevelDB would.
pub(super) fn unsign(lock: &File) {
    let _ = lock.set_len(0); // for messages only
}

/// The id that [`sign`] left in `lock`.
fn signature(lock: &File) -> Option<u32> {
    let bytes = lock.metadata().ok()?.len();
    let mut text = vec![0; usize::try_from(bytes).ok().filter(|_| bytes <= TEXT_BYTES_MAX)?];
    lock.read_exact_at(&mut text, 0).ok()?;
    str::from_utf8(&text).ok()?.strip_suffix('\n')?.parse().ok()
}

/// Who holds the lock that `wanted` on `lock` met, as far as it can be told.
pub(super) fn of(lock: &File, wanted: libc::c_int) -> String {
    let mut found = whole_file(wanted);
    let told = fcntl(lock, FcntlArg::F_OFD_GETLK(&mut found)).is_ok() && found.l_type != libc::F_UNLCK as libc::c_short;
    if told && found.l_pid > 0 {
        return format!("process {} holds LOCK", found.l_pid);
    }
    match signature(lock).filter(|pid| has_open(*pid, lock)) {
        Some(pid) if pid == process::id() => "another handle in this process holds LOCK".into(),
        Some(pid) => format!("process {pid} holds LOCK"),
        None => "another process, or another handle in this one, holds LOCK".into(),
    }
}

/// Whether process `pid` has `lock` open; of this process, more than once.
fn has_open(pid: u32, lock: &File) -> bool {
    let (Ok(wanted), Ok(open)) = (lock.metadata(), fs::read_dir(format!("/proc/{pid}/fd"))) else { return false };
    let is_it = |found: fs::Metadata| (found.dev(), found.ino()) == (wanted.dev(), wanted.ino());
    let count = open.flatten().filter(|entry| fs::metadata(entry.path()).is_ok_and(is_it)).count();
    count > usize::from(pid == process::id())
}
