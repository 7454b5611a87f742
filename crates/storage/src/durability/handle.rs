//! Durability handles. A handle reports whether the files of a job survive a power cut yet.
//!
//! A backend returns a [`DurabilityHandle`] with the outputs of a job and keeps the handle's
//! [`Completer`]. In the mode `sync` the handle is durable when it is returned. In the other modes
//! it becomes durable later. A handle changes once, from pending to durable or failed, and never
//! afterwards: a failed sync must not be repeated as if it had not failed.
use crate::{Error, Result};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;

/// The state of a durability handle.
#[derive(Clone, Debug)]
pub enum State {
    /// The outcome is not known yet.
    Pending,
    /// The bytes survive a power cut.
    Durable,
    /// The bytes may not survive, and no later sync can change that.
    Failed(Error),
}

/// A durability handle for one or several outputs of a job. It is durable once all of the outputs
/// are. All clones of a handle share one state.
#[derive(Clone, Debug)]
pub struct DurabilityHandle(Vec<Arc<Cell>>);

/// Makes a pending handle durable or failed. If the completer is dropped before it has done so,
/// the handle fails.
#[derive(Debug)]
pub struct Completer(Arc<Cell>);

#[derive(Debug)]
struct Cell {
    state: Mutex<State>, // while it is held, no other lock is taken and no I/O is done
    decided: Condvar,
}

impl DurabilityHandle {
    /// Returns a handle that is durable already.
    pub fn mature() -> DurabilityHandle {
        DurabilityHandle(Vec::new())
    }

    /// Returns a handle that has failed with `error`.
    pub fn broken(error: Error) -> DurabilityHandle {
        let (handle, completer) = DurabilityHandle::pending();
        completer.fail(error);
        handle
    }

    /// Returns one handle that combines `handles`.
    pub fn all(handles: Vec<DurabilityHandle>) -> DurabilityHandle {
        DurabilityHandle(handles.into_iter().flat_map(|handle| handle.0).collect())
    }

    /// Returns a pending handle and its completer.
    pub fn pending() -> (DurabilityHandle, Completer) {
        let cell = Arc::new(Cell { state: Mutex::new(State::Pending), decided: Condvar::new() });
        (DurabilityHandle(vec![cell.clone()]), Completer(cell))
    }

    /// Returns the state of a handle, which may combine several handles. The state is failed if one
    /// of them has failed, else pending if one of them is pending, else durable.
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

    /// Returns whether the bytes of the handle's files survive a power cut. Returns the error if
    /// they never will.
    pub fn is_durable(&self) -> Result<bool> {
        match self.state() {
            State::Pending => Ok(false),
            State::Durable => Ok(true),
            State::Failed(error) => Err(error),
        }
    }

    /// Blocks until the handle is durable or failed. The call starts no sync itself;
    /// `Storage::commit` does.
    pub fn wait_durable(&self) -> Result<()> {
        self.0.iter().try_for_each(|cell| cell.wait())
    }
}

impl Completer {
    /// Makes the handle durable: the bytes survive a power cut.
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

    /// Sets the outcome (durable or failed). After the first call, further calls have no effect.
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
