//! Putting records together again from bytes that may be anything.
//!
//! LevelDB gives up the rest of a block at the first bad fragment. In files that LevelDB did not begin a
//! reader may resume earlier ([`Deframer::resuming`]): at the next fragment, if the bad one's length leads to a whole one,
//! else at the next durable mark in the block. Every fragment is verified by its own checksum either way.
use super::{BLOCK_BYTES, FIRST, FULL, HEADER_BYTES, Header, LAST, MIDDLE, OURS_FIRST_BYTES};
use std::ops::Range;

/// Size of a durable mark, an empty batch.
const MARK_BYTES: usize = 12;

const ZEROS: &str = "zeros where a record should begin";

/// What reading a log meets next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// One whole record and where it began.
    Record {
        /// Byte offset of the record's first fragment.
        offset: u64,
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// Bytes that are no record. Reading on resumes where LevelDB would: behind a whole fragment that is out of
    /// place, else in the next block.
    Bad {
        /// Where, in bytes.
        offset: u64,
        /// How many bytes of the file are given up, from `offset` on.
        bytes: u64,
        /// Why.
        reason: String,
    },
    /// The end; `torn` if it came within a record. Zeros behind the last record are no sign of damage, as in LevelDB: they
    /// were preallocated, or nothing that is missed was ever written back there.
    End {
        /// Where the last whole record ended.
        offset: u64,
        /// Whether something incomplete lies between the last event and the end of the file.
        torn: bool,
    },
}

/// Reads the records of one file in order, block by block. Trusts nothing in it.
#[derive(Debug)]
pub struct Deframer {
    file_bytes: u64,
    block: Vec<u8>, // the block being read; shorter than BLOCK_BYTES only at the end of the file, or if reading failed
    block_offset: u64,
    at: usize, // next unread byte of `block`
    partial: Option<Partial>,
    zeros: Option<Zeros>, // set while skipping zeros
    held: Option<Event>,  // a record found together with the Bad that goes before it
    record_end: u64,      // where the last whole record ended
    told_end: u64,        // where the last Record or Bad ended, or zeros behind it
    resumes: bool,        // within a block that has a bad fragment
}

/// A record whose last fragment has not come yet.
#[derive(Debug)]
struct Partial {
    offset: u64,
    bytes: Vec<u8>,
}

/// Zeros where a fragment should begin.
#[derive(Clone, Copy, Debug)]
struct Zeros {
    /// Where the bytes to give up begin.
    from: u64,
    /// They cut a record off.
    within_record: bool,
}

/// What the next bytes of the file are.
enum Found {
    Fragment { kind: u8, offset: u64, payload: Range<usize> },
    Bad { offset: u64, end: u64, reason: String },
    End,
}

impl Deframer {
    /// For a file of `file_bytes` bytes. What is appended later is not seen.
    pub fn new(file_bytes: u64) -> Deframer {
        Deframer {
            file_bytes,
            block: Vec::new(),
            block_offset: 0,
            at: 0,
            partial: None,
            zeros: None,
            held: None,
            record_end: 0,
            told_end: 0,
            resumes: false,
        }
    }

    /// Resumes within a block after a bad fragment, where it can, unless the file begins as LevelDB's do.
    pub fn resuming(mut self) -> Deframer {
        self.resumes = true;
        self
    }

    /// The next record, or what is in its place. Keeps returning [`Event::End`] at the end.
    ///
    /// `read(offset, buf)` fills `buf` from `offset`, which lies in the file; its error is passed on, and the call
    /// may then be repeated.
    pub fn next<E>(&mut self, mut read: impl FnMut(u64, &mut [u8]) -> Result<(), E>) -> Result<Event, E> {
        if let Some(event) = self.held.take() {
            return Ok(event);
        }
        loop {
            match self.find(&mut read)? {
                Found::End => return Ok(Event::End { offset: self.record_end, torn: self.told_end < self.file_bytes }),
                Found::Bad { offset, end, reason } => return Ok(self.bad(offset, end, reason)),
                Found::Fragment { kind, offset, payload } => {
                    if let Some(event) = self.join(kind, offset, payload) {
                        return Ok(event);
                    }
                }
            }
        }
    }

    /// The next fragment that is whole by itself, wherever it belongs.
    fn find<E>(&mut self, read: &mut impl FnMut(u64, &mut [u8]) -> Result<(), E>) -> Result<Found, E> {
        loop {
            if let Some(zeros) = self.zeros {
                return self.skip_zeros(zeros, read);
            }
            if self.block.len() - self.at >= HEADER_BYTES {
                break;
            }
            self.pass_padding();
            if !self.load_next(read)? {
                return Ok(Found::End); // a header cut off by the end of the file, or nothing
            }
        }
        let (offset, header) = (self.block_offset + self.at as u64, Header::parse(&self.block[self.at..]));
        let payload = self.at + HEADER_BYTES..self.at + HEADER_BYTES + header.payload_bytes;
        if payload.end > self.block.len() {
            let resume = self.resume_at(self.at + 1);
            if self.block.len() < BLOCK_BYTES && resume == self.block.len() {
                self.at = resume;
                return Ok(Found::End); // a payload cut off by the end of the file
            }
            return Ok(self.give_up(offset, resume, "a fragment longer than its block"));
        }
        if header.kind == 0 && header.payload_bytes == 0 {
            if self.block[self.at..].iter().any(|&byte| byte != 0) {
                let resume = self.resume_at(self.at + 1);
                return Ok(self.give_up(offset, resume, ZEROS));
            }
            let cut = self.partial.take();
            let from = cut.as_ref().map_or(offset, |partial| partial.offset);
            let zeros = *self.zeros.insert(Zeros { from, within_record: cut.is_some() });
            return self.skip_zeros(zeros, read);
        }
        if !header.vouches_for(&self.block[payload.clone()]) {
            // The length may be what is damaged: it counts only if it leads to a whole fragment.
            let next = self.resumes && self.is_whole(payload.end);
            let resume = if next { payload.end } else { self.resume_at(self.at + 1) };
            return Ok(self.give_up(offset, resume, "checksum mismatch"));
        }
        if offset == 0 && (header.kind != FIRST || header.payload_bytes != OURS_FIRST_BYTES) {
            self.resumes = false; // LevelDB wrote it
        }
        self.at = payload.end;
        Ok(Found::Fragment { kind: header.kind, offset, payload })
    }

    /// Reads the next block; false at the end of the file.
    fn load_next<E>(&mut self, read: &mut impl FnMut(u64, &mut [u8]) -> Result<(), E>) -> Result<bool, E> {
        self.block_offset += self.block.len() as u64;
        self.at = 0;
        self.block.clear(); // so that a failed read is tried again at the same offset
        let bytes = (self.file_bytes - self.block_offset).min(BLOCK_BYTES as u64) as usize;
        if bytes == 0 {
            return Ok(false);
        }
        self.block.resize(bytes, 0);
        let done = read(self.block_offset, &mut self.block);
        if done.is_err() {
            self.block.clear();
        }
        done.map(|()| true)
    }

    /// From inside a block whose rest is zeros: to the next block that is not all zeros. None means the end of the
    /// file: what looks like damage was preallocated, or never written back.
    fn skip_zeros<E>(
        &mut self,
        zeros: Zeros,
        read: &mut impl FnMut(u64, &mut [u8]) -> Result<(), E>,
    ) -> Result<Found, E> {
        while self.load_next(read)? {
            if self.block.iter().any(|&byte| byte != 0) {
                self.zeros = None;
                return Ok(Found::Bad { offset: zeros.from, end: self.block_offset, reason: ZEROS.into() });
            }
        }
        if !zeros.within_record {
            self.told_end = self.file_bytes;
        }
        Ok(Found::End)
    }

    /// Too few bytes for a header, right behind a record: zeros there are no loss.
    fn pass_padding(&mut self) {
        let behind_record = self.partial.is_none() && self.told_end == self.block_offset + self.at as u64;
        if behind_record && self.block[self.at..].iter().all(|&byte| byte == 0) {
            self.told_end = self.block_offset + self.block.len() as u64;
        }
    }

    /// Nothing from `offset` to `resume` in this block can be trusted.
    fn give_up(&mut self, offset: u64, resume: usize, reason: &str) -> Found {
        self.at = resume;
        Found::Bad { offset, end: self.block_offset + resume as u64, reason: reason.into() }
    }

    /// Where reading resumes after damage before `from`: at a durable mark, else with the next block.
    fn resume_at(&self, from: usize) -> usize {
        let last = self.block.len().saturating_sub(HEADER_BYTES + MARK_BYTES);
        let mark = self.resumes.then(|| (from..=last).find(|at| self.is_mark(*at))).flatten();
        mark.unwrap_or(self.block.len())
    }

    /// Whether a fragment begins at `at` that its own checksum vouches for.
    fn is_whole(&self, at: usize) -> bool {
        let Some(bytes) = self.block.get(at..).filter(|rest| rest.len() >= HEADER_BYTES) else { return false };
        let header = Header::parse(bytes);
        let payload = bytes.get(HEADER_BYTES..HEADER_BYTES + header.payload_bytes);
        matches!(header.kind, FIRST | FULL) && payload.is_some_and(|payload| header.vouches_for(payload))
    }

    /// Whether the record at `at`, where there is room for it, is an empty batch.
    fn is_mark(&self, at: usize) -> bool {
        let (header, payload) = self.block[at..at + HEADER_BYTES + MARK_BYTES].split_at(HEADER_BYTES);
        header[4..] == [MARK_BYTES as u8, 0, FULL] && payload[8..] == [0; 4] && self.is_whole(at)
    }

    /// Adds a whole fragment to what came before it; returns an event if that completes or spoils something.
    fn join(&mut self, kind: u8, offset: u64, payload: Range<usize>) -> Option<Event> {
        let end = self.block_offset + payload.end as u64;
        let payload = &self.block[payload];
        match (kind, &mut self.partial) {
            (FULL, _) => {
                let bytes = payload.to_vec();
                let unfinished = self.unfinished(offset);
                let record = self.record(offset, bytes, end);
                match unfinished {
                    None => Some(record),
                    Some(bad) => {
                        self.held = Some(record);
                        Some(bad)
                    }
                }
            }
            (FIRST, _) => {
                let begun = Partial { offset, bytes: payload.to_vec() };
                let unfinished = self.unfinished(offset);
                self.partial = Some(begun);
                unfinished
            }
            (MIDDLE, Some(partial)) => {
                partial.bytes.extend_from_slice(payload);
                None
            }
            (LAST, Some(partial)) => {
                partial.bytes.extend_from_slice(payload);
                let whole = self.partial.take()?;
                Some(self.record(whole.offset, whole.bytes, end))
            }
            (MIDDLE | LAST, None) => Some(self.bad(offset, end, "a fragment without the start of its record".into())),
            (other, _) => Some(self.bad(offset, end, format!("unknown fragment type {other}"))),
        }
    }

    fn record(&mut self, offset: u64, bytes: Vec<u8>, end: u64) -> Event {
        (self.record_end, self.told_end) = (end, end);
        Event::Record { offset, bytes }
    }

    /// Gives up the bytes up to `end`, and with them the record that has begun.
    fn bad(&mut self, offset: u64, end: u64, reason: String) -> Event {
        self.told_end = end;
        let (offset, reason) = match self.partial.take() {
            Some(partial) => (partial.offset, format!("{reason}, within a record")),
            None => (offset, reason),
        };
        Event::Bad { offset, bytes: end - offset, reason }
    }

    /// A record begins at `next` although another has not ended. An empty one does not count: old versions of
    /// LevelDB left empty FIRST fragments at the end of a block and began again in the next.
    fn unfinished(&mut self, next: u64) -> Option<Event> {
        let partial = self.partial.take().filter(|partial| !partial.bytes.is_empty())?;
        self.told_end = next;
        let reason = "a record without its end".into();
        Some(Event::Bad { offset: partial.offset, bytes: next - partial.offset, reason })
    }
}
