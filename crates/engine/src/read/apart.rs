//! Values that live apart from their keys: a cursor reads each as it comes to stand on it, and asks for the next ones before.
use super::{
    ahead::{Ahead, Scout},
    visible::Visible,
};
use crate::Result;
use std::sync::Arc;
use terrace_format::{KeyOrder, SeqNo};
use terrace_storage::placement::{Bytes, Placement, ReadHow, Stored};

/// The value where a cursor stands.
pub struct Apart {
    placement: Arc<dyn Placement>,
    how: ReadHow,
    value: Bytes,
    ahead: Ahead<Lookout>,
}

impl Apart {
    /// Nothing read yet. `visible` makes what walks ahead of the cursor, as far as the keys that `holds` holds and `window` bytes.
    pub fn new(
        placement: Arc<dyn Placement>,
        how: ReadHow,
        order: KeyOrder,
        window: u64,
        visible: impl Fn() -> Visible + Send + 'static,
        holds: impl Fn(&[u8]) -> bool + Send + 'static,
    ) -> Apart {
        let lookout = Lookout {
            placement: placement.clone(),
            make: Box::new(visible),
            holds: Box::new(holds),
            visible: None,
            forward: true,
        };
        Apart { placement, how, value: Bytes::from(Vec::new()), ahead: Ahead::new(lookout, order, window) }
    }

    /// Reads the value for which `stored` was stored when `user` was put at `seq`.
    pub fn read(&mut self, user: &[u8], seq: SeqNo, stored: &[u8]) -> Result<()> {
        self.ahead.reached(user);
        self.value = self.placement.value(user, seq, Bytes::from(stored.to_vec()), self.how)?;
        Ok(())
    }

    /// What was read last.
    pub fn value(&self) -> &[u8] {
        &self.value
    }
}

/// Whether a key is within a cursor's bounds.
type Holds = dyn Fn(&[u8]) -> bool + Send;

/// Walks over the same pairs as the cursor, and asks for their values.
struct Lookout {
    placement: Arc<dyn Placement>,
    make: Box<dyn Fn() -> Visible + Send>,
    holds: Box<Holds>,
    visible: Option<Visible>,
    forward: bool,
}

impl Scout for Lookout {
    fn start(&mut self, user: &[u8], forward: bool) -> Result<()> {
        self.forward = forward;
        self.visible.get_or_insert_with(&self.make).seek(user)
    }

    fn ask(&mut self) -> Result<Option<(Vec<u8>, u64)>> {
        let Some(visible) = self.visible.as_mut().filter(|visible| visible.valid()) else { return Ok(None) };
        if self.forward {
            visible.next()?
        } else {
            visible.prev()?
        }
        if !visible.valid() || !(self.holds)(visible.key()) {
            return Ok(None);
        }
        let (user, stored) = visible.pair();
        self.placement.expect_value(stored);
        let bytes = match Stored::parse(stored) {
            Ok(Stored::At(pointer)) => pointer.bytes,
            _ => 0,
        };
        Ok(Some((user.to_vec(), bytes)))
    }
}
