//! Range reads: the options of a read, the key range of a read, a cursor, and an iterator.
use super::{
    get,
    separated_values::SeparatedValues,
    snapshot::Snapshot,
    snapshot_iter::{SAMPLE_BYTES, SnapshotIter},
    view::{TreeView, View},
};
use crate::{Error, Result};
use std::sync::{Arc, Weak};
use terrace_format::{FamilyId, KeyOrder, SeqNo, TableId, key};
use terrace_storage::Process;

/// Options of a read: the snapshot, the range of keys, checksum verification, and use of the block
/// cache. By default a read sees all keys in the current state of the store.
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

    /// Makes the default options: all keys, in the current state of the store.
    pub fn new() -> ReadOptions {
        ReadOptions::default()
    }

    /// Reads the state of the store at `snapshot`.
    pub fn snapshot(mut self, snapshot: &Snapshot) -> ReadOptions {
        self.snapshot = Some(snapshot.clone());
        self
    }

    /// Reads only keys at or after `key`.
    pub fn from(mut self, key: impl Into<Vec<u8>>) -> ReadOptions {
        self.from = Some(key.into());
        self
    }

    /// Reads only keys before `key`.
    pub fn to(mut self, key: impl Into<Vec<u8>>) -> ReadOptions {
        self.to = Some(key.into());
        self
    }

    /// Reads only keys that start with `prefix`. In the bytewise order these keys are adjacent. In
    /// a custom order the read checks every key between `from` and `to`.
    pub fn prefix(mut self, prefix: impl Into<Vec<u8>>) -> ReadOptions {
        self.prefix = Some(prefix.into());
        self
    }

    /// Sets whether to verify the checksum of every block that is read from storage. Default true.
    /// If false, a read may return damaged bytes as a value. The option does not apply to blocks in
    /// the block cache, nor to blocks that were verified since their SSTable was opened and mapped.
    pub fn verify_checksums(mut self, yes: bool) -> ReadOptions {
        self.verify_checksums = yes;
        self
    }

    /// Sets whether to keep blocks in the block cache. Default true. Blocks that a scan reads ahead
    /// are never kept, so a full scan does not replace the contents of the cache.
    pub fn fill_cache(mut self, yes: bool) -> ReadOptions {
        self.fill_cache = yes;
        self
    }
}

/// The range of keys of a read: keys in `from ..  to` that start with `prefix`.
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

    /// Returns the bounds: the first key, and the key before which the range ends.
    pub(crate) fn bounds(&self) -> (Option<&[u8]>, Option<&[u8]>) {
        (self.from.as_deref(), self.to.as_deref())
    }

    /// Returns whether the read returns `key` if the key exists.
    pub(crate) fn admits(&self, key: &[u8]) -> bool {
        self.hold(key) && self.has_prefix(key)
    }

    #[inline]
    fn has_prefix(&self, key: &[u8]) -> bool {
        self.prefix.as_ref().is_none_or(|prefix| key.starts_with(prefix))
    }
}

/// Returns the first key that follows all keys with `prefix` in bytewise order; `None` if no key
/// follows them.
pub(crate) fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != 0xff)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

/// A cursor over the pairs of a key range. A cursor is at one pair, or at no pair before its first
/// seek and beyond the ends of the range. It sees the state of the store at the moment at which it
/// was made, or the state at the snapshot in its read options. Moves in both directions cost the
/// same. After an error the cursor is at no pair until the next seek. A cursor pins the files that
/// it reads: they are not deleted before the cursor is dropped.
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
    /// Reads separated values (values in the value log). The field is boxed to keep the cursor
    /// small, because a new cursor is moved in memory.
    separated: Option<Box<SeparatedValues>>,
    bounds: ReadRange,
    on_pair: bool,
    /// Whether values may be outside the blocks of SSTables: in the value log, or in the files of a
    /// directory table.
    needs_fetch: bool,
    sampler: ReadSampler,
    /// Whether the last seek returned before it had searched every run. Such a seek is not charged
    /// to level 0 yet (see [`ReadSampler`]). It is charged when the caller moves the cursor to the
    /// next or previous pair, because only this move searches the other runs.
    uncharged_seek: bool,
    /// The error that every move of the cursor returns because the snapshot in its options belongs
    /// to another store.
    refused: Option<Error>,
    _held: Option<Snapshot>,
}

/// Charges the cost of a cursor's reads to SSTables, so that a compaction can lower the cost. A
/// seek that searches every run is charged to the runs of level 0. The bytes that the cursor reads
/// or skips are charged to the seek budgets of SSTables. When a compaction of the charged SSTables
/// would save more than it costs, the sampler reports this to `store`.
pub(crate) struct ReadSampler {
    /// The view that the cursor reads. The field also pins the view's version.
    view: Arc<View>,
    /// The column family that the cursor reads.
    family: FamilyId,
    store: Weak<dyn ReadTrigger>,
    /// The process that opened the store. In a forked child process every move of the cursor fails.
    process: Process,
    /// The number of bytes that a compaction of level 0 may read to save one seek in one run of
    /// level 0.
    seek_bytes: u64,
    left: usize,
}

/// Receives a report when the charges for reads justify a compaction.
pub(crate) trait ReadTrigger: Send + Sync {
    /// Reports that the charges for range reads justify a compaction of level 0 of `family`.
    /// `oldest` is the oldest SSTable of that level 0.
    fn range_reads_paid(self: Arc<Self>, family: FamilyId, oldest: TableId);
    /// Reports that the seek budget of `table` in `level` of `family` is exhausted.
    fn seek_budget_spent(self: Arc<Self>, family: FamilyId, level: usize, table: TableId);
}

impl ReadSampler {
    pub(crate) fn new(
        (view, family): (Arc<View>, FamilyId),
        store: Weak<dyn ReadTrigger>,
        process: Process,
        seek_bytes: u64,
    ) -> ReadSampler {
        ReadSampler { view, family, store, process, seek_bytes, left: SAMPLE_BYTES }
    }

    /// Returns the part of the view that belongs to the cursor's column family. Returns `None` if
    /// the family does not exist; the cursor then returns an error from every move.
    fn tree(&self) -> Option<TreeView<'_>> {
        self.view.tree(self.family)
    }

    /// Charges one seek of the cursor, which searched every run, to the runs of level 0.
    fn seek_with(&self) {
        if let Some(oldest) = self.tree().and_then(|tree| tree.version.charge_range_read(self.seek_bytes))
            && let Some(store) = self.store.upgrade()
        {
            store.range_reads_paid(self.family, oldest);
        }
    }

    /// Records that the cursor has moved to the key `user` and has read `bytes` bytes for it.
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

    /// Charges one seek at each key of `users`. A read adds one key to this list for every MiB of
    /// entries that it skipped.
    #[cold]
    fn skipped(&self, order: &KeyOrder, users: &[Vec<u8>]) {
        users.iter().for_each(|user| self.charge(order, user));
    }

    fn charge(&self, order: &KeyOrder, user: &[u8]) {
        if let Some((level, table)) =
            self.tree().and_then(|tree| get::sample(order, tree, &key::lookup(user, SeqNo::MAX)))
            && let Some(store) = self.store.upgrade()
        {
            store.seek_budget_spent(self.family, level, table);
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

    /// Returns whether the cursor is at a pair, so that [`key`](Cursor::key) and
    /// [`value`](Cursor::value) may be called.
    #[inline]
    pub fn valid(&self) -> bool {
        self.on_pair
    }

    /// Returns the key of the current pair. Panics if the cursor is not at a pair.
    pub fn key(&self) -> &[u8] {
        assert!(self.on_pair, "key() on a cursor that is not at a pair; check valid() first");
        self.iter.key()
    }

    /// Returns the value of the current pair. Panics if the cursor is not at a pair.
    pub fn value(&self) -> &[u8] {
        assert!(self.on_pair, "value() on a cursor that is not at a pair; check valid() first");
        match &self.separated {
            None => self.iter.value(),
            Some(separated) => separated.value(self.iter.value()),
        }
    }

    /// Moves the cursor to the first pair of its range. If the range has no pair, the cursor is not
    /// at a pair afterwards, and [`valid`](Cursor::valid) returns false.
    ///
    /// # Errors
    /// The errors of [`Db::get`](crate::Db::get). All other methods that move a cursor return the
    /// same errors.
    pub fn seek_to_first(&mut self) -> Result<()> {
        match self.bounds.from.clone() {
            Some(from) => self.seek_with(SnapshotIter::next, |iter| iter.seek(&from)),
            None => self.seek_with(SnapshotIter::next, SnapshotIter::seek_first),
        }
    }

    /// Moves the cursor to the last pair of its range. If the range has no pair, the cursor is not
    /// at a pair afterwards.
    ///
    /// # Errors
    /// The errors of [`Db::get`](crate::Db::get).
    pub fn seek_to_last(&mut self) -> Result<()> {
        match self.bounds.to.clone() {
            Some(to) => self.seek_with(SnapshotIter::prev, |iter| iter.seek_before(&to)),
            None => self.seek_with(SnapshotIter::prev, SnapshotIter::seek_last),
        }
    }

    /// Moves the cursor to the first pair of its range whose key is `key` or follows `key`. If
    /// there is no such pair, the cursor is not at a pair afterwards.
    ///
    /// # Errors
    /// The errors of [`Db::get`](crate::Db::get).
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        match &self.bounds.from {
            Some(from) if self.bounds.order.user(key, from).is_lt() => self.seek_to_first(),
            _ => self.seek_with(SnapshotIter::next, |iter| iter.seek(key)),
        }
    }

    /// Moves the cursor to the last pair of its range whose key is `key` or precedes `key`. If
    /// there is no such pair, the cursor is not at a pair afterwards.
    ///
    /// # Errors
    /// The errors of [`Db::get`](crate::Db::get).
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

    /// Moves the cursor from its pair to the next pair of its range. If its pair is the last one,
    /// the cursor is not at a pair afterwards, and [`valid`](Cursor::valid) returns false. If the
    /// cursor is not at a pair, the call does nothing.
    ///
    /// # Errors
    /// The errors of [`Db::get`](crate::Db::get).
    #[expect(clippy::should_implement_trait, reason = "a cursor moves both ways; `Scan` is the iterator")]
    pub fn next(&mut self) -> Result<()> {
        if self.on_pair { self.step_with(SnapshotIter::next) } else { Ok(()) }
    }

    /// Moves the cursor from its pair to the previous pair of its range. If its pair is the first
    /// one, the cursor is not at a pair afterwards, and [`valid`](Cursor::valid) returns false. If
    /// the cursor is not at a pair, the call does nothing.
    ///
    /// # Errors
    /// The errors of [`Db::get`](crate::Db::get).
    pub fn prev(&mut self) -> Result<()> {
        if self.on_pair { self.step_with(SnapshotIter::prev) } else { Ok(()) }
    }

    /// Moves the cursor by one pair with `step`. If the last seek has not been charged to level 0
    /// yet, charges it first.
    #[inline]
    fn step_with(&mut self, step: impl Fn(&mut SnapshotIter) -> Result<()>) -> Result<()> {
        if std::mem::take(&mut self.uncharged_seek) {
            self.sampler.seek_with();
        }
        self.position(&step, &step)
    }

    /// Seeks by a call of `start`. Then moves the cursor by calls of `step` over pairs whose keys
    /// do not have the prefix of the read. If the seek searched every run, charges it to level 0.
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

    /// Moves the cursor with `start`. Then moves it with `step` as long as its key is within the
    /// bounds of the read but does not have the prefix of the read. Beyond the bounds the cursor is
    /// at no pair.
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

    /// Reads the value of the current pair if the value is outside the blocks of the SSTable.
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

/// An iterator over the pairs of a range. The iterator ends after its first error.
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
