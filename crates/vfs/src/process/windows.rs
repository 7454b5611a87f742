//! The calling process on Windows, where no process is a copy of another.

/// Identifies a running process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    pid: u32,
}

impl Process {
    /// Returns the calling process.
    pub fn current() -> Process {
        Process { pid: std::process::id() }
    }

    /// Returns true: an object exists only in the process that made it.
    #[inline(always)]
    pub fn is_current(&self) -> bool {
        true
    }

    /// Returns the process id.
    pub fn id(&self) -> u32 {
        self.pid
    }
}

impl Default for Process {
    /// Returns the calling process.
    fn default() -> Process {
        Process::current()
    }
}
