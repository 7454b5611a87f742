//! Short sleeps. By default Linux wakes a sleeping thread up to 50 µs late, so that it can wake
//! several threads together (`PR_SET_TIMERSLACK`): a sleep of 20 µs takes 80 µs. The sleeps of
//! this module turn that delay off. They end about 15 µs late on a virtual machine.
use nix::{libc::c_ulong, sys::prctl};
use std::{thread, time::Duration};

/// Sleeps for `time` and a few microseconds more. Afterwards restores the timer slack of the
/// thread.
pub fn precise_sleep(time: Duration) {
    let slack = prctl::get_timerslack().ok().and_then(|slack| c_ulong::try_from(slack).ok());
    let Some(slack) = slack else { return thread::sleep(time) };
    let _ = prctl::set_timerslack(1); // if the kernel refuses this, the sleep takes longer
    thread::sleep(time);
    let _ = prctl::set_timerslack(slack); // allowed, as the call above was
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeps_long_enough_and_restores_the_timer_slack() {
        prctl::set_timerslack(70_000).expect("every thread may");
        let started = std::time::Instant::now();
        precise_sleep(Duration::from_micros(100));
        assert!(started.elapsed() >= Duration::from_micros(100));
        assert_eq!(prctl::get_timerslack(), Ok(70_000));
    }
}
