//! The reserve: space on the device kept for the manifest and one batch, for the moment when the
//! disk is full.
use crate::Result;
use parking_lot::Mutex;
use terrace_storage::placement::Storage;

/// The reserve of one store. Released while it is needed; allocated again as soon as there is
/// space.
#[derive(Debug)]
pub struct Reserve {
    bytes: u64,
    state: Mutex<ReserveState>, // held during the calls that allocate and remove; a leaf lock
}

#[derive(Debug, Default)]
struct ReserveState {
    /// The reserve is allocated in full.
    held: bool,
    /// Guards alive, for which the reserve stays released.
    users: usize,
}

/// While it lives, the reserve is released.
pub struct ReserveGuard<'a> {
    reserve: &'a Reserve,
    storage: &'a dyn Storage,
}

impl Reserve {
    /// A reserve of `bytes`, not allocated yet.
    pub fn new(bytes: u64) -> Reserve {
        Reserve { bytes, state: Mutex::default() }
    }

    /// Allocates the reserve, unless it is allocated or released by a guard.
    pub fn allocate(&self, storage: &dyn Storage) -> Result<()> {
        let mut state = self.state.lock();
        if !state.held && state.users == 0 {
            storage.reserve(self.bytes)?;
            state.held = true;
        }
        Ok(())
    }

    /// Releases the reserve until the returned guard is dropped. The drop allocates it again if
    /// there is space: an attempt that failed for lack of more space has freed its own, and a store
    /// that stopped writing needs the reserve for its next open. Otherwise the next commit of
    /// pending edits allocates it.
    pub fn release<'a>(&'a self, storage: &'a dyn Storage) -> ReserveGuard<'a> {
        let mut state = self.state.lock();
        state.users += 1;
        state.held = false;
        let _ = storage.reserve(0); // if this fails, the attempt meets ENOSPC again
        ReserveGuard { reserve: self, storage }
    }
}

impl Drop for ReserveGuard<'_> {
    fn drop(&mut self) {
        self.reserve.state.lock().users -= 1;
        // Without space, the next commit of pending edits allocates it.
        let _ = self.reserve.allocate(self.storage);
    }
}
