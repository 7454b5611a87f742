//! Decodes single entries and restart points. No byte of the block is trusted.
use super::{Block, bytes::Contents};
use crate::{Corrupt, KeyOrder, coding::Input, key::TRAILER_BYTES};

/// A decoded entry.
pub(super) struct Split<'a> {
    /// Length of the prefix shared with the previous key, in bytes.
    pub shared: usize,
    /// The key after the shared prefix.
    pub own: &'a [u8],
    /// The value.
    pub value: &'a [u8],
    /// The bytes of the block from `own` on.
    pub from_own: &'a [u8],
    /// The bytes of the entries after the decoded entry.
    pub behind: &'a [u8],
}

impl Split<'_> {
    #[inline(always)]
    pub fn key_bytes(&self) -> usize {
        self.shared + self.own.len()
    }
}

pub(super) const UNORDERED: &str = "keys out of order";
pub(super) const BEYOND: &str = "a restart point after the last entry";

#[cold]
pub(super) fn corrupt(at: usize, detail: &str) -> Corrupt {
    Corrupt::new("block", at as u64, detail)
}

/// The entries of a block, as a slice of bytes. With this slice, a step of a cursor need not look
/// up the owner of the block's memory.
#[derive(Clone, Copy)]
pub(super) struct Entries<'a> {
    pub bytes: &'a [u8],
    pub key_bytes_min: usize,
    pub order: Option<&'a KeyOrder>,
}

impl<'a> Entries<'a> {
    /// Returns the end offset of the entries.
    #[inline(always)]
    pub fn end(self) -> usize {
        self.bytes.len()
    }

    /// Decodes the entry at offset `at`.
    #[inline(always)]
    pub fn at(self, at: usize) -> Result<Split<'a>, Corrupt> {
        self.first_of(&self.bytes[at..])
    }

    /// Decodes the first entry of `left`, a suffix of the entries.
    #[inline(always)]
    pub fn first_of(self, left: &'a [u8]) -> Result<Split<'a>, Corrupt> {
        first_of(left).ok_or_else(|| corrupt(self.begin(left), "an entry extends past the end of the block"))
    }

    /// Returns the offset of `left`, a suffix of the entries.
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

/// Decodes the three lengths at the start of an entry, whatever their encoded size. Returns the
/// lengths and the bytes after them.
#[cold]
fn any_sizes(entries: &[u8]) -> Option<(usize, usize, usize, &[u8])> {
    let mut input = Input::new("block", entries);
    let mut size = || Some(input.varint32().ok()? as usize);
    let sizes = (size()?, size()?, size()?);
    Some((sizes.0, sizes.1, sizes.2, input.rest()))
}

/// Iterates over `entries`, encoded entries of a block of internal keys that share no prefixes.
/// Returns the key and the value of each entry.
pub fn whole_entries(entries: &[u8]) -> impl Iterator<Item = Result<(&[u8], &[u8]), Corrupt>> {
    let mut left = entries;
    std::iter::from_fn(move || {
        let begin = entries.len() - left.len();
        if left.is_empty() {
            return None;
        }
        let Some(entry) = first_of(left).filter(|entry| entry.shared == 0 && entry.own.len() >= TRAILER_BYTES) else {
            left = &[];
            return Some(Err(corrupt(begin, "an invalid entry")));
        };
        left = entry.behind;
        Some(Ok((entry.own, entry.value)))
    })
}

impl<B: Contents> Block<B> {
    #[inline(always)]
    pub(super) fn entries(&self) -> Entries<'_> {
        let bytes = &self.bytes.flat()[..self.entries_end];
        Entries { bytes, key_bytes_min: self.key_bytes_min, order: self.order.as_ref() }
    }

    /// Returns the key at restart point `index`, without a copy.
    #[inline]
    pub(super) fn restart_key(&self, index: usize) -> Result<&[u8], Corrupt> {
        let (at, entries) = (self.restart_entry(index)?, self.entries());
        let entry = entries.at(at)?;
        if entry.shared > 0 || entry.own.len() < self.key_bytes_min {
            return Err(corrupt(at, "an invalid key at a restart point"));
        }
        Ok(entry.own)
    }

    /// Verifies that the restart points are entries with whole keys, that they are in order, and
    /// that the first entry is one of them. Forward iteration does not use restart points, so it
    /// cannot detect a bad one; other reads detect a bad restart point only when they use it.
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
        if all {
            Ok(())
        } else {
            Err(corrupt(self.entries_end + 4 * known, "a restart point that is not the start of an entry"))
        }
    }

    /// Returns the offset of the last restart point whose key satisfies `is_before`, or of the
    /// first restart point if no key satisfies it. The keys that satisfy `is_before` must precede
    /// all others.
    #[inline]
    pub(super) fn restart_before(&self, is_before: impl Fn(&[u8]) -> bool) -> Result<usize, Corrupt> {
        if self.entries_end == 0 {
            return Ok(0);
        }
        let (mut low, mut high) = (0, self.restarts.saturating_sub(1));
        while low < high {
            // Invariant of the binary search: the keys of restart points 1..=low satisfy
            // `is_before`, and those of the restart points above `high` do not.
            let middle = (low + high).div_ceil(2);
            if is_before(self.restart_key(middle)?) { low = middle } else { high = middle - 1 }
        }
        self.restart_entry(low)
    }

    /// Returns the offset of the entry at restart point `index`.
    #[inline]
    pub(super) fn restart_entry(&self, index: usize) -> Result<usize, Corrupt> {
        let at = self.restart(index);
        if at < self.entries_end { Ok(at) } else { Err(corrupt(at, BEYOND)) }
    }

    /// Returns the number of restart points below `offset`.
    pub(super) fn restarts_before(&self, offset: usize) -> usize {
        let (mut low, mut high) = (0, self.restarts);
        while low < high {
            let middle = (low + high) / 2;
            if self.restart(middle) < offset { low = middle + 1 } else { high = middle }
        }
        low
    }
}
