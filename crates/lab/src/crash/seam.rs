//! The crash-test campaign at the storage interface, without a device. The store is in a directory
//! in memory. At a power cut, the directory loses unsynced data by the rules of ext4 or of POSIX.
//! The campaign needs no root and judges thousands of crash states per second. It runs the
//! engine's background work step by step, so equal seeds give equal crash states.
//!
//! The engine's own tests generate the same histories and power cuts.
#[path = "../../../engine/tests/it/common/cuts.rs"]
mod cuts;
#[path = "../../../engine/tests/it/common/history.rs"]
mod history;

use super::{Campaign, NegativeControl, Tally};
use crate::engines::terrace::Terrace;
use anyhow::{Result, bail};
use cuts::Cuts;
use history::Tracker;
use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};
use terrace::Options;

/// Number of crash states that are judged for each power cut of a history. Each of them has
/// another seed.
const SEEDS: u64 = 8;
/// Number of power cuts per history if the campaign is limited only by time. Each cut comes after
/// another step of the history. After these cuts, the campaign continues with a history of another
/// kind.
const STEPS: usize = 32;

/// Runs a campaign on a preset of Terrace. `watch` receives the tally repeatedly, and returns
/// false to stop the campaign.
///
/// # Errors
/// The engine is not a preset of Terrace, or the negative control (an intentional fault) needs a
/// device. A crash state that violates the durability contract is counted in the tally and is not
/// an error.
pub fn run(campaign: &Campaign, watch: &mut dyn FnMut(&Tally) -> bool) -> Result<Tally> {
    let options = options(&campaign.engine)?;
    let trackers = match campaign.control {
        None => &Tracker::PROMISING[..],
        Some(NegativeControl::Unsynced) => &[Tracker::Never],
        Some(NegativeControl::EarlyDurability) => &[Tracker::Lying],
        Some(control) => bail!("{control:?} needs a device; the storage-level campaign has none"),
    };
    // Every kind of history gets the same number of crash states. The power cuts of a history are
    // distributed over all its steps.
    let kinds = cuts::histories(&options, trackers, 0, SEEDS).len() as u64;
    let steps_max = campaign.states.map_or(STEPS, |states| (states / kinds / SEEDS) as usize);
    let begin = Instant::now();
    let shared = SharedTally { next: AtomicUsize::new(0), stop: AtomicBool::new(false), tally: Mutex::default() };
    let is_late = || campaign.time.is_some_and(|time| begin.elapsed() >= time);
    thread::scope(|scope| {
        let work = || {
            for number in std::iter::from_fn(|| Some(shared.next.fetch_add(1, Relaxed))) {
                if shared.stop.load(Relaxed) {
                    break;
                }
                shared.judge(&history(campaign, &options, trackers, number), steps_max, campaign.states);
            }
        };
        let threads: Vec<_> = (0..campaign.workers).map(|_| scope.spawn(work)).collect();
        while !threads.iter().all(thread::ScopedJoinHandle::is_finished) {
            thread::sleep(Duration::from_millis(20));
            let mut tally = shared.tally.lock().unwrap_or_else(PoisonError::into_inner);
            let is_over = shared.stop.load(Relaxed);
            tally.is_stopped |= !watch(&tally) && !is_over;
            if tally.states > 0 && is_late() || tally.is_stopped {
                shared.stop.store(true, Relaxed);
            }
        }
    });
    let mut tally = shared.tally.into_inner().unwrap_or_else(PoisonError::into_inner);
    tally.seconds = begin.elapsed().as_secs_f64();
    Ok(tally)
}

fn options(engine: &str) -> Result<Options> {
    match engine.split_once(':') {
        None if engine == "terrace" => Ok(Options::default()),
        Some(("terrace", preset)) => Ok(Terrace::new(Some(preset))?.base().clone()),
        _ => bail!("{engine}: the storage-level campaign supports only presets of terrace"),
    }
}

/// Returns history `number` of a campaign. Consecutive numbers cover every durability tracker (the
/// part that detects when files are durable) with every set of file system rules. After all of
/// these combinations, the seed changes.
fn history(campaign: &Campaign, options: &Options, trackers: &[Tracker], number: usize) -> Cuts {
    let kinds = cuts::histories(options, trackers, 0, SEEDS);
    let seed = campaign.seed.wrapping_add((number / kinds.len()) as u64);
    Cuts { history: seed, ..kinds[number % kinds.len()].clone() }
}

struct SharedTally {
    /// Number of the next history.
    next: AtomicUsize,
    stop: AtomicBool,
    tally: Mutex<Tally>,
}

impl SharedTally {
    fn judge(&self, history: &Cuts, steps_max: usize, states_max: Option<u64>) {
        let mut is_new = true;
        history.judge_all(steps_max, &mut |broken| {
            let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
            if self.stop.load(Relaxed) {
                return false;
            }
            tally.histories += u64::from(std::mem::take(&mut is_new));
            tally.count(&broken.map_or(Ok(0), |broken| Err(format!("{} ({})", broken.reason, broken.place))));
            if states_max.is_some_and(|max| tally.states >= max) {
                self.stop.store(true, Relaxed);
            }
            true
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn campaign(engine: &str, control: Option<NegativeControl>) -> Campaign {
        Campaign {
            engine: engine.into(),
            seed: 3,
            batches: 0,
            states: Some(2000),
            time: None,
            workers: 2,
            control,
            work: Default::default(),
            keep: None,
        }
    }

    #[test]
    fn selected_steps_are_spread_over_the_history() {
        for (last, max) in [(0, 0), (0, 5), (439, 15), (439, 440), (439, usize::MAX), (12, 3)] {
            let steps: Vec<usize> = cuts::spread(last, max).collect();
            assert!(
                !steps.is_empty() && steps.len() <= max.max(1) && steps.last() == Some(&last),
                "{last} {max}: {steps:?}"
            );
            assert!(steps[0] < (last + 1).div_ceil(max.max(1)), "{last} {max}: {steps:?}");
        }
        assert_eq!(cuts::spread(3, 9).collect::<Vec<_>>(), [0, 1, 2, 3]);
    }

    #[test]
    fn presets_keep_the_contract_and_intentional_faults_are_found() {
        for preset in ["terrace:leveldb", "terrace:default"] {
            let tally = run(&campaign(preset, None), &mut |_| true).unwrap();
            assert_eq!((tally.states, tally.failed), (2000, 0), "{preset}: {tally:?}");
            let kinds = cuts::histories(&options(preset).unwrap(), &Tracker::PROMISING, 0, SEEDS).len() as u64;
            assert!(kinds > 10 && tally.histories >= kinds, "not every kind of history had its turn: {tally:?}");
        }
        for control in [NegativeControl::Unsynced, NegativeControl::EarlyDurability] {
            let tally = run(&campaign("terrace", Some(control)), &mut |_| true).unwrap();
            assert!(tally.failed > 20 && tally.first.is_some(), "{control:?}: {tally:?}");
        }
        assert!(run(&campaign("terrace", Some(NegativeControl::NoBarrier)), &mut |_| true).is_err());
        assert!(run(&campaign("leveldb", None), &mut |_| true).unwrap_err().to_string().contains("leveldb"));
    }
}
