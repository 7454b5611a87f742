//! A block device in memory that remembers all that was done to it, and can tell what a power cut would have left.
//!
//! A completed flush makes everything before it durable. Of what came after, each write and each discard may have reached the flash or
//! not, whatever the others did; a write may be torn between sectors of 512 bytes, a sector never.
use crate::Rng;
use parking_lot::Mutex;
use std::{collections::HashMap, fmt, sync::Arc};
use terrace_device::{BlockDevice, Error, Result, Stream};

const BLOCK: u64 = 4096;
const SECTOR: usize = 512;

type Blocks = HashMap<u64, Arc<[u8; BLOCK as usize]>>;

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
    /// The state before event number `.0`, as it was asked for last.
    base: (usize, Blocks),
    /// Flushes return and do nothing.
    lies: bool,
}

enum Event {
    Write(u64, Arc<[u8]>),
    Zero(u64, u64),
    Flush,
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
        let (now, first) = (blocks.clone(), blocks.clone());
        let past = Past { now, events: Vec::new(), first, base: (0, blocks), lies: false };
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
        self.past.lock().events.iter().filter(|event| matches!(event, Event::Flush)).count()
    }

    /// What it holds now, as a killed process leaves it.
    pub fn now(&self) -> DeviceImage {
        DeviceImage { blocks: self.past.lock().now.clone(), len: self.len }
    }

    /// One of the states that a power cut right after `step` may leave; which one, `seed` decides. Quickest in the order of steps.
    /// Panics if there is no such step.
    pub fn power_loss(&self, step: usize, seed: u64) -> DeviceImage {
        let mut rng = Rng::of(seed, step as u64);
        let mut past = self.past.lock();
        let is_flush = |event: &Event| matches!(event, Event::Flush);
        let durable = if past.lies { 0 } else { past.events[..step].iter().rposition(is_flush).unwrap_or(0) };
        past.advance(durable);
        let mut blocks = past.base.1.clone();
        let odds = [0, 4, 1 + rng.below(3), 1 + rng.below(3)][rng.below(4)]; // of four: none, all, some
        for event in &past.events[durable..step] {
            match event {
                _ if !rng.chance(odds, 4) => {}
                Event::Write(offset, bytes) => {
                    let torn = odds < 4 && rng.chance(1, 3);
                    let kept = if torn { sectors(bytes.len(), &mut rng) } else { 0..bytes.len() };
                    put(&mut blocks, offset + kept.start as u64, &bytes[kept]);
                }
                Event::Zero(offset, len) => clear(&mut blocks, *offset, *len),
                Event::Flush => {}
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
    /// Makes `base` the state in which everything before event number `until` has happened.
    fn advance(&mut self, until: usize) {
        if until < self.base.0 {
            self.base = (0, self.first.clone());
        }
        let (from, blocks) = (self.base.0, &mut self.base.1);
        self.events[from..until].iter().for_each(|event| event.happen(blocks));
        self.base.0 = until;
    }
}

impl Event {
    fn happen(&self, blocks: &mut Blocks) {
        match self {
            Event::Write(offset, bytes) => put(blocks, *offset, bytes),
            Event::Zero(offset, len) => clear(blocks, *offset, *len),
            Event::Flush => {}
        }
    }
}

/// Writes whole sectors.
fn put(blocks: &mut Blocks, offset: u64, bytes: &[u8]) {
    let (mut at, mut rest) = (offset, bytes);
    while !rest.is_empty() {
        let within = (at % BLOCK) as usize;
        let (now, later) = rest.split_at(rest.len().min(BLOCK as usize - within));
        let block = blocks.entry(at / BLOCK).or_insert_with(|| Arc::new([0; BLOCK as usize]));
        Arc::make_mut(block)[within..within + now.len()].copy_from_slice(now);
        (at, rest) = (at + now.len() as u64, later);
    }
}

fn clear(blocks: &mut Blocks, offset: u64, len: u64) {
    (offset / BLOCK..(offset + len) / BLOCK).for_each(|block| drop(blocks.remove(&block)));
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
        let mut past = self.past.lock();
        put(&mut past.now, offset, bytes);
        past.events.push(Event::Write(offset, bytes.into()));
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        self.past.lock().events.push(Event::Flush);
        Ok(())
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.check(offset, len)?;
        let mut past = self.past.lock();
        clear(&mut past.now, offset, len);
        past.events.push(Event::Zero(offset, len));
        Ok(())
    }

    fn write_zeroes(&self, offset: u64, len: u64) -> Result<()> {
        self.discard(offset, len)
    }
}
