//! The descriptors of the process, shared out among the stores that it has open.
//!
//! The limit is the process's. Each store that reads its tables through descriptors may keep as many tables open as its options and
//! an equal share of them allow (`descriptors.rs`); a store that is opened makes the shares of the others smaller, and they close
//! what is too much at once, whether anybody reads from them or not. One that is closed makes them larger.
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

/// The stores of this process that take part. A leaf lock, held for moments; a forked child whose parent held it does without.
static STORES: Mutex<Vec<Weak<Share>>> = Mutex::new(Vec::new());
const PATIENCE: Duration = Duration::from_secs(1);

/// What keeps files open, and closes those that are too many.
pub(super) trait Closes: Send + Sync {
    /// Closes what is beyond the share.
    fn fit(&self);
}

/// How many tables one store may keep open, and as many segments or pairs.
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
    /// That of a store whose `setup` has been fitted to its own limit, if it has one. `files_max` is the process's limit, if its files take
    /// descriptors of that.
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

    /// A share that is nobody else's.
    #[cfg(test)]
    pub fn alone(most: usize) -> Arc<Share> {
        Share::new(&StorageConfig { max_open_files: most, ..StorageConfig::default() }, Layout::default(), None)
    }

    /// At this moment.
    #[inline]
    pub fn most(&self) -> usize {
        self.most.load(Relaxed)
    }

    /// `holder` closes files when the share has become smaller.
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

/// Divides the descriptors anew, among `more` too. Returns those that take part: what they drop last may come here.
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
