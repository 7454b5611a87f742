//! The journal of a file system, by which many files become durable at once.
use crate::file::WriteFile;
use std::{io, time::Duration};

/// A journal. Everything that was written back, and every change of a name, belongs to a
/// transaction; transactions commit in order, by themselves or on demand.
pub trait JournalCommit: Send + Sync {
    /// Commits the running transaction: all present names, and all files that were
    /// [written back](WriteFile::write_back), survive a power cut. A promise only where
    /// [`commit_interval`](JournalCommit::commit_interval) is no error.
    fn commit(&self) -> io::Result<()>;
    /// The interval at which the journal commits by itself, [`Duration::MAX`] for never; or the
    /// reason why a commit promises nothing here. The directory need not exist yet.
    fn commit_interval(&self) -> Result<Duration, String>;
    /// The number of finished commits, as the kernel counts them. An aborted journal goes on
    /// counting; only a later [`join_transaction`](JournalCommit::join_transaction) detects that.
    fn commit_count(&self) -> io::Result<u64>;
    /// Joins the running transaction, so that the journal has something to commit. Fails once the
    /// journal was aborted.
    fn join_transaction(&self) -> io::Result<()>;
    /// Whether the kernel reports the transactions of single files, or why not.
    fn can_tell_transactions(&self) -> Result<(), String> {
        Err("the kernel does not report the transactions of single files here".into())
    }
    /// The transaction that commits everything of `file` that was [written
    /// back](WriteFile::write_back). Numbers wrap.
    fn transaction_of(&self, _file: &dyn WriteFile) -> io::Result<u32> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// The newest committed transaction. Fails once the journal was aborted.
    fn committed_transaction(&self) -> io::Result<u32> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
