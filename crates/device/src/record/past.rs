//! A recorded past, with an index that answers what a block held at any moment.
use super::log::{Event, Kind, Reader};
use crate::{BlockDevice, Error, Result};
use std::{
    collections::HashMap,
    fs::File,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

/// The unit of the index.
pub(super) const BLOCK: u64 = 4096;

/// The block's bytes since some event: where in the file they stand, or zeros.
struct Version {
    event: usize,
    at: Option<u64>,
}

/// A recorded past. Its data stay in the file.
pub struct Past {
    file: File,
    path: PathBuf,
    len: u64,
    events: Vec<Event>,
    /// By number of the block, its versions in the order of events.
    blocks: HashMap<u64, Vec<Version>>,
}

impl Past {
    /// Reads a file of a [`Recorder`](super::Recorder) and checks all of it.
    ///
    /// # Errors
    /// It is missing, or damaged: then the error tells where.
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

    /// Every event, in order.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Where it was read from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The length of the device.
    pub fn len_bytes(&self) -> u64 {
        self.len
    }

    /// Does to `device` again what was done before event number `until`. Marks are passed over.
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

    /// The bytes of a write.
    pub(super) fn data(&self, event: &Event) -> Result<Vec<u8>> {
        let mut data = vec![0; event.len as usize];
        self.read(event.at, &mut data)?;
        Ok(data)
    }

    /// What block number `block` held before event number `until`; `false` for zeros, which are not filled in.
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
            // A block that was never written holds zeros already.
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
