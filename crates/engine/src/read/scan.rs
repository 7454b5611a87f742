//! Ranges: where a read begins and ends, a cursor to walk it by hand, and an iterator.
use super::{
    apart::Apart,
    get,
    snapshot::Snapshot,
    snapshot_iter::{SAMPLE_BYTES, SnapshotIter},
    view::View,
};
use crate::{Error, Result};
use std::sync::{Arc, Weak};
use terrace_format::{KeyOrder, SeqNo, TableId, key};
use terrace_storage::Process;

/// How to read, and which keys. The default reads everything as of now.
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

    /// Everything as of now.
    pub fn new() -> ReadOptions {
        ReadOptions::default()
    }

    /// As of `snapshot`.
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

    /// Only keys that begin with `prefix`. In the bytewise order they lie together; in a custom one every key from `from`
    /// to `to` has to be looked at.
    pub fn prefix(mut self, prefix: impl Into<Vec<u8>>) -> ReadOptions {
        self.prefix = Some(prefix.into());
        self
    }

    /// Verify the checksum of every block that is read from storage; cached blocks were verified, or not, when they were
    /// read. Default true; off, damaged bytes may be returned as values.
    pub fn verify_checksums(mut self, yes: bool) -> ReadOptions {
        self.verify_checksums = yes;
        self
    }

    /// Keep what is read in the block cache. Default true. Blocks that a scan reads ahead are not kept in any case, so that
    /// a scan over everything leaves the cache as it was.
    pub fn fill_cache(mut self, yes: bool) -> ReadOptions {
        self.fill_cache = yes;
        self
    }
}

/// The keys of a read: `from ..  to`, all of which begin with `prefix`.
#[derive(Clone, Debug)]
pub(crate) struct Bounds {
    order: KeyOrder,
    from: Option<Vec<u8>>,
    to: Option<Vec<u8>>,
    prefix: Option<Vec<u8>>,
}

impl Bounds {
    pub(crate) fn new(order: KeyOrder, ReadOptions { mut from, mut to, prefix, .. }: ReadOptions) -> Bounds {
        if let (KeyOrder::Bytewise, Some(prefix)) = (&order, &prefix) {
            from = from.filter(|from| from > prefix).or_else(|| Some(prefix.clone()));
            to = match (to, after_prefix(prefix)) {
                (Some(to), Some(end)) => Some(to.min(end)),
                (to, end) => to.or(end),
            };
        }
        Bounds { order, from, to, prefix }
    }

    #[inline(always)] // for the many that have none
    pub(crate) fn hold(&self, key: &[u8]) -> bool {
        self.from.as_ref().is_none_or(|from| self.order.user(key, from).is_ge())
            && self.to.as_ref().is_none_or(|to| self.order.user(key, to).is_lt())
    }

    #[inline]
    fn admit(&self, key: &[u8]) -> bool {
        self.prefix.as_ref().is_none_or(|prefix| key.starts_with(prefix))
    }
}

/// The first key, bytewise, after all that begin with `prefix`; `None` if there is none.
fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != 0xff)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

/// A position among the pairs of a range, as the store was when the cursor was made. Forward and backward cost the
/// same. After an error the cursor stands nowhere; seek again. Holds back the removal of the files it reads.
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
    visible: SnapshotIter,
    /// Where values live apart. Boxed: a cursor moves when it is made.
    apart: Option<Box<Apart>>,
    bounds: Bounds,
    inside: bool,
    /// Values may lie elsewhere than their keys: whatever may be in `apart`, or in the files of a table.
    elsewhere: bool,
    sampler: Sampler,
    /// The last seek found its key before it had searched every run, so it was not charged for.
    spared: bool,
    /// Why this cursor must not be used: its snapshot is not of this store.
    refused: Option<Error>,
    _held: Option<Snapshot>,
}

/// Charges tables for what a cursor's reads cost the more, the more runs there are.
pub(crate) struct Sampler {
    /// Also pins the version that the cursor reads.
    view: Arc<View>,
    store: Weak<dyn ReadTrigger>,
    /// Which opened the store: a cursor that a forked child has inherited moves no more.
    process: Process,
    /// Bytes of compaction that a seek is worth for each run of level 0.
    seek_bytes: u64,
    left: usize,
}

/// Who hears of tables that have cost enough.
pub(crate) trait ReadTrigger: Send + Sync {
    /// Seeks have been worth merging level 0, of which this is the oldest table.
    fn sought_enough(self: Arc<Self>, oldest: TableId);
    /// A table of this level has used up its allowance of fruitless seeks.
    fn worn(self: Arc<Self>, level: usize, table: TableId);
}

impl Sampler {
    pub(crate) fn new(view: Arc<View>, store: Weak<dyn ReadTrigger>, process: Process, seek_bytes: u64) -> Sampler {
        Sampler { view, store, process, seek_bytes, left: SAMPLE_BYTES }
    }

    /// Every run was searched.
    fn sought(&self) {
        if let Some(oldest) = self.view.version.charge_range_read(self.seek_bytes)
            && let Some(store) = self.store.upgrade()
        {
            store.sought_enough(oldest);
        }
    }

    /// The cursor stands on `user`, having read `bytes` more.
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

    /// Tables are charged for entries that a read has passed at these keys.
    #[cold]
    fn passed(&self, order: &KeyOrder, users: &[Vec<u8>]) {
        users.iter().for_each(|user| self.charge(order, user));
    }

    fn charge(&self, order: &KeyOrder, user: &[u8]) {
        if let Some((level, table)) = get::sample(order, &self.view, &key::lookup(user, SeqNo::MAX))
            && let Some(store) = self.store.upgrade()
        {
            store.worn(level, table);
        }
    }
}

impl Cursor {
    #[inline] // it is large, and moves otherwise
    pub(crate) fn new(
        order: KeyOrder,
        visible: SnapshotIter,
        apart: Option<Box<Apart>>,
        sampler: Sampler,
        mut options: ReadOptions,
        fetches: bool,
        refused: Option<Error>,
    ) -> Cursor {
        let held = options.snapshot.take();
        let bounds = Bounds::new(order, options);
        Cursor {
            visible,
            elsewhere: fetches || apart.is_some(),
            apart,
            bounds,
            inside: false,
            sampler,
            spared: false,
            refused,
            _held: held,
        }
    }

    /// Whether it stands on a pair.
    #[inline]
    pub fn valid(&self) -> bool {
        self.inside
    }

    /// The key. Panics if the cursor stands nowhere.
    pub fn key(&self) -> &[u8] {
        assert!(self.inside, "key() on a cursor that stands nowhere; check valid() first");
        self.visible.key()
    }

    /// The value. Panics if the cursor stands nowhere.
    pub fn value(&self) -> &[u8] {
        assert!(self.inside, "value() on a cursor that stands nowhere; check valid() first");
        match &self.apart {
            None => self.visible.value(),
            Some(apart) => apart.value(self.visible.value()),
        }
    }

    /// To the first pair of the range.
    ///
    /// # Errors
    /// As of [`Db::get`](crate::Db::get); so for all moves.
    pub fn seek_to_first(&mut self) -> Result<()> {
        match self.bounds.from.clone() {
            Some(from) => self.sought(SnapshotIter::next, |visible| visible.seek(&from)),
            None => self.sought(SnapshotIter::next, SnapshotIter::seek_first),
        }
    }

    /// To the last pair of the range.
    ///
    /// # Errors
    /// As of [`Db::get`](crate::Db::get).
    pub fn seek_to_last(&mut self) -> Result<()> {
        match self.bounds.to.clone() {
            Some(to) => self.sought(SnapshotIter::prev, |visible| visible.seek_before(&to)),
            None => self.sought(SnapshotIter::prev, SnapshotIter::seek_last),
        }
    }

    /// To the first pair at or after `key`.
    ///
    /// # Errors
    /// As of [`Db::get`](crate::Db::get).
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        match &self.bounds.from {
            Some(from) if self.bounds.order.user(key, from).is_lt() => self.seek_to_first(),
            _ => self.sought(SnapshotIter::next, |visible| visible.seek(key)),
        }
    }

    /// To the last pair at or before `key`.
    ///
    /// # Errors
    /// As of [`Db::get`](crate::Db::get).
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
                self.sought(SnapshotIter::prev, |visible| {
                    visible.seek(key)?;
                    if visible.valid() && order.user(visible.key(), key).is_eq() {
                        Ok(())
                    } else {
                        visible.seek_before(key)
                    }
                })
            }
        }
    }

    /// One forward; stands nowhere after the last pair. Does nothing on a cursor that stands nowhere.
    ///
    /// # Errors
    /// As of [`Db::get`](crate::Db::get).
    #[expect(clippy::should_implement_trait, reason = "a cursor goes both ways; `Scan` is the iterator")]
    pub fn next(&mut self) -> Result<()> {
        if self.inside { self.stepped(SnapshotIter::next) } else { Ok(()) }
    }

    /// One back; stands nowhere before the first pair. Does nothing on a cursor that stands nowhere.
    ///
    /// # Errors
    /// As of [`Db::get`](crate::Db::get).
    pub fn prev(&mut self) -> Result<()> {
        if self.inside { self.stepped(SnapshotIter::prev) } else { Ok(()) }
    }

    /// As [`placed`](Cursor::placed), one entry on. What the seek before has spared is searched now.
    #[inline]
    fn stepped(&mut self, step: impl Fn(&mut SnapshotIter) -> Result<()>) -> Result<()> {
        if std::mem::take(&mut self.spared) {
            self.sampler.sought();
        }
        self.placed(&step, &step)
    }

    /// As [`placed`](Cursor::placed), by a search in as many runs as it takes.
    fn sought(
        &mut self,
        step: impl Fn(&mut SnapshotIter) -> Result<()>,
        place: impl FnOnce(&mut SnapshotIter) -> Result<()>,
    ) -> Result<()> {
        self.inside = false;
        if let Some(error) = &self.refused {
            return Err(error.clone());
        }
        self.placed(step, place)?;
        self.spared = !self.visible.is_whole();
        if !self.spared {
            self.sampler.sought();
        }
        Ok(())
    }

    /// Places the cursor, then goes on by `step` while it stands on keys of the range without the prefix.
    #[inline]
    fn placed(
        &mut self,
        step: impl Fn(&mut SnapshotIter) -> Result<()>,
        place: impl FnOnce(&mut SnapshotIter) -> Result<()>,
    ) -> Result<()> {
        self.inside = false;
        if !self.sampler.process.is_current() {
            return Err(terrace_storage::Error::forked("the store of this cursor", self.sampler.process).into());
        }
        place(&mut self.visible)?;
        while self.visible.valid() {
            if self.elsewhere {
                let key = self.visible.key();
                if !self.bounds.hold(key) {
                    break;
                }
                if !self.bounds.admit(key) {
                    step(&mut self.visible)?;
                    continue;
                }
                self.fetch()?;
            }
            let (key, bytes) = self.visible.sized_key();
            if !self.bounds.hold(key) {
                break;
            }
            if self.bounds.admit(key) {
                self.inside = true;
                self.sampler.read(&self.bounds.order, key, bytes);
                break;
            }
            step(&mut self.visible)?;
        }
        if let Some(users) = self.visible.passed() {
            self.sampler.passed(&self.bounds.order, &users);
        }
        Ok(())
    }

    /// Has the value of the pair that it stands on at hand.
    #[inline(never)]
    fn fetch(&mut self) -> Result<()> {
        self.visible.fetch()?;
        if let Some(apart) = &mut self.apart {
            let (key, value) = self.visible.pair();
            apart.read(key, self.visible.seq(), value)?;
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
