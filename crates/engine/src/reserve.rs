//! The reserve: disk space that a store allocates in advance and releases when the disk is full.
//! It is large enough for the manifest and one batch of edits.
//!
//! A job without space may use half of the reserve. The other half is only for the manifest: the
//! files that a job replaces are deleted after the job's edit is in the manifest, so without space
//! for the manifest no file could be deleted any more.
use crate::{Error, Result};
use parking_lot::Mutex;
use std::{io, sync::Arc};
use terrace_storage::placement::Storage;

/// The reserve of one store. The store releases a part of the reserve, or all of it, while an
/// operation needs the space, and allocates it again as soon as there is enough space.
#[derive(Debug)]
pub struct Reserve {
    bytes: u64,
    state: Mutex<ReserveState>, // held during calls that allocate and remove; a leaf lock
}

#[derive(Debug, Default)]
struct ReserveState {
    /// The bytes that are allocated now; `None` until the first call: an earlier session may have
    /// left its reserve.
    held: Option<u64>,
    /// The number of guards of jobs. While there is one, only the manifest's half is allocated.
    jobs: usize,
    /// The number of guards of manifest writes. While there is one, nothing is allocated.
    manifests: usize,
}

/// The user of a released reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReserveUser {
    /// A job that may free space. The manifest's half of the reserve stays allocated.
    Job,
    /// A write of the manifest.
    Manifest,
}

/// A guard: as long as it exists, its user's part of the reserve stays released.
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
    /// If there is too little space, keeps the manifest's half if possible, and returns an error.
    pub fn allocate(&self, storage: &dyn Storage) -> Result<()> {
        let mut state = self.state.lock();
        if state.jobs > 0 || state.manifests > 0 { Ok(()) } else { self.fit(&mut state, storage) }
    }

    /// Releases the reserve, or a half of it, for `user` until the returned guard is dropped.
    /// The drop allocates the reserve again if there is enough space. There usually is, even if
    /// the operation that needed the space has failed, because a failed operation frees the
    /// space that it took. A store that has stopped writing needs the reserve for its next open.
    /// If there is too little space, the next commit of pending edits allocates the reserve.
    pub fn release<'a>(&'a self, storage: &'a dyn Storage, user: ReserveUser) -> ReserveGuard<'a> {
        let mut state = self.state.lock();
        *state.users(user) += 1;
        let wanted = self.wanted(&state);
        if state.held.is_none_or(|held| held > wanted) {
            let _ = self.resize(&mut state, storage, wanted); // if this fails, the attempt gets ENOSPC again
        }
        ReserveGuard { reserve: self, storage, user }
    }

    /// Allocates the part of the reserve that no guard releases. If there is too little space for
    /// all of it, allocates the manifest's half if possible, and returns an error.
    fn fit(&self, state: &mut ReserveState, storage: &dyn Storage) -> Result<()> {
        let (wanted, for_manifest) = (self.wanted(state), self.bytes / 2);
        let grown = self.resize(state, storage, wanted);
        if grown.is_err() && wanted > for_manifest {
            let _ = self.resize(state, storage, for_manifest); // the caller gets the first error
        }
        grown
    }

    /// Returns the bytes that no guard releases.
    fn wanted(&self, state: &ReserveState) -> u64 {
        match state {
            ReserveState { manifests: 1.., .. } => 0,
            ReserveState { jobs: 1.., .. } => self.bytes / 2,
            _ => self.bytes,
        }
    }

    /// Makes the allocated part `bytes` bytes large. A file system that cannot make it larger may
    /// free all of it, so the free space is checked first. Another process may take the space
    /// after the check; then nothing is allocated after the error.
    fn resize(&self, state: &mut ReserveState, storage: &dyn Storage, bytes: u64) -> Result<()> {
        if state.held == Some(bytes) {
            return Ok(());
        }
        let more = state.held.map_or(0, |held| bytes.saturating_sub(held));
        if more > 0 && storage.free_bytes().is_some_and(|free| free < more) {
            let source =
                Arc::new(io::Error::new(io::ErrorKind::StorageFull, format!("fewer than {more} bytes are free")));
            return Err(Error::NoSpace { op: "reserve space in", object: storage.name(), source });
        }
        state.held = Some(0);
        storage.reserve(bytes)?;
        state.held = Some(bytes);
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
        let _ = self.reserve.fit(&mut state, self.storage);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use terrace_sim::SmallFs;
    use terrace_storage::{Memory, placement::OpenMode};

    #[test]
    fn the_manifests_half_survives_a_lack_of_space() {
        const KB: u64 = 1 << 10;
        let small = SmallFs::new(Arc::new(Memory::new()), 1 << 20);
        let (options, fs) = (Options::default(), Arc::new(small.clone()));
        let tracker = options.durability.tracker(&*fs, &options.setup()).unwrap();
        let storage = terrace_storage::open_files(fs, OpenMode::Create, tracker, &options.setup()).unwrap();
        let reserve = Reserve::new(64 * KB);
        reserve.allocate(&*storage).unwrap();
        assert_eq!(small.reserved(), 64 * KB);
        let job = reserve.release(&*storage, ReserveUser::Job);
        assert_eq!(small.reserved(), 32 * KB);
        small.leave(1000); // others have taken the released half
        drop(job);
        assert_eq!(small.reserved(), 32 * KB);
        assert!(reserve.allocate(&*storage).unwrap_err().is_no_space());
        assert_eq!(small.reserved(), 32 * KB);
        let manifest = reserve.release(&*storage, ReserveUser::Manifest);
        assert_eq!(small.reserved(), 0);
        drop(manifest);
        assert_eq!(small.reserved(), 32 * KB);
        let job = reserve.release(&*storage, ReserveUser::Job);
        assert_eq!(small.reserved(), 32 * KB);
        drop(job);
        small.leave(32 * KB);
        reserve.allocate(&*storage).unwrap();
        assert_eq!(small.reserved(), 64 * KB);

        // The next session finds the reserve, and needs no space for it.
        small.leave(1000);
        let next = Reserve::new(64 * KB);
        next.allocate(&*storage).unwrap();
        assert_eq!(small.reserved(), 64 * KB);
        drop(next.release(&*storage, ReserveUser::Manifest));
        assert_eq!(small.reserved(), 64 * KB);
        Reserve::new(0).allocate(&*storage).unwrap();
        assert_eq!(small.reserved(), 0, "a session without a reserve removes an old one");
    }
}
