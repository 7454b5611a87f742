//! The slot journal: the log of a raw device's file list. It has two halves. One half has the
//! valid checkpoint (the whole file list) and the entries written after this checkpoint. When this
//! half is full, or when a store is opened for writing, the next checkpoint is written to the
//! other half. The old half stays valid until the new checkpoint is durable.
//!
//! ```text
//! a half                             its head                     an entry
//! 0     head, alone in its page      0  8  "TERRACEJ"             0  4  length of the changes
//! 4096  the checkpoint's changes     8  8  format id              4  4  crc32c, seeded by the head's
//!       entries, from the next      16  8  generation             8  n  changes, applied atomically
//!       multiple of 4096            24  4  checkpoint length
//!                                   28  4  checkpoint crc32c
//!                                   32  4  crc32c of bytes 0..32
//! ```
//! Entries are contiguous. The history ends at the first entry with length 0 or with a wrong
//! checksum. There is one exception: if a later entry records a device flush that covered the
//! invalid entry, the device is damaged, because no power cut can have destroyed an entry that was
//! flushed.
//!
//! The head's checksum is the seed for the checksums of the entries. The checksums of entries of
//! an earlier generation are therefore wrong, and these entries are not read as a continuation.
//! When a page is written again with further entries, its earlier entries are repeated unchanged.
//! A torn page therefore loses only entries that were not durable.
use super::{Change, PAGE};
use crate::{
    Corrupt,
    coding::{Input, put_fixed32, put_fixed64},
    crc,
};

pub(super) const WHAT: &str = "slot journal";
const MAGIC: &[u8; 8] = b"TERRACEJ";
const HEAD_BYTES: usize = 36;
const ENTRY_HEAD_BYTES: usize = 8;

/// Largest generation. Each generation has its own range of 2^32 file numbers.
pub const GENERATION_MAX: u64 = u32::MAX as u64 - 1;

/// The head of a half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The format id of the device.
    pub id: u64,
    /// The generation. The half with the larger generation is the valid one.
    pub generation: u64,
    /// Seed for the checksums of the entries.
    pub seed: u32,
}

/// The contents of a half.
#[derive(Debug)]
pub struct Half {
    /// The head.
    pub head: Head,
    /// The changes of the checkpoint, then the changes of each entry.
    pub changes: Vec<Vec<Change>>,
    /// Offset of the next entry.
    pub end: usize,
}

/// A corrupt half of the journal: no power cut can leave a half in this state.
#[derive(Debug, PartialEq, Eq)]
pub struct Damaged {
    /// The generation that the head states. The head may itself be corrupt.
    pub generation: u64,
    /// The corruption.
    pub why: Corrupt,
}

/// Encodes the start of a half in whole pages: head and checkpoint, up to the first entry.
pub fn encode_checkpoint(id: u64, generation: u64, changes: &[Change]) -> (Head, Vec<u8>) {
    let mut out = vec![0; PAGE];
    changes.iter().for_each(|change| change.encode(&mut out));
    let (length, sum) = ((out.len() - PAGE) as u32, crc::crc32c(&out[PAGE..]));
    let mut head = MAGIC.to_vec();
    put_fixed64(&mut head, id);
    put_fixed64(&mut head, generation);
    put_fixed32(&mut head, length);
    put_fixed32(&mut head, sum);
    let seed = crc::crc32c(&head);
    put_fixed32(&mut head, seed);
    out[..HEAD_BYTES].copy_from_slice(&head);
    out.resize(out.len().next_multiple_of(PAGE), 0);
    (Head { id, generation, seed }, out)
}

/// Encodes an entry for the half with this `head`.
pub fn encode_entry(head: &Head, changes: &[Change]) -> Vec<u8> {
    let mut out = vec![0; ENTRY_HEAD_BYTES];
    changes.iter().for_each(|change| change.encode(&mut out));
    let length = ((out.len() - ENTRY_HEAD_BYTES) as u32).to_le_bytes();
    let sum = crc::extend(crc::extend(head.seed, &length), &out[ENTRY_HEAD_BYTES..]);
    out[..4].copy_from_slice(&length);
    out[4..8].copy_from_slice(&sum.to_le_bytes());
    out
}

/// Decodes a half of the slot journal. Returns `None` if the half has another format id, or if a
/// power cut interrupted the writing of its checkpoint. All other invalid bytes are an error,
/// because no power cut can leave them, for three reasons. A head is within one sector, so it is
/// never torn. Entries are written only after the checkpoint is durable. Bytes with a valid
/// checksum can always be decoded.
pub fn decode(half: &[u8], id: u64) -> Result<Option<Half>, Damaged> {
    if half.iter().take(HEAD_BYTES).all(|byte| *byte == 0) {
        return Ok(None);
    }
    let damaged = |generation| move |why| Damaged { generation, why };
    let (head, length, sum) = decode_head(half)?;
    if head.id != id {
        return Ok(None);
    }
    let (found, mut end) = checkpoint(half, length, sum);
    let Some(found) = found else {
        let why = Corrupt::new(WHAT, PAGE as u64, "the checkpoint is incomplete, but entries follow");
        return entry(&head, half, end).map_or(Ok(None), |_| Err(damaged(head.generation)(why)));
    };
    let all = |at, bytes| {
        let told = Change::decode_all(bytes).map_err(|found| behind(at, found));
        told.map_err(damaged(head.generation))
    };
    let mut changes = vec![all(PAGE, found)?];
    while let Some(bytes) = entry(&head, half, end) {
        changes.push(all(end + ENTRY_HEAD_BYTES, bytes)?);
        end += entry_bytes(bytes);
    }
    if is_outlived(&head, half, end) {
        let why = Corrupt::new(WHAT, end as u64, "corrupt entry: a later entry records that it was durable");
        return Err(damaged(head.generation)(why));
    }
    Ok(Some(Half { head, changes, end }))
}

/// Returns the checkpoint if it is valid, and the offset of the entries.
pub(super) fn checkpoint(half: &[u8], length: usize, sum: u32) -> (Option<&[u8]>, usize) {
    let end = length.saturating_add(PAGE).checked_next_multiple_of(PAGE).unwrap_or(usize::MAX);
    let found = half.get(PAGE..).and_then(|rest| rest.get(..length));
    (found.filter(|bytes| crc::crc32c(bytes) == sum), end)
}

/// Returns the encoded size of an entry with these changes.
pub(super) fn entry_bytes(changes: &[u8]) -> usize {
    ENTRY_HEAD_BYTES + changes.len()
}

/// Decodes the head. Returns it with the length and the checksum of the checkpoint.
pub(super) fn decode_head(half: &[u8]) -> Result<(Head, usize, u32), Damaged> {
    let fields = |input: &mut Input<'_>| {
        let magic = input.take(MAGIC.len())? == MAGIC;
        let (id, generation) = (input.fixed64()?, input.fixed64()?);
        let (length, sum, seed) = (input.fixed32()?, input.fixed32()?, input.fixed32()?);
        Ok((magic, Head { id, generation, seed }, length as usize, sum))
    };
    let found = fields(&mut Input::new(WHAT, half));
    let (magic, head, length, sum) = found.map_err(|why| Damaged { generation: u64::MAX, why })?;
    let bad = |at, detail: &str| Err(Damaged { generation: head.generation, why: Corrupt::new(WHAT, at, detail) });
    if !magic {
        return bad(0, "no head");
    }
    if head.seed != crc::crc32c(&half[..HEAD_BYTES - 4]) {
        return bad(HEAD_BYTES as u64 - 4, "checksum mismatch in the head");
    }
    if head.generation > GENERATION_MAX {
        return bad(16, "invalid generation");
    }
    Ok((head, length, sum))
}

/// Returns the changes of the entry at `at`; `None` if the entry is not valid.
pub(super) fn entry<'a>(head: &Head, half: &'a [u8], at: usize) -> Option<&'a [u8]> {
    perhaps(half, at).filter(|found| found.is_right(head)).map(|found| found.changes)
}

/// Bytes at some offset of a half that may be a journal entry, because they have the form of one.
pub(super) struct Perhaps<'a> {
    length: &'a [u8; 4],
    sum: u32,
    pub changes: &'a [u8],
}

pub(super) fn perhaps(half: &[u8], at: usize) -> Option<Perhaps<'_>> {
    let (length, rest) = half.get(at..)?.split_first_chunk::<4>()?;
    let (sum, rest) = rest.split_first_chunk::<4>()?;
    let changes = rest.get(..u32::from_le_bytes(*length) as usize).filter(|changes| !changes.is_empty())?;
    Some(Perhaps { length, sum: u32::from_le_bytes(*sum), changes })
}

impl Perhaps<'_> {
    /// Returns whether the bytes are a valid entry of the half with this head.
    pub fn is_right(&self, head: &Head) -> bool {
        self.sum == crc::extend(crc::extend(head.seed, self.length), self.changes)
    }
}

/// Returns whether an entry after `end` records a device flush that covered the bytes at `end`.
/// The caller knows that no valid entry starts at `end`. The function looks for an entry at each
/// offset after `end`. At each offset it decodes the bytes before it computes their checksum,
/// because decoding rejects most bytes after a few of them. The opposite order would be slow: the
/// lengths found in entries of an earlier generation add up to megabytes of checksums.
fn is_outlived(head: &Head, half: &[u8], end: usize) -> bool {
    let is_later = |change: &Change| matches!(change, Change::Flushed { end: told } if *told > end as u64);
    let tells = |bytes| Change::decode_all(bytes).is_ok_and(|changes| changes.iter().any(is_later));
    (end + 1..half.len()).any(|at| perhaps(half, at).is_some_and(|found| tells(found.changes) && found.is_right(head)))
}

pub(super) fn behind(base: usize, found: Corrupt) -> Corrupt {
    Corrupt { offset: found.offset + base as u64, ..found }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw::Form;

    fn history() -> Vec<Vec<Change>> {
        let file = |file| Change::File { file, form: Form::Plain, stream: 1 };
        let name = |file, name: &str| Change::Name { file, name: name.into() };
        vec![
            vec![Change::Next { file: 4 }, file(3), name(3, "three")],
            vec![file(5), name(5, &"long".repeat(900))],
            vec![Change::Slots { file: 5, first: 0, count: 2 }],
            vec![Change::Unname { name: "three".into() }],
        ]
    }

    /// Tests corruption of each byte of the journal's entries. If a later entry records a device
    /// flush that covered the corrupt entry, the corruption must be an error. Otherwise it may end
    /// the history without an error.
    #[test]
    fn corruption_before_a_device_flush_is_reported() {
        let (mut half, ends) = half();
        half.truncate(ends[3]);
        let (head, _) = encode_checkpoint(9, 2, &history()[0]);
        half.extend(encode_entry(&head, &[Change::Flushed { end: ends[2] as u64 }]));
        half.resize(64 << 10, 0);
        assert_eq!(decode(&half, 9).unwrap().unwrap().changes.len(), 5);
        for at in ends[0]..ends[3] + 20 {
            let mut bad = half.clone();
            bad[at] ^= 4;
            match decode(&bad, 9) {
                Ok(found) => assert!(at >= ends[2] && found.is_some(), "byte {at}"),
                Err(told) => {
                    let begin = ends.iter().rfind(|end| **end <= at).unwrap();
                    assert_eq!((told.generation, told.why.offset), (2, *begin as u64), "byte {at}");
                    assert!(at < ends[2]);
                }
            }
        }
    }

    /// Returns a half with a history, and the end of each of its entries.
    fn half() -> (Vec<u8>, Vec<usize>) {
        let history = history();
        let (head, mut half) = encode_checkpoint(9, 2, &history[0]);
        let mut ends = vec![half.len()];
        for changes in &history[1..] {
            half.extend(encode_entry(&head, changes));
            ends.push(half.len());
        }
        half.resize(64 << 10, 0);
        (half, ends)
    }

    #[test]
    fn a_history_round_trips() {
        let (half, ends) = half();
        let found = decode(&half, 9).unwrap().unwrap();
        assert_eq!(decode(&half, 8).unwrap().map(|half| half.end), None);
        assert_eq!(found.changes, history());
        assert_eq!((found.head.id, found.head.generation, found.end), (9, 2, ends[3]));
    }

    /// Tests a half of the journal with one wrong byte, for each byte in turn. In the head or the
    /// checkpoint it must be an error. In an entry it must end the history before that entry.
    #[test]
    fn a_wrong_byte_ends_the_history_before_its_entry() {
        let (half, ends) = half();
        for at in (0..HEAD_BYTES).chain(PAGE..PAGE + 10).chain(ends[0]..ends[3]) {
            let mut bad = half.clone();
            bad[at] ^= 4;
            let whole = ends.iter().filter(|end| **end <= at).count();
            match decode(&bad, 9) {
                Ok(found) => assert_eq!(found.unwrap().changes[..], history()[..whole.max(1)], "byte {at}"),
                Err(_) => assert!(at < ends[0], "byte {at}"),
            }
            assert_eq!(decode(&bad, 9).is_err(), at < ends[0], "byte {at}");
        }
    }

    /// Tests that the entries of an old generation are not read as a continuation of a new
    /// generation, even if both have the same checkpoint.
    #[test]
    fn entries_of_another_generation_do_not_count() {
        let (mut half, _) = half();
        let (_, fresh) = encode_checkpoint(9, 3, &history()[0]);
        half[..fresh.len()].copy_from_slice(&fresh);
        assert_eq!(decode(&half, 9).unwrap().unwrap().changes, history()[..1]);
    }

    /// Tests a power cut during the write of a checkpoint. A half of the journal may then have only
    /// the head, or only the changes, of the checkpoint. The reader must ignore such a half.
    #[test]
    fn an_interrupted_checkpoint_is_ignored() {
        let (old, _) = half();
        let (_, fresh) = encode_checkpoint(9, 4, &history()[1]);
        let torn = |whole: std::ops::Range<usize>, mut under: Vec<u8>| {
            under[whole.clone()].copy_from_slice(&fresh[whole]);
            decode(&under, 9).map(|found| found.map(|half| half.head.generation))
        };
        assert_eq!(torn(0..PAGE, old.clone()), Ok(None));
        assert_eq!(torn(0..PAGE, vec![0; 64 << 10]), Ok(None));
        assert_eq!(torn(PAGE..fresh.len(), vec![0; 64 << 10]), Ok(None));
        assert_eq!(torn(0..fresh.len(), old), Ok(Some(4)));
    }
}
