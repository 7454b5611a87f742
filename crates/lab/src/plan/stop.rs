//! Ctrl-C stops a run and removes its temporary files: signals set a flag that the run polls.
use anyhow::{Context, Result};
use nix::sys::signal::{SigSet, Signal};
use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

/// Set by the first signal.
static STOP: AtomicBool = AtomicBool::new(false);
/// Exit status after the second signal, as shells report "ended by Ctrl-C".
const INTERRUPTED: i32 = 130;
/// A signal this soon after the first one is a duplicate: timeout(1) sends each twice.
const DUPLICATE_SIGNAL: Duration = Duration::from_secs(1);

fn signals() -> SigSet {
    SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP])
}

/// From now on, a termination signal sets the flag; a second one ends the process at once. Call
/// this before other threads start: they must not receive the signal.
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

/// Restores the default in a child of a process that called [`on_signal`].
pub fn restore() -> Result<()> {
    signals().thread_unblock().context("unblock signals")
}
