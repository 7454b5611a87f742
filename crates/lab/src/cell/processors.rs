//! Selects the processors that a cell (one engine in one round) may use. A real drive does not use
//! the processors of the machine. If this machine emulates the drive, the lab therefore reserves
//! some processors for the emulation.
use anyhow::{Context, Result, bail};
use nix::{
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    unistd::Pid,
};

/// Returns the processors that this thread may use.
fn usable() -> Result<Vec<usize>> {
    let all = sched_getaffinity(Pid::from_raw(0)).context("read the processor affinity")?;
    Ok((0..CpuSet::count()).filter(|at| all.is_set(*at) == Ok(true)).collect())
}

/// Returns the first `count` usable processors.
fn first(count: usize) -> Result<Vec<usize>> {
    let mut usable = usable()?;
    if count == 0 || count >= usable.len() {
        bail!("processors: {count} of {} leaves none for the drive, or none for the engine", usable.len());
    }
    usable.truncate(count);
    Ok(usable)
}

/// Checks that the machine has `count` processors for the engine and at least one more for the
/// drive.
pub fn check(count: usize) -> Result<()> {
    first(count).map(drop)
}

/// Restricts this thread, and the threads it starts from now on, to the first `count` usable
/// processors.
pub fn keep_to(count: usize) -> Result<()> {
    let mut kept = CpuSet::new();
    first(count)?.into_iter().try_for_each(|at| kept.set(at)).context("choose processors")?;
    sched_setaffinity(Pid::from_raw(0), &kept).context("set the processor affinity")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn threads_stay_on_their_processors() {
        let count = || usable().unwrap().len();
        let all = count();
        let kept = thread::spawn(move || {
            assert!(keep_to(0).is_err() && keep_to(all).is_err());
            keep_to(1).map(|()| thread::spawn(count).join().unwrap())
        });
        match kept.join().unwrap() {
            Ok(kept) => assert_eq!((kept, count()), (1, all)),
            Err(refused) => assert!(all == 1, "{refused}"),
        }
    }
}
