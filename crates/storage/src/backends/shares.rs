//! Divides the file descriptors of the process among its open stores.
//!
//! A store that reads its tables through descriptors may keep a limited number of tables open. The
//! limit is the smaller of two numbers: the one in the store's options, and an equal share of the
//! process's limit (`descriptors.rs`). When another store is opened, the shares of the open stores
//! become smaller. These stores close the excess files immediately, even if nothing is read. When
//! a store is closed, the shares of the other stores become larger.
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
/// lock and holds it only briefly. If a thread of the parent held the lock during a fork, the lock
/// is never released in the child. The child then continues without the lock.
static STORES: Mutex<Vec<Weak<Share>>> = Mutex::new(Vec::new());
const PATIENCE: Duration = Duration::from_secs(1);

/// A store holds this lock shared while it makes the other stores of this process close files.
/// During that time it owns references to the other stores. A store that is closed in the meantime
/// keeps the lock on its directory until the reference is dropped.
static FITTING: RwLock<()> = RwLock::new(());

/// Waits until no store of this process refers to another store that was closed, but at most for
/// `PATIENCE`. Called by an open that found its directory locked, because such a closed store may
/// still hold the directory's lock.
pub(super) fn wait_for_fits() {
    drop(FITTING.try_write_for(PATIENCE));
}

/// A part of a store that keeps files open. When the store's share of the descriptors becomes
/// smaller, it closes the excess files.
pub(super) trait Closes: Send + Sync {
    /// Closes files until the number of open files is within the share.
    fn fit(&self);
}

/// The maximum number of tables that one store may keep open. The same number limits the store's
/// open segments, or its open value files of directory tables.
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
    /// number that this store could use alone, if there is such a limit. `files_max` is the maximum
    /// number of open files of the process; `None` if the store's files take no descriptors.
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

    /// Makes a share of `most` open tables. The share does not depend on the number of open stores.
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
/// the shares of these stores. The shares must not be dropped while `STORES` is locked: dropping
/// the last reference to a share calls this function, which locks `STORES`. The caller drops them
/// after this function has released the lock.
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
