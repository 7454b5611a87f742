//! Whether the names in a directory have changed since it was synced, so that who has changed none there need not sync it.
use parking_lot::Mutex;
use std::{
    io,
    sync::atomic::{AtomicU64, Ordering},
};

/// Changes are counted once they are there: one that is counted before it is made would be taken for synced by a sync that comes
/// between.
pub(crate) struct Names {
    changes: AtomicU64,
    /// How many of the changes are durable. Held during a sync, so that who waits for one hears how it went.
    durable: Mutex<u64>,
}

/// Whoever was here before may have changed something.
impl Default for Names {
    fn default() -> Names {
        Names { changes: AtomicU64::new(1), durable: Mutex::new(0) }
    }
}

impl Names {
    /// Changes a name by `call`; one that fails may have changed it all the same.
    pub fn change<T>(&self, call: impl FnOnce() -> T) -> T {
        let done = call();
        self.changes.fetch_add(1, Ordering::SeqCst);
        done
    }

    /// Makes all changes before this call durable, by `call` unless another sync has.
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
    fn syncs(names: &Names) -> bool {
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
    fn a_sync_is_for_changes_that_are_there() {
        let names = Names::default();
        assert!(syncs(&names), "of whoever was here before");
        assert!(!syncs(&names));
        names.change(|| assert!(!syncs(&names), "it is not there yet"));
        assert!(syncs(&names));
        names.sync(|| unreachable!("nothing has changed")).expect("nothing to do");

        names.change(|| ());
        let with_a_change = || {
            names.change(|| ());
            Ok(())
        };
        names.sync(with_a_change).expect("one that comes meanwhile");
        assert!(syncs(&names), "is not covered");
        names.change(|| ());
        names.sync(|| Err(io::Error::other("no"))).expect_err("it fails");
        assert!(syncs(&names), "and makes nothing durable");
    }

    #[test]
    fn who_changed_a_name_does_not_go_by_a_sync_that_may_yet_fail() {
        let names = Names::default();
        names.change(|| ());
        thread::scope(|scope| {
            let (begun, is_begun) = mpsc::channel();
            let (asked, is_asked) = mpsc::channel();
            let names = &names;
            let other = scope.spawn(move || {
                names.sync(|| {
                    begun.send(()).expect("somebody listens");
                    is_asked.recv().expect("somebody asks");
                    thread::sleep(Duration::from_millis(50)); // the other is to get as far as it can
                    Err(io::Error::other("no"))
                })
            });
            is_begun.recv().expect("it begins");
            asked.send(()).expect("somebody listens");
            assert!(syncs(names), "the other's has failed");
            other.join().expect("no panic").expect_err("it failed");
        });
    }
}
