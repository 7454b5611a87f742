//! Where the entries of a block lie: restarts, and the sizes at the front of an entry. Nothing of them is trusted.
use super::Block;
use crate::{Corrupt, coding::Input};

/// The sizes at the front of an entry, and where its key bytes begin.
pub(super) struct Sizes {
    pub shared: usize,
    pub unshared: usize,
    pub value: usize,
    pub key_at: usize,
}

pub(super) const BEYOND: &str = "a restart behind the last entry";

#[cold]
pub(super) fn corrupt(at: usize, detail: &str) -> Corrupt {
    Corrupt::new("block", at as u64, detail)
}

impl Block {
    /// The key at restart `index`, where it lies.
    pub(super) fn restart_key(&self, index: usize) -> Result<&[u8], Corrupt> {
        let at = self.restart(index);
        if at >= self.entries_end {
            return Err(corrupt(at, BEYOND));
        }
        let sizes = self.sizes(at)?;
        if sizes.shared > 0 || sizes.unshared < self.key_bytes_min {
            return Err(corrupt(at, "a key at a restart that cannot be"));
        }
        Ok(&self.bytes.flat()[sizes.key_at..sizes.key_at + sizes.unshared])
    }

    /// Whether the restarts are entries with whole keys, in order, the first entry first. Walks forward need none of that,
    /// and other reads find out only when they come there.
    pub fn check_restarts(&self) -> Result<(), Corrupt> {
        let (mut at, mut known) = (0, 0);
        while at < self.entries_end {
            if known < self.restarts && self.restart(known) == at {
                self.restart_key(known)?;
                known += 1;
            }
            if known == 0 {
                break;
            }
            let sizes = self.sizes(at)?;
            at = sizes.key_at + sizes.unshared + sizes.value;
        }
        let all = known == self.restarts || self.entries_end == 0;
        if all { Ok(()) } else { Err(corrupt(self.entries_end + 4 * known, "a restart where no entry is due")) }
    }

    /// How many restarts lie before `offset`.
    pub(super) fn restarts_before(&self, offset: usize) -> usize {
        let (mut low, mut high) = (0, self.restarts);
        while low < high {
            let middle = (low + high) / 2;
            if self.restart(middle) < offset { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// The sizes of the entry at `at`; its key and value lie among the entries.
    #[inline(always)]
    pub(super) fn sizes(&self, at: usize) -> Result<Sizes, Corrupt> {
        sizes(&self.bytes.flat()[..self.entries_end], at)
    }
}

/// The sizes of the entry at `at` of `entries`, among which its key and value lie.
#[inline(always)]
pub(super) fn sizes(entries: &[u8], at: usize) -> Result<Sizes, Corrupt> {
    let sizes = match entries.get(at..at + 4) {
        Some(&[shared, unshared, value, _]) if (shared | unshared | value) < 0x80 => {
            Sizes { shared: shared.into(), unshared: unshared.into(), value: value.into(), key_at: at + 3 }
        }
        Some(&[shared, unshared, low, high]) if (shared | unshared | high) < 0x80 => {
            let value = usize::from(low & 0x7f) | usize::from(high) << 7;
            Sizes { shared: shared.into(), unshared: unshared.into(), value, key_at: at + 4 }
        }
        _ => any_sizes(entries, at)?,
    };
    if sizes.unshared + sizes.value > entries.len() - sizes.key_at {
        return Err(corrupt(at, "an entry that runs past the end"));
    }
    Ok(sizes)
}

/// The sizes at `at`, however long each is.
fn any_sizes(entries: &[u8], at: usize) -> Result<Sizes, Corrupt> {
    let mut input = Input::new("block", entries);
    input.take(at)?;
    let [shared, unshared, value] = [input.varint32()?, input.varint32()?, input.varint32()?];
    let key_at = input.offset() as usize;
    Ok(Sizes { shared: shared as usize, unshared: unshared as usize, value: value as usize, key_at })
}
