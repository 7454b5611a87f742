//! The slot journal on a device: loaded, appended to, and begun anew in the other half when it is full.
use super::{error::io, table::Table};
use std::{io as std_io, ops::Range, sync::Arc};
use terrace_device::{BlockDevice, Stream};
use terrace_format::raw::{
    Change, PAGE, Superblock,
    journal::{Damaged, GENERATION_MAX, Half, Head, decode, encode_checkpoint, encode_entry},
};

/// What the journal is written under, apart from everything else: it is overwritten all the time.
const STREAM: Stream = Stream(0);

/// Where the history stands. Until the first checkpoint nothing is appended: what a power cut left behind the end of the
/// history must not be taken for a continuation of it.
pub struct Journal {
    pub device: Arc<dyn BlockDevice>,
    superblock: Superblock,
    half: usize,
    head: Head,
    /// The page that the next entry begins in, up to there; `None` before the first checkpoint.
    open: Option<Open>,
    /// Of this half, how much has survived a flush, and how much the last entry that told of one said.
    flushed: Told,
}

#[derive(Default)]
struct Told {
    is: u64,
    told: u64,
}

/// A moment in the history: see [`Journal::mark`].
#[derive(Clone, Copy)]
pub struct Mark {
    generation: u64,
    end: u64,
}

struct Open {
    /// Where in the half the page begins.
    at: u64,
    bytes: Vec<u8>,
}

impl Journal {
    /// Reads both halves and replays the one that counts. Damage in that one is an error: the other has an older list.
    pub fn load(device: Arc<dyn BlockDevice>, superblock: &Superblock) -> std_io::Result<(Journal, Table)> {
        let invalid = |why| std_io::Error::new(std_io::ErrorKind::InvalidData, why);
        // Of a flush that failed memory may have a half which the device never got: the next checkpoint would go over the only one it has.
        device.forget_cached(superblock.half_at(0), 2 * superblock.journal_bytes()).map_err(io)?;
        let (mut newest, mut damaged): (Option<(usize, Half)>, Vec<_>) = (None, Vec::new());
        for half in 0..2 {
            match read(&*device, superblock, half)? {
                Ok(Some(found))
                    if newest.as_ref().is_none_or(|(_, other)| other.head.generation < found.head.generation) =>
                {
                    newest = Some((half, found));
                }
                Ok(_) => {}
                Err(found) => damaged.push((half, found)),
            }
        }
        let is_newer = |generation| newest.as_ref().is_none_or(|(_, half)| half.head.generation <= generation);
        if let Some((half, found)) = damaged.into_iter().find(|(_, found)| is_newer(found.generation)) {
            return Err(invalid(tell(half, &found)));
        }
        let (half, found) = newest.ok_or_else(|| invalid("no half of its slot journal is whole".into()))?;
        let mut table = Table::new(superblock);
        for change in found.changes.iter().flatten() {
            table.apply(change).map_err(|why| invalid(format!("slot journal: {why}")))?;
        }
        Ok((Journal { half, head: found.head, ..Journal::unread(device, superblock) }, table))
    }

    /// One that nothing is known of: to read files, not to change them.
    pub fn unread(device: Arc<dyn BlockDevice>, superblock: &Superblock) -> Journal {
        let head = Head { id: superblock.id(), generation: 0, seed: 0 };
        Journal { device, superblock: *superblock, half: 0, head, open: None, flushed: Told::default() }
    }

    /// No file that begins now has a smaller number. Every use that writes has numbers of its own, by the generation that is durable before
    /// any slot is written: whatever a power cut left in slots, no page bears the number of a file that comes later.
    pub fn first_number(&self) -> u64 {
        (self.head.generation + u64::from(self.open.is_none())) << 32 // at most 2^32 - 1, see `checkpoint`
    }

    /// How far the history has come; for [`flushed`](Journal::flushed), when a flush of the device that begins now is over.
    pub fn mark(&self) -> Mark {
        let end = self.open.as_ref().map_or(0, |open| open.at + open.bytes.len() as u64);
        Mark { generation: self.head.generation, end }
    }

    /// Where on the device lies what of the history has not survived a flush. `None` before the first checkpoint, which flushes all of the
    /// device: until then whatever an earlier use has written may be anywhere.
    pub fn unflushed(&self) -> Option<Range<u64>> {
        self.open.as_ref()?;
        let (half, is) = (self.superblock.half_at(self.half), self.flushed.is);
        let end = self.mark().end;
        if end == is {
            Some(0..0)
        } else {
            Some(half + is - is % PAGE as u64..half + end.next_multiple_of(PAGE as u64))
        }
    }

    /// What was written before `mark` survives a power cut.
    pub fn flushed(&mut self, mark: Mark) {
        if mark.generation == self.head.generation {
            self.flushed.is = self.flushed.is.max(mark.end);
        }
    }

    /// Tells of the last flush that no entry has told of yet, so that damage before it is known as such. For the end of a use: whether it
    /// succeeds is of no matter.
    pub fn tell(&mut self, table: &Table) {
        if self.open.is_some() && self.flushed.is > self.flushed.told {
            let _ = self.append(&[], table);
        }
    }

    /// Hands `changes`, which `table` holds already, to the device, as one. Not durable before its next flush, unless a checkpoint
    /// was due: that is durable at return.
    pub fn append(&mut self, changes: &[Change], table: &Table) -> std_io::Result<()> {
        let mut changes = changes.to_vec();
        if self.flushed.is > self.flushed.told {
            changes.push(Change::Flushed { end: self.flushed.is });
        }
        let entry = encode_entry(&self.head, &changes);
        let Some(open) = &mut self.open else { return self.checkpoint(table) };
        if open.at + (open.bytes.len() + entry.len()) as u64 > self.superblock.journal_bytes() {
            return self.checkpoint(table);
        }
        open.bytes.extend_from_slice(&entry);
        let used = open.bytes.len();
        open.bytes.resize(used.next_multiple_of(PAGE), 0);
        let at = self.superblock.half_at(self.half) + open.at;
        self.device.write_at(at, &open.bytes, STREAM).map_err(io)?;
        let whole = used - used % PAGE;
        open.bytes.truncate(used);
        open.bytes.drain(..whole);
        open.at += whole as u64;
        self.flushed.told = self.flushed.is;
        Ok(())
    }

    /// Begins anew with all of `table`.
    fn checkpoint(&mut self, table: &Table) -> std_io::Result<()> {
        if self.head.generation >= GENERATION_MAX {
            return Err(std_io::Error::other("the slot journal has begun anew too often; format the device"));
        }
        let (head, bytes) = encode_checkpoint(self.superblock.id(), self.head.generation + 1, &table.changes());
        if bytes.len() as u64 > self.superblock.journal_bytes() {
            return Err(std_io::Error::new(
                std_io::ErrorKind::StorageFull,
                "the slot journal is too small for so many files",
            ));
        }
        let half = 1 - self.half;
        self.device.write_at(self.superblock.half_at(half), &bytes, STREAM).map_err(io)?;
        self.device.flush().map_err(io)?;
        (self.half, self.head) = (half, head);
        let len = bytes.len() as u64;
        self.open = Some(Open { at: len, bytes: Vec::new() });
        self.flushed = Told { is: len, told: len }; // a checkpoint that is not whole is damaged, if entries follow
        Ok(())
    }
}

/// Writes what a device begins with: nothing in the first half, and no second one. Durable at return. The first generation, and with it
/// the numbers of files, depends on the formatting: what an earlier one left in slots is nobody's.
pub fn format(device: &dyn BlockDevice, superblock: &Superblock) -> std_io::Result<()> {
    let (_, bytes) = encode_checkpoint(superblock.id(), 1 + (superblock.id() >> 33), &[]);
    device.write_at(superblock.half_at(0), &bytes, STREAM).map_err(io)?;
    device.write_zeroes(superblock.half_at(1), PAGE as u64).map_err(io)?;
    device.flush().map_err(io)
}

fn read(
    device: &dyn BlockDevice,
    superblock: &Superblock,
    half: usize,
) -> std_io::Result<Result<Option<Half>, Damaged>> {
    Ok(decode(&bytes_of(device, superblock, half)?, superblock.id()))
}

/// A half as it stands on the device.
pub fn bytes_of(device: &dyn BlockDevice, superblock: &Superblock, half: usize) -> std_io::Result<Vec<u8>> {
    let mut bytes = vec![0; superblock.journal_bytes() as usize];
    device.read_at(superblock.half_at(half), &mut bytes).map_err(io)?;
    Ok(bytes)
}

fn tell(half: usize, found: &Damaged) -> String {
    let (name, why) = (["A", "B"][half], &found.why);
    format!(
        "slot journal, half {name}, byte {}: {}\n`terrace raw export --damaged` copies what can be found",
        why.offset, why.detail
    )
}
