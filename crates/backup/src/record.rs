//! The record of a backup: the files of the store, and the objects with their contents.
use crate::{
    error::{Error, Result},
    hash::{Hash, is_hash},
    source::Identity,
};
use serde::{Deserialize, Serialize};
use std::path::{Component, Path};

/// The version of the format of records.
pub const FORMAT: u32 = 1;
/// The name of the object that marks a place for backups.
pub const MARKER: &str = "BACKUPS";
/// The file that makes a directory a store.
pub const CURRENT: &str = "CURRENT";
const SUFFIX: &str = ".backup";
const OBJECT_SUFFIX: &str = ".object";
/// Number of digits of the hash in the name of a record.
const DIGITS: usize = 32;

/// One backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The version of this format.
    pub format: u32,
    /// The number of the backup.
    pub id: u64,
    /// The time at which the backup began, in seconds since 1970 (UTC).
    pub created: u64,
    /// The backup contains every write up to this sequence number, and no other.
    pub sequence: u64,
    /// Bytes of the objects that this backup has added.
    pub added_bytes: u64,
    /// The files of the store.
    pub files: Vec<FileRecord>,
}

/// One file of the store in a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRecord {
    /// The name in the store, which may have folders.
    pub name: String,
    /// The size in bytes.
    pub bytes: u64,
    /// The object with the content.
    pub object: Hash,
    /// The file that was read; absent if it has no identity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
}

impl FileRecord {
    /// Returns the name of the object with the content.
    pub fn object_name(&self) -> String {
        object_name(&self.object)
    }
}

impl Record {
    /// Returns the name and the content of the record.
    pub fn encode(&self) -> (String, Vec<u8>) {
        let content = serde_json::to_vec_pretty(self).expect("strings and numbers have a JSON form");
        let name = format!("{:06}-{}{SUFFIX}", self.id, &Hash::of(&content).digits()[..DIGITS]);
        (name, content)
    }

    /// Decodes the record `name` of the place `place`. Trusts no byte of `content`.
    pub fn decode(place: &str, name: &str, content: &[u8]) -> Result<Record> {
        let damaged = |detail: String| Error::Damaged { object: format!("{place}/{name}"), detail };
        let (id, digits) = parse_name(name).ok_or_else(|| damaged("its name is not that of a record".into()))?;
        if Hash::of(content).digits()[..DIGITS] != *digits {
            return Err(damaged("its SHA-256 differs from the one in its name".into()));
        }
        let record: Record = serde_json::from_slice(content).map_err(|error| damaged(error.to_string()))?;
        if record.format > FORMAT {
            let text = format!("{place}/{name} was written by a newer version (format {})", record.format);
            return Err(Error::Invalid(text));
        }
        if record.id != id {
            return Err(damaged(format!("it is the record of backup {}", record.id)));
        }
        match record.files.iter().find(|file| !is_inside(&file.name) || !file.object.is_valid()) {
            Some(file) => Err(damaged(format!("it has an invalid file {:?}", file.name))),
            None => Ok(record),
        }
    }

    /// Returns the total size of the files, in bytes.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).fold(0, u64::saturating_add)
    }
}

/// Returns whether `name` names a file within the store's directory.
fn is_inside(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    !name.is_empty() && parts.all(|part| matches!(part, Component::Normal(_)))
}

/// Returns the name of the object with the hash `hash`.
pub fn object_name(hash: &Hash) -> String {
    format!("{hash}{OBJECT_SUFFIX}")
}

/// Returns whether `name` is the name of an object.
pub fn is_object(name: &str) -> bool {
    name.strip_suffix(OBJECT_SUFFIX).is_some_and(is_hash)
}

/// Returns the backup number and the digits of the hash in the name of a record; `None` if `name`
/// is not the name of a record.
pub fn parse_name(name: &str) -> Option<(u64, &str)> {
    let (id, digits) = name.strip_suffix(SUFFIX)?.split_once('-')?;
    Some((id.parse().ok()?, digits)).filter(|(_, digits)| digits.len() == DIGITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(name: &str) -> Record {
        let file = FileRecord { name: name.into(), bytes: 5, object: Hash::of(b"bytes"), identity: None };
        Record { format: FORMAT, id: 7, created: 1, sequence: 9, added_bytes: 5, files: vec![file] }
    }

    #[test]
    fn a_record_round_trips_and_its_damage_is_seen() {
        let (name, content) = record("folder/000005.ldb").encode();
        assert_eq!(Record::decode("p", &name, &content).unwrap(), record("folder/000005.ldb"));
        for at in 0..content.len() {
            let mut damaged = content.clone();
            damaged[at] ^= 1;
            let error = Record::decode("p", &name, &damaged).expect_err("damage");
            assert!(error.to_string().starts_with("damaged backup file p/000007-"), "{error}");
        }
        assert!(Record::decode("p", &name.replace("000007", "000008"), &content).is_err());
    }

    #[test]
    fn a_name_outside_of_the_store_is_refused() {
        for outside in ["", "/etc/passwd", "../CURRENT", "a/../../b"] {
            let (name, content) = record(outside).encode();
            assert!(Record::decode("p", &name, &content).is_err(), "{outside:?}");
        }
    }

    #[test]
    fn a_newer_format_is_refused() {
        let (name, content) = Record { format: FORMAT + 1, ..record("a") }.encode();
        let error = Record::decode("p", &name, &content).unwrap_err().to_string();
        assert!(error.contains("newer version"), "{error}");
    }
}
