//! Sorted tables outside of stores: built by whoever has sorted data, exported by one store, ingested by another.
use crate::{Error, Options, Result, batch::oversized};
use std::path::{Path, PathBuf};
use terrace_format::{
    Kind, SeqNo,
    key::{self, user_key},
};
use terrace_storage::TableFileWriter;

/// Writes a sorted table into a file, for [`Db::ingest`](crate::Db::ingest). It is a table of LevelDB's format. Dropped
/// unfinished, it removes the file.
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

/// A finished sorted table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SortedTable {
    /// Its file.
    pub path: PathBuf,
    /// Puts and deletes in it.
    pub entries: u64,
    /// Its size in bytes.
    pub bytes: u64,
    /// First key.
    pub smallest: Vec<u8>,
    /// Last key.
    pub largest: Vec<u8>,
}

impl SortedTableWriter {
    /// Makes the file `path`, which must not be there yet. Of `options` count the order of keys, which must be that of the
    /// store, and what they say of blocks, compression and filters.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) for a file that is there or cannot be made.
    pub fn create(path: impl AsRef<Path>, options: &Options) -> Result<SortedTableWriter> {
        options.validate()?;
        let file = TableFileWriter::create(path.as_ref(), &options.setup())?;
        Ok(SortedTableWriter { path: path.as_ref().into(), options: options.clone(), file, last: None, entries: 0 })
    }

    /// Adds a pair. Keys come in ascending order, each once.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for a key out of order or too long; [`Error::Io`](crate::Error::Io) and
    /// [`Error::NoSpace`](crate::Error::NoSpace) of writing.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.add(key.as_ref(), Kind::Put, value.as_ref())
    }

    /// Adds the deletion of a key. Keys come in ascending order, each once.
    ///
    /// # Errors
    /// As of [`put`](SortedTableWriter::put).
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.add(key.as_ref(), Kind::Delete, &[])
    }

    /// Bytes of the file so far, about.
    pub fn bytes(&self) -> u64 {
        self.file.bytes()
    }

    /// Ends the table, which must have an entry. It survives a power cut when this returns.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) without an entry; [`Error::Io`](crate::Error::Io) and
    /// [`Error::NoSpace`](crate::Error::NoSpace) of writing. The file is removed then.
    pub fn finish(self) -> Result<SortedTable> {
        if self.entries == 0 {
            return Err(Error::Invalid(format!("{} would be an empty table", self.path.display())));
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
            let text = format!("key '{}' does not come behind the one before it", user.escape_ascii());
            return Err(Error::Invalid(text));
        }
        self.file.add(&key::encode(user, SeqNo::ZERO, kind), value)?;
        self.last = Some(user.to_vec());
        self.entries += 1;
        Ok(())
    }
}
