//! The reserve: disk space that a store allocates in advance and releases when the disk is full.
//! It is large enough for the manifest and one batch of edits.
use crate::Result;
use parking_lot::Mutex;
use terrace_storage::placement::Storage;

/// The reserve of one store. The store releases the reserve while an operation needs its space,
/// and allocates it again as soon as there is enough space.
#[derive(Debug)]
pub struct Reserve {
    bytes: u64,
    state: Mutex<ReserveState>, // held during calls that allocate and remove; a leaf lock
}

#[derive(Debug, Default)]
struct ReserveState {
    /// Whether the whole reserve is allocated.
    held: bool,
    /// The number of guards that exist. While there is a guard, the reserve stays released.
    users: usize,
}

/// A guard: as long as it exists, the reserve stays released.
pub struct ReserveGuard<'a> {
    reserve: &'a Reserve,
    storage: &'a dyn Storage,
}

impl Reserve {
    /// Makes a reserve of `bytes` bytes. It is not allocated yet.
    pub fn new(bytes: u64) -> Reserve {
        Reserve { bytes, state: Mutex::default() }
    }

    /// Allocates the reserve, unless it is already allocated, or a guard keeps it released.
    pub fn allocate(&self, storage: &dyn Storage) -> Result<()> {
        let mut state = self.state.lock();
        if !state.held && state.users == 0 {
            storage.reserve(self.bytes)?;
            state.held = true;
        }
        Ok(())
    }

    /// Releases the reserve until the returned guard is dropped. The drop allocates the reserve
    /// again if there is enough space. There usually is, even if the operation that needed the
    /// space has failed, because a failed operation frees the space that it took. A store that has
    /// stopped writing needs the reserve for its next open. If there is too little space, the next
    /// commit of pending edits allocates the reserve.
    pub fn release<'a>(&'a self, storage: &'a dyn Storage) -> ReserveGuard<'a> {
        let mut state = self.state.lock();
        state.users += 1;
        state.held = false;
        let _ = storage.reserve(0); // if this fails, the attempt gets ENOSPC again
        ReserveGuard { reserve: self, storage }
    }
}

impl Drop for ReserveGuard<'_> {
    fn drop(&mut self) {
        self.reserve.state.lock().users -= 1;
        // If there is too little space for the reserve now, the next commit of pending edits
        // allocates it.
        let _ = self.reserve.allocate(self.storage);
    }
}
