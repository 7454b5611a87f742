//! Change feed: the writes since a sequence number.
use super::Db;
use crate::{Error, Result, Updates};
use terrace_format::SeqNo;

impl Db {
    /// Returns the writes after `sequence`, up to now, from the WALs, oldest first: for a replica,
    /// an index or a change feed. Start with a copy of the whole store and its
    /// [`last_sequence`](Db::last_sequence); continue with the
    /// [`last_sequence`](crate::Update::last_sequence) of the last applied update. The first
    /// update may begin at or before `sequence`, if that lies within a batch.
    ///
    /// WALs are deleted as soon as their writes are in durable SSTables, unless the option
    /// `wal_size_limit` keeps some longer; so call this often. WALs that the result has yet to
    /// read stay until it is dropped; like a cursor it keeps the directory locked.
    ///
    /// # Errors
    /// [`Error::SequenceGone`], at once or at the position of the gap, if the WALs no longer have
    /// the next write; [`Error::Invalid`] if `sequence` has not been written yet;
    /// [`Error::ReadOnly`] in a store opened for reading only.
    ///
    /// ```
    /// # fn main() -> terrace::Result<()> {
    /// use terrace::{Db, Options, WriteBatch, WriteOptions};
    /// let (db, copy) = (Db::open_in_memory(Options::default())?, Db::open_in_memory(Options::default())?);
    /// db.put("a", "1")?;
    /// db.put("b", "2")?;
    /// for update in db.updates_since(copy.last_sequence())? {
    ///     copy.write(update?.batch, WriteOptions::default())?;
    /// }
    /// assert_eq!((copy.get("b")?, copy.last_sequence()), (Some(b"2".to_vec()), 2));
    /// # Ok(())
    /// # }
    /// ```
    pub fn updates_since(&self, sequence: u64) -> Result<Updates> {
        self.writes()?;
        let shared = self.shared();
        let last = shared.visible();
        if sequence > last.0 {
            return Err(Error::Invalid(format!("sequence {sequence} has not been written; the last is {last}")));
        }
        let (logs, follower) = shared.state.lock().versions.obsolete_files.follow();
        Updates::open(shared.storage.clone(), follower, logs, SeqNo(sequence), last)
    }
}
