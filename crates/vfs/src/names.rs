//! Tracks whether the names in a directory have changed since its last sync, to skip syncs that
//! have nothing to do.
use parking_lot::Mutex;
use std::{
    io,
    sync::atomic::{AtomicU64, Ordering},
};

/// Counts changes after they are made. A change counted before it is made would be taken for
/// durable by a sync in between.
pub(crate) struct UnsyncedNames {
    changes: AtomicU64,
    /// Number of durable changes. Locked during a sync, so that a waiting caller gets that sync's
    /// result.
    durable: Mutex<u64>,
}

/// An earlier session may have left unsynced changes.
impl Default for UnsyncedNames {
    fn default() -> UnsyncedNames {
        UnsyncedNames { changes: AtomicU64::new(1), durable: Mutex::new(0) }
    }
}

impl UnsyncedNames {
    /// Changes a name by `call`. A failed call counts as well: it may have changed the name.
    pub fn change<T>(&self, call: impl FnOnce() -> T) -> T {
        let done = call();
        self.changes.fetch_add(1, Ordering::SeqCst);
        done
    }

    /// Makes all earlier changes durable: by `call`, unless another sync has covered them.
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

    /// Whether a sync had something to do.
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
                    // Gives the other thread time to reach the lock.
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
