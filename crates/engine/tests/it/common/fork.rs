//! Forks child processes. A child has only a copy of the thread that forked. The tests of one
//! binary run in parallel threads, so a test may fork only within
//! [`in_own_process`](super::alone::in_own_process).
#![allow(unsafe_code, reason = "a fork is")]
use nix::{
    libc,
    sys::{
        signal::{Signal, kill},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::{ForkResult, Pid, fork},
};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    thread,
    time::{Duration, Instant},
};

/// The time after which the test fails if a child still runs.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running child.
pub struct Child(Pid);

/// Starts a child process that runs `body`. The child exits without running its parent's
/// destructors and exit handlers.
pub fn start(body: impl FnOnce()) -> Child {
    // SAFETY: the child runs only the forking thread. The child's memory is its own copy, and the
    // allocator of libc supports forks. Locks that other threads of the parent held stay locked in
    // the child; the tests check the behaviour in this situation.
    match unsafe { fork() }.expect("a child") {
        ForkResult::Parent { child } => Child(child),
        ForkResult::Child => {
            let ended = catch_unwind(AssertUnwindSafe(body));
            // SAFETY: the call ends the process and runs no handler that the parent has registered.
            unsafe { libc::_exit(i32::from(ended.is_err())) }
        }
    }
}

impl Child {
    /// Waits until the child exits. Fails if the child panics or is killed by a signal.
    pub fn wait(self) {
        let begun = Instant::now();
        loop {
            match waitpid(self.0, Some(WaitPidFlag::WNOHANG)).expect("a child to wait for") {
                WaitStatus::StillAlive if begun.elapsed() < PATIENCE => thread::sleep(Duration::from_millis(2)),
                WaitStatus::StillAlive => {
                    self.kill();
                    panic!("the child hangs");
                }
                ended => return assert!(matches!(ended, WaitStatus::Exited(_, 0)), "the child: {ended:?}"),
            }
        }
    }

    /// Kills the child with a signal.
    pub fn kill(&self) {
        kill(self.0, Signal::SIGKILL).expect("a child that may be killed");
        let _ = waitpid(self.0, None); // the child may have exited already
    }
}
