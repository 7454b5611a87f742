//! Values that live apart from their keys: a cursor reads each as it comes to stand on it, and asks for the next ones before. Those that
//! are beside their keys after all cost nothing but a look.
use super::{
    ahead::{Ahead, Scout},
    snapshot_iter::SnapshotIter,
};
use crate::Result;
use std::sync::Arc;
use terrace_format::{KeyOrder, SeqNo, value_log::INLINE};
use terrace_storage::{
    ReadCoalescer,
    placement::{Bytes, ReadHow, Storage, StoredValue},
};

/// Pairs with their values beside them that are passed over, at most, for one whose value is asked for: where those are rare, each
/// may be waited for.
const BESIDE_MAX: usize = 256;

/// The value where a cursor stands.
pub struct Apart {
    storage: Arc<dyn Storage>,
    how: ReadHow,
    value: Found,
    stretches: ReadCoalescer,
    ahead: Ahead<Lookout>,
}

/// Where a value was found.
enum Found {
    /// In what is stored with its key, from this byte on.
    Beside(usize),
    /// Elsewhere.
    Read(Bytes),
}

impl Apart {
    /// Nothing read yet. `visible` makes what walks ahead of the cursor, as far as the keys that `holds` holds and `window` bytes.
    pub fn new(
        storage: Arc<dyn Storage>,
        how: ReadHow,
        order: KeyOrder,
        window: u64,
        visible: impl Fn() -> SnapshotIter + Send + 'static,
        holds: impl Fn(&[u8]) -> bool + Send + 'static,
    ) -> Apart {
        let lookout = Lookout {
            storage: storage.clone(),
            make: Box::new(visible),
            holds: Box::new(holds),
            visible: None,
            forward: true,
        };
        let (stretches, ahead) = (ReadCoalescer::new(window, storage.budget()), Ahead::new(lookout, order, window));
        Apart { storage, how, value: Found::Beside(0), stretches, ahead }
    }

    /// Reads the value for which `stored` was stored when `user` was put at `seq`.
    #[inline]
    pub fn read(&mut self, user: &[u8], seq: SeqNo, stored: &[u8]) -> Result<()> {
        if stored.starts_with(INLINE) {
            self.value = Found::Beside(INLINE.len());
            return Ok(());
        }
        self.ahead.reached(user);
        let value = self.storage.next_value(user, seq, stored, self.how, &mut self.stretches);
        if self.stretches.waited() {
            self.ahead.waited();
        }
        self.value = Found::Read(value?);
        Ok(())
    }

    /// What was read last, for which this was `stored`.
    pub fn value<'a>(&'a self, stored: &'a [u8]) -> &'a [u8] {
        match &self.value {
            Found::Beside(from) => &stored[*from..],
            Found::Read(value) => value,
        }
    }
}

/// Whether a key is within a cursor's bounds.
type Holds = dyn Fn(&[u8]) -> bool + Send;

/// Walks over the same pairs as the cursor, and asks for their values.
struct Lookout {
    storage: Arc<dyn Storage>,
    make: Box<dyn Fn() -> SnapshotIter + Send>,
    holds: Box<Holds>,
    visible: Option<SnapshotIter>,
    forward: bool,
}

impl Scout for Lookout {
    fn start(&mut self, user: &[u8], forward: bool) -> Result<()> {
        self.forward = forward;
        self.visible.get_or_insert_with(&self.make).seek(user)
    }

    fn ask(&mut self) -> Result<Option<(Vec<u8>, u64)>> {
        let Some(visible) = self.visible.as_mut().filter(|visible| visible.valid()) else { return Ok(None) };
        for _ in 0..=BESIDE_MAX {
            if self.forward {
                visible.next()?
            } else {
                visible.prev()?
            }
            if !visible.valid() || !(self.holds)(visible.key()) {
                return Ok(None);
            }
            let (user, stored) = visible.pair();
            if let Ok(StoredValue::At(pointer)) = StoredValue::parse(stored) {
                self.storage.expect_value(stored);
                return Ok(Some((user.to_vec(), pointer.bytes)));
            }
        }
        Ok(None)
    }
}
