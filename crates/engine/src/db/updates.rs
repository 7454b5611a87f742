//! The change feed: the writes after a sequence number.
use super::Db;
use crate::{Error, Result, Updates};
use terrace_format::SeqNo;

impl Db {
    /// Returns the writes after `sequence`, up to now, oldest first, as the WALs have them. A
    /// replica, an index or a change feed can apply these updates. Start with a copy of the whole
    /// store and its [`last_sequence`](Db::last_sequence). Continue with the
    /// [`last_sequence`](crate::Update::last_sequence) of the last update that was applied. If
    /// `sequence` is within a batch, the first update is this whole batch.
    ///
    /// A WAL is deleted as soon as its writes are in durable SSTables, so call this method often.
    /// The option `wal_size_limit` keeps obsolete WALs longer. WALs that the returned iterator has
    /// not read yet are kept until it is dropped. Like a cursor, the iterator keeps the directory
    /// locked.
    ///
    /// # Errors
    /// [`Error::SequenceGone`] if the WALs no longer have the next write. This call returns the
    /// error if the first write is missing; the iterator returns it at the position of a later gap.
    /// [`Error::Invalid`] if `sequence` has not been written yet. [`Error::ReadOnly`] in a store
    /// opened for reading only.
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
