//! Salvages the valid parts of a corrupt half of the slot journal (the log of a raw device's file
//! list), so that files can be copied from the device. The result must not be used to write to the
//! device.
use super::{
    Change,
    journal::{Head, WHAT, behind, checkpoint, decode_head, entry, entry_bytes, perhaps},
};
use crate::Corrupt;

/// The valid parts of a corrupt half.
#[derive(Debug, PartialEq, Eq)]
pub struct Salvaged {
    /// The head.
    pub head: Head,
    /// The checkpoint, if it is valid.
    pub checkpoint: Option<Vec<Change>>,
    /// The valid entries in order. Invalid entries between them are left out.
    pub entries: Vec<Vec<Change>>,
    /// The corruptions found.
    pub damage: Vec<Corrupt>,
}

/// Reads a half with format id `id`. Returns `None` if the half has another format id, or if its
/// head is corrupt: without the head no entry can be verified.
pub fn salvage(half: &[u8], id: u64) -> Option<Salvaged> {
    let (head, length, sum) = decode_head(half).ok().filter(|(head, ..)| head.id == id)?;
    let (found, mut at) = checkpoint(half, length, sum);
    let mut salvaged = Salvaged { head, checkpoint: None, entries: Vec::new(), damage: Vec::new() };
    match found.map(Change::decode_all) {
        Some(Ok(changes)) => salvaged.checkpoint = Some(changes),
        _ => salvaged.damage.push(Corrupt::new(WHAT, super::PAGE as u64, "the checkpoint is incomplete")),
    }
    loop {
        while let Some(bytes) = entry(&head, half, at) {
            match Change::decode_all(bytes) {
                Ok(changes) => salvaged.entries.push(changes),
                Err(found) => salvaged.damage.push(behind(at, found)),
            }
            at += entry_bytes(bytes);
        }
        let is_entry = |at: &usize| {
            perhaps(half, *at).is_some_and(|it| Change::decode_all(it.changes).is_ok() && it.is_right(&head))
        };
        let Some(next) = (at + 1..half.len()).find(is_entry) else { return Some(salvaged) };
        salvaged.damage.push(Corrupt::new(WHAT, at as u64, format!("{} bytes that are no entries", next - at)));
        at = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw::{
        PAGE,
        journal::{encode_checkpoint, encode_entry},
    };

    /// Tests that one wrong byte loses only the entry or the checkpoint that contains it.
    #[test]
    fn a_wrong_byte_costs_only_its_entry() {
        let changes = |n: u64| vec![Change::Name { file: n, name: "x".repeat(n as usize) }, Change::Next { file: n }];
        let (head, mut half) = encode_checkpoint(9, 2, &changes(1));
        let mut ends = vec![half.len()];
        for n in 2..6 {
            half.extend(encode_entry(&head, &changes(n)));
            ends.push(half.len());
        }
        half.resize(64 << 10, 0);
        assert_eq!(salvage(&half, 8), None);
        for at in (0..36).chain(PAGE..PAGE + 4).chain(ends[0]..ends[4] + 9) {
            let mut bad = half.clone();
            bad[at] ^= 4;
            let Some(found) = salvage(&bad, 9) else {
                assert!(at < 36, "byte {at}");
                continue;
            };
            let hit = ends.windows(2).position(|entry| (entry[0]..entry[1]).contains(&at));
            let left: Vec<_> = (2..6).filter(|n| hit != Some(*n as usize - 2)).map(changes).collect();
            assert_eq!(found.entries, left, "byte {at}");
            assert_eq!(found.checkpoint.is_some(), at >= ends[0], "byte {at}");
            // A power cut may leave invalid bytes after the last complete entry, so these bytes are
            // not reported as damage.
            assert_eq!(found.damage.len(), usize::from(at < ends[3]), "byte {at}");
        }
    }
}
