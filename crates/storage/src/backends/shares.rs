//! Divides the descriptors of the process among its open stores.
//!
//! Each store that reads its tables through descriptors may keep as many tables open as its
//! options and an equal share of the process's limit allow (`descriptors.rs`). Opening a store
//! reduces the shares of the others, which close the excess at once, even without reads. Closing
//! one enlarges them.
use super::descriptors;
use crate::{Process, StorageConfig};
use parking_lot::Mutex;
use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};
use terrace_format::Layout;

/// The stores of this process that share descriptors. A leaf lock, held for moments; a child that
/// was forked while its parent held it proceeds without.
static STORES: Mutex<Vec<Weak<Share>>> = Mutex::new(Vec::new());
const PATIENCE: Duration = Duration::from_secs(1);

/// Keeps files open, and closes those beyond its share.
pub(super) trait Closes: Send + Sync {
    /// Closes the files beyond the share.
    fn fit(&self);
}

/// The number of tables that one store may keep open, and of segments or directory-table values.
pub(super) struct Share {
    most: AtomicUsize,
    setup: StorageConfig,
    layout: Layout,
    /// `None` where this store does not share with others.
    files_max: Option<u64>,
    /// A leaf lock.
    holders: Mutex<Vec<Weak<dyn Closes>>>,
    process: Process,
}

impl Share {
    /// The share of a store. `setup` has been fitted to the store's own limit, if there is one.
    /// `files_max` is the limit of the process, if the store's files take its descriptors.
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

    /// A share without other stores.
    #[cfg(test)]
    pub fn alone(most: usize) -> Arc<Share> {
        Share::new(&StorageConfig { max_open_files: most, ..StorageConfig::default() }, Layout::default(), None)
    }

    /// The present limit.
    #[inline]
    pub fn most(&self) -> usize {
        self.most.load(Relaxed)
    }

    /// Registers `holder`, which closes files when the share is reduced.
    pub fn holds(&self, holder: Weak<dyn Closes>) {
        self.holders.lock().push(holder);
    }

    fn fit(&self) {
        let holders: Vec<_> = self.holders.lock().iter().filter_map(Weak::upgrade).collect();
        holders.iter().for_each(|holder| holder.fit());
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if self.files_max.is_some() && self.process.is_current() {
            drop(share_out(None));
        }
    }
}

/// Divides the descriptors among all stores and `more`. Returns the stores: the caller drops them
/// outside of the lock, since dropping the last owner calls this function.
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
