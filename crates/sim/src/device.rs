//! A block device in memory that remembers all that was done to it, and can tell what a power cut would have left.
//!
//! A completed flush makes everything before it durable, one of some ranges everything within them. Of the rest, each write and each
//! discard may have reached the flash or not, whatever the others did; a write may be torn between sectors of 512 bytes, a sector never.
use crate::Rng;
use parking_lot::Mutex;
use std::{collections::HashMap, fmt, ops::Range, sync::Arc};
use terrace_device::{BlockDevice, Error, Result, Stream};

const BLOCK: u64 = 4096;
const SECTOR: usize = 512;
/// Of more requests than these the older half has reached the flash: what waits long is written without being asked for.
const OPEN_MAX: usize = 256;

type Block = Arc<[u8; BLOCK as usize]>;
type Blocks = HashMap<u64, Block>;

/// A recording device; clones are handles on the same one. Its first state is durable.
#[derive(Clone)]
pub struct CrashDevice {
    past: Arc<Mutex<Past>>,
    len: u64,
}

struct Past {
    now: Blocks,
    events: Vec<Event>,
    first: Blocks,
    /// As it was asked for last.
    base: Durable,
    /// Flushes return and do nothing.
    lies: bool,
}

/// What is known before event number `at`.
struct Durable {
    at: usize,
    /// What must be there.
    blocks: Blocks,
    /// What may have happened to them since, in order.
    open: Vec<Event>,
}

#[derive(Clone)]
enum Event {
    /// From this block on.
    Write(u64, Arc<[Block]>),
    /// From this block on, so many.
    Zero(u64, u64),
    Flush,
    FlushRanges(Arc<[Range<u64>]>),
}

/// What a device holds after a crash. Cheap to make and to clone.
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
    /// `len` bytes, all zero.
    pub fn empty(len: u64) -> DeviceImage {
        DeviceImage { blocks: Blocks::new(), len }
    }
}

impl CrashDevice {
    /// A device that holds `image`, all of it durable.
    pub fn new(image: &DeviceImage) -> CrashDevice {
        let blocks = image.blocks.clone();
        let (now, first, base) = (blocks.clone(), blocks.clone(), Durable { at: 0, blocks, open: Vec::new() });
        let past = Past { now, events: Vec::new(), first, base, lies: false };
        CrashDevice { past: Arc::new(Mutex::new(past)), len: image.len }
    }

    /// As [`new`](CrashDevice::new), but a flush keeps no promise: the control that must lose something.
    pub fn lying(image: &DeviceImage) -> CrashDevice {
        let made = CrashDevice::new(image);
        made.past.lock().lies = true;
        made
    }

    /// How many requests were recorded. What was acknowledged by now must survive a cut after this step.
    pub fn steps(&self) -> usize {
        self.past.lock().events.len()
    }

    /// How many of them were flushes.
    pub fn flushes(&self) -> usize {
        let is_flush = |event: &&Event| matches!(event, Event::Flush | Event::FlushRanges(_));
        self.past.lock().events.iter().filter(is_flush).count()
    }

    /// What it holds now, as a killed process leaves it.
    pub fn now(&self) -> DeviceImage {
        DeviceImage { blocks: self.past.lock().now.clone(), len: self.len }
    }

    /// What it holds right after `step`, as a killed process leaves it. Panics if there is no such step.
    pub fn everything(&self, step: usize) -> DeviceImage {
        let mut past = self.past.lock();
        past.advance(step);
        let mut blocks = past.base.blocks.clone();
        past.base.open.iter().for_each(|event| event.happen(&mut blocks));
        DeviceImage { blocks, len: self.len }
    }

    /// One of the states that a power cut right after `step` may leave; which one, `seed` decides. Quickest in the order of steps.
    /// Panics if there is no such step.
    pub fn power_loss(&self, step: usize, seed: u64) -> DeviceImage {
        let mut rng = Rng::of(seed, step as u64);
        let mut past = self.past.lock();
        past.advance(step);
        let mut blocks = past.base.blocks.clone();
        let odds = [0, 4, 1 + rng.below(3), 1 + rng.below(3)][rng.below(4)]; // of four: none, all, some
        for event in &past.base.open {
            match event {
                _ if !rng.chance(odds, 4) => {}
                Event::Write(first, written) if odds < 4 && rng.chance(1, 3) => {
                    put_torn(&mut blocks, *first, written, sectors(written.len() * BLOCK as usize, &mut rng));
                }
                event => event.happen(&mut blocks),
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

/// A stretch of sectors.
fn sectors(bytes: usize, rng: &mut Rng) -> std::ops::Range<usize> {
    let all = bytes / SECTOR;
    let (a, b) = (rng.below(all + 1), rng.below(all + 1));
    a.min(b) * SECTOR..a.max(b) * SECTOR
}

impl Past {
    fn happened(&mut self, event: Event) {
        event.happen(&mut self.now);
        self.events.push(event);
    }

    /// Makes `base` what is known before event number `until`.
    fn advance(&mut self, until: usize) {
        if until < self.base.at {
            self.base = Durable { at: 0, blocks: self.first.clone(), open: Vec::new() };
        }
        let base = &mut self.base;
        for event in &self.events[base.at..until] {
            match event {
                Event::Flush | Event::FlushRanges(_) if self.lies => {}
                Event::Flush => base.open.drain(..).for_each(|event| event.happen(&mut base.blocks)),
                Event::FlushRanges(ranges) => base.settle(ranges),
                event => base.open.push(event.clone()),
            }
            if !self.lies && base.open.len() > OPEN_MAX {
                base.open.drain(..OPEN_MAX / 2).for_each(|event| event.happen(&mut base.blocks));
            }
        }
        base.at = until;
    }
}

impl Durable {
    /// What happened to whole blocks within `ranges` has happened for good.
    fn settle(&mut self, ranges: &[Range<u64>]) {
        let holds =
            |block: u64| ranges.iter().any(|range| range.start <= block * BLOCK && (block + 1) * BLOCK <= range.end);
        for event in std::mem::take(&mut self.open) {
            for (settled, part) in event.parts(holds) {
                if settled { part.happen(&mut self.blocks) } else { self.open.push(part) }
            }
        }
    }
}

impl Event {
    fn happen(&self, blocks: &mut Blocks) {
        match self {
            Event::Write(first, written) => blocks.extend((*first..).zip(written.iter().cloned())),
            Event::Zero(first, count) => (*first..first + count).for_each(|block| drop(blocks.remove(&block))),
            Event::Flush | Event::FlushRanges(_) => {}
        }
    }

    /// Its parts that lie in blocks of which `holds` says the same.
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

/// Of a write from block `first` on, only the sectors in `kept`, which are bytes of it.
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
        let past = self.past.lock();
        for (number, into) in (offset / BLOCK..).zip(into.chunks_exact_mut(BLOCK as usize)) {
            match past.now.get(&number) {
                Some(block) => into.copy_from_slice(&block[..]),
                None => into.fill(0),
            }
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8], _: Stream) -> Result<()> {
        self.check(offset, bytes.len() as u64)?;
        let blocks = bytes.chunks_exact(BLOCK as usize).map(|block| Arc::new(block.try_into().expect("a block")));
        self.past.lock().happened(Event::Write(offset / BLOCK, blocks.collect()));
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        self.past.lock().happened(Event::Flush);
        Ok(())
    }

    fn flush_ranges(&self, ranges: &[Range<u64>]) -> Result<()> {
        ranges.iter().try_for_each(|range| self.check(range.start, range.end - range.start))?;
        self.past.lock().happened(Event::FlushRanges(ranges.into()));
        Ok(())
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.check(offset, len)?;
        self.past.lock().happened(Event::Zero(offset / BLOCK, len / BLOCK));
        Ok(())
    }

    fn write_zeroes(&self, offset: u64, len: u64) -> Result<()> {
        self.discard(offset, len)
    }
}
