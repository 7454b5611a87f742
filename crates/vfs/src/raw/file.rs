//! A file on a raw device: bytes in slots, and bytes that are not written yet.
use super::{
    error::io,
    mount::{Mount, OpenFile},
    table::{self, Run},
};
use crate::file::{ReadFile, WriteFile};
use parking_lot::RwLock;
use std::{
    io::{ErrorKind, Result},
    sync::Arc,
};
use terrace_format::raw::{
    Form, PAGE,
    page::{self, PAYLOAD},
};

/// The number of bytes that a plain file (any file except a log) collects before it writes them to
/// the device. The remaining bytes are written at a sync.
const WRITE_BYTES: usize = 1 << 20;
/// Maximum number of bytes of one read from the device, when records of a log are read or the end
/// of a log is searched.
const READ_BYTES: u64 = 1 << 20;
const PAGE_BYTES: u64 = PAGE as u64;

/// An open file on a raw device.
pub struct File {
    mount: Arc<Mount>,
    pub number: u64,
    form: Form,
    stream: u8,
    contents: RwLock<Contents>,
}

struct Contents {
    runs: Vec<Run>,
    /// The file's length in bytes; `None` for a log whose end was not searched yet.
    bytes: Option<u64>,
    /// Number of bytes in full pages at the start of the file. These pages are on the device and do
    /// not change any more.
    written: u64,
    /// The bytes after the full pages. If the file is a log, or a plain file that was saved, these
    /// bytes are also on the device, in a page padded with zeros.
    tail: Vec<u8>,
    /// The length in bytes that the device's file list records for the file.
    noted: u64,
}

impl File {
    pub fn new(mount: Arc<Mount>, number: u64, entry: &table::FileEntry) -> File {
        let fresh = entry.runs.is_empty();
        let bytes = (entry.form == Form::Plain || fresh).then_some(entry.bytes);
        let (runs, written) = (entry.runs.clone(), entry.bytes.next_multiple_of(PAGE_BYTES));
        let contents = Contents { runs, bytes, written, tail: Vec::new(), noted: entry.bytes };
        File { mount, number, form: entry.form, stream: entry.stream, contents: RwLock::new(contents) }
    }

    /// Returns the slots of the file as ranges of slot numbers.
    pub fn slots(&self) -> Vec<std::ops::Range<u32>> {
        self.contents.read().runs.iter().map(|run| run.slots()).collect()
    }

    /// Returns the file's length in bytes.
    pub fn bytes(&self) -> Result<u64> {
        if let Some(bytes) = self.contents.read().bytes {
            return Ok(bytes);
        }
        let mut contents = self.contents.write();
        let bytes = self.find_end(&contents)?;
        contents.bytes = Some(bytes);
        // A file that is only read has no unwritten bytes.
        contents.written = u64::MAX;
        Ok(bytes)
    }

    /// Searches the end of a log that is not being written.
    fn find_end(&self, contents: &Contents) -> Result<u64> {
        let (room, mut at) = (self.room(contents), 0);
        while at < room {
            let pages = self.read_pages(contents, at, (room - at).min(READ_BYTES))?;
            for (nth, page) in pages.chunks_exact(PAGE).enumerate() {
                let page: &[u8; PAGE] = page.try_into().expect("a page");
                let used = page::used(page, self.number).unwrap_or(0);
                if used < PAYLOAD {
                    return Ok((at / PAGE_BYTES + nth as u64) * PAYLOAD as u64 + used as u64);
                }
            }
            at += pages.len() as u64;
        }
        Ok(room / PAGE_BYTES * PAYLOAD as u64)
    }

    /// Allocates slots (allocation units of the device) for at least `bytes` bytes without writing
    /// to them.
    pub fn reserve(&self, bytes: u64) -> Result<()> {
        let mut contents = self.contents.write();
        self.make_room(&mut contents, bytes)?;
        (contents.bytes, contents.written) = (Some(bytes), u64::MAX);
        drop(contents);
        self.save()
    }

    fn room(&self, contents: &Contents) -> u64 {
        contents.runs.iter().map(|run| u64::from(run.count)).sum::<u64>() * self.slot_bytes()
    }

    fn slot_bytes(&self) -> u64 {
        self.mount.superblock.sizes().slot_bytes.into()
    }

    fn make_room(&self, contents: &mut Contents, bytes: u64) -> Result<()> {
        let missing = bytes.saturating_sub(self.room(contents)).div_ceil(self.slot_bytes());
        if missing == 0 {
            return Ok(());
        }
        let after = contents.runs.last().map(|run| run.first + run.count - 1);
        for run in self.mount.allocate(self.number, missing, after)? {
            match contents.runs.last_mut() {
                Some(last) if last.first + last.count == run.first => last.count += run.count,
                _ => contents.runs.push(run),
            }
        }
        Ok(())
    }

    /// Returns the ranges of the device, as offset and length, that contain the bytes `from..from +
    /// len` of the slots.
    fn pieces(&self, contents: &Contents, mut from: u64, mut len: u64) -> Vec<(u64, u64)> {
        let (mut pieces, mut begin) = (Vec::new(), 0);
        for run in &contents.runs {
            let bytes = u64::from(run.count) * self.slot_bytes();
            if len > 0 && from < begin + bytes {
                let here = (begin + bytes - from).min(len);
                pieces.push((self.mount.superblock.slot_at(run.first) + from - begin, here));
                (from, len) = (from + here, len - here);
            }
            begin += bytes;
        }
        pieces
    }

    fn write(&self, contents: &mut Contents, at: u64, mut bytes: &[u8]) -> Result<()> {
        self.make_room(contents, at + bytes.len() as u64)?;
        for (offset, len) in self.pieces(contents, at, bytes.len() as u64) {
            let (head, rest) = bytes.split_at(len as usize);
            self.mount.write(self.number, offset, head, self.stream)?;
            bytes = rest;
        }
        Ok(())
    }

    /// Writes those parts of a log's `pages` that have changed: the bytes after the first `old`
    /// bytes, and the trailer of each page.
    fn write_parts(&self, contents: &mut Contents, at: u64, pages: &[u8], mut old: usize, end: usize) -> Result<()> {
        for (nth, page) in pages.chunks_exact(PAGE).enumerate() {
            let (at, used) = (at + (nth * PAGE) as u64, (end - nth * PAYLOAD).min(PAYLOAD));
            self.write(contents, at + old as u64, &page[old..used])?;
            self.write(contents, at + PAYLOAD as u64, &page[PAYLOAD..])?;
            old = 0;
        }
        Ok(())
    }

    fn read_pages(&self, contents: &Contents, at: u64, len: u64) -> Result<Vec<u8>> {
        let mut pages = vec![0; len as usize];
        let mut filled = 0;
        for (offset, len) in self.pieces(contents, at, len) {
            self.mount.device.read_at(offset, &mut pages[filled..][..len as usize]).map_err(io)?;
            filled += len as usize;
        }
        if filled == pages.len() { Ok(pages) } else { Err(ErrorKind::UnexpectedEof.into()) }
    }

    fn append(&self, bytes: &[u8]) -> Result<()> {
        let mut contents = self.contents.write();
        match self.form {
            Form::Plain => self.append_plain(&mut contents, bytes),
            Form::Log => self.append_log(&mut contents, bytes),
        }
    }

    fn append_plain(&self, contents: &mut Contents, bytes: &[u8]) -> Result<()> {
        // The slots (allocation units of the device) are allocated at the append and not when the
        // file is saved. If there are too few slots, the append returns `StorageFull`, and the
        // caller can free space and retry.
        self.make_room(contents, contents.written + (contents.tail.len() + bytes.len()) as u64)?;
        contents.tail.extend_from_slice(bytes);
        contents.bytes = contents.bytes.map(|before| before + bytes.len() as u64);
        if contents.tail.len() < WRITE_BYTES {
            return Ok(());
        }
        let (at, tail) = (contents.written, std::mem::take(&mut contents.tail));
        let whole = tail.len() - tail.len() % PAGE;
        let outcome = self.write(contents, at, &tail[..whole]);
        contents.tail = tail;
        outcome?;
        contents.tail.drain(..whole);
        contents.written += whole as u64;
        Ok(())
    }

    /// Appends to a log. At return the bytes are at least in the kernel, so a kill of the process
    /// loses none of them.
    fn append_log(&self, contents: &mut Contents, bytes: &[u8]) -> Result<()> {
        let (at, before) = (contents.written, contents.tail.len());
        contents.tail.extend_from_slice(bytes);
        let mut pages = Vec::with_capacity(contents.tail.len().div_ceil(PAYLOAD) * PAGE);
        for payload in contents.tail.chunks(PAYLOAD) {
            let mut page = [0; PAGE];
            page[..payload.len()].copy_from_slice(payload);
            page::seal(&mut page, self.number, payload.len());
            pages.extend_from_slice(&page);
        }
        let end = contents.tail.len();
        let written = match self.mount.padding {
            true => self.write(contents, at, &pages),
            false => self.write_parts(contents, at, &pages, before, end),
        };
        written.inspect_err(|_| contents.tail.truncate(before))?;
        let whole = contents.tail.len() / PAYLOAD;
        contents.tail.drain(..whole * PAYLOAD);
        contents.written += (whole * PAGE) as u64;
        contents.bytes = contents.bytes.map(|before| before + bytes.len() as u64);
        Ok(())
    }

    /// Writes all bytes of a plain file to the device and records the file's length. Both are
    /// durable after a [flush](File::flush).
    pub fn save(&self) -> Result<()> {
        let mut contents = self.contents.write();
        let Some(bytes) = contents.bytes.filter(|bytes| self.form == Form::Plain && *bytes != contents.noted) else {
            return Ok(());
        };
        if !self.mount.is_named(self.number)? {
            // The file was removed, so no reader will need its bytes, and they are not written.
            return Ok(());
        }
        if !contents.tail.is_empty() {
            let mut bytes = contents.tail.clone();
            if self.mount.padding {
                bytes.resize(bytes.len().next_multiple_of(PAGE), 0);
            }
            let at = contents.written;
            self.write(&mut contents, at, &bytes)?;
        }
        self.mount.set_bytes(self.number, bytes)?;
        contents.noted = bytes;
        Ok(())
    }

    /// Makes all bytes of the file that were written so far, and the file list with the file's
    /// name, durable.
    pub fn flush(&self) -> Result<()> {
        self.mount.flush(self.number)
    }

    /// Drops cached data, so that reads return the bytes of the device. The end of a log is then
    /// searched again.
    pub fn forget_cached(&self) -> Result<()> {
        let mut contents = self.contents.write();
        for (offset, len) in self.pieces(&contents, 0, self.room(&contents)) {
            self.mount.device.forget_cached(offset, len).map_err(io)?;
        }
        if self.form == Form::Log && contents.written == u64::MAX {
            contents.bytes = None;
        }
        Ok(())
    }

    /// Starts read-ahead of the device for a range of the file.
    fn expect(&self, offset: u64, bytes: u64) {
        if self.bytes().is_err() {
            // An error of the read-ahead is ignored, because the read itself will report the error.
            return;
        }
        let (payload, end) = (PAYLOAD as u64, offset.saturating_add(bytes));
        let (from, to) = match self.form {
            Form::Plain => (offset, end),
            Form::Log => {
                ((offset / payload).saturating_mul(PAGE_BYTES), end.div_ceil(payload).saturating_mul(PAGE_BYTES))
            }
        };
        let contents = self.contents.read();
        for (offset, len) in self.pieces(&contents, from, to.min(contents.written).saturating_sub(from)) {
            self.mount.device.expect(offset, len);
        }
    }

    /// Fills `into` from `offset`.
    fn read(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        let all = self.bytes()?;
        let end = offset.checked_add(into.len() as u64).filter(|end| *end <= all).ok_or(ErrorKind::UnexpectedEof)?;
        let contents = self.contents.read();
        match self.form {
            Form::Plain => self.read_plain(&contents, offset, into),
            Form::Log => self.read_log(&contents, offset, end, into),
        }
    }

    fn read_plain(&self, contents: &Contents, offset: u64, into: &mut [u8]) -> Result<()> {
        let written = contents.written.saturating_sub(offset).min(into.len() as u64) as usize;
        let (mut on_device, unwritten) = into.split_at_mut(written);
        for (offset, len) in self.pieces(contents, offset, written as u64) {
            let (head, rest) = on_device.split_at_mut(len as usize);
            self.mount.device.read_part(offset, head).map_err(io)?;
            on_device = rest;
        }
        if !on_device.is_empty() {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        if !unwritten.is_empty() {
            let at = (offset + written as u64 - contents.written) as usize;
            unwritten.copy_from_slice(&contents.tail[at..][..unwritten.len()]);
        }
        Ok(())
    }

    fn read_log(&self, contents: &Contents, offset: u64, end: u64, mut into: &mut [u8]) -> Result<()> {
        let payload = PAYLOAD as u64;
        let mut page = offset / payload;
        let pages = end.div_ceil(payload);
        while page < pages {
            let some = (pages - page).min(READ_BYTES / PAGE_BYTES);
            for bytes in self.read_pages(contents, page * PAGE_BYTES, some * PAGE_BYTES)?.chunks_exact(PAGE) {
                let (from, to) = (offset.max(page * payload), end.min((page + 1) * payload));
                let bytes = &bytes[(from - page * payload) as usize..(to - page * payload) as usize];
                let (head, rest) = into.split_at_mut(bytes.len());
                head.copy_from_slice(bytes);
                into = rest;
                page += 1;
            }
        }
        Ok(())
    }
}

impl OpenFile for File {
    fn runs(&self) -> Vec<Run> {
        self.contents.read().runs.clone()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        if self.mount.is_ours() {
            self.mount.closed(self.number, self);
        }
    }
}

/// A handle that writes a file.
pub struct Writing(pub Arc<File>);

impl WriteFile for Writing {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.0.append(bytes)
    }

    fn sync(&self) -> Result<()> {
        self.0.save()?;
        self.0.flush()
    }

    fn second_handle(&self) -> Result<Box<dyn WriteFile>> {
        Ok(Box::new(Writing(self.0.clone())))
    }

    fn write_back(&self) -> Result<()> {
        self.0.save()?;
        self.0.mount.is_due(self.0.number);
        Ok(())
    }
}

impl Drop for Writing {
    /// Saves the file as a close does: later readers see all of its bytes, even after a kill. If
    /// the file cannot be saved, the mount is marked as broken, so that a later sync reports the
    /// failure.
    fn drop(&mut self) {
        if !self.0.mount.is_ours() {
            // A forked child has only a copy of this handle and must not write.
            return;
        }
        if let Err(error) = self.0.save() {
            self.0.mount.write_failed(&error);
        }
    }
}

/// A handle that reads a file.
pub struct Reading(pub Arc<File>);

impl ReadFile for Reading {
    fn forget_cached(&self) -> Result<()> {
        self.0.forget_cached()
    }

    fn expect(&self, offset: u64, bytes: u64) {
        self.0.expect(offset, bytes);
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        self.0.read(offset, buf)
    }

    fn bytes(&self) -> Result<u64> {
        self.0.bytes()
    }

    fn read_at(&self, offset: u64, bytes: usize) -> Result<Vec<u8>> {
        let end = offset.checked_add(bytes as u64).ok_or(ErrorKind::UnexpectedEof)?;
        if end > self.0.bytes()? {
            // The range is checked against the file's length before memory for it is allocated.
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let mut found = vec![0; bytes];
        self.0.read(offset, &mut found)?;
        Ok(found)
    }
}
