//! Lists all versions of each key in the files of a store, and the bytes that contain each
//! version. The module reads the files with its own code, not with the engine's.
use super::files::{Files, records};
use std::{collections::BTreeMap, ops::Range, sync::Arc};
use terrace_format::{
    Batch, FileName, Kind, Op,
    block::{Block, BlockCursor},
    bundle::{self, Member},
    compress::decompress,
    footer::{FOOTER_BYTES, Footer, Handle, open_block},
    key,
};

/// The size of a checksummed block of a WAL. One damaged byte can make the rest of its block
/// unreadable.
const LOG_BLOCK_BYTES: usize = 32 << 10;

/// A version of a key, and the bytes of a file that must be intact if a repair is to find the
/// version.
pub struct Version {
    pub seq: u64,
    pub value: Option<Vec<u8>>,
    pub file: String,
    pub bytes: Range<usize>,
}

/// Returns all versions of all keys, newest first.
pub fn versions(files: &Files) -> BTreeMap<Vec<u8>, Vec<Version>> {
    let mut found: BTreeMap<Vec<u8>, Vec<Version>> = BTreeMap::new();
    for (file, contents) in files {
        let mut add = |key: &[u8], seq, value: Option<&[u8]>, bytes| {
            let value = value.map(<[u8]>::to_vec);
            found.entry(key.to_vec()).or_default().push(Version { seq, value, file: file.clone(), bytes });
        };
        match FileName::parse(file) {
            Some(FileName::Table(_)) => table_versions(contents, &mut add),
            Some(FileName::Bundle(_)) => {
                for Member { offset, bytes, .. } in members(contents) {
                    let (begin, table) = (offset as usize, &contents[offset as usize..(offset + bytes) as usize]);
                    if table.iter().any(|byte| *byte != 0) {
                        let mut within = |key: &[u8], seq, value: Option<&[u8]>, bytes: Range<usize>| {
                            add(key, seq, value, begin + bytes.start..begin + bytes.end);
                        };
                        table_versions(table, &mut within);
                    }
                }
            }
            Some(FileName::Log(_)) => log_versions(contents, &mut add),
            _ => {}
        }
    }
    found.values_mut().for_each(|versions| versions.sort_by_key(|version| std::cmp::Reverse(version.seq)));
    found
}

fn members(bundle: &[u8]) -> Vec<Member> {
    let footer = bundle.last_chunk().unwrap();
    let offset = bundle::directory_offset(footer, bundle.len() as u64).unwrap();
    bundle::decode(&bundle[offset as usize..], offset).unwrap()
}

type Add<'a> = dyn FnMut(&[u8], u64, Option<&[u8]>, Range<usize>) + 'a;

/// Returns a cursor over the entries of a block.
pub fn block(table: &[u8], handle: Handle) -> BlockCursor {
    let sealed = &table[handle.offset as usize..handle.end().unwrap() as usize];
    let (codec, stored) = open_block(sealed, true).unwrap();
    let mut cursor = BlockCursor::new(Arc::new(Block::new(decompress(codec, stored).unwrap()).unwrap()));
    cursor.seek_first().unwrap();
    cursor
}

fn table_versions(table: &[u8], add: &mut Add<'_>) {
    let footer = Footer::decode(&table[table.len() - FOOTER_BYTES..]).unwrap();
    let mut index = block(table, footer.index);
    while index.valid() {
        let handle = Handle::decode(index.value()).unwrap();
        let mut data = block(table, handle);
        while data.valid() {
            let entry = key::parse(data.key()).unwrap();
            let value = (entry.kind == Kind::Put).then(|| data.value());
            add(entry.user, entry.seq.0, value, handle.offset as usize..handle.end().unwrap() as usize);
            data.next().unwrap();
        }
        index.next().unwrap();
    }
}

fn log_versions(log: &[u8], add: &mut Add<'_>) {
    let mut at = 0;
    for record in records(log) {
        let begin = at / LOG_BLOCK_BYTES * LOG_BLOCK_BYTES;
        // The headers of fragments make the true position larger. The computed range is thus never
        // too large.
        at += record.len();
        let batch = Batch::decode(record).unwrap();
        let end = log.len().min((at + 7 * (2 + at / 8)).next_multiple_of(LOG_BLOCK_BYTES));
        for (seq, op) in (batch.sequence().0..).zip(batch.ops()) {
            match op {
                Op::Put(key, value) => add(key, seq, Some(value), begin..end),
                Op::Delete(key) => add(key, seq, None, begin..end),
                _ => panic!("the test writes only puts and deletes"),
            }
        }
    }
}
