//! Finds the process that holds the lock on `LOCK`, for the error message of a process that cannot
//! get the lock.
//!
//! LevelDB's lock belongs to a process, and the kernel reports this process. Terrace's lock
//! belongs to an open file, and the kernel does not report the process that has the file open. A
//! writer of Terrace therefore stores its process id in `LOCK`; LevelDB leaves this file empty.
//! The id may be stale, so it is used only if the process with this id has the file open.
use crate::lock_held::LockHeld;
use nix::{
    fcntl::{FcntlArg, fcntl},
    libc,
};
use std::{
    fs::{self, File},
    os::unix::fs::{FileExt, MetadataExt},
    process,
};

/// Maximum size of the text in bytes: the digits of an id and a newline.
const TEXT_BYTES_MAX: u64 = 11;

/// Returns the description of a lock on the whole file, to set or to query.
pub(super) fn whole_file(kind: libc::c_int) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    }
}

/// Writes this process's id into `lock`, which the process holds exclusively. Returns whether it
/// wrote the id. The id is only for messages, so a failure is no error. A file with other contents
/// or with a second name is not changed.
pub(super) fn sign(lock: &File) -> bool {
    let ours = |found: fs::Metadata| found.nlink() == 1 && (found.len() == 0 || signature(lock).is_some());
    let text = format!("{}\n", process::id());
    let write = || lock.write_all_at(text.as_bytes(), 0).and_then(|()| lock.set_len(text.len() as u64));
    lock.metadata().is_ok_and(ours) && write().is_ok()
}

/// Empties `lock` if it contains an id, so that the file is as LevelDB leaves it.
pub(super) fn unsign(lock: &File) {
    let _ = lock.set_len(0); // for messages only
}

/// Returns the id that [`sign`] wrote into `lock`.
fn signature(lock: &File) -> Option<u32> {
    let bytes = lock.metadata().ok()?.len();
    let mut text = vec![0; usize::try_from(bytes).ok().filter(|_| bytes <= TEXT_BYTES_MAX)?];
    lock.read_exact_at(&mut text, 0).ok()?;
    str::from_utf8(&text).ok()?.strip_suffix('\n')?.parse().ok()
}

/// Describes the holder of the lock that conflicts with `wanted` on `lock`, as far as it is known.
pub(super) fn of(lock: &File, wanted: libc::c_int) -> LockHeld {
    let mut found = whole_file(wanted);
    let known =
        fcntl(lock, FcntlArg::F_OFD_GETLK(&mut found)).is_ok() && found.l_type != libc::F_UNLCK as libc::c_short;
    if known && found.l_pid > 0 {
        return LockHeld { text: format!("process {} holds LOCK", found.l_pid), may_be_here: false };
    }
    let (text, may_be_here) = match signature(lock).filter(|pid| has_open(*pid, lock)) {
        Some(pid) if pid == process::id() => ("another handle in this process holds LOCK".into(), true),
        Some(pid) => (format!("process {pid} holds LOCK"), false),
        None => ("another process, or another handle in this one, holds LOCK".into(), true),
    };
    LockHeld { text, may_be_here }
}

/// Returns whether process `pid` has `lock` open. If `pid` is the calling process, which always
/// has `lock` open, the process must have it open through a second descriptor.
fn has_open(pid: u32, lock: &File) -> bool {
    let (Ok(wanted), Ok(open)) = (lock.metadata(), fs::read_dir(format!("/proc/{pid}/fd"))) else { return false };
    let is_it = |found: fs::Metadata| (found.dev(), found.ino()) == (wanted.dev(), wanted.ino());
    let count = open.flatten().filter(|entry| fs::metadata(entry.path()).is_ok_and(is_it)).count();
    count > usize::from(pid == process::id())
}
