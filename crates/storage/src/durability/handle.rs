//! The promise that written bytes will survive a power cut, and since when.
//!
//! A backend hands out a [`DurabilityHandle`] with what it wrote and keeps the [`Completer`] that goes with it. A syncing
//! backend hands out mature tickets; others mature theirs later. A ticket goes from pending to durable or to
//! failed once, and never back: a failed sync must not be tried again as if it had not happened.
use crate::{Error, Result};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;

/// What became of a promise.
#[derive(Clone, Debug)]
pub enum State {
    /// Not known yet.
    Pending,
    /// The bytes survive a power cut.
    Durable,
    /// They may not, and never will be known to.
    Failed(Error),
}

/// Names a promise, or several of which all must be kept; clones name the same ones.
#[derive(Clone, Debug)]
pub struct DurabilityHandle(Vec<Arc<Cell>>);

/// The giver's side of a pending ticket. Dropped undecided, it fails the ticket: a lost promise is a broken one.
#[derive(Debug)]
pub struct Completer(Arc<Cell>);

#[derive(Debug)]
struct Cell {
    state: Mutex<State>, // guards only itself; no I/O under it
    decided: Condvar,
}

impl DurabilityHandle {
    /// A promise already kept.
    pub fn mature() -> DurabilityHandle {
        DurabilityHandle(Vec::new())
    }

    /// A promise that will not be kept.
    pub fn broken(error: Error) -> DurabilityHandle {
        let (ticket, maturity) = DurabilityHandle::pending();
        maturity.fail(error);
        ticket
    }

    /// All of these promises.
    pub fn all(tickets: Vec<DurabilityHandle>) -> DurabilityHandle {
        DurabilityHandle(tickets.into_iter().flat_map(|ticket| ticket.0).collect())
    }

    /// A promise, and the means to keep it.
    pub fn pending() -> (DurabilityHandle, Completer) {
        let cell = Arc::new(Cell { state: Mutex::new(State::Pending), decided: Condvar::new() });
        (DurabilityHandle(vec![cell.clone()]), Completer(cell))
    }

    /// Where the promise stands: broken if one is, else pending if one is.
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

    /// Whether the bytes survive a power cut by now; the error if they never will.
    pub fn is_durable(&self) -> Result<bool> {
        match self.state() {
            State::Pending => Ok(false),
            State::Durable => Ok(true),
            State::Failed(error) => Err(error),
        }
    }

    /// Blocks until the promise is kept or broken. Does not make it mature: see `Storage::commit`.
    pub fn wait_durable(&self) -> Result<()> {
        self.0.iter().try_for_each(|cell| cell.wait())
    }
}

impl Completer {
    /// The bytes survive a power cut from now on.
    pub fn keep(self) {
        self.0.decide(State::Durable);
    }

    /// They may not, because of `error`.
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

    /// The first decision stands.
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
    fn decided_once_and_for_all_clones() {
        let (ticket, maturity) = DurabilityHandle::pending();
        let twin = ticket.clone();
        assert!(!twin.is_durable().unwrap());
        maturity.keep();
        assert!(twin.is_durable().unwrap());
        ticket.wait_durable().unwrap();
    }

    #[test]
    fn several_are_kept_together_and_broken_by_one() {
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
    fn abandoned_is_failed() {
        let (ticket, maturity) = DurabilityHandle::pending();
        drop(maturity);
        assert!(ticket.is_durable().is_err());
        assert!(ticket.wait_durable().is_err());
    }
}
