//! A recording that was opened for reading. Its index lists all versions of each block, so the
//! contents of any block at any time of the recording can be read.
use super::log::{Event, Kind, Reader};
use crate::{BlockDevice, Error, Result};
use std::{
    collections::HashMap,
    fs::File,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

/// Block size of the index, in bytes.
pub(super) const BLOCK: u64 = 4096;

/// A version of a block: the contents that the block has from event `event` on. The contents are
/// in the recording at file offset `at`. If `at` is `None`, the block is zero.
struct Version {
    event: usize,
    at: Option<u64>,
}

/// A recording. The data stay in the file; only the index is in memory.
pub struct Past {
    file: File,
    path: PathBuf,
    len: u64,
    events: Vec<Event>,
    /// The versions of each block, by block number. The versions of a block are in the order of the
    /// events that wrote them.
    blocks: HashMap<u64, Vec<Version>>,
}

impl Past {
    /// Opens and verifies the file of a [`Recorder`](super::Recorder).
    ///
    /// # Errors
    /// If the file is missing or corrupt. The error has the offset of the corruption.
    pub fn open(path: &Path) -> Result<Past> {
        let mut reader = Reader::open(path)?;
        let file = File::open(path).map_err(|source| Error::Io { what: format!("open {}", path.display()), source })?;
        let len = reader.shape.len;
        let mut past = Past { file, path: path.into(), len, events: Vec::new(), blocks: HashMap::new() };
        while let Some(event) = reader.next()? {
            past.index(event);
            past.events.push(event);
        }
        Ok(past)
    }

    /// Returns all events in order.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the size of the device in bytes.
    pub fn len_bytes(&self) -> u64 {
        self.len
    }

    /// Replays the requests before event `until` on `device`. Ignores marks.
    pub fn replay(&self, device: &dyn BlockDevice, until: usize) -> Result<()> {
        for event in &self.events[..until] {
            match event.kind {
                Kind::Write => device.write_at(event.offset, &self.data(event)?, event.stream)?,
                Kind::Flush => device.flush()?,
                Kind::Discard => device.discard(event.offset, event.len)?,
                Kind::Zero => device.write_zeroes(event.offset, event.len)?,
                Kind::Mark => {}
            }
        }
        Ok(())
    }

    /// Reads from the recording the bytes that a recorded write wrote.
    pub(super) fn data(&self, event: &Event) -> Result<Vec<u8>> {
        let mut data = vec![0; event.len as usize];
        self.read(event.at, &mut data)?;
        Ok(data)
    }

    /// Reads into `into` the contents that a block had just before event `until`. If the block was
    /// zero, returns `false` and leaves `into` unchanged.
    pub(super) fn block_before(&self, block: u64, until: usize, into: &mut [u8]) -> Result<bool> {
        let Some(versions) = self.blocks.get(&block) else { return Ok(false) };
        let count = versions.partition_point(|version| version.event < until);
        match versions[..count].last().and_then(|version| version.at) {
            None => Ok(false),
            Some(at) => self.read(at, into).map(|()| true),
        }
    }

    fn index(&mut self, event: Event) {
        let number = self.events.len();
        let blocks = event.offset / BLOCK..(event.offset + event.len) / BLOCK;
        match event.kind {
            Kind::Write => {
                for (nth, block) in blocks.enumerate() {
                    let at = Some(event.at + nth as u64 * BLOCK);
                    self.blocks.entry(block).or_default().push(Version { event: number, at });
                }
            }
            // Only blocks that were written before need a new version. All other blocks are zero in
            // any case.
            Kind::Discard | Kind::Zero => {
                let empty = Version { event: number, at: None };
                let mut clear = |versions: &mut Vec<Version>| versions.push(Version { ..empty });
                if blocks.end - blocks.start < self.blocks.len() as u64 {
                    blocks.for_each(|block| self.blocks.get_mut(&block).into_iter().for_each(&mut clear));
                } else {
                    self.blocks.iter_mut().filter(|(block, _)| blocks.contains(block)).for_each(|(_, all)| clear(all));
                }
            }
            Kind::Flush | Kind::Mark => {}
        }
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        let failed = |source| Error::Io { what: format!("read {}", self.path.display()), source };
        self.file.read_exact_at(into, at).map_err(failed)
    }
}
