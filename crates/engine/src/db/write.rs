//! Writing, and what moves written data: flush, compaction, durability.
use super::{Db, make_durable};
use crate::{Error, Result, WriteBatch, WriteOptions, batch, write::WriteRequest};
use std::sync::atomic::Ordering;
use terrace_format::batch::Op;

impl Db {
    /// Sets `key` to `value`. Survives the end of this process, not a power cut: see [`put_with`](Db::put_with).
    ///
    /// # Errors
    /// As of [every write](Db#errors). [`Error::Invalid`] for a key or value that is too long for the store.
    ///
    /// ```
    /// # use terrace::{Db, Options};
    /// let db = Db::open_in_memory(Options::default())?;
    /// db.put("key", "old")?;
    /// db.put("key", [0, 1, 2])?;
    /// assert_eq!(db.get("key")?, Some(vec![0, 1, 2]));
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_with(key, value, WriteOptions::default())
    }

    /// As [`put`](Db::put), with a choice.
    ///
    /// # Errors
    /// As of [`put`](Db::put).
    ///
    /// ```
    /// # use terrace::{Db, Options, WriteOptions};
    /// let db = Db::open_in_memory(Options::default())?;
    /// db.put_with("key", "value", WriteOptions::synced())?; // survives a power cut from here on
    /// # assert_eq!(db.durable_sequence(), db.last_sequence());
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn put_with(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, options: WriteOptions) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        self.write_checked(WriteRequest::Single(Op::Put(key, value)), (key.len() as u64, value.len() as u64), options)
            .map(drop)
    }

    /// Removes `key`. Fine if it is not there.
    ///
    /// # Errors
    /// As of [`put`](Db::put).
    ///
    /// ```
    /// # use terrace::{Db, Options};
    /// let db = Db::open_in_memory(Options::default())?;
    /// db.put("key", "value")?;
    /// db.delete("key")?;
    /// db.delete("key")?; // again is fine
    /// assert_eq!(db.get("key")?, None);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_with(key, WriteOptions::default())
    }

    /// As [`delete`](Db::delete), with a choice.
    ///
    /// # Errors
    /// As of [`put`](Db::put).
    ///
    /// ```
    /// # use terrace::{Db, Options, WriteOptions};
    /// let db = Db::open_in_memory(Options::default())?;
    /// db.delete_with("key", WriteOptions::synced())?;
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn delete_with(&self, key: impl AsRef<[u8]>, options: WriteOptions) -> Result<()> {
        let key = key.as_ref();
        self.write_checked(WriteRequest::Single(Op::Delete(key)), (key.len() as u64, 0), options).map(drop)
    }

    /// Applies `batch` atomically and returns the sequence of its last operation, for
    /// [`wait_durable`](Db::wait_durable). Keys up to 4 GiB − 17 and values up to 4 GiB − 1 bytes; more is refused.
    ///
    /// # Errors
    /// As of [`put`](Db::put); [`Error::Unsupported`] for a batch that deletes a range, unless an empty one, where the store cannot. Nothing
    /// of it was applied then.
    ///
    /// ```
    /// # use terrace::{Db, Options, WriteBatch, WriteOptions};
    /// let db = Db::open_in_memory(Options::default())?;
    /// let mut batch = WriteBatch::new();
    /// batch.put("from", "60").put("to", "40");
    /// let sequence = db.write(batch, WriteOptions::default())?;
    /// db.wait_durable(sequence)?;
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn write(&self, batch: WriteBatch, options: WriteOptions) -> Result<u64> {
        let batch = self.checked_batch(batch)?;
        self.write_checked(WriteRequest::Batch(batch.batch), (batch.key_bytes, batch.value_bytes), options)
    }

    /// As [`write`](Db::write), but without a log: for much that comes at once and could be written again. Costs a log's bytes and
    /// writes less. Atomic, visible at once and in its place in the history like any other write, but the end of the process
    /// loses it, and **with it whatever was written behind it without `sync`**, until what is in memory has become durable
    /// tables. A synced write, [`wait_durable`](Db::wait_durable) and [`close`](Db::close) see to that, so
    /// `wait_durable(db.last_sequence())` is the barrier behind a load. To change between the two kinds of writes costs a flush.
    ///
    /// # Errors
    /// As of [`write`](Db::write). [`updates_since`](Db::updates_since) cannot tell of such writes, and says so.
    ///
    /// ```
    /// # fn main() -> terrace::Result<()> {
    /// # use terrace::{Db, Options, WriteBatch};
    /// let db = Db::open_in_memory(Options::default())?;
    /// for chunk in 0..10u8 {
    ///     let mut batch = WriteBatch::new();
    ///     (0..100u8).for_each(|n| drop(batch.put([chunk, n], "loaded")));
    ///     db.write_unlogged(batch)?;
    /// }
    /// db.wait_durable(db.last_sequence())?; // from here on nothing of it can be lost
    /// # Ok(())
    /// # }
    /// ```
    pub fn write_unlogged(&self, batch: WriteBatch) -> Result<u64> {
        let batch = self.checked_batch(batch)?;
        self.check_sizes((batch.key_bytes, batch.value_bytes))?;
        Ok(self.writes()?.write_unlogged(self.shared(), batch.batch)?.0)
    }

    /// Writes, if its longest key and value are not too long.
    pub(super) fn write_checked(
        &self,
        request: WriteRequest<'_>,
        longest: (u64, u64),
        options: WriteOptions,
    ) -> Result<u64> {
        self.check_sizes(longest)?;
        Ok(self.writes()?.write(self.shared(), request, options.sync)?.0)
    }

    /// Whether the longest key and value are not too long.
    fn check_sizes(&self, longest: (u64, u64)) -> Result<()> {
        let (limits, (key_bytes, value_bytes)) = (self.shared().storage.limits(), longest);
        if let Some(oversized) = batch::oversized(key_bytes, value_bytes) {
            return Err(Error::Invalid(oversized));
        }
        if key_bytes > limits.key_bytes_max || value_bytes > limits.value_bytes_max {
            return Err(Error::Invalid(format!(
                "the longest key has {key_bytes} bytes, the longest value {value_bytes}: keys may have {} here, values {}",
                limits.key_bytes_max, limits.value_bytes_max
            )));
        }
        Ok(())
    }

    /// Moves what is in memory into tables. Returns when they serve reads; see [`wait_durable`](Db::wait_durable) for
    /// when they survive a power cut.
    ///
    /// # Errors
    /// As of [every write](Db#errors).
    ///
    /// ```
    /// # use terrace::{Db, Options};
    /// let db = Db::open_in_memory(Options::default())?;
    /// db.put("key", "value")?;
    /// db.flush()?;
    /// assert_eq!(db.layout().iter().map(|level| level.tables.len()).sum::<usize>(), 1);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn flush(&self) -> Result<()> {
        self.writes()?.seal(self.shared())?;
        self.shared().wait_until(|_| self.shared().view.load().sealed.is_empty())
    }

    /// Goes on after a full disk ([`Error::is_no_space`]) without opening anew, once there is space again: at least
    /// `reserve_bytes` and what memtables and a manifest take. Everything acknowledged is there and durable when this
    /// returns; a batch that was refused is not. Does nothing in a store that has not stopped.
    ///
    /// # Errors
    /// [`Error::NoSpace`], or [`Error::FailStopped`] with it inside, if there is still too little: try again.
    /// [`Error::FailStopped`] with the reason if writes stopped for another one: only opening anew helps then.
    ///
    /// ```no_run
    /// # fn main() -> terrace::Result<()> {
    /// # let db = terrace::Db::open("store", terrace::Options::default())?;
    /// while let Err(error) = db.put("key", "value") {
    ///     if !error.is_no_space() {
    ///         return Err(error);
    ///     }
    ///     eprintln!("{error}; remove something, then press return");
    ///     std::io::stdin().read_line(&mut String::new()).ok();
    ///     db.resume().or_else(|still| if still.is_no_space() { Ok(()) } else { Err(still) })?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn resume(&self) -> Result<()> {
        self.writes()?.resume(self.shared())
    }

    /// Sequence of the newest visible write; 0 before the first.
    ///
    /// ```
    /// # use terrace::{Db, Options};
    /// let db = Db::open_in_memory(Options::default())?;
    /// db.put("key", "value")?;
    /// assert_eq!(db.last_sequence(), 1);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn last_sequence(&self) -> u64 {
        self.shared().visible().0
    }

    /// Every write up to here survives a power cut. Always 0 where nothing is promised: under tier `none`, and in a store
    /// opened for reading only.
    ///
    /// ```
    /// # use terrace::{Db, Options};
    /// let db = Db::open_in_memory(Options::default())?;
    /// db.put("key", "value")?;
    /// db.wait_durable(db.last_sequence())?;
    /// assert_eq!(db.durable_sequence(), db.last_sequence());
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn durable_sequence(&self) -> u64 {
        self.shared().durable.load(Ordering::Acquire)
    }

    /// Returns once every write up to `sequence` survives a power cut, and sees to it that it happens. Under tier `none`
    /// it returns at once, without that promise.
    ///
    /// # Errors
    /// As of [every write](Db#errors). [`Error::Invalid`] for a `sequence` that has not been written.
    ///
    /// ```
    /// # use terrace::{Db, Error, Options, WriteOptions, WriteBatch};
    /// let db = Db::open_in_memory(Options::default())?;
    /// let mut batch = WriteBatch::new();
    /// batch.put("key", "value");
    /// let sequence = db.write(batch, WriteOptions::default())?;
    /// db.wait_durable(sequence)?;
    /// assert!(matches!(db.wait_durable(sequence + 1), Err(Error::Invalid(_))));
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn wait_durable(&self, sequence: u64) -> Result<()> {
        self.shared().check_process()?;
        self.check_written(sequence)?;
        if self.durable_sequence() >= sequence { Ok(()) } else { make_durable(self.shared(), self.writes()?) }
    }

    pub(super) fn check_written(&self, sequence: u64) -> Result<()> {
        match self.last_sequence() {
            last if sequence > last => {
                Err(Error::Invalid(format!("sequence {sequence} has not been written; the last is {last}")))
            }
            _ => Ok(()),
        }
    }
}
