//! Reads a directory table. Its META file is an SSTable that contains references to files instead
//! of values.
use super::{
    super::files::{Input, Store, tables::FileTable},
    table_dirs::{TableDirs, meta_of},
};
use crate::{
    Error, Result,
    placement::{Bytes, Cursor, EntryRef, Found, RangeTombstones, Table, TableProperties, TableReadOptions, Values},
    tables::sst::{ByteSource, Reader},
};
use std::sync::Arc;
use terrace_format::{
    Kind, key,
    pair::{InFile, PairProperties, Reference},
};

/// An open directory table.
pub(super) struct DirectoryTable {
    dir: TableDir,
    file: Arc<FileTable>,
}

/// Reads the values of one table.
#[derive(Clone)]
pub(super) struct TableDir {
    pub dirs: Arc<TableDirs>,
    pub folder: String,
}

impl DirectoryTable {
    pub fn new(dirs: Arc<TableDirs>, folder: String, file: Arc<FileTable>) -> DirectoryTable {
        DirectoryTable { dir: TableDir { dirs, folder }, file }
    }

    /// Estimates the size of a part of the table, including its value files. `bytes` is the size of
    /// the part's data in the META file, and the estimate is proportional to it.
    fn scaled(reader: &Reader, bytes: u64) -> u64 {
        let files = reader.pair_properties().unwrap_or_default().file_bytes;
        let share = u128::from(files) * u128::from(bytes) / u128::from(reader.data_bytes().max(1));
        bytes.saturating_add(u64::try_from(share).unwrap_or(files).min(files))
    }
}

impl TableDir {
    /// Returns the user's value of the put with the key `internal`. `stored` is the reference that
    /// the table's META file has for this key.
    pub fn value(&self, internal: &[u8], stored: Bytes, verify: bool) -> Result<Bytes> {
        let store = &self.dirs.store;
        let corrupt = |found| Error::corrupt(store.path(&meta_of(&self.folder)), 0, found);
        match Reference::decode(&stored).map_err(corrupt)? {
            Reference::Here(value) => {
                let at = stored.len() - value.len()..stored.len();
                stored.part(at).ok_or_else(|| Error::Unsupported("an inline value outside its reference".into()))
            }
            Reference::File(file) => {
                let at = (self.folder.clone(), file.name(internal));
                let input = self.dirs.pairs.get(&at, || open_pair(store, &at.0, &at.1).map(Arc::new))?;
                value_in(&input, internal, &file, verify)
            }
        }
    }
}

/// Reads the value of `internal` from a file of `folder`, without keeping the file open.
pub(super) fn read_pair(store: &Store, folder: &str, internal: &[u8], file: &InFile, verify: bool) -> Result<Bytes> {
    value_in(&open_pair(store, folder, &file.name(internal))?, internal, file, verify)
}

fn open_pair(store: &Store, folder: &str, name: &str) -> Result<Input> {
    store.open_file("pair", &format!("{folder}/{name}"))
}

/// Reads the whole file `input` and returns the value of `internal`.
fn value_in(input: &Input, internal: &[u8], file: &InFile, verify: bool) -> Result<Bytes> {
    let corrupt = |found| Error::corrupt(input.name.clone(), 0, found);
    let short = file.file_bytes(internal) != input.bytes;
    // The file may have another size than the table's reference states. So this function reads at
    // most as many bytes as the file has. The verification of these bytes detects a wrong size.
    let bytes = input.read(0..if short { input.bytes.min(file.file_bytes(internal)) } else { input.bytes })?;
    let at = file.value_at(internal, &bytes, verify).map_err(corrupt)?;
    let value = bytes.part(at..bytes.len()).filter(|_| !short);
    value.ok_or_else(|| {
        let detail = format!("the file has {} bytes, the table says {}", input.bytes, file.file_bytes(internal));
        Error::Corrupt { what: "pair", object: input.name.clone(), offset: input.bytes, detail }
    })
}

/// Fetches values for the cursors of a directory table.
struct PairValues {
    dir: TableDir,
    verify: bool,
}

impl Values for PairValues {
    fn fetch(&mut self, entry: EntryRef<'_>) -> Result<Bytes> {
        self.dir.value(entry.key, entry.stored.to_vec().into(), self.verify)
    }
}

impl Table for DirectoryTable {
    fn get(&self, lookup: &[u8], how: TableReadOptions) -> Result<Option<Found>> {
        let Some(found) = self.file.get(lookup, how)? else { return Ok(None) };
        if found.kind == Kind::Delete {
            return Ok(Some(found));
        }
        let internal = key::encode(key::user_key(lookup), found.seq, found.kind);
        let value = self.dir.value(&internal, found.value, how.verify)?;
        Ok(Some(Found { value, ..found }))
    }

    fn may_have(&self, lookup: &[u8]) -> Result<bool> {
        self.file.may_have(lookup)
    }

    fn expect(&self, lookup: &[u8], how: TableReadOptions) -> Result<bool> {
        self.file.expect(lookup, how)
    }

    fn cursor(&self, how: TableReadOptions) -> Result<Cursor> {
        let values = PairValues { dir: self.dir.clone(), verify: how.verify };
        Ok(self.file.cursor(how)?.with_values(Box::new(values)))
    }

    fn offset_of(&self, key: &[u8]) -> Result<u64> {
        self.file.with(|reader| Ok(Self::scaled(reader, reader.offset_of(key)?)))
    }

    fn anchors(&self, count: usize) -> Result<Vec<(Vec<u8>, u64)>> {
        self.file.with(|reader| {
            let anchors = reader.anchors(count)?.into_iter();
            Ok(anchors.map(|(key, bytes)| (key, Self::scaled(reader, bytes))).collect())
        })
    }

    fn range_tombstones(&self) -> Result<Option<Arc<RangeTombstones>>> {
        self.file.range_tombstones()
    }

    fn properties(&self) -> Result<Option<TableProperties>> {
        self.file.with(|reader| {
            let value_bytes = reader.pair_properties().unwrap_or_default().value_bytes;
            Ok(reader.properties().map(|properties| TableProperties { value_bytes, ..properties }))
        })
    }

    /// Verifies the META file, then every pair.
    fn verify(&self) -> Result<TableProperties> {
        let (properties, claimed) = self.file.with(|reader| Ok((reader.verify()?, reader.pair_properties())))?;
        let mut counted = PairProperties::default();
        let mut cursor = self.file.cursor(TableReadOptions { verify: true, fill_cache: false })?;
        cursor.seek_first()?;
        while cursor.valid() {
            if key::apart(cursor.key()).kind == Kind::Put {
                let stored = Bytes::from(cursor.entry().stored.to_vec());
                if let Ok(Reference::File(file)) = Reference::decode(&stored) {
                    counted.files += 1;
                    counted.file_bytes = counted.file_bytes.saturating_add(file.file_bytes(cursor.key()));
                }
                counted.value_bytes += self.dir.value(cursor.key(), stored, true)?.len() as u64;
            }
            cursor.next()?;
        }
        if claimed != Some(counted) {
            let object = self.dir.dirs.store.path(&meta_of(&self.dir.folder));
            let detail = format!("the META file says {claimed:?}, the entries give {counted:?}");
            return Err(Error::Corrupt { what: "pair properties", object, offset: 0, detail });
        }
        Ok(TableProperties { value_bytes: counted.value_bytes, ..properties })
    }
}
