//! Version edits: each record of a manifest is the difference between two versions of the tree.
//!
//! ```text
//! edit = field*          each field is a varint32 tag followed by:
//!   100  slice feature flag                         first field; makes LevelDB refuse the store
//!     1  slice comparator name
//!     2  varint64 WAL number                        older WALs are obsolete
//!     9  varint64 previous WAL number               always 0 in today's LevelDB
//!     3  varint64 next file number
//!     4  varint64 last sequence number
//!     5  varint32 level, slice internal key         compaction pointer of the level
//!     6  varint32 level, varint64 table             deleted SSTable
//!     7  varint32 level, table                      added SSTable
//!   101  varint32 level, table in a bundle          added SSTable; feature bundled-tables
//!   102  varint64 table, byte kind,                 number of live bytes in a segment, for a table
//!        varint64 number, varint64 bytes            that was added earlier in this edit
//!   103  varint64 table, varint64 run               sorted run, if not 0, of a table that was added
//!                                                   earlier in this edit; feature sorted-runs
//!   104  varint32 family, slice name,               created column family; feature column-families
//!        slice comparator name
//!   105  varint32 family                            dropped column family
//!   110  varint64 table, varint64 entries           number of entries; feature directory-tables
//! table             = varint64 number, varint64 bytes, slice smallest, slice largest internal key
//! table in a bundle = varint64 number, varint64 bytes, varint64 bundle, varint64 offset,
//!                     slice smallest, slice largest internal key
//! ```
//! The level of a column family other than the default one is 7 × family + level in the family.
//! Tags from 100 on are additions of Terrace. The kind of a segment is 1 for a WAL that contains
//! values, and 2 for a segment of relocated values. Fields are written in this order. Source:
//! LevelDB's `db/version_edit.cc`; spec: docs/format/manifest.md.
use crate::{
    Corrupt, FamilyId, LEVELS, LogId, SegmentId, SeqNo, TableId, Within,
    coding::{Input, put_slice, put_varint32, put_varint64},
    key,
};

const COMPARATOR: u32 = 1;
const LOG_NUMBER: u32 = 2;
const NEXT_FILE_NUMBER: u32 = 3;
const LAST_SEQUENCE: u32 = 4;
const COMPACT_POINTER: u32 = 5;
const DELETED: u32 = 6;
const ADDED: u32 = 7;
const PREV_LOG_NUMBER: u32 = 9;
const REQUIRES: u32 = 100;
const ENTRIES: u32 = 110;
const ADDED_WITHIN: u32 = 101;
const REFERENCE: u32 = 102;
const SORTED_RUN: u32 = 103;
const CREATED_FAMILY: u32 = 104;
const DROPPED_FAMILY: u32 = 105;

/// Feature of stores that may have several sorted runs in a level below level 0.
pub const SORTED_RUNS: &str = "sorted-runs";

/// Upper bound of the numbers of column families. With it, every number that combines a family and
/// a level fits into 32 bits.
pub const FAMILIES_MAX: usize = u32::MAX as usize / LEVELS;

/// Feature of stores that have, or had, another column family than the default one.
pub const COLUMN_FAMILIES: &str = "column-families";

/// One manifest record. If a field is absent, its value does not change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edit {
    /// Feature flags that a reader must know. LevelDB refuses a store that has any.
    pub requires: Vec<String>,
    /// Name of the comparator.
    pub comparator: Option<String>,
    /// WALs with smaller numbers are obsolete: their writes are in SSTables.
    pub log_number: Option<u64>,
    /// Number of a second WAL that is still needed; 0 for none. Only old versions of LevelDB need
    /// one.
    pub prev_log_number: Option<u64>,
    /// The next file number: all file numbers from this one on are unused.
    pub next_file_number: Option<u64>,
    /// Largest sequence number in the SSTables.
    pub last_sequence: Option<SeqNo>,
    /// Column families that are created or dropped. A reader applies these changes before it adds
    /// tables.
    pub families: Vec<FamilyChange>,
    /// For each level, the internal key after which the next compaction of the level starts. A
    /// level number includes the column family; see [`FamilyId::level`].
    pub compact_pointers: Vec<(usize, Vec<u8>)>,
    /// SSTables deleted from a level. A reader deletes them before it adds those in `added`.
    pub deleted: Vec<(usize, TableId)>,
    /// SSTables added to a level.
    pub added: Vec<(usize, AddedTable)>,
    /// Number of entries of each added directory table. The manifest does not record this number
    /// for other SSTables.
    pub entries: Vec<(TableId, u64)>,
}

/// The creation or the drop of a column family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FamilyChange {
    /// The column family exists from this edit on.
    Created {
        /// The number of the family, which no earlier family of the store had.
        id: FamilyId,
        /// The name of the family.
        name: String,
        /// The name of the family's comparator.
        comparator: String,
    },
    /// From this edit on the family does not exist, and neither do its SSTables.
    Dropped(FamilyId),
}

/// An SSTable as the manifest describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddedTable {
    /// Number of the SSTable.
    pub id: TableId,
    /// Size of the SSTable in bytes. This is the size of its file, unless the SSTable is in a
    /// bundle.
    pub bytes: u64,
    /// Location of the SSTable in a bundle; `None` if it is in no bundle.
    pub within: Option<Within>,
    /// Smallest internal key.
    pub smallest: Vec<u8>,
    /// The number of the sorted run to which the SSTable belongs, in a level below level 0. A run
    /// with a larger number has newer entries.
    pub run: u64,
    /// Largest internal key.
    pub largest: Vec<u8>,
    /// The value-log segments to which value pointers of this SSTable refer, each with the number
    /// of bytes in the segment that this SSTable keeps live.
    pub refs: Vec<(Referred, u64)>,
}

/// A file with separated values to which value pointers of SSTables may refer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Referred {
    /// A WAL that contains values.
    Log(LogId),
    /// A segment of values relocated by garbage collection.
    Values(SegmentId),
}

impl Referred {
    fn encode(self) -> (u8, u64) {
        match self {
            Referred::Log(id) => (1, id.0),
            Referred::Values(id) => (2, id.0),
        }
    }

    fn decode(kind: u8, number: u64) -> Option<Referred> {
        match kind {
            1 => Some(Referred::Log(LogId(number))),
            2 => Some(Referred::Values(SegmentId(number))),
            _ => None,
        }
    }
}

impl Edit {
    /// Encodes the record. Keys must be whole internal keys, as [`Edit::decode`] demands.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for feature in &self.requires {
            put_varint32(&mut out, REQUIRES);
            put_slice(&mut out, feature.as_bytes());
        }
        if let Some(name) = &self.comparator {
            put_varint32(&mut out, COMPARATOR);
            put_slice(&mut out, name.as_bytes());
        }
        for (tag, number) in [
            (LOG_NUMBER, self.log_number),
            (PREV_LOG_NUMBER, self.prev_log_number),
            (NEXT_FILE_NUMBER, self.next_file_number),
            (LAST_SEQUENCE, self.last_sequence.map(|sequence| sequence.0)),
        ] {
            if let Some(number) = number {
                put_varint32(&mut out, tag);
                put_varint64(&mut out, number);
            }
        }
        self.families.iter().for_each(|change| put_family(&mut out, change));
        for (level, key) in &self.compact_pointers {
            put_level(&mut out, COMPACT_POINTER, *level);
            put_slice(&mut out, key);
        }
        for (level, id) in &self.deleted {
            put_level(&mut out, DELETED, *level);
            put_varint64(&mut out, id.0);
        }
        for (level, table) in &self.added {
            put_level(&mut out, if table.within.is_some() { ADDED_WITHIN } else { ADDED }, *level);
            put_varint64(&mut out, table.id.0);
            put_varint64(&mut out, table.bytes);
            if let Some(Within { bundle, offset }) = table.within {
                put_varint64(&mut out, bundle.0);
                put_varint64(&mut out, offset);
            }
            put_slice(&mut out, &table.smallest);
            put_slice(&mut out, &table.largest);
            if table.run > 0 {
                put_varint32(&mut out, SORTED_RUN);
                put_varint64(&mut out, table.id.0);
                put_varint64(&mut out, table.run);
            }
            for (referred, bytes) in &table.refs {
                let (kind, number) = referred.encode();
                put_varint32(&mut out, REFERENCE);
                put_varint64(&mut out, table.id.0);
                out.push(kind);
                put_varint64(&mut out, number);
                put_varint64(&mut out, *bytes);
            }
        }
        for (id, entries) in &self.entries {
            put_varint32(&mut out, ENTRIES);
            put_varint64(&mut out, id.0);
            put_varint64(&mut out, *entries);
        }
        out
    }

    /// Decodes a manifest record. If a field is repeated, the last occurrence is used, as in
    /// LevelDB.
    pub fn decode(bytes: &[u8]) -> Result<Edit, Corrupt> {
        let mut input = Input::new("manifest edit", bytes);
        let mut edit = Edit::default();
        while !input.is_empty() {
            let start = input.clone();
            match input.varint32()? {
                REQUIRES => edit.requires.push(text(&mut input)?),
                COMPARATOR => edit.comparator = Some(text(&mut input)?),
                LOG_NUMBER => edit.log_number = Some(input.varint64()?),
                PREV_LOG_NUMBER => edit.prev_log_number = Some(input.varint64()?),
                NEXT_FILE_NUMBER => edit.next_file_number = Some(input.varint64()?),
                LAST_SEQUENCE => edit.last_sequence = Some(sequence(&mut input)?),
                CREATED_FAMILY => edit.families.push(FamilyChange::Created {
                    id: family(&mut input)?,
                    name: text(&mut input)?,
                    comparator: text(&mut input)?,
                }),
                DROPPED_FAMILY => edit.families.push(FamilyChange::Dropped(family(&mut input)?)),
                COMPACT_POINTER => edit.compact_pointers.push((level(&mut input)?, internal_key(&mut input)?)),
                DELETED => edit.deleted.push((level(&mut input)?, TableId(input.varint64()?))),
                ADDED => edit.added.push((level(&mut input)?, added(&mut input, false)?)),
                ADDED_WITHIN => edit.added.push((level(&mut input)?, added(&mut input, true)?)),
                ENTRIES => edit.entries.push((TableId(input.varint64()?), input.varint64()?)),
                REFERENCE => reference(&mut input, &mut edit.added)?,
                SORTED_RUN => sorted_run(&mut input, &mut edit.added)?,
                tag => return Err(start.corrupt(format!("unknown tag {tag}"))),
            }
        }
        Ok(edit)
    }
}

fn put_family(out: &mut Vec<u8>, change: &FamilyChange) {
    match change {
        FamilyChange::Created { id, name, comparator } => {
            put_varint32(out, CREATED_FAMILY);
            put_varint32(out, id.0);
            put_slice(out, name.as_bytes());
            put_slice(out, comparator.as_bytes());
        }
        FamilyChange::Dropped(id) => {
            put_varint32(out, DROPPED_FAMILY);
            put_varint32(out, id.0);
        }
    }
}

/// Decodes the number of a column family that is created or dropped. The number 0 is an error,
/// because the default family is neither created nor dropped.
fn family(input: &mut Input<'_>) -> Result<FamilyId, Corrupt> {
    let start = input.clone();
    match input.varint32()? {
        0 => Err(start.corrupt("the default column family is created or dropped")),
        id if id as usize >= FAMILIES_MAX => Err(start.corrupt(format!("column family {id}"))),
        id => Ok(FamilyId(id)),
    }
}

fn put_level(out: &mut Vec<u8>, tag: u32, level: usize) {
    put_varint32(out, tag);
    put_varint32(out, u32::try_from(level).expect("families are bounded by `FAMILIES_MAX`"));
}

fn level(input: &mut Input<'_>) -> Result<usize, Corrupt> {
    let start = input.clone();
    let level = input.varint32()? as usize;
    if level < FAMILIES_MAX * LEVELS { Ok(level) } else { Err(start.corrupt(format!("level {level}"))) }
}

fn sequence(input: &mut Input<'_>) -> Result<SeqNo, Corrupt> {
    let start = input.clone();
    let sequence = SeqNo(input.varint64()?);
    if sequence <= SeqNo::MAX { Ok(sequence) } else { Err(start.corrupt(format!("sequence {sequence} above 56 bits"))) }
}

fn internal_key(input: &mut Input<'_>) -> Result<Vec<u8>, Corrupt> {
    let start = input.clone();
    let bytes = input.slice()?;
    match key::parse(bytes) {
        Ok(_) => Ok(bytes.to_vec()),
        Err(error) => Err(start.corrupt(format!("invalid internal key: {}", error.detail))),
    }
}

fn text(input: &mut Input<'_>) -> Result<String, Corrupt> {
    let start = input.clone();
    let bytes = input.slice()?.to_vec();
    String::from_utf8(bytes).map_err(|_| start.corrupt("a name is not UTF-8"))
}

fn added(input: &mut Input<'_>, within: bool) -> Result<AddedTable, Corrupt> {
    Ok(AddedTable {
        id: TableId(input.varint64()?),
        bytes: input.varint64()?,
        within: if within {
            Some(Within { bundle: TableId(input.varint64()?), offset: input.varint64()? })
        } else {
            None
        },
        run: 0,
        smallest: internal_key(input)?,
        largest: internal_key(input)?,
        refs: Vec::new(),
    })
}

/// Decodes field 103, the number of the sorted run of an SSTable, and sets it in the SSTable's
/// element of `added`. An earlier field of the same edit must have added the SSTable.
fn sorted_run(input: &mut Input<'_>, added: &mut [(usize, AddedTable)]) -> Result<(), Corrupt> {
    let start = input.clone();
    let (id, run) = (TableId(input.varint64()?), input.varint64()?);
    let table = added.iter_mut().rev().map(|(_, table)| table).find(|table| table.id == id);
    table.ok_or_else(|| start.corrupt(format!("table {id} has a sorted run, but was not added")))?.run = run;
    Ok(())
}

/// Decodes field 102, a reference from an SSTable to a value-log segment, and adds it to the
/// SSTable's element of `added`. An earlier field of the same edit must have added the SSTable.
fn reference(input: &mut Input<'_>, added: &mut [(usize, AddedTable)]) -> Result<(), Corrupt> {
    let start = input.clone();
    let id = TableId(input.varint64()?);
    let (kind, number, bytes) = (input.byte()?, input.varint64()?, input.varint64()?);
    let referred =
        Referred::decode(kind, number).ok_or_else(|| start.corrupt(format!("unknown kind of object {kind}")))?;
    let table = added.iter_mut().rev().map(|(_, table)| table).find(|table| table.id == id);
    let table = table.ok_or_else(|| start.corrupt(format!("table {id} refers to a segment, but was not added")))?;
    table.refs.push((referred, bytes));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    fn sample() -> Edit {
        let table = AddedTable {
            id: TableId(300),
            bytes: 70_000,
            within: None,
            run: 0,
            smallest: key::encode(b"a", SeqNo(9), Kind::Put),
            largest: key::encode(b"z", SeqNo(3), Kind::Delete),
            refs: vec![(Referred::Log(LogId(4)), 300), (Referred::Values(SegmentId(5)), 1)],
        };
        let within = AddedTable {
            within: Some(Within { bundle: TableId(300), offset: 8192 }),
            refs: Vec::new(),
            run: 130,
            ..table.clone()
        };
        Edit {
            requires: vec!["lz4".into()],
            comparator: Some("leveldb.BytewiseComparator".into()),
            log_number: Some(5),
            prev_log_number: Some(0),
            next_file_number: Some(301),
            last_sequence: Some(SeqNo(1000)),
            families: vec![
                FamilyChange::Created { id: FamilyId(2), name: "users".into(), comparator: "c".into() },
                FamilyChange::Dropped(FamilyId(1)),
            ],
            compact_pointers: vec![(1, key::encode(b"m", SeqNo(1), Kind::Put))],
            deleted: vec![(0, TableId(7)), (6, TableId(8))],
            added: vec![(2, table), (3, within)],
            entries: vec![(TableId(300), 500)],
        }
    }

    #[test]
    fn bytes_are_as_specified() {
        let bytes = sample().encode();
        let mut want = b"\x64\x03lz4\x01\x1aleveldb.BytewiseComparator\x02\x05\x09\0\x03\xad\x02\x04\xe8\x07".to_vec();
        want.extend_from_slice(b"\x68\x02\x05users\x01c\x69\x01");
        want.extend_from_slice(b"\x05\x01\x09m\x01\x01\0\0\0\0\0\0\x06\0\x07\x06\x06\x08");
        want.extend_from_slice(b"\x07\x02\xac\x02\xf0\xa2\x04\x09a\x01\x09\0\0\0\0\0\0\x09z\0\x03\0\0\0\0\0\0");
        want.extend_from_slice(b"\x66\xac\x02\x01\x04\xac\x02\x66\xac\x02\x02\x05\x01");
        want.extend_from_slice(
            b"\x65\x03\xac\x02\xf0\xa2\x04\xac\x02\x80\x40\x09a\x01\x09\0\0\0\0\0\0\x09z\0\x03\0\0\0\0\0\0",
        );
        want.extend_from_slice(b"\x67\xac\x02\x82\x01\x6e\xac\x02\xf4\x03");
        assert_eq!(bytes, want);
        assert_eq!(Edit::decode(&bytes), Ok(sample()));
        assert_eq!(Edit::decode(b""), Ok(Edit::default()));
    }

    #[test]
    fn invalid_input_is_rejected() {
        for (bytes, what) in [
            (&b"\x08\x01"[..], "unknown tag 8"),
            (b"\x6b", "unknown tag 107"),
            (b"\x68\0\x01a\x01b", "the default column family"),
            (b"\x69\xff\xff\xff\xff\x0f", "column family 4294967295"),
            (b"\x67\x01\x01", "table 000001 has a sorted run, but was not added"),
            (b"\x66\x01\x01\x01\x01", "table 000001 refers to a segment, but was not added"),
            (b"\x66\x01\x03\x01\x01", "unknown kind of object 3"),
            (b"\x02\x05junk", "unknown tag 106"),
            (b"\x02", "varint runs past the end"),
            (b"\x06\xff\xff\xff\xff\x0f\x01", "level 4294967295"),
            (b"\x05\x01\x071234567", "invalid internal key: 7 bytes"),
            (b"\x05\x01\x08\x0212345678", "invalid internal key: unknown kind 2"),
            (b"\x04\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "above 56 bits"),
            (b"\x01\x02\xff\xfe", "not UTF-8"),
            (b"\x01\x05abc", "5 bytes needed, 3 left"),
        ] {
            let error = Edit::decode(bytes).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
    }
}
