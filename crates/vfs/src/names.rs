//! Tracks whether the names in a directory have changed since its last sync. A sync of an
//! unchanged directory is skipped.
use parking_lot::Mutex;
use std::{
    io,
    sync::atomic::{AtomicU64, Ordering},
};

/// Counts changes of names. A change is counted after it was made. In the opposite order, a sync
/// between the count and the change would mark the change as durable although it was not made yet.
pub(crate) struct UnsyncedNames {
    changes: AtomicU64,
    /// Number of changes that are durable. A thread keeps this mutex locked during a sync of the
    /// directory. A caller that has waited for the mutex omits its own sync if the earlier sync has
    /// covered its changes.
    durable: Mutex<u64>,
}

/// The initial state has one unsynced change, because an earlier process may have left unsynced
/// changes.
impl Default for UnsyncedNames {
    fn default() -> UnsyncedNames {
        UnsyncedNames { changes: AtomicU64::new(1), durable: Mutex::new(0) }
    }
}

impl UnsyncedNames {
    /// Calls `call`, which changes a name, and counts the change. The change is counted even if
    /// `call` fails, because it may have changed the name.
    pub fn change<T>(&self, call: impl FnOnce() -> T) -> T {
        let done = call();
        self.changes.fetch_add(1, Ordering::SeqCst);
        done
    }

    /// Makes all earlier changes durable by a call of `call`, which syncs the directory. Omits the
    /// call if a sync by another thread has covered these changes.
    pub fn sync(&self, call: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let wanted = self.changes.load(Ordering::SeqCst);
        let mut durable = self.durable.lock();
        if *durable < wanted {
            let covered = self.changes.load(Ordering::SeqCst);
            call()?;
            *durable = covered;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{sync::mpsc, thread, time::Duration};

    /// Returns whether `UnsyncedNames::sync` calls its function, which syncs the directory.
    fn syncs(names: &UnsyncedNames) -> bool {
        let mut called = false;
        names
            .sync(|| {
                called = true;
                Ok(())
            })
            .expect("nothing fails here");
        called
    }

    #[test]
    fn a_sync_covers_the_changes_made_before_it() {
        let names = UnsyncedNames::default();
        assert!(syncs(&names), "changes of an earlier session");
        assert!(!syncs(&names));
        names.change(|| assert!(!syncs(&names), "the change is not made yet"));
        assert!(syncs(&names));
        names.sync(|| unreachable!("nothing has changed")).expect("nothing to do");

        names.change(|| ());
        let with_a_change = || {
            names.change(|| ());
            Ok(())
        };
        names.sync(with_a_change).expect("a change during the sync");
        assert!(syncs(&names), "the change during the sync is not covered");
        names.change(|| ());
        names.sync(|| Err(io::Error::other("no"))).expect_err("the sync fails");
        assert!(syncs(&names), "a failed sync makes nothing durable");
    }

    #[test]
    fn a_caller_does_not_rely_on_a_running_sync_that_may_fail() {
        let names = UnsyncedNames::default();
        names.change(|| ());
        thread::scope(|scope| {
            let (begun, is_begun) = mpsc::channel();
            let (started, is_started) = mpsc::channel();
            let names = &names;
            let other = scope.spawn(move || {
                names.sync(|| {
                    begun.send(()).expect("the other thread receives");
                    is_started.recv().expect("the other thread sends");
                    // The pause gives the other thread time to reach the lock.
                    thread::sleep(Duration::from_millis(50));
                    Err(io::Error::other("no"))
                })
            });
            is_begun.recv().expect("it begins");
            started.send(()).expect("the other thread receives");
            assert!(syncs(names), "the other thread's sync has failed");
            other.join().expect("no panic").expect_err("it failed");
        });
    }
}
