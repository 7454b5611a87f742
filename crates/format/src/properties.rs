//! The properties block of an SSTable: meta block [`META_NAME`], which LevelDB ignores.
//!
//! ```text
//! offset  size  field, each fixed64
//!      0     8  entries               24     8  bytes of values
//!      8     8  tombstones among them 32     8  smallest sequence number
//!     16     8  bytes of keys         40     8  largest sequence number
//! ```
//! This format is an addition of Terrace; spec: docs/format/table.md.
use crate::{
    Corrupt, SeqNo,
    coding::{Input, put_fixed64},
};

/// Key of the properties block in the metaindex.
pub const META_NAME: &str = "terrace.facts";

/// Statistics of an SSTable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableProperties {
    /// Entries of all kinds.
    pub entries: u64,
    /// Tombstones among the entries.
    pub deletes: u64,
    /// Total size of the internal keys in bytes.
    pub key_bytes: u64,
    /// Total size of the values in bytes.
    pub value_bytes: u64,
    /// Smallest and largest sequence number of the entries.
    pub sequences: (SeqNo, SeqNo),
}

impl TableProperties {
    /// Encodes the block's contents, 48 bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(48);
        let (oldest, newest) = self.sequences;
        for field in [self.entries, self.deletes, self.key_bytes, self.value_bytes, oldest.0, newest.0] {
            put_fixed64(&mut out, field);
        }
        out
    }

    /// Decodes the block's contents. Rejects contradictory properties.
    pub fn decode(bytes: &[u8]) -> Result<TableProperties, Corrupt> {
        let mut input = Input::new("table properties", bytes);
        let facts = TableProperties {
            entries: input.fixed64()?,
            deletes: input.fixed64()?,
            key_bytes: input.fixed64()?,
            value_bytes: input.fixed64()?,
            sequences: (SeqNo(input.fixed64()?), SeqNo(input.fixed64()?)),
        };
        if !input.is_empty() {
            return Err(input.corrupt(format!("{} surplus bytes", input.rest().len())));
        }
        if facts.deletes > facts.entries {
            return Err(Corrupt::new("table properties", 8, "more deletes than entries"));
        }
        let (oldest, newest) = facts.sequences;
        if oldest > newest || newest > SeqNo::MAX {
            return Err(Corrupt::new("table properties", 32, format!("sequences from {oldest} to {newest}")));
        }
        Ok(facts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contradictory_properties_are_rejected() {
        let sequences = (SeqNo(3), SeqNo(9));
        let facts = TableProperties { entries: 5, deletes: 2, key_bytes: 60, value_bytes: 100, sequences };
        let good = facts.encode();
        assert_eq!(TableProperties::decode(&good), Ok(facts));
        assert!(TableProperties::decode(&good[..47]).is_err());
        assert!(TableProperties::decode(&[&good[..], &[0]].concat()).is_err());
        for (at, byte) in [(8, 6), (40, 2), (47, 1)] {
            let mut bad = good.clone();
            bad[at] = byte;
            assert!(TableProperties::decode(&bad).is_err(), "byte {at}");
        }
    }
}
