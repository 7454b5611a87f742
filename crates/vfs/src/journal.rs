//! The journal of a file system. One journal commit makes many files durable.
use crate::file::WriteFile;
use std::{io, time::Duration};

/// A journal of a file system. All written-back bytes and all changes of names belong to
/// transactions. Transactions commit in order, either periodically or on demand.
pub trait JournalCommit: Send + Sync {
    /// Commits the running transaction. All present names, and all files that were [written
    /// back](WriteFile::write_back), then survive a power cut. The commit gives this guarantee only
    /// if [`commit_interval`](JournalCommit::commit_interval) returns no error.
    fn commit(&self) -> io::Result<()>;
    /// Returns the interval at which the journal commits without a request; [`Duration::MAX`] means
    /// never. The error is the reason why a commit of this journal guarantees nothing. The
    /// directory need not exist yet.
    fn commit_interval(&self) -> Result<Duration, String>;
    /// Returns the number of finished commits, as the kernel counts them. The count also increases
    /// after the journal was aborted. To detect an aborted journal, the caller calls
    /// [`join_transaction`](JournalCommit::join_transaction) after this call.
    fn commit_count(&self) -> io::Result<u64>;
    /// Adds a change to the running transaction, so that the journal has something to commit.
    /// Returns an error if the journal was aborted.
    fn join_transaction(&self) -> io::Result<()>;
    /// Returns an error with the reason if the kernel does not report the transactions of single
    /// files.
    fn can_tell_transactions(&self) -> Result<(), String> {
        Err("the kernel does not report the transactions of single files here".into())
    }
    /// Returns the number of the transaction that commits all bytes of `file` that were [written
    /// back](WriteFile::write_back). Transaction numbers wrap around.
    fn transaction_of(&self, _file: &dyn WriteFile) -> io::Result<u32> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Returns the newest committed transaction. Returns an error if the journal was aborted.
    fn committed_transaction(&self) -> io::Result<u32> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
