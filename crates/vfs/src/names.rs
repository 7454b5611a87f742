//! Counts changes of names in a directory, so that a sync of an unchanged directory is skipped.
use parking_lot::Mutex;
use std::{
    io,
    sync::atomic::{AtomicU64, Ordering},
};

/// A change is counted after it was made. If it were counted before, a sync in between would take
/// it for durable.
pub(crate) struct UnsyncedNames {
    changes: AtomicU64,
    /// The number of durable changes. Held during a sync, so that waiting threads see its result.
    durable: Mutex<u64>,
}

/// An earlier process may have changed names, so the first sync is not skipped.
impl Default for UnsyncedNames {
    fn default() -> UnsyncedNames {
        UnsyncedNames { changes: AtomicU64::new(1), durable: Mutex::new(0) }
    }
}

impl UnsyncedNames {
    /// Changes a name by `call`, which may have changed it even if it fails.
    pub fn change<T>(&self, call: impl FnOnce() -> T) -> T {
        let done = call();
        self.changes.fetch_add(1, Ordering::SeqCst);
        done
    }

    /// Makes all earlier changes durable, by `call` unless another sync has done so.
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
        assert!(syncs(&names), "an earlier process may have changed names");
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
    fn a_later_sync_waits_for_the_result_of_a_running_one() {
        let names = UnsyncedNames::default();
        names.change(|| ());
        thread::scope(|scope| {
            let (begun, is_begun) = mpsc::channel();
            let (started, is_started) = mpsc::channel();
            let names = &names;
            let other = scope.spawn(move || {
                names.sync(|| {
                    begun.send(()).expect("the receiver lives");
                    is_asked.recv().expect("the sender lives");
                    // The other thread is to get as far as it can
                    thread::sleep(Duration::from_millis(50));
                    Err(io::Error::other("no"))
                })
            });
            is_begun.recv().expect("it begins");
            asked.send(()).expect("the receiver lives");
            assert!(syncs(names), "the other's has failed");
            other.join().expect("no panic").expect_err("it failed");
        });
    }
}
