//! The error of a refused lock.
use std::{error::Error, fmt};

/// The reason why a lock on the directory was refused.
#[derive(Debug)]
pub struct LockHeld {
    pub(crate) text: String,
    /// Whether the lock may be held by another handle of this process. If this is true, the holder
    /// is certainly not LevelDB.
    pub may_be_here: bool,
}

impl fmt::Display for LockHeld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Error for LockHeld {}
