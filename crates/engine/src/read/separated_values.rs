//! Reads separated values (values in the value log) for a cursor. When the cursor moves to a pair,
//! this module reads the pair's value from the value log, with read-ahead. If the value is inline
//! (stored with its key), the only cost is a check.
use super::{
    read_ahead::{Prefetcher, ReadAhead},
    snapshot_iter::SnapshotIter,
};
use crate::Result;
use std::sync::Arc;
use terrace_format::{KeyOrder, SeqNo, value_log::INLINE};
use terrace_storage::{
    ReadCoalescer,
    placement::{Bytes, Storage, StoredValue},
};

/// The maximum number of pairs with inline values that the prefetcher skips to find a separated
/// value. If separated values are rarer than this, the scan reads each of them without read-ahead.
const INLINE_SKIP_MAX: usize = 256;

/// The value of a cursor's current pair.
pub struct SeparatedValues {
    storage: Arc<dyn Storage>,
    value: ValueLocation,
    coalescer: ReadCoalescer,
    ahead: ReadAhead<ValuePrefetcher>,
}

/// The location of the value of the cursor's current pair.
enum ValueLocation {
    /// The value is in the bytes stored with the key, from this offset on.
    Inline(usize),
    /// The value was read from the value log.
    Read(Bytes),
}

impl SeparatedValues {
    /// Makes a reader that has read no value yet. `iter` is a function that makes a second
    /// iterator, which the read-ahead moves. The read-ahead covers up to `window` bytes, and only
    /// keys for which `in_bounds` returns true.
    pub fn new(
        storage: Arc<dyn Storage>,
        order: KeyOrder,
        window: u64,
        iter: impl Fn() -> SnapshotIter + Send + 'static,
        in_bounds: impl Fn(&[u8]) -> bool + Send + 'static,
    ) -> SeparatedValues {
        let prefetcher = ValuePrefetcher {
            storage: storage.clone(),
            make: Box::new(iter),
            in_bounds: Box::new(in_bounds),
            iter: None,
            forward: true,
        };
        let (coalescer, ahead) =
            (ReadCoalescer::new(window, storage.budget()), ReadAhead::new(prefetcher, order, window));
        SeparatedValues { storage, value: ValueLocation::Inline(0), coalescer, ahead }
    }

    /// Reads the value of the pair with key `user` and sequence number `seq`. `stored` are the
    /// bytes that are stored with the key: an inline value or a value pointer.
    #[inline]
    pub fn read(&mut self, user: &[u8], seq: SeqNo, stored: &[u8]) -> Result<()> {
        if stored.starts_with(INLINE) {
            self.value = ValueLocation::Inline(INLINE.len());
            return Ok(());
        }
        self.ahead.reached(user);
        let value = self.storage.next_value(user, seq, stored, &mut self.coalescer);
        if self.coalescer.waited() {
            self.ahead.stalled();
        }
        self.value = ValueLocation::Read(value?);
        Ok(())
    }

    /// Returns the value that [`read`](SeparatedValues::read) read last; `stored` are the bytes
    /// that are stored with its key.
    pub fn value<'a>(&'a self, stored: &'a [u8]) -> &'a [u8] {
        match &self.value {
            ValueLocation::Inline(from) => &stored[*from..],
            ValueLocation::Read(value) => value,
        }
    }
}

/// A function that returns whether a key is within a cursor's bounds.
type InBounds = dyn Fn(&[u8]) -> bool + Send;

/// A prefetcher with an iterator of its own. It moves over the pairs that the cursor will reach,
/// and requests their values.
struct ValuePrefetcher {
    storage: Arc<dyn Storage>,
    make: Box<dyn Fn() -> SnapshotIter + Send>,
    in_bounds: Box<InBounds>,
    iter: Option<SnapshotIter>,
    forward: bool,
}

impl Prefetcher for ValuePrefetcher {
    fn start(&mut self, user: &[u8], forward: bool) -> Result<()> {
        self.forward = forward;
        self.iter.get_or_insert_with(&self.make).seek(user)
    }

    fn prefetch_next(&mut self) -> Result<Option<(Vec<u8>, u64)>> {
        let Some(iter) = self.iter.as_mut().filter(|iter| iter.valid()) else { return Ok(None) };
        for _ in 0..=INLINE_SKIP_MAX {
            if self.forward {
                iter.next()?
            } else {
                iter.prev()?
            }
            if !iter.valid() || !(self.in_bounds)(iter.key()) {
                return Ok(None);
            }
            let (user, stored) = iter.pair();
            if let Ok(StoredValue::At(pointer)) = StoredValue::parse(stored) {
                self.storage.prefetch_value(stored);
                return Ok(Some((user.to_vec(), pointer.bytes)));
            }
        }
        Ok(None)
    }
}
