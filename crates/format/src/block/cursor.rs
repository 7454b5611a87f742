//! Reading blocks.
use super::Block;
use crate::{Corrupt, coding::Input};
use std::{cmp::Ordering, ops::Range, sync::Arc};

/// Walks a block's entries in order and keeps the block alive. Stands nowhere at first, behind the ends, and after an
/// error.
#[derive(Debug)]
pub struct BlockCursor {
    block: Arc<Block>,
    entry: usize,        // where the current entry begins; entries_end: nowhere
    value: Range<usize>, // its value in the block; `end` is where the next entry begins
    key: Vec<u8>,        // its whole key
    restart: usize,      // the last restart at or before `entry`
}

/// The sizes at the front of an entry, and where its key bytes begin.
struct Sizes {
    shared: usize,
    unshared: usize,
    value: usize,
    key_at: usize,
}

impl BlockCursor {
    /// Stands nowhere yet.
    pub fn new(block: Arc<Block>) -> BlockCursor {
        let end = block.entries_end;
        BlockCursor { block, entry: end, value: end..end, key: Vec::new(), restart: 0 }
    }

    /// Whether it stands on an entry.
    pub fn valid(&self) -> bool {
        self.entry < self.block.entries_end
    }

    /// The current key. Must stand on an entry.
    pub fn key(&self) -> &[u8] {
        debug_assert!(self.valid());
        &self.key
    }

    /// The current value. Must stand on an entry.
    pub fn value(&self) -> &[u8] {
        debug_assert!(self.valid());
        &self.block.bytes[self.value.clone()]
    }

    /// To the first entry at or after `target` in the order `cmp`, which sorts the block.
    pub fn seek(&mut self, target: &[u8], cmp: impl Fn(&[u8], &[u8]) -> Ordering) -> Result<(), Corrupt> {
        self.guard(|cursor| {
            let (mut low, mut high) = (0, cursor.block.restarts.saturating_sub(1));
            while low < high {
                // Keys at restarts 1..=low are before `target`, those behind `high` are not.
                let middle = (low + high).div_ceil(2);
                if cmp(cursor.block.restart_key(middle)?, target) == Ordering::Less {
                    low = middle;
                } else {
                    high = middle - 1;
                }
            }
            cursor.go_to_restart(low)?;
            while cursor.valid() && cmp(&cursor.key, target) == Ordering::Less {
                cursor.go_to_entry(cursor.value.end)?;
            }
            Ok(())
        })
    }

    /// To the first entry.
    pub fn seek_first(&mut self) -> Result<(), Corrupt> {
        self.guard(|cursor| cursor.go_to_restart(0))
    }

    /// To the last entry.
    pub fn seek_last(&mut self) -> Result<(), Corrupt> {
        self.guard(|cursor| {
            cursor.go_to_restart(cursor.block.restarts.saturating_sub(1))?;
            while cursor.valid() && cursor.value.end < cursor.block.entries_end {
                cursor.go_to_entry(cursor.value.end)?;
            }
            Ok(())
        })
    }

    /// One forward. Must stand on an entry.
    #[expect(clippy::should_implement_trait, reason = "a cursor moves both ways and can fail")]
    pub fn next(&mut self) -> Result<(), Corrupt> {
        debug_assert!(self.valid());
        self.guard(|cursor| cursor.go_to_entry(cursor.value.end))
    }

    /// One back. Must stand on an entry. Goes to the restart before and forward from there.
    pub fn prev(&mut self) -> Result<(), Corrupt> {
        debug_assert!(self.valid());
        self.guard(|cursor| {
            let before = cursor.entry;
            let Some(restart) = (0..=cursor.restart).rev().find(|&restart| cursor.block.restart(restart) < before)
            else {
                cursor.leave();
                return Ok(());
            };
            cursor.go_to_restart(restart)?;
            while cursor.value.end < before {
                cursor.go_to_entry(cursor.value.end)?;
            }
            if cursor.value.end == before { Ok(()) } else { Err(corrupt(before, "restarts and entries do not meet")) }
        })
    }

    /// Stands nowhere after an error.
    fn guard(&mut self, step: impl FnOnce(&mut Self) -> Result<(), Corrupt>) -> Result<(), Corrupt> {
        let done = step(self);
        if done.is_err() {
            self.leave();
        }
        done
    }

    fn leave(&mut self) {
        self.entry = self.block.entries_end;
        self.value = self.entry..self.entry;
        self.key.clear();
    }

    /// To the entry of restart `index`; nowhere if the block is empty.
    fn go_to_restart(&mut self, index: usize) -> Result<(), Corrupt> {
        self.leave();
        if self.block.entries_end == 0 {
            return Ok(());
        }
        self.restart = index;
        let at = self.block.restart(index);
        if at < self.block.entries_end { self.go_to_entry(at) } else { Err(corrupt(at, BEYOND)) }
    }

    /// To the entry at `at`, whose predecessor's key is in `key`; nowhere if the entries end there.
    fn go_to_entry(&mut self, at: usize) -> Result<(), Corrupt> {
        if at == self.block.entries_end {
            self.leave();
            return Ok(());
        }
        let sizes = self.block.sizes(at)?;
        if sizes.shared > self.key.len() || sizes.shared + sizes.unshared < self.block.key_bytes_min {
            return Err(corrupt(at, "a key that cannot be"));
        }
        let key_end = sizes.key_at + sizes.unshared;
        self.key.truncate(sizes.shared);
        self.key.extend_from_slice(&self.block.bytes[sizes.key_at..key_end]);
        self.value = key_end..key_end + sizes.value;
        self.entry = at;
        while self.restart + 1 < self.block.restarts && self.block.restart(self.restart + 1) <= at {
            self.restart += 1;
        }
        Ok(())
    }
}

const BEYOND: &str = "a restart behind the last entry";

fn corrupt(at: usize, detail: &str) -> Corrupt {
    Corrupt::new("block", at as u64, detail)
}

impl Block {
    /// The key at restart `index`, where it lies.
    fn restart_key(&self, index: usize) -> Result<&[u8], Corrupt> {
        let at = self.restart(index);
        if at >= self.entries_end {
            return Err(corrupt(at, BEYOND));
        }
        let sizes = self.sizes(at)?;
        if sizes.shared > 0 || sizes.unshared < self.key_bytes_min {
            return Err(corrupt(at, "a key at a restart that cannot be"));
        }
        Ok(&self.bytes[sizes.key_at..sizes.key_at + sizes.unshared])
    }

    /// Reads the sizes of the entry at `at`; its key and value lie among the entries.
    fn sizes(&self, at: usize) -> Result<Sizes, Corrupt> {
        let entries = &self.bytes[..self.entries_end];
        let sizes = match entries.get(at..at + 3) {
            Some(&[shared, unshared, value]) if (shared | unshared | value) < 0x80 => {
                Sizes { shared: shared.into(), unshared: unshared.into(), value: value.into(), key_at: at + 3 }
            }
            _ => {
                let mut input = Input::new("block", entries);
                input.take(at)?;
                let [shared, unshared, value] = [input.varint32()?, input.varint32()?, input.varint32()?];
                let key_at = input.offset() as usize;
                Sizes { shared: shared as usize, unshared: unshared as usize, value: value as usize, key_at }
            }
        };
        if sizes.unshared + sizes.value > entries.len() - sizes.key_at {
            return Err(corrupt(at, "an entry that runs past the end"));
        }
        Ok(sizes)
    }
}
