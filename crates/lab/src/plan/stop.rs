//! Ctrl-C stops a run and lets it remove its temporary files: the signal sets a flag, which the
//! run polls.
use anyhow::{Context, Result};
use nix::sys::signal::{SigSet, Signal};
use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

/// The flag that the first signal sets.
static STOP: AtomicBool = AtomicBool::new(false);
/// Exit status after the second signal, which shells use for a process ended by Ctrl-C.
const INTERRUPTED: i32 = 130;
/// A second signal within this time is a duplicate, because timeout(1) sends each signal twice.
const DUPLICATE_SIGNAL: Duration = Duration::from_secs(1);

fn signals() -> SigSet {
    SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP])
}

/// Installs the signal handler. A termination signal then sets the flag, and a second one ends the
/// process immediately. Call this before other threads start, because they must not receive the
/// signal.
pub fn on_signal() -> Result<&'static AtomicBool> {
    signals().thread_block().context("block signals")?;
    thread::spawn(|| {
        let mut first = None;
        while signals().wait().is_ok() {
            STOP.store(true, Ordering::Relaxed);
            if first.get_or_insert_with(Instant::now).elapsed() > DUPLICATE_SIGNAL {
                std::process::exit(INTERRUPTED);
            }
        }
    });
    Ok(&STOP)
}

/// Restores the default signal handling in a child of a process that called [`on_signal`].
pub fn restore() -> Result<()> {
    signals().thread_unblock().context("unblock signals")
}
