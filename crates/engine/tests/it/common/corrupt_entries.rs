//! Makes SSTables in which an entry is wrong although all checksums are correct, in every table
//! form. Faulty memory can produce such a table, if it changes an entry before the checksum is
//! computed.
#![allow(dead_code, reason = "suites use a part each")]
use super::kit;
use crate::corpus::fuzz::heal;
use std::{
    fs,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};
use tempfile::TempDir;
use terrace::{Db, Options};
use terrace_format::{
    block::{Block, BlockCursor},
    bundle,
    footer::{FOOTER_BYTES, Footer, Handle},
    key::TRAILER_BYTES,
    pair,
};

/// The table forms, each with the options that select it.
pub const FORMS: &[(&str, &[(&str, &str)])] = &[
    ("files", &[]),
    ("bundles", &[("tables", "bundled")]),
    ("directories", &[("tables", "directory")]),
    ("values in the log", &[("values", "log")]),
];

/// Options that make entries easy to find and to change: every entry is a restart point, and
/// blocks are not compressed.
const OPEN: &[(&str, &str)] = &[("compression", "none"), ("block_restart_interval", "1"), ("block_size", "1KiB")];

/// Returns the options of a store with the table form `form`.
pub fn options(form: &[(&str, &str)]) -> Options {
    kit::plain(&[OPEN, form].concat())
}

/// Makes a closed store with `pairs`. All pairs are in one table, if the table form allows that.
pub fn store(form: &[(&str, &str)], pairs: &kit::Model) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let db = Db::open(folder.path().join("store"), options(form)).unwrap();
    pairs.iter().for_each(|(key, value)| db.put(key, value).unwrap());
    db.compact_range(None, None).unwrap();
    db.close().unwrap();
    folder
}

/// Copies the directory `from` to `to`.
pub fn copy(from: &Path, to: &Path) {
    for (path, bytes) in kit::files_below(from) {
        let target = to.join(path.strip_prefix(from).unwrap());
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::write(target, bytes).unwrap();
    }
}

/// Returns the tables of the store: for each table, its file and its byte range in the file.
pub fn tables(store: &Path) -> Vec<(PathBuf, Range<usize>)> {
    let mut found = Vec::new();
    for (path, bytes) in kit::files_below(store) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.ends_with(".ldb") || name == pair::META {
            found.push((path, 0..bytes.len()));
        } else if name.ends_with(".bundle") {
            let offset = bundle::directory_offset(bytes.last_chunk().unwrap(), bytes.len() as u64).unwrap();
            for member in bundle::decode(&bytes[offset as usize..], offset).unwrap() {
                let range = member.offset as usize..(member.offset + member.bytes) as usize;
                if bytes[range.clone()].iter().any(|byte| *byte != 0) {
                    found.push((path.clone(), range));
                }
            }
        }
    }
    found
}

/// An entry in the encoding that blocks use.
#[derive(Clone, Debug)]
pub struct Entry {
    pub key: Vec<u8>,
    pub value: Vec<u8>,
    place: Range<usize>,
}

/// Changes the entry of user key `key` in `store` and corrects the checksums. The closure `change`
/// receives the entry and the previous entry of the table, and modifies the entry. It must not
/// change the lengths of key and value. Returns the path of the changed file.
pub fn change(store: &Path, key: &[u8], change: impl Fn(&mut Entry, Option<&Entry>)) -> PathBuf {
    for (path, range) in tables(store) {
        let mut file = fs::read(&path).unwrap();
        let table = &mut file[range.clone()];
        let entries = entries(table);
        let wanted = |entry: &Entry| &entry.key[..entry.key.len() - TRAILER_BYTES] == key;
        let Some(at) = entries.iter().position(wanted) else { continue };
        let mut entry = entries[at].clone();
        change(&mut entry, at.checked_sub(1).map(|at| &entries[at]));
        let mut bytes = vec![0];
        [entry.key.len(), entry.value.len()].into_iter().for_each(|size| put_varint(&mut bytes, size));
        bytes.extend_from_slice(&entry.key);
        bytes.extend_from_slice(&entry.value);
        assert_eq!(bytes.len(), entry.place.len(), "the entry is as long as it was");
        table[entry.place].copy_from_slice(&bytes);
        let healed = heal::table(table);
        table.copy_from_slice(&healed);
        fs::write(&path, file).unwrap();
        return path;
    }
    panic!("no table has {}", key.escape_ascii())
}

/// Returns all entries of a table in order.
fn entries(table: &[u8]) -> Vec<Entry> {
    let footer = Footer::decode(&table[table.len() - FOOTER_BYTES..]).unwrap();
    let bytes = |handle: Handle| &table[handle.offset as usize..(handle.offset + handle.bytes) as usize];
    let mut index = BlockCursor::new(Arc::new(Block::new(bytes(footer.index).to_vec()).unwrap()));
    let mut found = Vec::new();
    index.seek_first().unwrap();
    while index.valid() {
        let handle = Handle::decode(index.value()).unwrap();
        let (block, mut at) = (bytes(handle), 0);
        let restarts = u32::from_le_bytes(*block.last_chunk().unwrap()) as usize;
        while at < block.len() - 4 - 4 * restarts {
            let begin = at;
            let [shared, key_bytes, value_bytes] = [(); 3].map(|()| varint(block, &mut at));
            assert_eq!(shared, 0, "every key is whole");
            let (key, value) = (at..at + key_bytes, at + key_bytes..at + key_bytes + value_bytes);
            at = value.end;
            let place = handle.offset as usize + begin..handle.offset as usize + at;
            found.push(Entry { key: block[key].to_vec(), value: block[value].to_vec(), place });
        }
        index.next().unwrap();
    }
    found
}

fn varint(bytes: &[u8], at: &mut usize) -> usize {
    let (mut value, mut shift) = (0, 0);
    loop {
        let byte = bytes[*at];
        *at += 1;
        value |= usize::from(byte & 0x7f) << shift;
        shift += 7;
        if byte < 0x80 {
            return value;
        }
    }
}

fn put_varint(bytes: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}
