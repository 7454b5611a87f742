//! Which processors a cell may use: a real drive has its own, so where this machine is the drive, too, some are left to it.
use anyhow::{Context, Result, bail};
use nix::{
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    unistd::Pid,
};

/// From now on this thread, and those that it starts, run on the first `count` of the processors that they may use. Others must be left.
pub fn keep_to(count: usize) -> Result<()> {
    let me = Pid::from_raw(0);
    let all = sched_getaffinity(me).context("ask which processors may be used")?;
    let usable: Vec<usize> = (0..CpuSet::count()).filter(|at| all.is_set(*at) == Ok(true)).collect();
    if count == 0 || count >= usable.len() {
        bail!("processors: {count} of {} would leave none to the drive, or none to the engine", usable.len());
    }
    let mut kept = CpuSet::new();
    usable[..count].iter().try_for_each(|at| kept.set(*at)).context("choose processors")?;
    sched_setaffinity(me, &kept).context("keep to some processors")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn threads_keep_to_what_is_left_to_them() {
        let usable = || thread::available_parallelism().unwrap().get();
        let all = usable();
        let kept = thread::spawn(move || {
            assert!(keep_to(0).is_err() && keep_to(all).is_err());
            keep_to(1).map(|()| thread::spawn(usable).join().unwrap())
        });
        match kept.join().unwrap() {
            Ok(kept) => assert_eq!((kept, usable()), (1, all)),
            Err(refused) => assert!(all == 1, "{refused}"),
        }
    }
}
