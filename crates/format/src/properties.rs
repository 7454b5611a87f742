//! What a table says of itself: meta block [`META_NAME`], which LevelDB skips.
//!
//! ```text
//! offset  size  field, each fixed64
//!      0     8  entries            24     8  bytes of values
//!      8     8  of these, deletes  32     8  oldest sequence
//!     16     8  bytes of keys      40     8  newest sequence
//! ```
//! Ours; spec: docs/format/table.md.
use crate::{
    Corrupt, SeqNo,
    coding::{Input, put_fixed64},
};

/// Key of the meta block in the metaindex.
pub const META_NAME: &str = "terrace.facts";

/// What a table says of itself, beyond its entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableProperties {
    /// Entries of any kind.
    pub entries: u64,
    /// Of these, deletes.
    pub deletes: u64,
    /// Bytes of internal keys.
    pub key_bytes: u64,
    /// Bytes of values.
    pub value_bytes: u64,
    /// The oldest and the newest sequence of an entry.
    pub sequences: (SeqNo, SeqNo),
}

impl TableProperties {
    /// The meta block's contents, 48 bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(48);
        let (oldest, newest) = self.sequences;
        for field in [self.entries, self.deletes, self.key_bytes, self.value_bytes, oldest.0, newest.0] {
            put_fixed64(&mut out, field);
        }
        out
    }

    /// From the meta block's contents. Facts that contradict each other are refused.
    pub fn decode(bytes: &[u8]) -> Result<TableProperties, Corrupt> {
        let mut input = Input::new("table facts", bytes);
        let facts = TableProperties {
            entries: input.fixed64()?,
            deletes: input.fixed64()?,
            key_bytes: input.fixed64()?,
            value_bytes: input.fixed64()?,
            sequences: (SeqNo(input.fixed64()?), SeqNo(input.fixed64()?)),
        };
        if !input.is_empty() {
            return Err(input.corrupt(format!("{} bytes too many", input.rest().len())));
        }
        if facts.deletes > facts.entries {
            return Err(Corrupt::new("table facts", 8, "more deletes than entries"));
        }
        let (oldest, newest) = facts.sequences;
        if oldest > newest || newest > SeqNo::MAX {
            return Err(Corrupt::new("table facts", 32, format!("sequences from {oldest} to {newest}")));
        }
        Ok(facts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_that_cannot_be_are_refused() {
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
