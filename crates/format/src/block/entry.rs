//! Where the entries of a block lie: restarts, and how an entry is taken apart. Nothing of them is trusted.
use super::Block;
use crate::{Corrupt, KeyOrder, coding::Input};

/// An entry, taken apart.
pub(super) struct Split<'a> {
    /// Bytes that its key takes over from the one before.
    pub shared: usize,
    /// The rest of its key.
    pub own: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
    /// What begins with `own`.
    pub from_own: &'a [u8],
    /// The entries behind it.
    pub behind: &'a [u8],
}

impl Split<'_> {
    #[inline(always)]
    pub fn key_bytes(&self) -> usize {
        self.shared + self.own.len()
    }
}

pub(super) const UNORDERED: &str = "a key that does not follow the one before it";
pub(super) const BEYOND: &str = "a restart behind the last entry";

#[cold]
pub(super) fn corrupt(at: usize, detail: &str) -> Corrupt {
    Corrupt::new("block", at as u64, detail)
}

/// The entries of a block of keys that have at least so many bytes: who walks them asks the block for its bytes once.
#[derive(Clone, Copy)]
pub(super) struct Entries<'a> {
    pub bytes: &'a [u8],
    pub key_bytes_min: usize,
    pub order: Option<&'a KeyOrder>,
}

impl<'a> Entries<'a> {
    /// Where they end.
    #[inline(always)]
    pub fn end(self) -> usize {
        self.bytes.len()
    }

    /// The entry at `at`.
    #[inline(always)]
    pub fn at(self, at: usize) -> Result<Split<'a>, Corrupt> {
        self.first_of(&self.bytes[at..])
    }

    /// The first of `left`, which some of the entries are left of.
    #[inline(always)]
    pub fn first_of(self, left: &'a [u8]) -> Result<Split<'a>, Corrupt> {
        first_of(left).ok_or_else(|| corrupt(self.begin(left), "an entry that runs past the end"))
    }

    /// Where what is `left` of them begins.
    #[inline(always)]
    pub fn begin(self, left: &[u8]) -> usize {
        self.bytes.len() - left.len()
    }
}

#[inline(always)]
fn first_of(entries: &[u8]) -> Option<Split<'_>> {
    let (shared, unshared, value_bytes, from_own) = match entries {
        [shared, unshared, value, behind @ ..] if (shared | unshared | value) < 0x80 => {
            (usize::from(*shared), usize::from(*unshared), usize::from(*value), behind)
        }
        [shared, unshared, low, high, behind @ ..] if (shared | unshared | high) < 0x80 => {
            let value = usize::from(low & 0x7f) | usize::from(*high) << 7;
            (usize::from(*shared), usize::from(*unshared), value, behind)
        }
        _ => any_sizes(entries)?,
    };
    let (own, behind) = from_own.split_at_checked(unshared)?;
    let (value, behind) = behind.split_at_checked(value_bytes)?;
    Some(Split { shared, own, value, from_own, behind })
}

/// The sizes at the front of an entry, however long each is, and what lies behind them.
#[cold]
fn any_sizes(entries: &[u8]) -> Option<(usize, usize, usize, &[u8])> {
    let mut input = Input::new("block", entries);
    let mut size = || Some(input.varint32().ok()? as usize);
    let sizes = (size()?, size()?, size()?);
    Some((sizes.0, sizes.1, sizes.2, input.rest()))
}

impl Block {
    #[inline(always)]
    pub(super) fn entries(&self) -> Entries<'_> {
        let bytes = &self.bytes.flat()[..self.entries_end];
        Entries { bytes, key_bytes_min: self.key_bytes_min, order: self.order.as_ref() }
    }

    /// The key at restart `index`, where it lies.
    #[inline]
    pub(super) fn restart_key(&self, index: usize) -> Result<&[u8], Corrupt> {
        let (at, entries) = (self.restart_entry(index)?, self.entries());
        let entry = entries.at(at)?;
        if entry.shared > 0 || entry.own.len() < self.key_bytes_min {
            return Err(corrupt(at, "a key at a restart that cannot be"));
        }
        Ok(entry.own)
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
            let entries = self.entries();
            at = entries.begin(entries.at(at)?.behind);
        }
        let all = known == self.restarts || self.entries_end == 0;
        if all { Ok(()) } else { Err(corrupt(self.entries_end + 4 * known, "a restart where no entry is due")) }
    }

    /// Where the entries begin among which the first is that is not before some key, as `is_before` says of keys: at the last restart
    /// before it, or at the first.
    #[inline]
    pub(super) fn restart_before(&self, is_before: impl Fn(&[u8]) -> bool) -> Result<usize, Corrupt> {
        if self.entries_end == 0 {
            return Ok(0);
        }
        let (mut low, mut high) = (0, self.restarts.saturating_sub(1));
        while low < high {
            // Restarts 1..=low are before it, those behind `high` are not.
            let middle = (low + high).div_ceil(2);
            if is_before(self.restart_key(middle)?) { low = middle } else { high = middle - 1 }
        }
        self.restart_entry(low)
    }

    /// Where the entry of restart `index` begins.
    #[inline]
    pub(super) fn restart_entry(&self, index: usize) -> Result<usize, Corrupt> {
        let at = self.restart(index);
        if at < self.entries_end { Ok(at) } else { Err(corrupt(at, BEYOND)) }
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
}
