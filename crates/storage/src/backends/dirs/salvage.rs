//! Salvages a directory table that may be corrupt anywhere. It reads the pairs that the META file
//! lists. If entries of the META file are lost, it also reads the value files that the META file
//! does not list; the names of these files contain their keys. Every pair is verified by its
//! checksum.
use super::{
    table::TableDir,
    table_dirs::{TableDirs, meta_of},
};
use crate::{
    Error, Result,
    placement::{BlockCursor, Bytes, Loss, Piece, Salvage, TableMeta},
    tables::sst::SstSalvager,
};
use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};
use terrace_format::{
    Kind, RangeTombstones,
    block::{Block, BlockBuilder},
    key::{self, Parsed},
    pair::{PairName, Reference},
};

/// The limits of one piece (the part of a table that one call of `next` returns): the number of
/// its entries, and the number of its value bytes.
const PIECE_ENTRIES: usize = 64;
const PIECE_BYTES: usize = 1 << 20;
/// The maximum size in bytes of a value file: the key's length, the key and the value.
const FILE_BYTES_MAX: u64 = 5 + 2 * u32::MAX as u64;

/// A directory table being salvaged.
pub(super) struct PairSalvager {
    dir: TableDir,
    lost: VecDeque<Loss>,
    /// The pairs of the table that are still to be returned: internal keys with their META entries.
    /// An entry is either read from the META file or reconstructed from the name and contents of a
    /// value file. The pairs are sorted, without duplicates.
    entries: VecDeque<(Vec<u8>, Vec<u8>)>,
    range_tombstones: Result<Option<Arc<RangeTombstones>>>,
}

/// Finds the key-value pairs of the directory table in `folder`.
pub(super) fn open(dirs: Arc<TableDirs>, folder: String, table: &TableMeta) -> Result<PairSalvager> {
    let dir = TableDir { dirs, folder };
    let mut found = PairSalvager { dir, lost: VecDeque::new(), entries: VecDeque::new(), range_tombstones: Ok(None) };
    found.collect_listed(table)?;
    if !found.lost.is_empty() {
        found.collect_unlisted()?;
    }
    let order = found.dir.dirs.store.setup.order.clone();
    let entries = found.entries.make_contiguous();
    entries.sort_by(|a, b| order.internal(&a.0, &b.0));
    Ok(found)
}

impl PairSalvager {
    /// Collects the pairs that the table's META file lists.
    fn collect_listed(&mut self, table: &TableMeta) -> Result<()> {
        let TableDir { dirs, folder } = &self.dir;
        let meta = match dirs.store.open_file("META file", &meta_of(folder)) {
            Err(error) => {
                self.lost.push_back(loss(0, error.to_string(), None));
                return Ok(());
            }
            Ok(opened) => opened,
        };
        let mut salvager = SstSalvager::new(Box::new(meta), &dirs.store.setup, table);
        self.range_tombstones = salvager.range_tombstones();
        loop {
            match salvager.next() {
                Piece::End => return Ok(()),
                Piece::Lost(loss) => self.lost.push_back(loss),
                Piece::Block(mut cursor) => {
                    while cursor.valid() {
                        self.entries.push_back((cursor.key().to_vec(), cursor.value().to_vec()));
                        if let Err(found) = cursor.next() {
                            self.lost.push_back(loss(found.offset, found.to_string(), None));
                        }
                    }
                }
            }
        }
    }

    /// Collects value files that the META file does not list.
    fn collect_unlisted(&mut self) -> Result<()> {
        let TableDir { dirs, folder } = &self.dir;
        let name = |(internal, stored): &(Vec<u8>, Vec<u8>)| match Reference::decode(stored) {
            Ok(Reference::File(file)) => Some(file.name(internal)),
            _ => None,
        };
        let known: BTreeSet<String> = self.entries.iter().filter_map(name).collect();
        for inside in dirs.folders().list_folder(folder).map_err(dirs.store.io("list", folder))? {
            let Some(name) = PairName::parse(&inside.name).filter(|_| !known.contains(&inside.name)) else { continue };
            let path = format!("{folder}/{}", inside.name);
            let read = || {
                let input = dirs.store.open_file("pair", &path)?;
                if input.bytes > FILE_BYTES_MAX {
                    let detail = format!("{} bytes are more than any pair has", input.bytes);
                    return Err(Error::Corrupt { what: "pair", object: input.name, offset: FILE_BYTES_MAX, detail });
                }
                let bytes = crate::tables::sst::ByteSource::read(&input, 0..input.bytes)?;
                name.open(&bytes).map(|found| (found, bytes.len())).map_err(|e| Error::corrupt(input.name, 0, e))
            };
            match read() {
                Ok(((internal, at), bytes)) => {
                    let mut stored = Vec::new();
                    name.refer((bytes - at) as u64).encode(&mut stored);
                    self.entries.push_back((internal, stored));
                }
                Err(error) => self.lost.push_back(loss(0, error.to_string(), Some(name.user).filter(|_| !name.cut))),
            }
        }
        Ok(())
    }

    /// Returns a block with the keys and values of the next pairs. The block is empty if none of
    /// these pairs can be read.
    fn piece(&mut self) -> Result<BlockCursor> {
        let (mut builder, mut entries, mut bytes) = (BlockBuilder::new(1), 0, 0);
        while entries < PIECE_ENTRIES && bytes < PIECE_BYTES {
            let Some((internal, stored)) = self.entries.pop_front() else { break };
            let Parsed { user, kind, .. } = key::apart(&internal);
            let value = match kind {
                Kind::Delete => Ok(Bytes::from(Vec::new())),
                Kind::Put => self.dir.value(&internal, stored.into(), true),
            };
            match value {
                Ok(value) if value.len() > u32::MAX as usize => {
                    let reason = format!("a value of {} bytes exceeds the limit of u32::MAX", value.len());
                    self.lost.push_back(loss(0, reason, Some(user.to_vec())));
                }
                Ok(value) => {
                    builder.add(&internal, &value);
                    (entries, bytes) = (entries + 1, bytes + value.len());
                }
                Err(error) => self.lost.push_back(loss(0, error.to_string(), Some(user.to_vec()))),
            }
        }
        let corrupt = |found| Error::corrupt(self.dir.folder.clone(), 0, found);
        let mut cursor =
            BlockCursor::new(Arc::new(Block::of_internal_keys(builder.finish().to_vec()).map_err(corrupt)?));
        cursor.seek_first().map_err(corrupt)?;
        Ok(cursor)
    }
}

fn loss(offset: u64, reason: String, user: Option<Vec<u8>>) -> Loss {
    Loss { offset, bytes: 0, reason, from: user.clone(), to: user }
}

impl Salvage for PairSalvager {
    fn next(&mut self) -> Piece {
        loop {
            if let Some(loss) = self.lost.pop_front() {
                return Piece::Lost(loss);
            }
            if self.entries.is_empty() {
                return Piece::End;
            }
            match self.piece() {
                Ok(cursor) if cursor.valid() => return Piece::Block(cursor),
                Ok(_) => {}
                Err(error) => self.lost.push_back(loss(0, error.to_string(), None)),
            }
        }
    }

    fn range_tombstones(&self) -> Result<Option<Arc<RangeTombstones>>> {
        self.range_tombstones.clone()
    }
}
