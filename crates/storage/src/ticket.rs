//! The promise that written bytes will survive a power cut, and since when.
//!
//! A backend hands out a [`Ticket`] with what it wrote and keeps the [`Maturity`] that goes with it. A syncing
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

/// Names a promise; clones name the same one.
#[derive(Clone, Debug)]
pub struct Ticket(Option<Arc<Cell>>);

/// The giver's side of a pending ticket. Dropped undecided, it fails the ticket: a lost promise is a broken one.
#[derive(Debug)]
pub struct Maturity(Arc<Cell>);

#[derive(Debug)]
struct Cell {
    state: Mutex<State>, // guards only itself; no I/O under it
    decided: Condvar,
}

impl Ticket {
    /// A promise already kept.
    pub fn mature() -> Ticket {
        Ticket(None)
    }

    /// A promise, and the means to keep it.
    pub fn pending() -> (Ticket, Maturity) {
        let cell = Arc::new(Cell { state: Mutex::new(State::Pending), decided: Condvar::new() });
        (Ticket(Some(cell.clone())), Maturity(cell))
    }

    /// Where the promise stands.
    pub fn state(&self) -> State {
        self.0.as_ref().map_or(State::Durable, |cell| cell.state.lock().clone())
    }

    /// Whether the bytes survive a power cut by now; the error if they never will.
    pub fn is_durable(&self) -> Result<bool> {
        match self.state() {
            State::Pending => Ok(false),
            State::Durable => Ok(true),
            State::Failed(error) => Err(error),
        }
    }

    /// Blocks until the promise is kept or broken. Does not make it mature: see `Placement::commit`.
    pub fn wait_durable(&self) -> Result<()> {
        let Some(cell) = &self.0 else { return Ok(()) };
        let mut state = cell.state.lock();
        loop {
            match &*state {
                State::Pending => cell.decided.wait(&mut state),
                State::Durable => return Ok(()),
                State::Failed(error) => return Err(error.clone()),
            }
        }
    }
}

impl Maturity {
    /// The bytes survive a power cut from now on.
    pub fn keep(self) {
        self.0.decide(State::Durable);
    }

    /// They may not, because of `error`.
    pub fn fail(self, error: Error) {
        self.0.decide(State::Failed(error));
    }
}

impl Drop for Maturity {
    fn drop(&mut self) {
        self.0.decide(State::Failed(Error::Unsupported(
            "a commit was given up before it was known to be durable".into(),
        )));
    }
}

impl Cell {
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
        let (ticket, maturity) = Ticket::pending();
        let twin = ticket.clone();
        assert!(!twin.is_durable().unwrap());
        maturity.keep();
        assert!(twin.is_durable().unwrap());
        ticket.wait_durable().unwrap();
    }

    #[test]
    fn abandoned_is_failed() {
        let (ticket, maturity) = Ticket::pending();
        drop(maturity);
        assert!(ticket.is_durable().is_err());
        assert!(ticket.wait_durable().is_err());
    }
}
