//! Writes, flushes, and the durability of writes.
use super::{Db, make_durable};
use crate::{
    Error, Result, WriteBatch, WriteOptions, batch,
    write::{self, WriteRequest},
};
use std::sync::atomic::Ordering;
use terrace_format::batch::Op;

impl Db {
    /// Sets `key` to `value`.
    ///
    /// Durability: the write survives the end of this process, but not a power cut. To survive a
    /// power cut, use [`put_with`](Db::put_with) with [`WriteOptions::synced`], or
    /// [`wait_durable`](Db::wait_durable).
    ///
    /// # Errors
    /// The errors of [every write](Db#errors). [`Error::Invalid`] if the key or the value is too
    /// long for the store.
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

    /// Works like [`put`](Db::put), with write options. With the option `sync`, this write and all
    /// writes before it survive a power cut once the call has returned.
    ///
    /// # Errors
    /// The errors of [`put`](Db::put).
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

    /// Deletes `key`. If the key does not exist, there is no visible effect. The delete is as
    /// durable as a [`put`](Db::put).
    ///
    /// # Errors
    /// The errors of [`put`](Db::put).
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

    /// Works like [`delete`](Db::delete), with write options.
    ///
    /// # Errors
    /// The errors of [`put`](Db::put).
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

    /// Applies `batch` atomically. Returns the sequence number of its last operation, for
    /// [`wait_durable`](Db::wait_durable). A key may have up to 4 GiB − 17 bytes, and a value may
    /// have up to 4 GiB − 1 bytes; longer ones are refused. The batch is as durable as a
    /// [`put_with`](Db::put_with) with the same options.
    ///
    /// # Errors
    /// The errors of [`put`](Db::put). [`Error::Unsupported`] if the batch deletes a range that is
    /// not empty and the store has no range tombstones. After an error no operation of the batch
    /// has been applied.
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

    /// Writes `request` after a check of the lengths of its longest key and value.
    pub(crate) fn write_checked(
        &self,
        request: WriteRequest<'_>,
        longest: (u64, u64),
        options: WriteOptions,
    ) -> Result<u64> {
        self.check_sizes(longest)?;
        if options.disable_wal {
            return self.write_without_wal(request, options);
        }
        Ok(self.writes()?.write(self.shared(), request, options.sync)?.0)
    }

    #[cold]
    fn write_without_wal(&self, request: WriteRequest<'_>, options: WriteOptions) -> Result<u64> {
        check_options(options)?;
        Ok(self.writes()?.write_without_wal(self.shared(), request)?.0)
    }

    /// Checks the lengths of the longest key and value.
    #[inline(always)] // part of every put
    fn check_sizes(&self, longest: (u64, u64)) -> Result<()> {
        let (limits, (key_bytes, value_bytes)) = (self.shared().storage.limits(), longest);
        if let Some(oversized) = batch::oversized(key_bytes, value_bytes) {
            return Err(Error::Invalid(oversized));
        }
        if key_bytes > limits.key_bytes_max || value_bytes > limits.value_bytes_max {
            return Err(Error::Invalid(format!(
                "the longest key has {key_bytes} bytes and the longest value {value_bytes}; the limits of this store are {} and {} bytes",
                limits.key_bytes_max, limits.value_bytes_max
            )));
        }
        Ok(())
    }

    /// Flushes the memtable into an SSTable. Returns when the SSTable serves reads. From then on
    /// writes without WAL survive a kill of the process. To make the SSTable durable, call
    /// [`wait_durable`](Db::wait_durable).
    ///
    /// # Errors
    /// The errors of [every write](Db#errors).
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
        let unlogged = self.writes()?.seal(self.shared())?;
        self.shared().wait_until(|state| state.sealed == 0)?;
        match unlogged {
            Some(last) => write::wait_manifest_covers(self.shared(), last),
            None => Ok(()),
        }
    }

    /// Resumes writes after a full disk ([`Error::is_no_space`]) without a reopen of the store. The
    /// call needs free space: at least `reserve_bytes` plus the memtables and a manifest. When the
    /// call returns, every acknowledged write is present and durable; a refused batch is not
    /// present. In a store that has not stopped, the call does nothing.
    ///
    /// # Errors
    /// [`Error::NoSpace`], or [`Error::FailStopped`] with this error inside, if there is still too
    /// little space: call again later. [`Error::FailStopped`] with another error inside if writes
    /// stopped for another reason: reopen the store.
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

    /// Returns the sequence number of the newest visible write; 0 before the first write.
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

    /// Returns the durable watermark: every write up to this sequence number survives a power cut.
    /// The result is always 0 in durability mode `none`, and in a store opened for reading only.
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

    /// Waits until every write up to `sequence` survives a power cut. If necessary, the call
    /// syncs. In durability mode `none`, which syncs nothing, it waits until these writes,
    /// including those without WAL, survive a kill of the process.
    ///
    /// # Errors
    /// The errors of [every write](Db#errors). [`Error::Invalid`] if `sequence` has not been
    /// written yet.
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
        if self.shared().safe_sequence() >= sequence { Ok(()) } else { make_durable(self.shared(), self.writes()?) }
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

/// Returns an error if the options contradict each other.
pub(super) fn check_options(options: WriteOptions) -> Result<()> {
    if options.sync && options.disable_wal {
        let text = "a write cannot have both sync and disable_wal; after writes without WAL, Db::wait_durable waits until they are durable";
        return Err(Error::Invalid(text.into()));
    }
    Ok(())
}
