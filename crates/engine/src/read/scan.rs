//! Range reads: their options and bounds, a cursor, and an iterator.
use super::{
    get,
    separated_values::SeparatedValues,
    snapshot::Snapshot,
    snapshot_iter::{SAMPLE_BYTES, SnapshotIter},
    view::View,
};
use crate::{Error, Result};
use std::sync::{Arc, Weak};
use terrace_format::{KeyOrder, SeqNo, TableId, key};
use terrace_storage::Process;

/// How to read, and which keys. The default reads everything in its current state.
///
/// ```
/// # use terrace::{Db, Options, ReadOptions};
/// let db = Db::open_in_memory(Options::default())?;
/// ["a1", "b1", "b2", "b3"].iter().try_for_each(|key| db.put(key, ""))?;
/// let pairs = db.scan(ReadOptions::new().prefix("b").to("b3"));
/// assert_eq!(pairs.count(), 2);
/// # Ok::<(), terrace::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ReadOptions {
    pub(crate) snapshot: Option<Snapshot>,
    pub(crate) from: Option<Vec<u8>>,
    pub(crate) to: Option<Vec<u8>>,
    pub(crate) prefix: Option<Vec<u8>>,
    pub(crate) verify_checksums: bool,
    pub(crate) fill_cache: bool,
}

impl Default for ReadOptions {
    fn default() -> ReadOptions {
        ReadOptions::DEFAULT
    }
}

impl ReadOptions {
    pub(crate) const DEFAULT: ReadOptions =
        ReadOptions { snapshot: None, from: None, to: None, prefix: None, verify_checksums: true, fill_cache: true };

    /// Reads everything in its current state.
    pub fn new() -> ReadOptions {
        ReadOptions::default()
    }

    /// Reads at `snapshot`.
    pub fn snapshot(mut self, snapshot: &Snapshot) -> ReadOptions {
        self.snapshot = Some(snapshot.clone());
        self
    }

    /// Only keys at or after `key`.
    pub fn from(mut self, key: impl Into<Vec<u8>>) -> ReadOptions {
        self.from = Some(key.into());
        self
    }

    /// Only keys before `key`.
    pub fn to(mut self, key: impl Into<Vec<u8>>) -> ReadOptions {
        self.to = Some(key.into());
        self
    }

    /// Only keys that start with `prefix`. In the bytewise order they are adjacent; in a custom
    /// order every key from `from` to `to` is checked.
    pub fn prefix(mut self, prefix: impl Into<Vec<u8>>) -> ReadOptions {
        self.prefix = Some(prefix.into());
        self
    }

    /// Verify the checksum of every block read from storage. Cached blocks were verified, or not,
    /// when they were read. Default true. If off, damaged bytes may be returned as values.
    pub fn verify_checksums(mut self, yes: bool) -> ReadOptions {
        self.verify_checksums = yes;
        self
    }

    /// Keep blocks in the block cache. Default true. Blocks read ahead by a scan are never kept, so
    /// that a full scan leaves the cache unchanged.
    pub fn fill_cache(mut self, yes: bool) -> ReadOptions {
        self.fill_cache = yes;
        self
    }
}

/// The keys of a read: `from ..  to`, all with prefix `prefix`.
#[derive(Clone, Debug)]
pub(crate) struct ReadRange {
    order: KeyOrder,
    from: Option<Vec<u8>>,
    to: Option<Vec<u8>>,
    prefix: Option<Vec<u8>>,
}

impl ReadRange {
    pub(crate) fn new(order: KeyOrder, ReadOptions { mut from, mut to, prefix, .. }: ReadOptions) -> ReadRange {
        if let (KeyOrder::Bytewise, Some(prefix)) = (&order, &prefix) {
            from = from.filter(|from| from > prefix).or_else(|| Some(prefix.clone()));
            to = match (to, after_prefix(prefix)) {
                (Some(to), Some(end)) => Some(to.min(end)),
                (to, end) => to.or(end),
            };
        }
        ReadRange { order, from, to, prefix }
    }

    #[inline(always)] // inlined for the many reads without bounds
    pub(crate) fn hold(&self, key: &[u8]) -> bool {
        self.from.as_ref().is_none_or(|from| self.order.user(key, from).is_ge())
            && self.to.as_ref().is_none_or(|to| self.order.user(key, to).is_lt())
    }

    #[inline]
    fn has_prefix(&self, key: &[u8]) -> bool {
        self.prefix.as_ref().is_none_or(|prefix| key.starts_with(prefix))
    }
}

/// Returns the first key, bytewise, after all keys with `prefix`; `None` if there is none.
fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != 0xff)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

/// A position among the pairs of a range, in the state of the store when the cursor was made.
/// Forward and backward cost the same. After an error the cursor is not positioned; seek again.
/// It pins the files that it reads.
///
/// ```
/// # use terrace::{Db, Options, ReadOptions};
/// let db = Db::open_in_memory(Options::default())?;
/// ["ant", "bee", "cat"].iter().try_for_each(|key| db.put(key, "1"))?;
/// let mut cursor = db.cursor(ReadOptions::new());
/// cursor.seek_to_last()?;
/// while cursor.valid() {
///     println!("{} = {}", cursor.key().escape_ascii(), cursor.value().escape_ascii());
///     cursor.prev()?;
/// }
/// # Ok::<(), terrace::Error>(())
/// ```
pub struct Cursor {
    iter: SnapshotIter,
    /// Reads separated values. Boxed: a cursor moves when it is made.
    separated: Option<Box<SeparatedValues>>,
    bounds: ReadRange,
    on_pair: bool,
    /// Whether values may be stored separately from keys, in the value log or in files of a table.
    needs_fetch: bool,
    sampler: ReadSampler,
    /// Whether the last seek found its key before it had probed every run and was not charged.
    uncharged_seek: bool,
    /// The error for a cursor with a snapshot of another store.
    refused: Option<Error>,
    _held: Option<Snapshot>,
}

/// Charges tables for a cursor's reads, which cost more with more runs.
pub(crate) struct ReadSampler {
    /// Also pins the version that the cursor reads.
    view: Arc<View>,
    store: Weak<dyn ReadTrigger>,
    /// The process that opened the store: in a forked child the cursor no longer moves.
    process: Process,
    /// Bytes of compaction that one seek is worth per run of level 0.
    seek_bytes: u64,
    left: usize,
}

/// Receives the tables that reads have charged enough.
pub(crate) trait ReadTrigger: Send + Sync {
    /// Range reads have paid for a compaction of level 0, with `oldest` as its oldest table.
    fn range_reads_paid(self: Arc<Self>, oldest: TableId);
    /// The seek budget of `table` in `level` is exhausted.
    fn seek_budget_spent(self: Arc<Self>, level: usize, table: TableId);
}

impl ReadSampler {
    pub(crate) fn new(view: Arc<View>, store: Weak<dyn ReadTrigger>, process: Process, seek_bytes: u64) -> ReadSampler {
        ReadSampler { view, store, process, seek_bytes, left: SAMPLE_BYTES }
    }

    /// Charges a range read that probed every run.
    fn seek_with(&self) {
        if let Some(oldest) = self.view.version.charge_range_read(self.seek_bytes)
            && let Some(store) = self.store.upgrade()
        {
            store.range_reads_paid(oldest);
        }
    }

    /// Notes that the cursor is at `user` after reading `bytes`.
    #[inline]
    fn read(&mut self, order: &KeyOrder, user: &[u8], bytes: usize) {
        self.left = self.left.saturating_sub(bytes);
        if self.left == 0 {
            self.sample(order, user);
        }
    }

    #[cold]
    fn sample(&mut self, order: &KeyOrder, user: &[u8]) {
        self.left = SAMPLE_BYTES;
        self.charge(order, user);
    }

    /// Charges tables for entries that a read skipped at these keys.
    #[cold]
    fn skipped(&self, order: &KeyOrder, users: &[Vec<u8>]) {
        users.iter().for_each(|user| self.charge(order, user));
    }

    fn charge(&self, order: &KeyOrder, user: &[u8]) {
        if let Some((level, table)) = get::sample(order, &self.view, &key::lookup(user, SeqNo::MAX))
            && let Some(store) = self.store.upgrade()
        {
            store.seek_budget_spent(level, table);
        }
    }
}

impl Cursor {
    #[inline] // the cursor is large and would be copied
    pub(crate) fn new(
        order: KeyOrder,
        iter: SnapshotIter,
        separated: Option<Box<SeparatedValues>>,
        sampler: ReadSampler,
        mut options: ReadOptions,
        fetches: bool,
        refused: Option<Error>,
    ) -> Cursor {
        let held = options.snapshot.take();
        let bounds = ReadRange::new(order, options);
        Cursor {
            iter,
            needs_fetch: fetches || separated.is_some(),
            separated,
            bounds,
            on_pair: false,
            sampler,
            uncharged_seek: false,
            refused,
            _held: held,
        }
    }

    /// Whether the cursor is at a pair.
    #[inline]
    pub fn valid(&self) -> bool {
        self.on_pair
    }

    /// Returns the key. Panics if the cursor is not at a pair.
    pub fn key(&self) -> &[u8] {
        assert!(self.on_pair, "key() on a cursor that is not at a pair; check valid() first");
        self.iter.key()
    }

    /// Returns the value. Panics if the cursor is not at a pair.
    pub fn value(&self) -> &[u8] {
        assert!(self.on_pair, "value() on a cursor that is not at a pair; check valid() first");
        match &self.separated {
            None => self.iter.value(),
            Some(separated) => separated.value(self.iter.value()),
        }
    }

    /// Moves to the first pair of the range.
    ///
    /// # Errors
    /// As [`Db::get`](crate::Db::get); so for all moves.
    pub fn seek_to_first(&mut self) -> Result<()> {
        match self.bounds.from.clone() {
            Some(from) => self.seek_with(SnapshotIter::next, |iter| iter.seek(&from)),
            None => self.seek_with(SnapshotIter::next, SnapshotIter::seek_first),
        }
    }

    /// Moves to the last pair of the range.
    ///
    /// # Errors
    /// As [`Db::get`](crate::Db::get).
    pub fn seek_to_last(&mut self) -> Result<()> {
        match self.bounds.to.clone() {
            Some(to) => self.seek_with(SnapshotIter::prev, |iter| iter.seek_before(&to)),
            None => self.seek_with(SnapshotIter::prev, SnapshotIter::seek_last),
        }
    }

    /// Moves to the first pair at or after `key`.
    ///
    /// # Errors
    /// As [`Db::get`](crate::Db::get).
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        match &self.bounds.from {
            Some(from) if self.bounds.order.user(key, from).is_lt() => self.seek_to_first(),
            _ => self.seek_with(SnapshotIter::next, |iter| iter.seek(key)),
        }
    }

    /// Moves to the last pair at or before `key`.
    ///
    /// # Errors
    /// As [`Db::get`](crate::Db::get).
    ///
    /// ```
    /// # use terrace::{Db, Options, ReadOptions};
    /// let db = Db::open_in_memory(Options::default())?;
    /// ["ant", "bee", "cat"].iter().try_for_each(|key| db.put(key, ""))?;
    /// let mut cursor = db.cursor(ReadOptions::new());
    /// cursor.seek_for_prev(b"bug")?;
    /// assert_eq!(cursor.key(), b"bee");
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn seek_for_prev(&mut self, key: &[u8]) -> Result<()> {
        match &self.bounds.to {
            Some(to) if self.bounds.order.user(key, to).is_ge() => self.seek_to_last(),
            _ => {
                let order = self.bounds.order.clone();
                self.seek_with(SnapshotIter::prev, |iter| {
                    iter.seek(key)?;
                    if iter.valid() && order.user(iter.key(), key).is_eq() { Ok(()) } else { iter.seek_before(key) }
                })
            }
        }
    }

    /// Moves forward; invalid after the last pair. Does nothing on a cursor that is not at a pair.
    ///
    /// # Errors
    /// As [`Db::get`](crate::Db::get).
    #[expect(clippy::should_implement_trait, reason = "a cursor moves both ways; `Scan` is the iterator")]
    pub fn next(&mut self) -> Result<()> {
        if self.on_pair { self.step_with(SnapshotIter::next) } else { Ok(()) }
    }

    /// Moves backward; invalid before the first pair. Does nothing on a cursor that is not at a
    /// pair.
    ///
    /// # Errors
    /// As [`Db::get`](crate::Db::get).
    pub fn prev(&mut self) -> Result<()> {
        if self.on_pair { self.step_with(SnapshotIter::prev) } else { Ok(()) }
    }

    /// As [`position`](Cursor::position), one entry further. Charges the seek before it if that was
    /// not charged.
    #[inline]
    fn step_with(&mut self, step: impl Fn(&mut SnapshotIter) -> Result<()>) -> Result<()> {
        if std::mem::take(&mut self.uncharged_seek) {
            self.sampler.seek_with();
        }
        self.position(&step, &step)
    }

    /// As [`position`](Cursor::position), by a seek. Charges it if every run was probed.
    fn seek_with(
        &mut self,
        step: impl Fn(&mut SnapshotIter) -> Result<()>,
        start: impl FnOnce(&mut SnapshotIter) -> Result<()>,
    ) -> Result<()> {
        self.on_pair = false;
        if let Some(error) = &self.refused {
            return Err(error.clone());
        }
        self.position(step, start)?;
        self.uncharged_seek = !self.iter.is_whole();
        if !self.uncharged_seek {
            self.sampler.seek_with();
        }
        Ok(())
    }

    /// Moves the cursor by `place`, then by `step` over keys within the bounds but without the
    /// prefix.
    #[inline]
    fn position(
        &mut self,
        step: impl Fn(&mut SnapshotIter) -> Result<()>,
        start: impl FnOnce(&mut SnapshotIter) -> Result<()>,
    ) -> Result<()> {
        self.on_pair = false;
        if !self.sampler.process.is_current() {
            return Err(terrace_storage::Error::forked("the store of this cursor", self.sampler.process).into());
        }
        start(&mut self.iter)?;
        while self.iter.valid() {
            if self.needs_fetch {
                let key = self.iter.key();
                if !self.bounds.hold(key) {
                    break;
                }
                if !self.bounds.has_prefix(key) {
                    step(&mut self.iter)?;
                    continue;
                }
                self.fetch()?;
            }
            let (key, bytes) = self.iter.sized_key();
            if !self.bounds.hold(key) {
                break;
            }
            if self.bounds.has_prefix(key) {
                self.on_pair = true;
                self.sampler.read(&self.bounds.order, key, bytes);
                break;
            }
            step(&mut self.iter)?;
        }
        if let Some(users) = self.iter.skipped() {
            self.sampler.skipped(&self.bounds.order, &users);
        }
        Ok(())
    }

    /// Makes the value of the current pair available.
    #[inline(never)]
    fn fetch(&mut self) -> Result<()> {
        self.iter.fetch()?;
        if let Some(separated) = &mut self.separated {
            let (key, value) = self.iter.pair();
            separated.read(key, self.iter.seq(), value)?;
        }
        Ok(())
    }
}

/// The pairs of a range, one after the other. Ends after its first error.
///
/// ```
/// # use terrace::{Db, Options, ReadOptions};
/// let db = Db::open_in_memory(Options::default())?;
/// db.put("a", "1")?;
/// let pairs: terrace::Result<Vec<_>> = db.scan(ReadOptions::new()).collect();
/// assert_eq!(pairs?, [(b"a".to_vec(), b"1".to_vec())]);
/// # Ok::<(), terrace::Error>(())
/// ```
pub struct Scan {
    cursor: Cursor,
    reverse: bool,
    started: bool,
    ended: bool,
}

impl Scan {
    pub(crate) fn new(cursor: Cursor, reverse: bool) -> Scan {
        Scan { cursor, reverse, started: false, ended: false }
    }

    fn advance(&mut self) -> Result<()> {
        match (std::mem::replace(&mut self.started, true), self.reverse) {
            (false, false) => self.cursor.seek_to_first(),
            (false, true) => self.cursor.seek_to_last(),
            (true, false) => self.cursor.next(),
            (true, true) => self.cursor.prev(),
        }
    }
}

impl Iterator for Scan {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        if let Err(error) = self.advance() {
            self.ended = true;
            return Some(Err(error));
        }
        self.ended = !self.cursor.valid();
        (!self.ended).then(|| Ok((self.cursor.key().to_vec(), self.cursor.value().to_vec())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_end_where_the_next_one_begins() {
        assert_eq!(after_prefix(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(after_prefix(&[b'a', 0xff]), Some(b"b".to_vec()));
        assert_eq!(after_prefix(&[0xff, 0xff]), None);
        assert_eq!(after_prefix(b""), None);
    }
}
