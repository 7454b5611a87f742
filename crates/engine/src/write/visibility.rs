//! The point at which a write group becomes visible, and the steps whose failure stops the store.
use crate::{Error, Result, state::DbInner, sync::spin_until};
use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{Arc, atomic::Ordering},
    thread,
    time::Duration,
};
use terrace_format::SeqNo;

/// Interval between two checks whether an earlier write group is completely inserted, if its
/// insert takes long.
const LONG_INSERT_LOOK: Duration = Duration::from_micros(100);

/// Runs a step that must not be left incomplete. An error, or a panic of the comparator, stops the
/// store.
#[inline]
pub fn stop_on_error<T>(shared: &Arc<DbInner>, write: impl FnOnce() -> Result<T>) -> Result<T> {
    stop_on_panic(shared, write).inspect_err(|error| shared.fail(error))
}

/// Runs a step that an error may leave incomplete. Only a panic, for instance of the comparator,
/// stops the store.
#[inline]
pub fn stop_on_panic<T>(shared: &Arc<DbInner>, write: impl FnOnce() -> Result<T>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(write)) {
        Ok(outcome) => outcome,
        Err(panic) => {
            shared.fail(&Error::Bug("a write or its comparator panicked, so the content of the WAL is unknown".into()));
            resume_unwind(panic)
        }
    }
}

/// Makes the writes after `before`, up to `last`, visible to readers. First waits until writes up
/// to `before` are visible. So write groups become visible in the order of their sequence numbers,
/// whichever insert ends first.
#[inline]
pub fn publish(shared: &DbInner, before: SeqNo, last: SeqNo) -> Result<()> {
    if shared.visible() < before {
        wait_visible(shared, before)?;
    }
    shared.visible.store(last.0, Ordering::Release);
    Ok(())
}

/// Waits until all writes up to `seq` are inserted into memtables. The wait takes microseconds and
/// no I/O. Returns an error if one of the inserts panicked. A store that has stopped for lack of
/// space causes no error here, because the inserts still end and the stop is not permanent.
pub fn wait_visible(shared: &DbInner, seq: SeqNo) -> Result<()> {
    let visible = || shared.visible() >= seq;
    if spin_until(visible) {
        return Ok(());
    }
    while !visible() {
        if let Some(first) = shared.state.lock().failed.as_ref().filter(|first| !first.is_no_space()) {
            return Err(Error::FailStopped(Arc::new(first.clone())));
        }
        thread::sleep(LONG_INSERT_LOOK);
    }
    Ok(())
}
