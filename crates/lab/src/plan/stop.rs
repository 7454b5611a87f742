//! Stops a run when the user presses Ctrl-C. The signal sets a flag that the run checks, so that
//! the run can remove its temporary files.
use anyhow::{Context, Result};
use nix::sys::signal::{SigSet, Signal};
use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

/// The flag that the first signal sets.
static STOP: AtomicBool = AtomicBool::new(false);
/// Exit status of the process after the second signal. Shells report the same status for a process
/// that Ctrl-C has ended.
const INTERRUPTED: i32 = 130;
/// Maximum time between two signals that count as one. timeout(1) sends each signal twice.
const DUPLICATE_SIGNAL: Duration = Duration::from_secs(1);

fn signals() -> SigSet {
    SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP])
}

/// Starts the thread that handles termination signals. The first signal sets the flag, and a
/// second one ends the process immediately. The caller must call this before it starts other
/// threads, because those threads must not receive the signals.
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

/// Restores the default handling of signals. It must be called in a child of a process that called
/// [`on_signal`].
pub fn restore() -> Result<()> {
    signals().thread_unblock().context("unblock signals")
}
