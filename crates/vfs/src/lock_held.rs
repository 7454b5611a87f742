//! Errors of locks on a directory.
use std::{error::Error, fmt, io};

/// The reason why a lock on the directory was refused.
#[derive(Debug)]
pub struct LockHeld {
    pub(crate) text: String,
    /// Whether the lock may be held by another handle of this process. If this is true, a second
    /// attempt cannot succeed while LevelDB holds the lock.
    pub may_be_here: bool,
}

impl fmt::Display for LockHeld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Error for LockHeld {}

/// Checks that the lock file still has its name. `found` says whether the file with this name is
/// the locked one.
pub(crate) fn check_in_place(found: io::Result<bool>) -> io::Result<()> {
    let what = match found {
        Ok(true) => return Ok(()),
        Ok(false) => "replaced",
        Err(e) if e.kind() == io::ErrorKind::NotFound => "removed",
        Err(e) => return Err(e),
    };
    let message = format!(
        "it was {what} while the store was open, so another process may be writing here; close the store and look for that process"
    );
    Err(io::Error::other(message))
}
