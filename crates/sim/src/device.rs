//! The crash model of a block device. A [`CrashDevice`] records every request in memory. It can
//! return each crash state (device contents) that a power cut after any request may leave.
//!
//! A completed flush makes all earlier writes durable. A completed flush of ranges makes the
//! earlier writes within those ranges durable. Each other write or discard may have reached the
//! medium or not, independently of all others. A write may be torn between sectors of 512 bytes. A
//! sector is never torn.
use crate::Rng;
use parking_lot::Mutex;
use std::{collections::HashMap, fmt, ops::Range, sync::Arc};
use terrace_device::{BlockDevice, Error, Result, Stream};

const BLOCK: u64 = 4096;
const SECTOR: usize = 512;
/// Maximum count of recorded requests that are not durable. When there are more, the older half
/// becomes durable, because real devices write their caches back after some time.
const OPEN_MAX: usize = 256;

type Block = Arc<[u8; BLOCK as usize]>;
type Blocks = HashMap<u64, Block>;

/// A device that records its requests. Clones share the recording. The initial contents are
/// durable.
#[derive(Clone)]
pub struct CrashDevice {
    recording: Arc<Mutex<Recording>>,
    len: u64,
}

struct Recording {
    now: Blocks,
    events: Vec<Event>,
    first: Blocks,
    /// The durable state at the last examined step.
    base: Durable,
    /// Whether the device ignores flushes.
    lies: bool,
}

/// The durable state of the device just before event number `at`.
struct Durable {
    at: usize,
    /// Contents that every power cut preserves.
    blocks: Blocks,
    /// Events before `at` that are not durable, in order. A power cut may preserve or lose each of
    /// them.
    open: Vec<Event>,
}

#[derive(Clone)]
enum Event {
    /// First block, and the blocks written.
    Write(u64, Arc<[Block]>),
    /// First block, and the number of blocks zeroed.
    Zero(u64, u64),
    Flush,
    FlushRanges(Arc<[Range<u64>]>),
}

/// A crash state of a device. Cheap to create and to clone.
#[derive(Clone)]
pub struct DeviceImage {
    blocks: Blocks,
    len: u64,
}

impl fmt::Debug for DeviceImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a device of {} bytes, {} blocks of which are not zero", self.len, self.blocks.len())
    }
}

impl DeviceImage {
    /// Returns a device of `len` zero bytes.
    pub fn empty(len: u64) -> DeviceImage {
        DeviceImage { blocks: Blocks::new(), len }
    }
}

impl CrashDevice {
    /// Returns a device with the contents of `image`, all of them durable.
    pub fn new(image: &DeviceImage) -> CrashDevice {
        let blocks = image.blocks.clone();
        let (now, first, base) = (blocks.clone(), blocks.clone(), Durable { at: 0, blocks, open: Vec::new() });
        let recording = Recording { now, events: Vec::new(), first, base, lies: false };
        CrashDevice { recording: Arc::new(Mutex::new(recording)), len: image.len }
    }

    /// Like [`new`](CrashDevice::new), but the device ignores flushes. Such a device is a control:
    /// a crash test on it must detect lost data.
    pub fn lying(image: &DeviceImage) -> CrashDevice {
        let made = CrashDevice::new(image);
        made.recording.lock().lies = true;
        made
    }

    /// Returns the count of recorded requests, which is also the number of the newest step. Every
    /// write that was acknowledged as durable before this call must survive a power cut after this
    /// step.
    pub fn steps(&self) -> usize {
        self.recording.lock().events.len()
    }

    /// Returns the number of recorded flushes.
    pub fn flushes(&self) -> usize {
        let is_flush = |event: &&Event| matches!(event, Event::Flush | Event::FlushRanges(_));
        self.recording.lock().events.iter().filter(is_flush).count()
    }

    /// Returns the current contents. A killed process leaves this state if no power cut follows.
    pub fn now(&self) -> DeviceImage {
        DeviceImage { blocks: self.recording.lock().now.clone(), len: self.len }
    }

    /// Returns the contents right after `step`. A killed process leaves this state if no power cut
    /// follows. Panics if there is no such step.
    pub fn state_after(&self, step: usize) -> DeviceImage {
        let mut recording = self.recording.lock();
        recording.advance(step);
        let mut blocks = recording.base.blocks.clone();
        recording.base.open.iter().for_each(|event| event.apply(&mut blocks));
        DeviceImage { blocks, len: self.len }
    }

    /// Returns a crash state: the contents after a power cut right after `step`. `seed` selects one
    /// of the possible states. Calls with ascending steps are the fastest. Panics if there is no
    /// such step.
    pub fn power_loss(&self, step: usize, seed: u64) -> DeviceImage {
        let mut rng = Rng::of(seed, step as u64);
        let mut recording = self.recording.lock();
        recording.advance(step);
        let mut blocks = recording.base.blocks.clone();
        // Chooses how many of the events that are not durable survive the power cut. In one of four
        // cuts none survives, in one of four all survive, and in two of four some survive.
        let odds = [0, 4, 1 + rng.below(3), 1 + rng.below(3)][rng.below(4)];
        for event in &recording.base.open {
            match event {
                _ if !rng.chance(odds, 4) => {}
                Event::Write(first, written) if odds < 4 && rng.chance(1, 3) => {
                    put_torn(&mut blocks, *first, written, sectors(written.len() * BLOCK as usize, &mut rng));
                }
                event => event.apply(&mut blocks),
            }
        }
        DeviceImage { blocks, len: self.len }
    }

    fn check(&self, offset: u64, len: u64) -> Result<()> {
        let end = offset.checked_add(len).filter(|end| *end <= self.len);
        match end {
            Some(_) if offset.is_multiple_of(BLOCK) && len.is_multiple_of(BLOCK) => Ok(()),
            Some(_) => Err(Error::Unaligned { offset, len, block: BLOCK as u32 }),
            None => Err(Error::BeyondEnd { offset, len, end: self.len }),
        }
    }
}

/// Returns a random range of sectors, in bytes.
fn sectors(bytes: usize, rng: &mut Rng) -> std::ops::Range<usize> {
    let all = bytes / SECTOR;
    let (a, b) = (rng.below(all + 1), rng.below(all + 1));
    a.min(b) * SECTOR..a.max(b) * SECTOR
}

impl Recording {
    fn record(&mut self, event: Event) {
        event.apply(&mut self.now);
        self.events.push(event);
    }

    /// Moves `base` to the durable state before event number `until`.
    fn advance(&mut self, until: usize) {
        if until < self.base.at {
            self.base = Durable { at: 0, blocks: self.first.clone(), open: Vec::new() };
        }
        let base = &mut self.base;
        for event in &self.events[base.at..until] {
            match event {
                Event::Flush | Event::FlushRanges(_) if self.lies => {}
                Event::Flush => base.open.drain(..).for_each(|event| event.apply(&mut base.blocks)),
                Event::FlushRanges(ranges) => base.make_durable(ranges),
                event => base.open.push(event.clone()),
            }
            if !self.lies && base.open.len() > OPEN_MAX {
                base.open.drain(..OPEN_MAX / 2).for_each(|event| event.apply(&mut base.blocks));
            }
        }
        base.at = until;
    }
}

impl Durable {
    /// Makes the parts of open events within `ranges` durable, in whole blocks only.
    fn make_durable(&mut self, ranges: &[Range<u64>]) {
        let holds =
            |block: u64| ranges.iter().any(|range| range.start <= block * BLOCK && (block + 1) * BLOCK <= range.end);
        for event in std::mem::take(&mut self.open) {
            for (is_durable, part) in event.parts(holds) {
                if is_durable { part.apply(&mut self.blocks) } else { self.open.push(part) }
            }
        }
    }
}

impl Event {
    fn apply(&self, blocks: &mut Blocks) {
        match self {
            Event::Write(first, written) => blocks.extend((*first..).zip(written.iter().cloned())),
            Event::Zero(first, count) => (*first..first + count).for_each(|block| drop(blocks.remove(&block))),
            Event::Flush | Event::FlushRanges(_) => {}
        }
    }

    /// Splits the event into parts of neighbouring blocks for which `holds` returns the same
    /// result. Returns each part with this result.
    fn parts(&self, holds: impl Fn(u64) -> bool) -> Vec<(bool, Event)> {
        let range = match self {
            Event::Write(first, written) => *first..first + written.len() as u64,
            Event::Zero(first, count) => *first..first + count,
            Event::Flush | Event::FlushRanges(_) => 0..0,
        };
        let blocks: Vec<(u64, bool)> = range.map(|block| (block, holds(block))).collect();
        let alike = blocks.chunk_by(|(_, one), (_, other)| one == other);
        alike.map(|blocks| (blocks[0].1, self.part(blocks[0].0, blocks.len()))).collect()
    }

    fn part(&self, at: u64, count: usize) -> Event {
        match self {
            Event::Write(_, written) if written.len() == count => self.clone(),
            Event::Write(first, written) => Event::Write(at, written[(at - first) as usize..][..count].into()),
            _ => Event::Zero(at, count as u64),
        }
    }
}

/// Applies to `blocks` a write that starts at block `first` and was torn by the power cut. Only
/// the bytes in `kept`, which is a range of sectors of the write, are applied.
fn put_torn(blocks: &mut Blocks, first: u64, written: &[Block], kept: Range<usize>) {
    for (nth, block) in written.iter().enumerate() {
        let begin = nth * BLOCK as usize;
        let (from, end) = (kept.start.max(begin), kept.end.min(begin + BLOCK as usize));
        if from < end {
            let within = from - begin..end - begin;
            let old = blocks.entry(first + nth as u64).or_insert_with(|| Arc::new([0; BLOCK as usize]));
            Arc::make_mut(old)[within.clone()].copy_from_slice(&block[within]);
        }
    }
}

impl BlockDevice for CrashDevice {
    fn len_bytes(&self) -> u64 {
        self.len
    }

    fn block_bytes(&self) -> u32 {
        BLOCK as u32
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.check(offset, into.len() as u64)?;
        let recording = self.recording.lock();
        for (number, into) in (offset / BLOCK..).zip(into.chunks_exact_mut(BLOCK as usize)) {
            match recording.now.get(&number) {
                Some(block) => into.copy_from_slice(&block[..]),
                None => into.fill(0),
            }
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8], _: Stream) -> Result<()> {
        self.check(offset, bytes.len() as u64)?;
        let blocks = bytes.chunks_exact(BLOCK as usize).map(|block| Arc::new(block.try_into().expect("a block")));
        self.recording.lock().record(Event::Write(offset / BLOCK, blocks.collect()));
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        self.recording.lock().record(Event::Flush);
        Ok(())
    }

    fn flush_ranges(&self, ranges: &[Range<u64>]) -> Result<()> {
        ranges.iter().try_for_each(|range| self.check(range.start, range.end - range.start))?;
        self.recording.lock().record(Event::FlushRanges(ranges.into()));
        Ok(())
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.check(offset, len)?;
        self.recording.lock().record(Event::Zero(offset / BLOCK, len / BLOCK));
        Ok(())
    }

    fn write_zeroes(&self, offset: u64, len: u64) -> Result<()> {
        self.discard(offset, len)
    }
}
