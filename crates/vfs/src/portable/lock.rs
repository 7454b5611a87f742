//! The lock of a directory: a lock of the operating system on the whole file `LOCK`. It belongs to
//! the open file, so it also excludes other handles of the same process.
use super::{directory::open, system};
use crate::{
    fs::DirectoryLock,
    lock_held::{LockHeld, check_in_place},
    process::Process,
};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions, TryLockError},
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    time::Duration,
};

/// The lock files that processes hold exclusively through this program: their identities and the
/// process of each. Where a lock of LevelDB in this process ends when this process closes the file,
/// an open may lock a second time only if the first holder was certainly not LevelDB. The mutex is
/// held while a lock is taken or released, so the entries agree with the locks.
static HELD: Mutex<BTreeMap<(u64, u64), Process>> = Mutex::new(BTreeMap::new());
/// How long a lock waits for [`HELD`]. A forked child may wait for ever, because a thread of its
/// parent may have held it.
const PATIENCE: Duration = Duration::from_secs(1);

/// A lock on the directory, as long as it is held.
pub(super) struct Locked {
    /// Ensures that forked children do not keep the lock. This field must be dropped before `file`.
    #[cfg(unix)]
    _kept: crate::process::KeptFromChildren,
    process: Process,
    file: File,
    /// The path of the lock file; `None` for a shared lock.
    path: Option<PathBuf>,
}

impl Locked {
    /// Takes the lock on the file at `path`. An exclusive lock creates the file if it is missing.
    pub fn take(path: &Path, exclusive: bool) -> io::Result<Locked> {
        let mut how = OpenOptions::new();
        how.read(true);
        if exclusive {
            how.write(true).create(true);
        }
        let file = match open(path, system::kept_in_place(&mut how)) {
            Err(e) if system::is_in_use(&e) => return Err(refused(false)), // LevelDB on Windows
            opened => opened?,
        };
        #[cfg(unix)]
        let kept = crate::process::KeptFromChildren::new(&file);
        let identity = system::identity(&file)?;
        let mut held = HELD.try_lock_for(PATIENCE);
        match system::try_lock(&file, exclusive) {
            Err(TryLockError::WouldBlock) => {
                let holder = identity.and_then(|identity| held.as_ref()?.get(&identity));
                Err(refused(system::LOCKS_STAY || holder.is_some_and(Process::is_current)))
            }
            Err(TryLockError::Error(e)) => Err(e),
            Ok(()) => {
                if let (true, Some(identity), Some(held)) = (exclusive, identity, &mut held) {
                    held.insert(identity, Process::current());
                }
                Ok(Locked {
                    #[cfg(unix)]
                    _kept: kept,
                    process: Process::current(),
                    file,
                    path: exclusive.then(|| path.to_owned()),
                })
            }
        }
    }
}

fn refused(may_be_here: bool) -> io::Error {
    let text = "another process, or another handle in this one, holds LOCK".into();
    io::Error::new(ErrorKind::WouldBlock, LockHeld { text, may_be_here })
}

impl DirectoryLock for Locked {
    fn check(&self) -> io::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        check_in_place(system::is_at(&self.file, path))
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        if self.process.is_current() {
            let mut held = HELD.try_lock_for(PATIENCE);
            if let (Some(held), Ok(Some(identity)), true) =
                (&mut held, system::identity(&self.file), self.path.is_some())
            {
                held.remove(&identity);
            }
            // An error is ignored, because the close of the file releases the lock too.
            let _ = system::unlock(&self.file);
        }
    }
}
