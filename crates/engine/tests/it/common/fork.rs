//! Forked children. A program whose tests run side by side has threads that a child lacks: use it within
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

/// After so long a child is taken to hang.
const PATIENCE: Duration = Duration::from_secs(20);

/// A child that runs.
pub struct Child(Pid);

/// Starts a child that runs `body` and ends, without running anything of its parent's.
pub fn start(body: impl FnOnce()) -> Child {
    // SAFETY: the child runs only this thread. What it may meet that other threads held is what is tested; its memory
    // is its own, and libc's allocator is made for forks.
    match unsafe { fork() }.expect("a child") {
        ForkResult::Parent { child } => Child(child),
        ForkResult::Child => {
            let ended = catch_unwind(AssertUnwindSafe(body));
            // SAFETY: ends the process; runs nothing that the parent has registered.
            unsafe { libc::_exit(i32::from(ended.is_err())) }
        }
    }
}

impl Child {
    /// Waits until it has ended, which it must without a panic, a signal, or help.
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

    /// Ends it as an operator does who has lost patience.
    pub fn kill(&self) {
        kill(self.0, Signal::SIGKILL).expect("a child that may be killed");
        let _ = waitpid(self.0, None); // it may have been waited for
    }
}
