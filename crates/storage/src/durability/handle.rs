//! Durability handles: the promise that written bytes will survive a power cut.
//!
//! A backend returns a [`DurabilityHandle`] with the outputs of a job and keeps its [`Completer`].
//! In the mode `sync` the handle is durable at once; in others it completes later. A handle
//! changes once from pending to durable or failed, and never back: a failed sync must not be
//! retried as if it had not happened.
use crate::{Error, Result};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;

/// The state of a durability handle.
#[derive(Clone, Debug)]
pub enum State {
    /// Not decided yet.
    Pending,
    /// The bytes survive a power cut.
    Durable,
    /// The bytes may not survive, and no later sync can change that.
    Failed(Error),
}

/// The promise for one or several outputs, all of which must become durable. Clones stand for the
/// same promise.
#[derive(Clone, Debug)]
pub struct DurabilityHandle(Vec<Arc<Cell>>);

/// Decides a pending handle. Dropped undecided, it fails the handle.
#[derive(Debug)]
pub struct Completer(Arc<Cell>);

#[derive(Debug)]
struct Cell {
    state: Mutex<State>, // guards only itself; no I/O under it
    decided: Condvar,
}

impl DurabilityHandle {
    /// A handle that is durable already.
    pub fn mature() -> DurabilityHandle {
        DurabilityHandle(Vec::new())
    }

    /// A handle that has failed with `error`.
    pub fn broken(error: Error) -> DurabilityHandle {
        let (handle, completer) = DurabilityHandle::pending();
        completer.fail(error);
        handle
    }

    /// One handle for all of these.
    pub fn all(handles: Vec<DurabilityHandle>) -> DurabilityHandle {
        DurabilityHandle(handles.into_iter().flat_map(|handle| handle.0).collect())
    }

    /// A pending handle and its completer.
    pub fn pending() -> (DurabilityHandle, Completer) {
        let cell = Arc::new(Cell { state: Mutex::new(State::Pending), decided: Condvar::new() });
        (DurabilityHandle(vec![cell.clone()]), Completer(cell))
    }

    /// The state: failed if one part failed, else pending if one is pending.
    pub fn state(&self) -> State {
        let mut sum = State::Durable;
        for cell in &self.0 {
            match cell.state.lock().clone() {
                State::Durable => {}
                State::Pending => sum = State::Pending,
                failed @ State::Failed(_) => return failed,
            }
        }
        sum
    }

    /// Whether the bytes survive a power cut; the error if they never will.
    pub fn is_durable(&self) -> Result<bool> {
        match self.state() {
            State::Pending => Ok(false),
            State::Durable => Ok(true),
            State::Failed(error) => Err(error),
        }
    }

    /// Blocks until the handle is decided. Does not make progress itself: see `Storage::commit`.
    pub fn wait_durable(&self) -> Result<()> {
        self.0.iter().try_for_each(|cell| cell.wait())
    }
}

impl Completer {
    /// Completes the handle: the bytes survive a power cut.
    pub fn keep(self) {
        self.0.decide(State::Durable);
    }

    /// Fails the handle because of `error`.
    pub fn fail(self, error: Error) {
        self.0.decide(State::Failed(error));
    }
}

impl Drop for Completer {
    fn drop(&mut self) {
        self.0.decide(State::Failed(Error::Unsupported(
            "a commit was given up before it was known to be durable".into(),
        )));
    }
}

impl Cell {
    fn wait(&self) -> Result<()> {
        let mut state = self.state.lock();
        loop {
            match &*state {
                State::Pending => self.decided.wait(&mut state),
                State::Durable => return Ok(()),
                State::Failed(error) => return Err(error.clone()),
            }
        }
    }

    /// Only the first decision counts.
    fn decide(&self, outcome: State) {
        let mut state = self.state.lock();
        if matches!(*state, State::Pending) {
            *state = outcome;
            self.decided.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_is_final_and_for_all_clones() {
        let (handle, completer) = DurabilityHandle::pending();
        let clone = handle.clone();
        assert!(!clone.is_durable().unwrap());
        completer.keep();
        assert!(clone.is_durable().unwrap());
        handle.wait_durable().unwrap();
    }

    #[test]
    fn a_combined_handle_is_durable_with_all_parts_and_fails_with_one() {
        let [(first, one), (second, two), (third, three)] = [(); 3].map(|()| DurabilityHandle::pending());
        let (both, all) = (
            DurabilityHandle::all(vec![first.clone(), DurabilityHandle::mature(), second.clone()]),
            DurabilityHandle::all(vec![first, second, third]),
        );
        two.keep();
        assert!(!both.is_durable().unwrap() && !all.is_durable().unwrap());
        one.keep();
        assert!(both.is_durable().unwrap() && !all.is_durable().unwrap());
        both.wait_durable().unwrap();
        drop(three);
        assert!(all.is_durable().is_err() && all.wait_durable().is_err());
        assert!(DurabilityHandle::all(Vec::new()).is_durable().unwrap());
    }

    #[test]
    fn a_dropped_completer_fails_its_handle() {
        let (handle, completer) = DurabilityHandle::pending();
        drop(completer);
        assert!(handle.is_durable().is_err());
        assert!(handle.wait_durable().is_err());
    }
}
