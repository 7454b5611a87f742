//! SSTables outside of stores. A program builds such a table from sorted data with the writer of
//! this module, or a store exports it. Every store with the same key order can ingest such a
//! table.
use crate::{Error, Options, Result, batch::oversized};
use std::path::{Path, PathBuf};
use terrace_format::{
    Kind, SeqNo,
    key::{self, user_key},
};
use terrace_storage::TableFileWriter;

/// Writes an SSTable in LevelDB's format to a file, for [`Db::ingest`](crate::Db::ingest). If the
/// writer is dropped before [`finish`](SortedTableWriter::finish), it removes the file.
///
/// ```
/// # use terrace::{Options, SortedTableWriter};
/// # let place = tempfile::tempdir().unwrap();
/// # let path = place.path().join("built.ldb");
/// let mut table = SortedTableWriter::create(&path, &Options::default())?;
/// table.put("a", "1")?;
/// table.delete("b")?;
/// assert_eq!(table.finish()?.entries, 2);
/// # Ok::<(), terrace::Error>(())
/// ```
pub struct SortedTableWriter {
    path: PathBuf,
    options: Options,
    file: TableFileWriter,
    last: Option<Vec<u8>>,
    entries: u64,
}

/// A finished SSTable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SortedTable {
    /// The path of the file.
    pub path: PathBuf,
    /// Number of puts and deletes.
    pub entries: u64,
    /// The size of the file in bytes.
    pub bytes: u64,
    /// The first user key in the table.
    pub smallest: Vec<u8>,
    /// The last user key in the table.
    pub largest: Vec<u8>,
}

impl SortedTableWriter {
    /// Creates the file `path`, which must not exist. The writer uses from `options` the key order
    /// and the options for blocks, compression and filters. The key order must be that of the store
    /// into which the table will be ingested.
    ///
    /// # Errors
    /// [`Error::Io`] if the file exists or cannot be created.
    pub fn create(path: impl AsRef<Path>, options: &Options) -> Result<SortedTableWriter> {
        options.validate()?;
        let file = TableFileWriter::create(path.as_ref(), &options.setup())?;
        Ok(SortedTableWriter { path: path.as_ref().into(), options: options.clone(), file, last: None, entries: 0 })
    }

    /// Adds a pair. Each key must be larger than the previous key.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a key that is not larger or is too long; [`Error::Io`] and
    /// [`Error::NoSpace`] if a write to the file fails.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.add(key.as_ref(), Kind::Put, value.as_ref())
    }

    /// Adds a tombstone. Each key must be larger than the previous key.
    ///
    /// # Errors
    /// The errors of [`put`](SortedTableWriter::put).
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.add(key.as_ref(), Kind::Delete, &[])
    }

    /// Returns the approximate number of bytes written to the file so far.
    pub fn bytes(&self) -> u64 {
        self.file.bytes()
    }

    /// Finishes the table, which must have at least one entry. The table is durable when this
    /// method returns.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is no entry; [`Error::Io`] and [`Error::NoSpace`] if a write to
    /// the file fails. After an error the file is removed.
    pub fn finish(self) -> Result<SortedTable> {
        if self.entries == 0 {
            return Err(Error::Invalid(format!("the table {} has no entry", self.path.display())));
        }
        let finished = self.file.finish()?;
        let [smallest, largest] = [finished.smallest, finished.largest].map(|bound| user_key(&bound).to_vec());
        Ok(SortedTable { path: self.path, entries: self.entries, bytes: finished.bytes, smallest, largest })
    }

    fn add(&mut self, user: &[u8], kind: Kind, value: &[u8]) -> Result<()> {
        if let Some(problem) = oversized(user.len() as u64, value.len() as u64) {
            return Err(Error::Invalid(problem));
        }
        let after = |last: &Vec<u8>| self.options.order().user(last, user).is_lt();
        if !self.last.as_ref().is_none_or(after) {
            let text = format!("key '{}' is not above the previous key", user.escape_ascii());
            return Err(Error::Invalid(text));
        }
        self.file.add(&key::encode(user, SeqNo::ZERO, kind), value)?;
        self.last = Some(user.to_vec());
        self.entries += 1;
        Ok(())
    }
}
