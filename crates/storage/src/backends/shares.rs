//! Divides the file descriptors of the process among its open stores.
//!
//! A store may keep a limited number of tables open, because each takes a descriptor. The limit is
//! the smaller of two numbers: the one in the store's options, and an equal share of the process's
//! limit (`descriptors.rs`). When another store is opened, the shares of the open stores become
//! smaller. These stores close the excess files immediately, even if nothing is read. When a store
//! is closed, the shares of the other stores become larger.
use super::descriptors;
use crate::{Process, StorageConfig};
use parking_lot::{Mutex, RwLock};
use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};
use terrace_format::Layout;

/// The stores of this process that share descriptors. A thread that holds this lock takes no other
/// lock and releases it soon. If a thread of the parent process held the lock during a fork, the
/// lock is never released in the child. The child then continues without the lock.
static STORES: Mutex<Vec<Weak<Share>>> = Mutex::new(Vec::new());
const PATIENCE: Duration = Duration::from_secs(1);

/// A store that makes the other stores of this process close files holds this lock shared. During
/// that time it owns references to the other stores. If one of these stores is closed in the
/// meantime, it keeps the lock on its directory until the reference to it is dropped.
static FITTING: RwLock<()> = RwLock::new(());

/// Waits until no store of this process refers to another store that was closed, but at most for
/// `PATIENCE`. An open calls this function if it found its directory locked: such a closed store
/// may still hold the lock.
pub(super) fn wait_for_fits() {
    drop(FITTING.try_write_for(PATIENCE));
}

/// A part of a store that keeps files open. When the store's share of the descriptors becomes
/// smaller, it closes the excess files.
pub(super) trait Closes: Send + Sync {
    /// Closes files until the number of open files is within the share.
    fn fit(&self);
}

/// The maximum number of tables that one store may keep open. The same number separately limits
/// the store's open segments, or its open value files of directory tables.
pub(super) struct Share {
    most: AtomicUsize,
    setup: StorageConfig,
    layout: Layout,
    /// The maximum number of open files of the process; `None` if this store does not share
    /// descriptors with others.
    files_max: Option<u64>,
    /// The parts of the store that keep files open. A thread that holds this lock takes no other
    /// lock.
    holders: Mutex<Vec<Weak<dyn Closes>>>,
    process: Process,
}

impl Share {
    /// Makes the share of a store. The caller has already limited `setup.max_open_files` to the
    /// number that the store could use if it were the only one, if there is such a limit.
    /// `files_max` is the maximum number of open files of the process; `None` if the store's files
    /// take no descriptors.
    pub fn new(setup: &StorageConfig, layout: Layout, files_max: Option<u64>) -> Arc<Share> {
        let share = Arc::new(Share {
            most: AtomicUsize::new(setup.max_open_files),
            setup: setup.clone(),
            layout,
            files_max,
            holders: Mutex::default(),
            process: Process::current(),
        });
        if files_max.is_some() {
            share_out(Some(&share)).iter().for_each(|other| other.fit());
        }
        share
    }

    /// Makes a share of `most` open tables that does not depend on the number of open stores.
    #[cfg(test)]
    pub fn alone(most: usize) -> Arc<Share> {
        Share::new(&StorageConfig { max_open_files: most, ..StorageConfig::default() }, Layout::default(), None)
    }

    /// Returns the number of tables that the store may have open now.
    #[inline]
    pub fn most(&self) -> usize {
        self.most.load(Relaxed)
    }

    /// Registers `holder`, a part of the store that closes files when the share is reduced.
    pub fn holds(&self, holder: Weak<dyn Closes>) {
        self.holders.lock().push(holder);
    }

    fn fit(&self) {
        let _fitting = FITTING.try_read_for(PATIENCE);
        let holders: Vec<_> = self.holders.lock().iter().filter_map(Weak::upgrade).collect();
        holders.into_iter().for_each(|holder| holder.fit());
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if self.files_max.is_some() && self.process.is_current() {
            drop(share_out(None));
        }
    }
}

/// Divides the descriptors of the process among all open stores and the new store `more`. Returns
/// the shares of these stores, which the caller must drop after this call. The reason: the drop of
/// the last reference to a share calls this function again, which locks `STORES`. So no share may
/// be dropped while this function holds that lock.
fn share_out(more: Option<&Arc<Share>>) -> Vec<Arc<Share>> {
    let Some(mut stores) = STORES.try_lock_for(PATIENCE) else { return Vec::new() };
    stores.extend(more.map(Arc::downgrade));
    stores.retain(|share| share.strong_count() > 0);
    let sharing: Vec<_> = stores.iter().filter_map(Weak::upgrade).filter(|share| share.process.is_current()).collect();
    for share in &sharing {
        let each = share.files_max.map(|files| files / sharing.len() as u64);
        let most = descriptors::for_tables(&share.setup, share.layout, each).max_open_files;
        share.most.store(most, Relaxed);
    }
    sharing
}
