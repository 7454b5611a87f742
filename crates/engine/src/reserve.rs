//! Space on the device that is kept for the moment when there is none: for the manifest and one batch.
use crate::Result;
use parking_lot::Mutex;
use terrace_storage::placement::Storage;

/// A store's reserve. Given up for as long as somebody needs the space; taken again as soon as there is some.
#[derive(Debug)]
pub struct Reserve {
    bytes: u64,
    state: Mutex<ReserveState>, // held during the calls that allocate and remove; a leaf lock
}

#[derive(Debug, Default)]
struct ReserveState {
    /// What is allocated is what is wanted.
    held: bool,
    /// Who needs the space just now.
    users: usize,
}

/// While it lives, the space is free for the taking.
pub struct ReserveGuard<'a> {
    reserve: &'a Reserve,
    storage: &'a dyn Storage,
}

impl Reserve {
    /// Of so many bytes, and not taken yet.
    pub fn new(bytes: u64) -> Reserve {
        Reserve { bytes, state: Mutex::default() }
    }

    /// Takes it, unless it is there already. If somebody needs the space, it is taken when that is over.
    pub fn allocate(&self, storage: &dyn Storage) -> Result<()> {
        let mut state = self.state.lock();
        if !state.held && state.users == 0 {
            storage.reserve(self.bytes)?;
            state.held = true;
        }
        Ok(())
    }

    /// Frees the space until what this returns is dropped. That drop takes it again if it can: who failed for want of more has given
    /// back what it took, and a store that writes no more needs the reserve to be opened. Else the next release does.
    pub fn release<'a>(&'a self, storage: &'a dyn Storage) -> ReserveGuard<'a> {
        let mut state = self.state.lock();
        state.users += 1;
        state.held = false;
        let _ = storage.reserve(0); // who finds no space still will say so
        ReserveGuard { reserve: self, storage }
    }
}

impl Drop for ReserveGuard<'_> {
    fn drop(&mut self) {
        self.reserve.state.lock().users -= 1;
        let _ = self.reserve.allocate(self.storage); // if there is too little space, after the next release
    }
}
