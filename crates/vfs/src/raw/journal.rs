//! The slot journal of a raw device: the log of the device's file list. This module loads the
//! journal, appends entries, and writes a checkpoint of the file list to the other half of the
//! journal when one half is full.
use super::{error::io, table::FileList};
use std::{io as std_io, ops::Range, sync::Arc};
use terrace_device::{BlockDevice, Stream};
use terrace_format::raw::{
    Change, PAGE, Superblock,
    journal::{Damaged, GENERATION_MAX, Half, Head, decode, encode_checkpoint, encode_entry},
};

/// The write stream (a group of data that the drive keeps together) of the journal. It is separate
/// because the journal is overwritten all the time.
const STREAM: Stream = Stream(0);

/// The slot journal and the position in it. A mount appends no entry before its first checkpoint.
/// The reason: a power cut may have left entries of an earlier mount after the journal's end, and
/// these could be read as the continuation of new entries.
pub struct Journal {
    pub device: Arc<dyn BlockDevice>,
    superblock: Superblock,
    half: usize,
    head: Head,
    /// The page in which the next entry begins, with its bytes up to that entry. `None` before the
    /// first checkpoint.
    open: Option<OpenPage>,
    /// The end of the durable entries in this half. The field has two offsets: up to which a flush
    /// has made the half durable, and which offset the last `Flushed` entry recorded.
    flushed: FlushedEnd,
}

#[derive(Default)]
struct FlushedEnd {
    durable: u64,
    recorded: u64,
}

/// A position in the journal, as [`Journal::mark`] returns it.
#[derive(Clone, Copy)]
pub struct Mark {
    generation: u64,
    end: u64,
}

struct OpenPage {
    /// The offset of the page in its half, in bytes.
    at: u64,
    bytes: Vec<u8>,
}

impl Journal {
    /// Reads both halves and replays the newer one. Corruption in the newer half is an error,
    /// because the other half has an older file list.
    pub fn load(device: Arc<dyn BlockDevice>, superblock: &Superblock) -> std_io::Result<(Journal, FileList)> {
        let invalid = |why| std_io::Error::new(std_io::ErrorKind::InvalidData, why);
        // After a failed flush, the page cache may have a newer half that is not on the device. If
        // the newer half were taken as the current one, the next checkpoint would overwrite the
        // other half, which is the only valid one on the device.
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
            return Err(invalid(describe(half, &found)));
        }
        let (half, found) = newest.ok_or_else(|| invalid("no half of its slot journal is whole".into()))?;
        let mut table = FileList::new(superblock);
        for change in found.changes.iter().flatten() {
            table.apply(change).map_err(|why| invalid(format!("slot journal: {why}")))?;
        }
        Ok((Journal { half, head: found.head, ..Journal::empty(device, superblock) }, table))
    }

    /// Returns a journal without contents, for a mount that only reads files and changes nothing.
    pub fn empty(device: Arc<dyn BlockDevice>, superblock: &Superblock) -> Journal {
        let head = Head { id: superblock.id(), generation: 0, seed: 0 };
        Journal { device, superblock: *superblock, half: 0, head, open: None, flushed: FlushedEnd::default() }
    }

    /// Returns the smallest number for a new file. Each mount for writing has its own range of file
    /// numbers, which is derived from the journal's generation. The generation is durable before
    /// any slot (allocation unit of the device) is written. Therefore no page that an earlier mount
    /// left in a slot has the number of a later file.
    pub fn first_number(&self) -> u64 {
        // The generation is at most 2^32 - 1, see `checkpoint`.
        (self.head.generation + u64::from(self.open.is_none())) << 32
    }

    /// Returns the current end of the journal. The caller passes it to
    /// [`flushed`](Journal::flushed) after a device flush that begins after this call.
    pub fn mark(&self) -> Mark {
        let end = self.open.as_ref().map_or(0, |open| open.at + open.bytes.len() as u64);
        Mark { generation: self.head.generation, end }
    }

    /// Returns the range of the device with unflushed journal entries. Returns `None` before the
    /// first checkpoint of the mount. The first checkpoint flushes the whole device, because an
    /// earlier process may have left unflushed writes anywhere.
    pub fn unflushed(&self) -> Option<Range<u64>> {
        self.open.as_ref()?;
        let (half, durable) = (self.superblock.half_at(self.half), self.flushed.durable);
        let end = self.mark().end;
        if end == durable {
            Some(0..0)
        } else {
            Some(half + durable - durable % PAGE as u64..half + end.next_multiple_of(PAGE as u64))
        }
    }

    /// Records that a flush has made all entries before `mark` durable.
    pub fn flushed(&mut self, mark: Mark) {
        if mark.generation == self.head.generation {
            self.flushed.durable = self.flushed.durable.max(mark.end);
        }
    }

    /// Records the last flush in an entry, if no entry has recorded it yet. If an entry before that
    /// flush is corrupted later, a reader then recognizes the corruption and does not take it for
    /// the end of the journal. Called when a mount ends; a failure of the call has no consequence.
    pub fn record_flushed(&mut self, table: &FileList) {
        if self.open.is_some() && self.flushed.durable > self.flushed.recorded {
            let _ = self.append(&[], table);
        }
    }

    /// Appends `changes` as one entry. The caller has already applied them to `table`. The entry is
    /// durable after the next device flush. If this half of the journal has no room for the entry,
    /// the function instead writes a checkpoint of `table` to the other half; `changes` are then
    /// durable at return.
    pub fn append(&mut self, changes: &[Change], table: &FileList) -> std_io::Result<()> {
        let mut changes = changes.to_vec();
        if self.flushed.durable > self.flushed.recorded {
            changes.push(Change::Flushed { end: self.flushed.durable });
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
        self.flushed.recorded = self.flushed.durable;
        Ok(())
    }

    /// Writes a checkpoint, which has all files of `table`, to the other half.
    fn checkpoint(&mut self, table: &FileList) -> std_io::Result<()> {
        if self.head.generation >= GENERATION_MAX {
            return Err(std_io::Error::other("the slot journal has used up its generations; format the device again"));
        }
        let (head, bytes) = encode_checkpoint(self.superblock.id(), self.head.generation + 1, &table.changes());
        if bytes.len() as u64 > self.superblock.journal_bytes() {
            return Err(std_io::Error::new(std_io::ErrorKind::StorageFull, "the slot journal is full: too many files"));
        }
        let half = 1 - self.half;
        self.device.write_at(self.superblock.half_at(half), &bytes, STREAM).map_err(io)?;
        self.device.flush().map_err(io)?;
        (self.half, self.head) = (half, head);
        let len = bytes.len() as u64;
        self.open = Some(OpenPage { at: len, bytes: Vec::new() });
        // The checkpoint was flushed, so it is durable before any entry follows it. This order is
        // necessary, because a reader treats an incomplete checkpoint with entries after it as
        // corrupt.
        self.flushed = FlushedEnd { durable: len, recorded: len };
        Ok(())
    }
}

/// Writes the initial journal: an empty checkpoint in the first half, and no second half. The
/// journal is durable at return. The first generation depends on the formatting, and all file
/// numbers depend on the generation. Pages that an earlier store left in slots (allocation units
/// of the device) therefore belong to no file.
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

/// Reads one half of the journal.
pub fn bytes_of(device: &dyn BlockDevice, superblock: &Superblock, half: usize) -> std_io::Result<Vec<u8>> {
    let mut bytes = vec![0; superblock.journal_bytes() as usize];
    device.read_at(superblock.half_at(half), &mut bytes).map_err(io)?;
    Ok(bytes)
}

fn describe(half: usize, found: &Damaged) -> String {
    let (name, why) = (["A", "B"][half], &found.why);
    format!(
        "slot journal, half {name}, byte {}: {}\n`terrace raw export --damaged` copies the files that can be salvaged",
        why.offset, why.detail
    )
}
