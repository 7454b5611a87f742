//! The reserve: disk space that a store allocates in advance and releases when the disk is full.
//! It is large enough for the manifest and one batch of edits.
//!
//! A job without space may use most of the reserve. The last part is only for the manifest: the
//! files that a job replaces are deleted after the job's edit is in the manifest, so without space
//! for the manifest no file could be deleted any more.
use crate::Result;
use parking_lot::Mutex;
use terrace_storage::placement::Storage;

/// The fraction of the reserve that only the manifest may use, as a divisor.
const MANIFEST_SHARE: u64 = 4;

/// The reserve of one store. The store releases the reserve while an operation needs its space,
/// and allocates it again as soon as there is enough space.
#[derive(Debug)]
pub struct Reserve {
    bytes: u64,
    state: Mutex<ReserveState>, // held during calls that allocate and remove; a leaf lock
}

#[derive(Debug, Default)]
struct ReserveState {
    /// The bytes that are allocated now.
    held: u64,
    /// The number of guards of jobs. While there is one, only the manifest's part is allocated.
    jobs: usize,
    /// The number of guards of manifest writes. While there is one, nothing is allocated.
    manifests: usize,
}

/// The user of a released reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReserveUser {
    /// A job that may free space. The manifest's part of the reserve stays allocated.
    Job,
    /// A write of the manifest.
    Manifest,
}

/// A guard: as long as it exists, the reserve stays released.
pub struct ReserveGuard<'a> {
    reserve: &'a Reserve,
    storage: &'a dyn Storage,
    user: ReserveUser,
}

impl Reserve {
    /// Makes a reserve of `bytes` bytes. It is not allocated yet.
    pub fn new(bytes: u64) -> Reserve {
        Reserve { bytes, state: Mutex::default() }
    }

    /// Allocates the whole reserve, unless it is already allocated, or a guard keeps it released.
    pub fn allocate(&self, storage: &dyn Storage) -> Result<()> {
        let mut state = self.state.lock();
        if state.jobs > 0 || state.manifests > 0 {
            return Ok(());
        }
        self.resize(&mut state, storage, self.bytes)
    }

    /// Releases the reserve for `user` until the returned guard is dropped. The drop allocates the
    /// reserve again if there is enough space. There usually is, even if the operation that needed
    /// the space has failed, because a failed operation frees the space that it took. A store that
    /// has stopped writing needs the reserve for its next open. If there is too little space, the
    /// next commit of pending edits allocates the reserve.
    pub fn release<'a>(&'a self, storage: &'a dyn Storage, user: ReserveUser) -> ReserveGuard<'a> {
        let mut state = self.state.lock();
        *state.users(user) += 1;
        self.fit(&mut state, storage); // if this fails, the attempt gets ENOSPC again
        ReserveGuard { reserve: self, storage, user }
    }

    /// Allocates the part of the reserve that no guard releases, or as much of it as possible.
    fn fit(&self, state: &mut ReserveState, storage: &dyn Storage) {
        let for_manifest = self.bytes / MANIFEST_SHARE;
        let wanted = match state {
            ReserveState { manifests: 1.., .. } => 0,
            ReserveState { jobs: 1.., .. } => for_manifest,
            _ => self.bytes,
        };
        if self.resize(state, storage, wanted).is_err() && wanted > for_manifest {
            let _ = self.resize(state, storage, for_manifest);
        }
    }

    /// Makes the allocated part `bytes` bytes large. After an error nothing may be allocated.
    fn resize(&self, state: &mut ReserveState, storage: &dyn Storage, bytes: u64) -> Result<()> {
        if state.held != bytes {
            state.held = 0;
            storage.reserve(bytes)?;
            state.held = bytes;
        }
        Ok(())
    }
}

impl ReserveState {
    fn users(&mut self, user: ReserveUser) -> &mut usize {
        match user {
            ReserveUser::Job => &mut self.jobs,
            ReserveUser::Manifest => &mut self.manifests,
        }
    }
}

impl Drop for ReserveGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.reserve.state.lock();
        *state.users(self.user) -= 1;
        self.reserve.fit(&mut state, self.storage);
    }
}
