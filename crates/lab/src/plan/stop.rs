//! Ctrl-C ends a run where it is, and what the run made is removed: signals become a flag that the run looks at.
use anyhow::{Context, Result};
use nix::sys::signal::{SigSet, Signal};
use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

/// Set by the first signal.
static STOP: AtomicBool = AtomicBool::new(false);
/// Exit status at the second one, as shells spell "ended by Ctrl-C".
const INTERRUPTED: i32 = 130;
/// A signal so soon after the first one is the same wish: timeout(1) sends each twice.
const SAME_WISH: Duration = Duration::from_secs(1);

fn signals() -> SigSet {
    SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP])
}

/// From now on a signal that asks this process to end sets the flag; a second one ends it at once. Call it before there
/// are other threads: they must not take the signal.
pub fn on_signal() -> Result<&'static AtomicBool> {
    signals().thread_block().context("block signals")?;
    thread::spawn(|| {
        let mut first = None;
        while signals().wait().is_ok() {
            STOP.store(true, Ordering::Relaxed);
            if first.get_or_insert_with(Instant::now).elapsed() > SAME_WISH {
                std::process::exit(INTERRUPTED);
            }
        }
    });
    Ok(&STOP)
}

/// Takes back in a child what it inherited from a parent that called [`on_signal`].
pub fn restore() -> Result<()> {
    signals().thread_unblock().context("unblock signals")
}
