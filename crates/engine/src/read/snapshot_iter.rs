//! Iterates over the pairs that a snapshot sees in a merging iterator. For each user key, the
//! iterator takes the newest entry at or below the snapshot's sequence number. The snapshot sees a
//! pair for the key if this entry is a put and no newer range tombstone shadows it.
//!
//! In a forward iteration, the merging iterator stays at the entry of the current pair. In a
//! backward iteration, the merging iterator reaches the oldest entry of a key first. To find the
//! newest entry it must move over all entries of the key, so the iterator saves a copy of the pair
//! before the merging iterator moves on. If the previous entry is known to have another user key,
//! the current entry is the only one of its key, and no copy is needed.
use super::{merge::Merge, range_tombstone_iter::RangeTombstoneIter};
use crate::Result;
use terrace_format::{
    KeyOrder, Kind, SeqNo,
    key::{self, Lookup},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    Nothing,
    /// The pair is the current entry of the merging iterator.
    Current,
    /// The current pair is a saved copy. The merging iterator has already moved to an entry before
    /// all entries of the pair's key.
    Saved,
}

/// The period of read sampling, in bytes of keys and values. After each period, a scan charges one
/// seek to the seek budget of an SSTable. The number is LevelDB's.
pub const SAMPLE_BYTES: usize = 1 << 20;
/// The minimum number of bytes that one skipped entry adds to the period of read sampling.
/// Tombstones are short, so without this minimum a scan over many of them would charge almost
/// nothing.
const SKIPPED_BYTES_MIN: usize = 1 << 10;

/// The maximum number of keys that one move of the iterator reports for read sampling.
const SKIPPED_KEYS_MAX: usize = 64;

/// The entries that the iterator skips: entries that are shadowed, deleted, or too new for its
/// snapshot. A skipped entry costs as much to read as any other entry, and a compaction could
/// remove it. So skipped entries count for read sampling.
#[derive(Default)]
struct SkippedEntries {
    /// The number of bytes that the iterator has skipped since it last reported a key for read
    /// sampling.
    bytes: usize,
    keys: Vec<Vec<u8>>,
}

impl SkippedEntries {
    /// Records that the iterator skips the current entry of the merging iterator `merge`.
    #[inline]
    fn add(&mut self, merge: &Merge) {
        let (internal, bytes) = merge.sized_key();
        self.bytes += bytes.max(SKIPPED_BYTES_MIN);
        if self.bytes >= SAMPLE_BYTES {
            self.bytes = 0;
            if self.keys.len() < SKIPPED_KEYS_MAX {
                self.keys.push(key::user_key(internal).to_vec());
            }
        }
    }
}

/// An iterator over the user keys and values that a snapshot sees. It returns each key once, and
/// no deleted key.
pub struct SnapshotIter {
    order: KeyOrder,
    merge: Merge,
    /// Finds the range tombstones in the sources of the merging iterator; `None` if the store has
    /// none.
    tombstones: Option<RangeTombstoneIter>,
    seq: SeqNo,
    position: Position,
    /// The user key of the saved pair if the position is `Saved`; otherwise the previous user key.
    key: Vec<u8>,
    value: Vec<u8>,
    /// Sequence number of the saved pair.
    saved_seq: SeqNo,
    skipped: SkippedEntries,
}

impl SnapshotIter {
    /// Makes an iterator for a reader at the sequence number `seq`. The iterator is at no pair yet.
    #[inline]
    pub fn new(order: KeyOrder, merge: Merge, tombstones: Option<RangeTombstoneIter>, seq: SeqNo) -> SnapshotIter {
        SnapshotIter {
            order,
            merge,
            tombstones,
            seq,
            position: Position::Nothing,
            key: Vec::new(),
            value: Vec::new(),
            saved_seq: SeqNo::ZERO,
            skipped: SkippedEntries::default(),
        }
    }

    /// Returns whether the iterator is at a pair.
    #[inline]
    pub fn valid(&self) -> bool {
        self.position != Position::Nothing
    }

    /// Returns the user key of the current pair. The iterator must be at a pair.
    #[inline]
    pub fn key(&self) -> &[u8] {
        match self.position {
            Position::Saved => &self.key,
            _ => key::user_key(self.merge.key()),
        }
    }

    /// Reads the value of the current pair if the value is in a separate file, as in directory
    /// tables. The iterator must be at a pair.
    pub fn fetch(&mut self) -> Result<()> {
        match self.position {
            Position::Saved => Ok(()), // saved with its value
            _ => self.merge.fetch(),
        }
    }

    /// Returns the user key and value of the current pair. The iterator must be at a pair.
    #[inline]
    pub fn pair(&self) -> (&[u8], &[u8]) {
        match self.position {
            Position::Saved => (&self.key, &self.value),
            _ => {
                let (internal, value) = self.merge.pair();
                (key::user_key(internal), value)
            }
        }
    }

    /// Returns the user key and the number of bytes read for the pair. The bytes of a separated
    /// value are not counted. The iterator must be at a pair.
    #[inline]
    pub fn sized_key(&self) -> (&[u8], usize) {
        match self.position {
            Position::Saved => (&self.key, self.key.len() + self.value.len()),
            _ => {
                let (internal, bytes) = self.merge.sized_key();
                (key::user_key(internal), bytes)
            }
        }
    }

    /// Returns the value of the current pair. The iterator must be at a pair.
    #[inline]
    pub fn value(&self) -> &[u8] {
        match self.position {
            Position::Saved => &self.value,
            _ => self.merge.value(),
        }
    }

    /// Returns the sequence number of the current pair. The iterator must be at a pair.
    pub fn seq(&self) -> SeqNo {
        match self.position {
            Position::Saved => self.saved_seq,
            _ => self.merge.parsed().seq,
        }
    }

    /// Returns the keys for read sampling: one key for each [`SAMPLE_BYTES`] of entries that the
    /// iterator has skipped since the last call.
    #[inline]
    pub fn skipped(&mut self) -> Option<Vec<Vec<u8>>> {
        (!self.skipped.keys.is_empty()).then(|| std::mem::take(&mut self.skipped.keys))
    }

    /// Returns whether every source of the merging iterator is positioned. A seek may leave some
    /// sources without a position until the iterator is moved; see [`Merge::find`].
    pub fn is_whole(&self) -> bool {
        self.merge.is_whole()
    }

    /// Moves the iterator to the first visible key at or after `user`. If there is no such key, the
    /// iterator is not at a pair afterwards.
    pub fn seek(&mut self, user: &[u8]) -> Result<()> {
        self.position = Position::Nothing;
        self.merge.find(&Lookup::new(user, self.seq))?;
        self.find_forward(false)
    }

    /// Moves the iterator to the first visible key, if there is one.
    pub fn seek_first(&mut self) -> Result<()> {
        self.position = Position::Nothing;
        self.merge.seek_first()?;
        self.find_forward(false)
    }

    /// Moves the iterator to the last visible key, if there is one.
    pub fn seek_last(&mut self) -> Result<()> {
        self.position = Position::Nothing;
        self.merge.seek_last()?;
        self.find_backward()
    }

    /// Moves the iterator to the last visible key before `user`. If there is no such key, the
    /// iterator is not at a pair afterwards.
    pub fn seek_before(&mut self, user: &[u8]) -> Result<()> {
        self.position = Position::Nothing;
        self.merge.seek(&Lookup::new(user, SeqNo::MAX))?;
        if self.merge.valid() {
            self.merge.prev()?
        } else {
            self.merge.seek_last()?
        }
        self.find_backward()
    }

    /// Moves the iterator to the next visible key. If there is no such key, the iterator is not at
    /// a pair afterwards. If the iterator is not at a pair, the call does nothing.
    #[inline]
    pub fn next(&mut self) -> Result<()> {
        let (position, seq) = (self.position, self.seq);
        let tombstones = self.tombstones.as_ref();
        let seen = |next: &[u8]| {
            let next = key::apart(next);
            let clear = tombstones.is_none_or(|tombstones| tombstones.is_clear(next.user));
            next.seq <= seq && next.kind == Kind::Put && clear
        };
        if position == Position::Current && self.merge.next_distinct_user_key(seen) { Ok(()) } else { self.next_slow() }
    }

    /// Works like [`next`](SnapshotIter::next) in all cases: it can skip older entries of the
    /// current key, and keys that the snapshot does not see.
    fn next_slow(&mut self) -> Result<()> {
        match std::mem::replace(&mut self.position, Position::Nothing) {
            Position::Nothing => return Ok(()),
            Position::Current => {
                self.save_key();
                self.merge.next()?;
            }
            Position::Saved if self.merge.valid() => self.merge.next()?,
            Position::Saved => self.merge.seek_first()?,
        }
        self.find_forward(true)
    }

    /// Moves the iterator to the previous visible key. If there is no such key, the iterator is not
    /// at a pair afterwards. If the iterator is not at a pair, the call does nothing.
    pub fn prev(&mut self) -> Result<()> {
        match std::mem::replace(&mut self.position, Position::Nothing) {
            Position::Nothing => return Ok(()),
            Position::Current if self.merge.is_backward() => self.merge.prev()?,
            Position::Current => {
                self.save_key();
                while self.merge.valid() && self.order.user(key::user_key(self.merge.key()), &self.key).is_ge() {
                    self.merge.prev()?;
                }
            }
            Position::Saved => {}
        }
        self.find_backward()
    }

    /// Copies the user key of the merging iterator's current entry to `key`.
    #[inline]
    fn save_key(&mut self) {
        self.key.clear();
        self.key.extend_from_slice(key::user_key(self.merge.key()));
    }

    /// Moves the merging iterator forward until its entry is a pair that the snapshot sees. The
    /// search begins at the current entry. If `skipped` is set, entries whose user key is at or
    /// before `key` are skipped. If there is no pair, the iterator is at no pair afterwards.
    #[inline]
    fn find_forward(&mut self, mut skipped: bool) -> Result<()> {
        while self.merge.valid() {
            let entry = self.merge.parsed();
            if entry.seq <= self.seq && !(skipped && self.order.user(entry.user, &self.key).is_le()) {
                let covered = match &mut self.tombstones {
                    Some(tombstones) => Some(tombstones.span_at(entry.user)?).filter(|span| span.newest > entry.seq),
                    None => None,
                };
                if covered.is_none() && entry.kind == Kind::Put {
                    self.position = Position::Current;
                    return Ok(());
                }
                if let Some(span) = covered
                    && let Some(to) = span.to.as_ref().filter(|_| span.source < self.merge.source())
                {
                    // A range tombstone of a newer source shadows the entry. All entries of the
                    // entry's source within the span of the range tombstone are older than the
                    // tombstone, so the source can skip them.
                    let target = key::lookup(to, SeqNo::MAX);
                    self.merge.skip_to(&target)?;
                    continue;
                }
                self.save_key();
                skipped = true;
            }
            self.skipped.add(&self.merge);
            self.merge.next()?;
        }
        Ok(())
    }

    /// Moves the merging iterator backward from its current entry until it has found a visible key.
    /// Afterwards one of two positions applies. `Current`: the merging iterator is at the newest
    /// visible entry of the key. `Saved`: the merging iterator is before all entries of the key,
    /// and the iterator has a copy of the pair.
    fn find_backward(&mut self) -> Result<()> {
        let mut found = false;
        while self.merge.valid() {
            let entry = self.merge.parsed();
            let seq = entry.seq;
            if found && self.order.user(entry.user, &self.key).is_lt() {
                break;
            }
            if entry.seq <= self.seq {
                let covered = match &mut self.tombstones {
                    Some(tombstones) => Some(tombstones.span_at(entry.user)?).filter(|span| span.newest > entry.seq),
                    None => None,
                };
                found = covered.is_none() && entry.kind == Kind::Put;
                if found && self.merge.differs_from_prev() {
                    self.position = Position::Current;
                    return Ok(());
                }
                if let Some(span) = covered
                    && let Some(from) = span.from.as_ref().filter(|_| span.source < self.merge.source())
                {
                    let target = key::lookup(from, SeqNo::MAX); // as in `find_forward`
                    self.merge.skip_before(&target)?;
                    continue;
                }
                if found {
                    self.merge.fetch()?;
                    self.save_key();
                    self.value.clear();
                    self.value.extend_from_slice(self.merge.value());
                    self.saved_seq = seq;
                }
            }
            if !found {
                self.skipped.add(&self.merge);
            }
            self.merge.prev()?;
        }
        if found {
            self.position = Position::Saved;
        }
        Ok(())
    }
}
