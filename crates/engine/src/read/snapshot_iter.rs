//! What a reader at one sequence sees of a merge: per user key the newest entry at or below it, if that is a put, and no
//! newer delete of a range hides it.
//!
//! Walking forward, the merge stands on the entry shown. Walking backward, versions of a key come oldest first, so the
//! merge stands before all of them and the entry shown is kept aside, unless the last one is told by what lies before it.
use super::{merge::Merge, range_tombstone_iter::RangeTombstoneIter};
use crate::Result;
use terrace_format::{
    KeyOrder, Kind, SeqNo,
    key::{self, Lookup},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    Nothing,
    /// The merge's own entry.
    Current,
    /// `key` and `value`; the merge stands before that key.
    Saved,
}

/// LevelDB's period, in bytes of keys and values read, between two samples of where reads are.
pub const SAMPLE_BYTES: usize = 1 << 20;
/// An entry that is passed costs as much as reading so many bytes, at least: a tombstone is short.
const PASSED_BYTES_MIN: usize = 1 << 10;

/// One step charges so many samples at most, however much it passes.
const PASSED_KEYS_MAX: usize = 64;

/// Entries that were passed as no reader sees them, or this one does not. They cost what others cost, and merges take them away.
#[derive(Default)]
struct Passed {
    /// Of them, since the last key.
    bytes: usize,
    keys: Vec<Vec<u8>>,
}

impl Passed {
    /// Passes the entry that `merge` stands on.
    #[inline]
    fn add(&mut self, merge: &Merge) {
        let (internal, bytes) = merge.sized_key();
        self.bytes += bytes.max(PASSED_BYTES_MIN);
        if self.bytes >= SAMPLE_BYTES {
            self.bytes = 0;
            if self.keys.len() < PASSED_KEYS_MAX {
                self.keys.push(key::user_key(internal).to_vec());
            }
        }
    }
}

/// User keys and values, each key once, without deleted ones.
pub struct SnapshotIter {
    order: KeyOrder,
    merge: Merge,
    /// Of the merge's sources; `None` where ranges are never deleted.
    covers: Option<RangeTombstoneIter>,
    seq: SeqNo,
    shown: Shown,
    /// The user key that was shown last or is shown.
    key: Vec<u8>,
    value: Vec<u8>,
    /// When the saved pair was written.
    saved: SeqNo,
    passed: Passed,
}

impl SnapshotIter {
    /// What a reader at `seq` sees; stands nowhere yet.
    #[inline]
    pub fn new(order: KeyOrder, merge: Merge, covers: Option<RangeTombstoneIter>, seq: SeqNo) -> SnapshotIter {
        SnapshotIter {
            order,
            merge,
            covers,
            seq,
            shown: Shown::Nothing,
            key: Vec::new(),
            value: Vec::new(),
            saved: SeqNo::ZERO,
            passed: Passed::default(),
        }
    }

    /// Whether it stands on a pair.
    #[inline]
    pub fn valid(&self) -> bool {
        self.shown != Shown::Nothing
    }

    /// The user key. Must stand on a pair.
    #[inline]
    pub fn key(&self) -> &[u8] {
        match self.shown {
            Shown::Saved => &self.key,
            _ => key::user_key(self.merge.key()),
        }
    }

    /// Has the value at hand, wherever it lies. Must stand on a pair.
    pub fn fetch(&mut self) -> Result<()> {
        match self.shown {
            Shown::Saved => Ok(()), // with its value
            _ => self.merge.fetch(),
        }
    }

    /// Key and value. Must stand on a pair.
    #[inline]
    pub fn pair(&self) -> (&[u8], &[u8]) {
        match self.shown {
            Shown::Saved => (&self.key, &self.value),
            _ => {
                let (internal, value) = self.merge.pair();
                (key::user_key(internal), value)
            }
        }
    }

    /// The user key, and the bytes that were read for the pair, its value aside if that lies elsewhere. Must stand on a pair.
    #[inline]
    pub fn sized_key(&self) -> (&[u8], usize) {
        match self.shown {
            Shown::Saved => (&self.key, self.key.len() + self.value.len()),
            _ => {
                let (internal, bytes) = self.merge.sized_key();
                (key::user_key(internal), bytes)
            }
        }
    }

    /// The value. Must stand on a pair.
    #[inline]
    pub fn value(&self) -> &[u8] {
        match self.shown {
            Shown::Saved => &self.value,
            _ => self.merge.value(),
        }
    }

    /// When the pair was written. Must stand on a pair.
    pub fn seq(&self) -> SeqNo {
        match self.shown {
            Shown::Saved => self.saved,
            _ => self.merge.parsed().seq,
        }
    }

    /// Where it has passed entries that it does not show, a key for each [`SAMPLE_BYTES`] of them since it was asked last.
    #[inline]
    pub fn passed(&mut self) -> Option<Vec<Vec<u8>>> {
        (!self.passed.keys.is_empty()).then(|| std::mem::take(&mut self.passed.keys))
    }

    /// Whether every source was searched for where it stands.
    pub fn is_whole(&self) -> bool {
        self.merge.is_whole()
    }

    /// To the first key at or after `user`.
    pub fn seek(&mut self, user: &[u8]) -> Result<()> {
        self.shown = Shown::Nothing;
        self.merge.find(&Lookup::new(user, self.seq))?;
        self.find_forward(false)
    }

    /// To the first key.
    pub fn seek_first(&mut self) -> Result<()> {
        self.shown = Shown::Nothing;
        self.merge.seek_first()?;
        self.find_forward(false)
    }

    /// To the last key.
    pub fn seek_last(&mut self) -> Result<()> {
        self.shown = Shown::Nothing;
        self.merge.seek_last()?;
        self.find_backward()
    }

    /// To the last key before `user`.
    pub fn seek_before(&mut self, user: &[u8]) -> Result<()> {
        self.shown = Shown::Nothing;
        self.merge.seek(&Lookup::new(user, SeqNo::MAX))?;
        if self.merge.valid() {
            self.merge.prev()?
        } else {
            self.merge.seek_last()?
        }
        self.find_backward()
    }

    /// One forward.
    #[inline]
    pub fn next(&mut self) -> Result<()> {
        let (shown, seq) = (self.shown, self.seq);
        let covers = self.covers.as_ref();
        let seen = |next: &[u8]| {
            let next = key::apart(next);
            let clear = covers.is_none_or(|covers| covers.is_clear(next.user));
            next.seq <= seq && next.kind == Kind::Put && clear
        };
        if shown == Shown::Current && self.merge.next_apart(seen) { Ok(()) } else { self.next_of_many() }
    }

    /// One forward, past other versions of the key and past keys that are not seen.
    fn next_of_many(&mut self) -> Result<()> {
        match std::mem::replace(&mut self.shown, Shown::Nothing) {
            Shown::Nothing => return Ok(()),
            Shown::Current => {
                self.keep_key();
                self.merge.next()?;
            }
            Shown::Saved if self.merge.valid() => self.merge.next()?,
            Shown::Saved => self.merge.seek_first()?,
        }
        self.find_forward(true)
    }

    /// One back.
    pub fn prev(&mut self) -> Result<()> {
        match std::mem::replace(&mut self.shown, Shown::Nothing) {
            Shown::Nothing => return Ok(()),
            Shown::Current if self.merge.is_backward() => self.merge.prev()?,
            Shown::Current => {
                self.keep_key();
                while self.merge.valid() && self.order.user(key::user_key(self.merge.key()), &self.key).is_ge() {
                    self.merge.prev()?;
                }
            }
            Shown::Saved => {}
        }
        self.find_backward()
    }

    /// Remembers the user key of the merge's entry.
    #[inline]
    fn keep_key(&mut self) {
        self.key.clear();
        self.key.extend_from_slice(key::user_key(self.merge.key()));
    }

    /// From the merge's entry on, the first key to show; if `passed`, one behind the remembered key.
    #[inline]
    fn find_forward(&mut self, mut passed: bool) -> Result<()> {
        while self.merge.valid() {
            let entry = self.merge.parsed();
            if entry.seq <= self.seq && !(passed && self.order.user(entry.user, &self.key).is_le()) {
                let covered = match &mut self.covers {
                    Some(covers) => Some(covers.around(entry.user)?).filter(|stretch| stretch.newest > entry.seq),
                    None => None,
                };
                if covered.is_none() && entry.kind == Kind::Put {
                    self.shown = Shown::Current;
                    return Ok(());
                }
                if let Some(stretch) = covered
                    && let Some(to) = stretch.to.as_ref().filter(|_| stretch.source < self.merge.source())
                {
                    // All that this source has up to there is older than the delete.
                    let target = key::lookup(to, SeqNo::MAX);
                    self.merge.skip_to(&target)?;
                    continue;
                }
                self.keep_key();
                passed = true;
            }
            self.passed.add(&self.merge);
            self.merge.next()?;
        }
        Ok(())
    }

    /// From the merge's entry back, the first key to show. Ends with the merge on its last version, or before all of them.
    fn find_backward(&mut self) -> Result<()> {
        let mut found = false;
        while self.merge.valid() {
            let entry = self.merge.parsed();
            let seq = entry.seq;
            if found && self.order.user(entry.user, &self.key).is_lt() {
                break;
            }
            if entry.seq <= self.seq {
                let covered = match &mut self.covers {
                    Some(covers) => Some(covers.around(entry.user)?).filter(|stretch| stretch.newest > entry.seq),
                    None => None,
                };
                found = covered.is_none() && entry.kind == Kind::Put;
                if found && self.merge.apart_from_prev() {
                    self.shown = Shown::Current;
                    return Ok(());
                }
                if let Some(stretch) = covered
                    && let Some(from) = stretch.from.as_ref().filter(|_| stretch.source < self.merge.source())
                {
                    let target = key::lookup(from, SeqNo::MAX); // as in `find_forward`
                    self.merge.skip_before(&target)?;
                    continue;
                }
                if found {
                    self.merge.fetch()?;
                    self.keep_key();
                    self.value.clear();
                    self.value.extend_from_slice(self.merge.value());
                    self.saved = seq;
                }
            }
            if !found {
                self.passed.add(&self.merge);
            }
            self.merge.prev()?;
        }
        if found {
            self.shown = Shown::Saved;
        }
        Ok(())
    }
}
