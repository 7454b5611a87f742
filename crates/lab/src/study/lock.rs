//! One study at a time on a machine: two would measure each other.
use anyhow::{Context, Result, bail};
use std::{
    fs::{File, TryLockError},
    io::{Read, Write},
    path::Path,
};

/// The file whose lock is held.
const NAME: &str = "terrace-study.lock";

/// Held until it is dropped, or its process ends.
#[derive(Debug)]
pub struct Lock(#[allow(dead_code, reason = "its lock goes when it is closed")] File);

impl Lock {
    /// Takes the lock of this machine, a file in `dir`, which all studies have in common.
    ///
    /// # Errors
    /// Another study runs: its process is named.
    pub fn take(dir: &Path) -> Result<Lock> {
        let path = dir.join(NAME);
        let what = || path.display().to_string();
        let mut file =
            File::options().read(true).write(true).create(true).truncate(false).open(&path).with_context(what)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut owner = String::new();
                file.read_to_string(&mut owner).with_context(what)?;
                bail!("another study measures on this machine (process {}); {} is locked", owner.trim(), what());
            }
            Err(TryLockError::Error(error)) => return Err(error).with_context(what),
        }
        file.set_len(0).with_context(what)?;
        write!(file, "{}", std::process::id()).with_context(what)?;
        Ok(Lock(file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_study_is_refused_until_the_first_ends() {
        let dir = tempfile::tempdir().unwrap();
        let first = Lock::take(dir.path()).unwrap();
        let refused = Lock::take(dir.path()).unwrap_err().to_string();
        assert!(refused.contains(&format!("process {}", std::process::id())), "{refused}");
        drop(first);
        Lock::take(dir.path()).unwrap();
    }
}
