//! Values that live apart from their keys: a cursor reads each as it comes to stand on it.
use crate::Result;
use std::sync::Arc;
use terrace_format::SeqNo;
use terrace_storage::placement::{Bytes, Placement, ReadHow};

/// The value where a cursor stands.
pub struct Apart {
    placement: Arc<dyn Placement>,
    how: ReadHow,
    value: Bytes,
}

impl Apart {
    /// Nothing read yet.
    pub fn new(placement: Arc<dyn Placement>, how: ReadHow) -> Apart {
        Apart { placement, how, value: Bytes::from(Vec::new()) }
    }

    /// Reads the value for which `stored` was stored when `user` was put at `seq`.
    pub fn read(&mut self, user: &[u8], seq: SeqNo, stored: &[u8]) -> Result<()> {
        self.value = self.placement.value(user, seq, Bytes::from(stored.to_vec()), self.how)?;
        Ok(())
    }

    /// What was read last.
    pub fn value(&self) -> &[u8] {
        &self.value
    }
}
