//! Divides the file descriptors of the process among its open stores.
//!
//! A store that reads its tables through descriptors may keep a number of tables open. This number
//! is limited by the store's options and by an equal share of the process's limit
//! (`descriptors.rs`). Opening another store reduces the shares of the stores that are open. They
//! close the excess files immediately, even if nothing is read. Closing a store enlarges the
//! shares of the others.
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
/// lock and holds it only briefly. If a child process was forked while a thread of its parent held
/// the lock, the child continues without it.
static STORES: Mutex<Vec<Weak<Share>>> = Mutex::new(Vec::new());
const PATIENCE: Duration = Duration::from_secs(1);

/// Read-locked while a store of this process lets other stores close files. It then keeps those
/// stores, and with them their directory locks, although they may be closed meanwhile.
static FITTING: RwLock<()> = RwLock::new(());

/// Waits until no other store of this process keeps a closed one. For an open that found the
/// directory locked.
pub(super) fn wait_for_fits() {
    drop(FITTING.try_write_for(PATIENCE));
}

/// A part of a store that keeps files open, and that closes the files beyond the store's share.
pub(super) trait Closes: Send + Sync {
    /// Closes files until their number is within the share.
    fn fit(&self);
}

/// The number of tables that one store may keep open. The same number limits its open segments or
/// value files of directory tables.
pub(super) struct Share {
    most: AtomicUsize,
    setup: StorageConfig,
    layout: Layout,
    /// The limit of the process; `None` if this store does not share descriptors with others.
    files_max: Option<u64>,
    /// A thread that holds this lock takes no other lock.
    holders: Mutex<Vec<Weak<dyn Closes>>>,
    process: Process,
}

impl Share {
    /// Makes the share of a store. The caller has already reduced `setup` to the store's own limit,
    /// if there is one. `files_max` is the limit of the process; `None` if the store's files take
    /// no descriptors.
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

    /// Makes a share of `most` that does not depend on other stores.
    #[cfg(test)]
    pub fn alone(most: usize) -> Arc<Share> {
        Share::new(&StorageConfig { max_open_files: most, ..StorageConfig::default() }, Layout::default(), None)
    }

    /// Returns the present limit.
    #[inline]
    pub fn most(&self) -> usize {
        self.most.load(Relaxed)
    }

    /// Registers `holder`, which closes files when the share is reduced.
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

/// Divides the descriptors among the shares of all open stores and the new share `more`. Returns
/// the shares. The caller must drop them after it has released the lock, because dropping the last
/// owner of a share calls this function.
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
