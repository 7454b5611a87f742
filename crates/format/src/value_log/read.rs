//! Decodes untrusted bytes: frames into batches, and single entries into values.
use super::{CRC_BYTES, DELETE, DELETE_RANGE, HEADER_BYTES, Header, MAGIC, PUT, PUT_COMPRESSED, begin_crc, entry_crc};
use crate::{Batch, Corrupt, SeqNo, coding::Input, compress::decompress, crc, log_record::Event};
use std::{borrow::Cow, ops::Range};

/// Number of bytes of each read when the reader searches the end of a range of zeros.
const ZEROS_BYTES: u64 = 1 << 20;
/// Number of bytes of each read when the reader searches the next valid frame.
const SEARCHED_BYTES: u64 = 64 << 10;
/// Limit of the search for the next valid frame: in total, the search reads frame bodies of at
/// most this many times the segment's size.
const SEARCH_MAX: u64 = 4;

/// Reads the frames of a segment in order. It trusts no byte of the segment.
#[derive(Debug)]
pub struct Frames {
    segment: u64,
    file_bytes: u64,
    at: u64,
    /// For each entry of the last batch, its range in the segment.
    places: Vec<Range<u64>>,
}

impl Frames {
    /// Makes a reader of segment number `segment` in a file of `file_bytes` bytes. Bytes that are
    /// appended later are not read.
    pub fn new(segment: u64, file_bytes: u64) -> Frames {
        Frames { segment, file_bytes, at: 0, places: Vec::new() }
    }

    /// Returns the range of each entry of the last returned batch in the segment.
    pub fn places(&self) -> &[Range<u64>] {
        &self.places
    }

    /// Returns the next batch or another event. `read` fills a buffer from an offset. A corrupt
    /// frame is skipped by its stated length, if another frame or the end of the segment follows
    /// after this length. Otherwise reading resumes at the next valid frame.
    pub fn next<E>(&mut self, mut read: impl FnMut(u64, &mut [u8]) -> Result<(), E>) -> Result<Event, E> {
        self.places.clear();
        if self.at == 0 && self.file_bytes >= MAGIC.len() as u64 {
            let mut magic = *MAGIC;
            read(0, &mut magic)?;
            if magic != *MAGIC && magic != [0; 8] {
                let resume = self.resume_at(MAGIC.len() as u64, &mut read)?;
                return Ok(self.give_up(resume, "no segment of a value log begins so"));
            }
            self.at = MAGIC.len() as u64;
        }
        let left = self.file_bytes - self.at;
        if left < HEADER_BYTES as u64 {
            let mut rest = vec![0; left as usize];
            read(self.at, &mut rest)?;
            return Ok(self.end(rest.iter().any(|&byte| byte != 0)));
        }
        let mut header = [0; HEADER_BYTES];
        read(self.at, &mut header)?;
        if header == [0; HEADER_BYTES] {
            return self.zeros(read);
        }
        let header = Header::parse(&header);
        if header.entry_bytes > left - HEADER_BYTES as u64 {
            let resume = self.resume_at(self.at + 1, &mut read)?;
            let torn = resume == self.file_bytes;
            return Ok(if torn { self.end(true) } else { self.give_up(resume, "a frame longer than its segment") });
        }
        let mut body = vec![0; header.entry_bytes as usize];
        read(self.at + HEADER_BYTES as u64, &mut body)?;
        let offset = self.at;
        let end = offset + HEADER_BYTES as u64 + header.entry_bytes;
        Ok(match self.open(&header, &body) {
            Ok(batch) => {
                self.at = end;
                Event::Record { offset, bytes: batch.into_bytes() }
            }
            Err(found) => {
                let resume = self.after(end, &mut read)?;
                self.give_up(resume, &found.detail)
            }
        })
    }

    /// Returns the offset where reading resumes after a corrupt frame. `end` is the end of the
    /// frame according to its header, which may be corrupt too.
    fn after<E>(&self, end: u64, read: &mut impl FnMut(u64, &mut [u8]) -> Result<(), E>) -> Result<u64, E> {
        let mut header = [0; HEADER_BYTES];
        let left = self.file_bytes - end;
        if left < HEADER_BYTES as u64 {
            return Ok(end);
        }
        read(end, &mut header)?;
        if header == [0; HEADER_BYTES] {
            return Ok(end); // a torn tail
        }
        let header = Header::parse(&header);
        let whole = header.is_plausible(left) && self.is_whole(&header, end, read)?;
        if whole { Ok(end) } else { self.resume_at(self.at + 1, read) }
    }

    fn end(&mut self, torn: bool) -> Event {
        let offset = self.at;
        if torn {
            self.at = self.file_bytes; // reports the torn end only once
            return Event::Bad { offset, bytes: self.file_bytes - offset, reason: "it ends within a frame".into() };
        }
        Event::End { offset, torn: false }
    }

    fn give_up(&mut self, end: u64, reason: &str) -> Event {
        let offset = self.at;
        self.places.clear();
        self.at = end;
        Event::Bad { offset, bytes: end - offset, reason: reason.into() }
    }

    /// Handles zeros at a position where a frame should start. The zeros are the end of the
    /// segment, unless other bytes follow.
    fn zeros<E>(&mut self, mut read: impl FnMut(u64, &mut [u8]) -> Result<(), E>) -> Result<Event, E> {
        let mut from = self.at;
        while from < self.file_bytes {
            let mut piece = vec![0; (self.file_bytes - from).min(ZEROS_BYTES) as usize];
            read(from, &mut piece)?;
            if piece.iter().any(|&byte| byte != 0) {
                let resume = self.resume_at(self.at + 1, &mut read)?;
                return Ok(self.give_up(resume, "zeros where a frame should begin"));
            }
            from += piece.len() as u64;
        }
        Ok(self.end(false))
    }

    /// Returns the offset of the next valid frame at or after `from`, or the end of the segment.
    /// Only few offsets have a plausible header, so the search reads few frame bodies. But an
    /// attacker can construct a segment with many plausible headers. The search therefore ends when
    /// the frame bodies that it has read add up to [`SEARCH_MAX`] times the size of the segment.
    fn resume_at<E>(&self, from: u64, read: &mut impl FnMut(u64, &mut [u8]) -> Result<(), E>) -> Result<u64, E> {
        let (mut from, mut budget) = (from, SEARCH_MAX.saturating_mul(self.file_bytes));
        while from + HEADER_BYTES as u64 <= self.file_bytes {
            let mut piece = vec![0; (self.file_bytes - from).min(SEARCHED_BYTES) as usize];
            read(from, &mut piece)?;
            for (at, bytes) in piece.windows(HEADER_BYTES).enumerate() {
                let header = Header::parse(bytes.try_into().expect("as many as a header has"));
                if !header.is_plausible(self.file_bytes - from - at as u64) {
                    continue;
                }
                if header.entry_bytes > budget {
                    return Ok(self.file_bytes);
                }
                budget -= header.entry_bytes;
                if self.is_whole(&header, from + at as u64, read)? {
                    return Ok(from + at as u64);
                }
            }
            from += (piece.len() - HEADER_BYTES + 1) as u64; // a header may span two pieces
        }
        Ok(self.file_bytes)
    }

    /// Returns whether the frame at `at` with this `header` has valid checksums.
    fn is_whole<E>(
        &self,
        header: &Header,
        at: u64,
        read: &mut impl FnMut(u64, &mut [u8]) -> Result<(), E>,
    ) -> Result<bool, E> {
        let mut body = vec![0; header.entry_bytes as usize];
        read(at + HEADER_BYTES as u64, &mut body)?;
        let mut tried = Frames { at, ..Frames::new(self.segment, self.file_bytes) };
        Ok(tried.open(header, &body).is_ok())
    }

    fn open(&mut self, header: &Header, body: &[u8]) -> Result<Batch, Corrupt> {
        let mut input = Input::new("frame", body);
        let (mut batch, mut crc) = (Batch::new(), begin_crc(self.segment));
        let entries = self.at + HEADER_BYTES as u64;
        if header.first > SeqNo::MAX.0 - u64::from(header.count) {
            return Err(Corrupt::new("frame", 8, format!("sequence {} above 56 bits", header.first)));
        }
        let mut seq = SeqNo(header.first);
        for _ in 0..header.count {
            let from = input.offset();
            let entry = Entry::read(&mut input, seq)?;
            crc = crc::extend(crc, &entry.stored_crc.to_le_bytes());
            entry.add_to(&mut batch)?;
            self.places.push(entries + from..entries + input.offset());
            seq = seq.plus(1);
        }
        if !input.is_empty() {
            return Err(input.corrupt(format!("{} entries announced, there are more", header.count)));
        }
        if header.sealed(crc).masked_crc != header.masked_crc {
            return Err(Corrupt::new("frame", 0, "checksum of a frame"));
        }
        batch.set_sequence(SeqNo(header.first));
        Ok(batch)
    }
}

struct Entry<'a> {
    stored_crc: u32,
    kind: u8,
    key: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Entry<'a> {
    /// Reads and verifies the entry with sequence number `seq`.
    fn read(input: &mut Input<'a>, seq: SeqNo) -> Result<Entry<'a>, Corrupt> {
        let begin = input.clone();
        let stored_crc = input.fixed32()?;
        let covered = input.rest();
        let kind = input.byte()?;
        let key = input.slice()?;
        let rest = match kind {
            PUT | PUT_COMPRESSED | DELETE_RANGE => input.slice()?,
            DELETE => &[],
            other => return Err(begin.corrupt(format!("unknown kind of entry {other}"))),
        };
        let bytes = (input.offset() - begin.offset()) as usize - CRC_BYTES;
        if entry_crc(seq, &covered[..bytes]) != stored_crc {
            return Err(begin.corrupt("checksum of an entry"));
        }
        Ok(Entry { stored_crc, kind, key, rest })
    }

    fn value(&self) -> Result<Cow<'a, [u8]>, Corrupt> {
        match (self.kind, self.rest.split_first()) {
            (PUT, _) => Ok(Cow::Borrowed(self.rest)),
            (PUT_COMPRESSED, Some((codec, squeezed))) => decompress(*codec, squeezed).map(Cow::Owned),
            (PUT_COMPRESSED, None) => Err(Corrupt::new("entry", 0, "a compressed value without a codec")),
            _ => Err(Corrupt::new("entry", 0, "it is no put")),
        }
    }

    fn add_to(&self, batch: &mut Batch) -> Result<(), Corrupt> {
        match self.kind {
            DELETE => batch.delete(self.key),
            DELETE_RANGE => batch.delete_range(self.key, self.rest),
            _ => batch.put(self.key, &self.value()?),
        }
        Ok(())
    }
}

/// Verifies that `bytes` are an entry with sequence number `seq` and with a user key that
/// `is_wanted` accepts. Returns the value, which is borrowed if it is not compressed. `is_wanted`
/// is a function, because a custom order may treat different bytes as the same key.
pub fn read_entry(bytes: &[u8], is_wanted: impl FnOnce(&[u8]) -> bool, seq: SeqNo) -> Result<Cow<'_, [u8]>, Corrupt> {
    let mut input = Input::new("entry", bytes);
    let entry = Entry::read(&mut input, seq)?;
    if !input.is_empty() {
        return Err(input.corrupt("it ends before the pointer to it says"));
    }
    if !is_wanted(entry.key) {
        return Err(Corrupt::new("entry", 0, "it is of another key"));
    }
    entry.value()
}

#[cfg(test)]
mod tests {
    use super::super::Framer;
    use super::*;
    use crate::{Codec, Op, batch};
    use std::convert::Infallible;

    fn sample() -> Batch {
        let mut batch = Batch::new();
        batch.put(b"k", b"value");
        batch.put(b"large", &[b'x'; 2000]);
        batch.delete(b"gone");
        batch.delete_range(b"a", b"b");
        batch.set_sequence(SeqNo(100));
        batch
    }

    /// Returns a segment with a head and two sample batches, and the ranges of the last batch's
    /// entries.
    fn segment() -> (Vec<u8>, Vec<Range<usize>>) {
        let (mut out, mut places) = (MAGIC.to_vec(), Vec::new());
        let mut framer = Framer::new(7, Codec::Snappy, 1, 100);
        framer.frame(&Batch::decode(batch::head(SeqNo(100)).to_vec()).unwrap(), &mut out, |_, _| {});
        for round in 0..2 {
            places.clear();
            let mut batch = sample();
            batch.set_sequence(SeqNo(100 + 4 * round));
            framer.frame(&batch, &mut out, |_, at| places.push(at));
        }
        (out, places)
    }

    fn events(segment: u64, bytes: &[u8]) -> Vec<Event> {
        let mut frames = Frames::new(segment, bytes.len() as u64);
        let mut events = Vec::new();
        loop {
            let read = |offset: u64, buf: &mut [u8]| {
                buf.copy_from_slice(&bytes[offset as usize..offset as usize + buf.len()]);
                Ok::<_, Infallible>(())
            };
            let Ok(event) = frames.next(read);
            let end = matches!(event, Event::End { .. });
            events.push(event);
            if end {
                return events;
            }
        }
    }

    #[test]
    fn frames_round_trip_and_entries_verify_alone() {
        let (bytes, places) = segment();
        let told = events(7, &bytes);
        let batches: Vec<_> = told
            .iter()
            .filter_map(|event| match event {
                Event::Record { bytes, .. } => Some(Batch::decode(bytes.clone()).unwrap()),
                _ => None,
            })
            .collect();
        let mut second = sample();
        second.set_sequence(SeqNo(104));
        assert_eq!((batches.len(), &batches[1], &batches[2]), (3, &sample(), &second));
        assert_eq!(told.last(), Some(&Event::End { offset: bytes.len() as u64, torn: false }));
        assert!(bytes.len() < 1000, "the large value is compressed");
        for (number, op) in second.ops().enumerate() {
            let found = read_entry(
                &bytes[places[number].clone()],
                |key| key == [&b"k"[..], b"large", b"gone", b"a"][number],
                SeqNo(104 + number as u64),
            );
            match op {
                Op::Put(_, value) => assert_eq!(found.unwrap(), value),
                _ => assert!(found.is_err(), "no put"),
            }
        }
        let entry = &bytes[places[0].clone()];
        assert!(read_entry(entry, |key| key == b"k", SeqNo(105)).is_err(), "another sequence");
        assert!(read_entry(entry, |key| key == b"l", SeqNo(104)).is_err(), "another key");
        assert!(read_entry(&bytes[places[0].start..places[1].end], |key| key == b"k", SeqNo(104)).is_err(), "too long");
    }

    #[test]
    fn nothing_damaged_passes() {
        let (bytes, places) = segment();
        let good = events(7, &bytes);
        assert!(
            events(8, &bytes).iter().all(|event| !matches!(event, Event::Record { .. })),
            "another segment's frames"
        );
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 1 << (at % 8);
            let told = events(7, &bad);
            let records = |told: &[Event]| told.iter().filter(|event| matches!(event, Event::Record { .. })).count();
            assert!(
                told.iter().all(|event| !matches!(event, Event::Record { .. }) || good.contains(event)),
                "byte {at}"
            );
            assert!(told.iter().any(|event| matches!(event, Event::Bad { .. })), "byte {at} is covered");
            let lost = usize::from(at >= MAGIC.len());
            assert_eq!(records(&told) + lost, records(&good), "byte {at} costs its frame and no other");
            for place in places.iter().filter(|place| place.contains(&at)) {
                assert!(read_entry(&bad[place.clone()], |key| key == b"k", SeqNo(104)).is_err());
            }
        }
        for end in 0..bytes.len() {
            let told = events(7, &bytes[..end]);
            assert!(
                told.iter().all(|event| !matches!(event, Event::Record { .. }) || good.contains(event)),
                "cut at {end}"
            );
        }
    }

    #[test]
    fn zeros_end_a_segment_unless_something_follows() {
        let (mut bytes, _) = segment();
        let end = bytes.len() as u64;
        bytes.resize(bytes.len() + 5000, 0);
        assert_eq!(events(7, &bytes).last(), Some(&Event::End { offset: end, torn: false }));
        *bytes.last_mut().unwrap() = 1;
        assert!(events(7, &bytes).iter().any(|event| matches!(event, Event::Bad { offset, .. } if *offset == end)));
    }
}
