//! A crash state of a recorded device, as a writable device. It contains all requests before a
//! given event, selected parts of later requests, and the writes that were made to the crash state
//! itself. In memory it has only the blocks of these parts and writes; it reads all other blocks
//! from the recording.
use super::{Kind, Past, past::BLOCK};
use crate::{BlockDevice, Error, Result, Stream, error::check_range};
use std::{
    collections::HashMap,
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// A part of an unflushed write that survives the power cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Index of the write among the recording's events.
    pub event: usize,
    /// Ranges of the write that survive, in whole sectors of 512 bytes. `None` is the whole write.
    pub parts: Option<Vec<Range<u64>>>,
}

/// A device after a simulated power cut. Writes to it are visible only through this value and do
/// not change the recording.
pub struct State {
    past: Arc<Past>,
    /// Index of the first event that is not applied as a whole. All events before it are applied.
    until: usize,
    /// Blocks in which the crash state differs from the recording, by block number. `None` is a
    /// block of zeros.
    own: Mutex<HashMap<u64, Option<Box<[u8]>>>>,
}

impl State {
    /// Returns the crash state after all events before `until` and, in order, the parts in `kept`.
    ///
    /// # Errors
    /// If an event does not exist, if a part does not consist of whole sectors of its event, or if
    /// the recording can no longer be read.
    pub fn new(past: Arc<Past>, until: usize, kept: &[Kept]) -> Result<State> {
        let impossible = |field, why: String| Err(Error::Impossible { field, why });
        let count = past.events().len();
        if until > count {
            return impossible("until", format!("event {until} of {count}"));
        }
        let state = State { past, until, own: Mutex::default() };
        for Kept { event: number, parts } in kept {
            let Some(event) = state.past.events().get(*number) else {
                return impossible("kept", format!("event {number} of {count}"));
            };
            match event.kind {
                Kind::Write => {
                    let data = state.past.data(event)?;
                    for part in parts.clone().unwrap_or_else(|| std::iter::once(0..event.len).collect()) {
                        if part.start % 512 != 0 || part.end % 512 != 0 || part.start > part.end || part.end > event.len
                        {
                            return impossible("kept", format!("bytes {part:?} of event {number}"));
                        }
                        state.put(event.offset + part.start, &data[part.start as usize..part.end as usize])?;
                    }
                }
                Kind::Discard | Kind::Zero => state.clear(event.offset, event.len),
                Kind::Flush | Kind::Mark => {}
            }
        }
        Ok(state)
    }

    /// Writes whole sectors.
    fn put(&self, offset: u64, mut bytes: &[u8]) -> Result<()> {
        let mut own = self.own();
        let mut at = offset;
        while !bytes.is_empty() {
            let (number, within) = (at / BLOCK, (at % BLOCK) as usize);
            let (now, rest) = bytes.split_at(bytes.len().min(BLOCK as usize - within));
            let block = match own.remove(&number) {
                Some(Some(block)) => block,
                Some(None) => empty(),
                None if now.len() == BLOCK as usize => empty(),
                None => {
                    let mut block = empty();
                    self.past.block_before(number, self.until, &mut block)?;
                    block
                }
            };
            let block = own.entry(number).or_insert(Some(block)).get_or_insert_with(empty);
            block[within..within + now.len()].copy_from_slice(now);
            (at, bytes) = (at + now.len() as u64, rest);
        }
        Ok(())
    }

    fn clear(&self, offset: u64, len: u64) {
        let mut own = self.own();
        (offset / BLOCK..(offset + len) / BLOCK).for_each(|number| drop(own.insert(number, None)));
    }

    fn own(&self) -> MutexGuard<'_, HashMap<u64, Option<Box<[u8]>>>> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self, offset: u64, len: u64) -> Result<()> {
        check_range(offset, len, BLOCK as u32, self.past.len_bytes())
    }
}

fn empty() -> Box<[u8]> {
    vec![0; BLOCK as usize].into()
}

impl BlockDevice for State {
    fn len_bytes(&self) -> u64 {
        self.past.len_bytes()
    }

    fn block_bytes(&self) -> u32 {
        BLOCK as u32
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.check(offset, into.len() as u64)?;
        let own = self.own();
        for (number, into) in (offset / BLOCK..).zip(into.chunks_exact_mut(BLOCK as usize)) {
            match own.get(&number) {
                Some(Some(block)) => into.copy_from_slice(block),
                Some(None) => into.fill(0),
                None if self.past.block_before(number, self.until, into)? => {}
                None => into.fill(0),
            }
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8], _: Stream) -> Result<()> {
        self.check(offset, bytes.len() as u64)?;
        self.put(offset, bytes)
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.check(offset, len)?;
        self.clear(offset, len);
        Ok(())
    }

    fn write_zeroes(&self, offset: u64, len: u64) -> Result<()> {
        self.discard(offset, len)
    }
}
