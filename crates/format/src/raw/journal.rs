//! The slot journal: two halves, of which one holds a checkpoint and the entries since. When it is full, or a store is opened to be
//! written, the next checkpoint goes to the other half; this one counts until that is whole and durable.
//!
//! ```text
//! a half                                     its head                        an entry
//! 0     head, alone in its page               0  8  "TERRACEJ"                0  4  length of the changes
//! 4096  the checkpoint's changes              8  8  number of the formatting  4  4  crc32c, begun with the head's,
//!       entries, from the next multiple      16  8  generation                      of the length and the changes
//!       of 4096                              24  4  length of the checkpoint  8  n  changes: all happen, or none
//!                                            28  4  its crc32c
//!                                            32  4  crc32c of bytes 0..32
//! ```
//! Entries stand one behind the other; the first whose length is 0 or whose checksum is wrong is the end, unless an entry behind it tells
//! of a flush that was later: then it is damaged, since no power cut took it. The checksum begins with that of
//! the head, so that what an earlier generation left behind the end is not taken for a continuation. A page that is written
//! again with more entries in it holds the earlier ones unchanged, so a torn page loses only what was not durable.
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

/// No generation is larger: each has 2^32 numbers of files to itself.
pub const GENERATION_MAX: u64 = u32::MAX as u64 - 1;

/// The beginning of a half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Which formatting it belongs to.
    pub id: u64,
    /// The half with the larger one counts.
    pub generation: u64,
    /// What checksums of entries begin with.
    pub seed: u32,
}

/// What a half says.
#[derive(Debug)]
pub struct Half {
    /// Its head.
    pub head: Head,
    /// The checkpoint, and then each entry.
    pub changes: Vec<Vec<Change>>,
    /// Where the next entry would stand.
    pub end: usize,
}

/// A half that was whole once, and is not any more.
#[derive(Debug, PartialEq, Eq)]
pub struct Damaged {
    /// As its head has it, which may be what is damaged.
    pub generation: u64,
    /// What is wrong.
    pub why: Corrupt,
}

/// The beginning of a half: head, checkpoint, and where entries begin. Whole pages.
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

/// One entry behind `head`.
pub fn encode_entry(head: &Head, changes: &[Change]) -> Vec<u8> {
    let mut out = vec![0; ENTRY_HEAD_BYTES];
    changes.iter().for_each(|change| change.encode(&mut out));
    let length = ((out.len() - ENTRY_HEAD_BYTES) as u32).to_le_bytes();
    let sum = crc::extend(crc::extend(head.seed, &length), &out[ENTRY_HEAD_BYTES..]);
    out[..4].copy_from_slice(&length);
    out[4..8].copy_from_slice(&sum.to_le_bytes());
    out
}

/// Reads a half; `None` if there is none of formatting `id`, or one whose checkpoint a power cut cut short. What no power cut leaves
/// is an error: a head lies within one sector, nothing follows a checkpoint that is not durable, and what has a right checksum
/// means something.
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
        let why = Corrupt::new(WHAT, PAGE as u64, "the checkpoint is not whole, and entries follow");
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
        let why = Corrupt::new(WHAT, end as u64, "the entry here is damaged: a later one says that it was durable");
        return Err(damaged(head.generation)(why));
    }
    Ok(Some(Half { head, changes, end }))
}

/// The checkpoint, if it is right, and where entries begin.
pub(super) fn checkpoint(half: &[u8], length: usize, sum: u32) -> (Option<&[u8]>, usize) {
    let end = length.saturating_add(PAGE).checked_next_multiple_of(PAGE).unwrap_or(usize::MAX);
    let found = half.get(PAGE..).and_then(|rest| rest.get(..length));
    (found.filter(|bytes| crc::crc32c(bytes) == sum), end)
}

/// What an entry of these changes takes.
pub(super) fn entry_bytes(changes: &[u8]) -> usize {
    ENTRY_HEAD_BYTES + changes.len()
}

/// The head, and the length and the checksum of the checkpoint.
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
        return bad(HEAD_BYTES as u64 - 4, "wrong checksum of the head");
    }
    if head.generation > GENERATION_MAX {
        return bad(16, "there is no such generation");
    }
    Ok((head, length, sum))
}

/// The changes of the entry at `at`, if there is one.
pub(super) fn entry<'a>(head: &Head, half: &'a [u8], at: usize) -> Option<&'a [u8]> {
    perhaps(half, at).filter(|found| found.is_right(head)).map(|found| found.changes)
}

/// What may be an entry, or any bytes.
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
    /// Whether it is one.
    pub fn is_right(&self, head: &Head) -> bool {
        self.sum == crc::extend(crc::extend(head.seed, self.length), self.changes)
    }
}

/// Whether an entry behind `end`, at which there is none, tells of a flush after something had been written there. Looks at every byte, and
/// so at the meaning before the checksum: bytes that are no changes are told by the first few, while the lengths that are read amidst
/// what an earlier generation has left come to megabytes.
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

    /// An entry that a flush was told to have saved is not the end of the history, whichever byte of it is wrong; the last one may be.
    #[test]
    fn a_wrong_byte_before_a_flush_is_told() {
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

    /// A half with a history in it, and where each entry ends.
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
    fn a_history_goes_there_and_back() {
        let (half, ends) = half();
        let found = decode(&half, 9).unwrap().unwrap();
        assert_eq!(decode(&half, 8).unwrap().map(|half| half.end), None);
        assert_eq!(found.changes, history());
        assert_eq!((found.head.id, found.head.generation, found.end), (9, 2, ends[3]));
    }

    /// Whatever byte is wrong: of the head or the checkpoint, that is told; of an entry, the history ends before it.
    #[test]
    fn a_wrong_byte_ends_the_history_there() {
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

    /// A new generation with the same checkpoint does not go on with what the old one left.
    #[test]
    fn entries_of_another_generation_do_not_count() {
        let (mut half, _) = half();
        let (_, fresh) = encode_checkpoint(9, 3, &history()[0]);
        half[..fresh.len()].copy_from_slice(&fresh);
        assert_eq!(decode(&half, 9).unwrap().unwrap().changes, history()[..1]);
    }

    /// A power cut while a checkpoint was written: its head is there, or its changes, and no entry.
    #[test]
    fn half_a_checkpoint_is_none() {
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
