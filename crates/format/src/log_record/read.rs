//! Reassembles records from the fragments in untrusted bytes.
//!
//! After a bad fragment, LevelDB skips the rest of the block. A decoder made with
//! [`RecordDecoder::resuming`] may continue earlier, except in a file whose first fragment LevelDB
//! wrote. If the length of the bad fragment leads to a valid fragment, the decoder continues at
//! that fragment. Otherwise it continues at the next durable mark in the block, or in the next
//! block if there is no mark. In all cases it verifies the checksum of each fragment.
use super::{BLOCK_BYTES, FIRST, FULL, HEADER_BYTES, Header, LAST, MIDDLE, OURS_FIRST_BYTES};
use std::ops::Range;

/// Size of a durable mark, an empty batch, in bytes.
const MARK_BYTES: usize = 12;

const ZEROS: &str = "zeros in place of a record";

/// The next item in a file of records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A complete record.
    Record {
        /// Offset of its first fragment in bytes.
        offset: u64,
        /// The record.
        bytes: Vec<u8>,
    },
    /// Corrupt bytes. By default, reading resumes where LevelDB's reader resumes: directly after a
    /// valid fragment that is at a wrong place, and otherwise in the next block. A decoder made
    /// with [`RecordDecoder::resuming`] may resume earlier.
    Bad {
        /// Offset in bytes.
        offset: u64,
        /// Length of the skipped range in bytes, from `offset` on.
        bytes: u64,
        /// Description of the corruption.
        reason: String,
    },
    /// The end of the file. As in LevelDB, zeros after the last record are not corruption: either
    /// the space was preallocated, or the pages were never written back.
    End {
        /// End of the last complete record.
        offset: u64,
        /// Whether an incomplete record precedes the end of the file.
        torn: bool,
    },
}

/// Reads the records of a file in order, block by block. It trusts no byte of the file.
#[derive(Debug)]
pub struct RecordDecoder {
    file_bytes: u64,
    // The current block. It is shorter than BLOCK_BYTES only at the end of the file and after a
    // failed read.
    block: Vec<u8>,
    block_offset: u64,
    at: usize, // next unread byte of `block`
    partial: Option<Partial>,
    zeros: Option<Zeros>, // set while skipping zeros
    held: Option<Event>,  // a record found together with the Bad event that precedes it
    record_end: u64,      // end of the last complete record
    told_end: u64,        // end of the last reported Record or Bad event, and of zeros after it
    resumes: bool,        // whether reading may resume within a block after a bad fragment
}

/// A record whose last fragment has not been read yet.
#[derive(Debug)]
struct Partial {
    offset: u64,
    bytes: Vec<u8>,
}

/// A range of zeros at a position where a fragment should start.
#[derive(Clone, Copy, Debug)]
struct Zeros {
    /// Start of the skipped range.
    from: u64,
    /// Whether a record was incomplete at the place where the zeros begin.
    within_record: bool,
}

/// The next fragment, corrupt range, or end of the file. The decoder makes [`Event`]s from these.
enum Found {
    Fragment { kind: u8, offset: u64, payload: Range<usize> },
    Bad { offset: u64, end: u64, reason: String },
    End,
}

impl RecordDecoder {
    /// Makes a decoder for a file of `file_bytes` bytes. Bytes that are appended later are not
    /// read.
    pub fn new(file_bytes: u64) -> RecordDecoder {
        RecordDecoder {
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

    /// Makes reading resume within the same block after a bad fragment if this is possible. The
    /// setting has no effect if LevelDB wrote the first fragment of the file.
    pub fn resuming(mut self) -> RecordDecoder {
        self.resumes = true;
        self
    }

    /// Returns the next item. Returns [`Event::End`] repeatedly at the end.
    ///
    /// `read(offset, buf)` must fill `buf` from `offset`, which is within the file. If it fails,
    /// its error is returned, and the caller may call `next` again.
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

    /// Returns the next valid fragment, even if it is out of place.
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
                return Ok(Found::End); // an incomplete header, or the end of the file
            }
        }
        let (offset, header) = (self.block_offset + self.at as u64, Header::parse(&self.block[self.at..]));
        let payload = self.at + HEADER_BYTES..self.at + HEADER_BYTES + header.payload_bytes;
        if payload.end > self.block.len() {
            let resume = self.resume_at(self.at + 1);
            if self.block.len() < BLOCK_BYTES && resume == self.block.len() {
                self.at = resume;
                return Ok(Found::End); // an incomplete payload at the end of the file
            }
            return Ok(self.give_up(offset, resume, "a fragment extends past its block"));
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
            // The length of the bad fragment may be corrupt too, so the decoder uses it only if it
            // leads to a valid fragment.
            let next = self.resumes && self.is_whole(payload.end);
            let resume = if next { payload.end } else { self.resume_at(self.at + 1) };
            return Ok(self.give_up(offset, resume, "checksum mismatch"));
        }
        if offset == 0 && (header.kind != FIRST || header.payload_bytes != OURS_FIRST_BYTES) {
            self.resumes = false; // LevelDB wrote this file
        }
        self.at = payload.end;
        Ok(Found::Fragment { kind: header.kind, offset, payload })
    }

    /// Loads the next block. Returns false at the end of the file.
    fn load_next<E>(&mut self, read: &mut impl FnMut(u64, &mut [u8]) -> Result<(), E>) -> Result<bool, E> {
        self.block_offset += self.block.len() as u64;
        self.at = 0;
        self.block.clear(); // a failed read is repeated at the same offset
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

    /// Skips zeros up to the next block that is not all zeros. The rest of the current block must
    /// be zeros. If only zeros follow up to the end of the file, returns [`Found::End`]: these
    /// zeros were preallocated or never written back, so they are not corruption.
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

    /// Skips the zero padding directly after a record. This padding is not corruption.
    fn pass_padding(&mut self) {
        let behind_record = self.partial.is_none() && self.told_end == self.block_offset + self.at as u64;
        if behind_record && self.block[self.at..].iter().all(|&byte| byte == 0) {
            self.told_end = self.block_offset + self.block.len() as u64;
        }
    }

    /// Skips the bytes from `offset` to `resume` of the current block, because they may be corrupt.
    fn give_up(&mut self, offset: u64, resume: usize, reason: &str) -> Found {
        self.at = resume;
        Found::Bad { offset, end: self.block_offset + resume as u64, reason: reason.into() }
    }

    /// Returns the position in the block where reading resumes after corruption before `from`: the
    /// next durable mark, or the end of the block if there is none.
    fn resume_at(&self, from: usize) -> usize {
        let last = self.block.len().saturating_sub(HEADER_BYTES + MARK_BYTES);
        let mark = self.resumes.then(|| (from..=last).find(|at| self.is_mark(*at))).flatten();
        mark.unwrap_or(self.block.len())
    }

    /// Returns whether a fragment with a valid checksum starts at `at`.
    fn is_whole(&self, at: usize) -> bool {
        let Some(bytes) = self.block.get(at..).filter(|rest| rest.len() >= HEADER_BYTES) else { return false };
        let header = Header::parse(bytes);
        let payload = bytes.get(HEADER_BYTES..HEADER_BYTES + header.payload_bytes);
        matches!(header.kind, FIRST | FULL) && payload.is_some_and(|payload| header.vouches_for(payload))
    }

    /// Returns whether the record at `at`, which fits the block, is an empty batch.
    fn is_mark(&self, at: usize) -> bool {
        let (header, payload) = self.block[at..at + HEADER_BYTES + MARK_BYTES].split_at(HEADER_BYTES);
        header[4..] == [MARK_BYTES as u8, 0, FULL] && payload[8..] == [0; 4] && self.is_whole(at)
    }

    /// Adds a valid fragment to the record that is being assembled. Returns an event if the
    /// fragment completes or invalidates a record.
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
            (MIDDLE | LAST, None) => {
                Some(self.bad(offset, end, "a fragment without its record's first fragment".into()))
            }
            (other, _) => Some(self.bad(offset, end, format!("unknown fragment type {other}"))),
        }
    }

    fn record(&mut self, offset: u64, bytes: Vec<u8>, end: u64) -> Event {
        (self.record_end, self.told_end) = (end, end);
        Event::Record { offset, bytes }
    }

    /// Returns the event for the corrupt bytes from `offset` to `end`. Drops the record that is
    /// being assembled, and includes its fragments in the corrupt range.
    fn bad(&mut self, offset: u64, end: u64, reason: String) -> Event {
        self.told_end = end;
        let (offset, reason) = match self.partial.take() {
            Some(partial) => (partial.offset, format!("{reason}, within a record")),
            None => (offset, reason),
        };
        Event::Bad { offset, bytes: end - offset, reason }
    }

    /// Handles the start of a record, at `next`, while another record is incomplete. If the
    /// incomplete record is empty, it is ignored: old versions of LevelDB left an empty FIRST
    /// fragment at the end of a block and began the record again in the next block.
    fn unfinished(&mut self, next: u64) -> Option<Event> {
        let partial = self.partial.take().filter(|partial| !partial.bytes.is_empty())?;
        self.told_end = next;
        let reason = "a record without its last fragment".into();
        Some(Event::Bad { offset: partial.offset, bytes: next - partial.offset, reason })
    }
}
