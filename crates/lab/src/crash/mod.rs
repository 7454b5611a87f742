//! Crash tests. A campaign fills stores, simulates power cuts at many moments and in many ways,
//! and judges the remaining disk contents (crash states) against the contract in
//! docs/durability.md. The contract has three parts: every promised write is present, the contents
//! are a prefix of the history, and the store accepts writes again.
//!
//! ```text
//! script ─▶ fill ─▶ store on a recorded device ─▶ crash_state ─▶ worker: open, judge
//!                   │ marks: promised batches                         │
//!                   └─────────────────────────────────────────────────┴▶ Tally
//! ```
//!
//! | module | contents |
//! |---|---|
//! | `script` | the history (batches to write), and the oracle that judges a store after a crash |
//! | `crash_state` | selection of the crash states to judge |
//! | `block` | the campaign on a recorded device, with a real ext4 or without a file system |
//! | `power_cycles` | the campaigns in which one store survives many power cuts in sequence |
//! | `machine` | the campaign on an emulated machine that is killed repeatedly |
//! | `drive` | the campaign on a drive that repeatedly loses power under load |
//! | `seam` | the campaign on a directory in memory, without a device |
//! | `size` | size of a history, and settings of its store |
//! | `fill`, `readers` | writing a history, reporting promises, and checks by concurrent readers |
//! | `station`, `worker`, `medium` | a served device, the judging process, the medium of a store |
//! | `emulator`, `archive`, `guest` | the emulated machine, its initramfs, its init process |
//! | `store_location` | the location of a store, for the worker process |
//! | `saved_state` | failing crash states as files |
mod archive;
pub mod block;
mod crash_state;
pub mod drive;
pub mod emulator;
mod fill;
mod guest;
pub mod machine;
mod medium;
mod power_cycles;
mod readers;
mod saved_state;
pub mod script;
pub mod seam;
pub mod size;
mod station;
mod store_location;
pub mod worker;

use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, path::PathBuf, str::FromStr, time::Duration};

/// Parameters of a campaign (a series of crash tests).
#[derive(Clone, Debug)]
pub struct Campaign {
    /// Name of the engine, in the form of `--engine`.
    pub engine: String,
    /// Seed of the first history (the batches that are written). Each further history has the next
    /// seed.
    pub seed: u64,
    /// Number of batches in a history.
    pub batches: u64,
    /// Number of crash states after which the campaign ends; `None` for no limit.
    pub states: Option<u64>,
    /// Duration after which the campaign ends; `None` for no limit.
    pub time: Option<Duration>,
    /// Number of crash states that are judged in parallel.
    pub workers: usize,
    /// The intentional fault of a negative control, if any.
    pub control: Option<NegativeControl>,
    /// Directory for recorded device requests and mount points.
    pub work: PathBuf,
    /// Directory in which failing crash states are saved; `None` to save none.
    pub keep: Option<PathBuf>,
}

/// A negative control: an intentional fault that a campaign must find. It proves that the campaign
/// can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NegativeControl {
    /// The device ignores flushes, so a power cut also loses writes before the last flush.
    IgnoredFlushes,
    /// The file system is mounted with the option `barrier=0`, so it sends no flushes to the
    /// device.
    NoBarrier,
    /// The engine does not sync writes, but the campaign treats them as synced.
    Unsynced,
    /// The engine's durability tracker, which detects when files are durable, reports files as
    /// durable although they are not.
    EarlyDurability,
}

impl Campaign {
    /// Returns the script of history `number` of this campaign. Its batches have the size `size`.
    fn script(&self, number: u64, size: size::Size) -> script::Script {
        script::Script { seed: self.seed.wrapping_add(number), batches: self.batches, size }
    }
}

impl NegativeControl {
    /// All negative controls, by name.
    pub const ALL: [(&'static str, NegativeControl); 4] = [
        ("ignored-flushes", NegativeControl::IgnoredFlushes),
        ("no-barrier", NegativeControl::NoBarrier),
        ("unsynced", NegativeControl::Unsynced),
        ("early-durability", NegativeControl::EarlyDurability),
    ];
}

impl FromStr for NegativeControl {
    type Err = String;

    fn from_str(text: &str) -> Result<NegativeControl, String> {
        let found = NegativeControl::ALL.iter().find(|(name, _)| *name == text).map(|(_, control)| *control);
        let names = || NegativeControl::ALL.map(|(name, _)| name).join(", ");
        found.ok_or_else(|| format!("unknown negative control {text:?}; the controls are {}", names()))
    }
}

/// Results of a campaign: its counts, and the violations that it found.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Number of histories written.
    pub histories: u64,
    /// Number of device requests and marks recorded.
    pub events: u64,
    /// Number of crash states judged.
    pub states: u64,
    /// Number of crash states that violate the durability contract.
    pub failed: u64,
    /// Number of failed crash states by the kind of the violation. The kind is a word in capitals.
    pub by_kind: BTreeMap<String, u64>,
    /// Text of the first violation.
    pub first: Option<String>,
    /// Files of saved failing crash states.
    pub kept: Vec<PathBuf>,
    /// Number of subsets of the requests in small windows, summed over all histories. A window is
    /// the requests between two flushes, and a small window has at most six requests.
    pub subsets: u64,
    /// Number of the subsets in `subsets` that were judged.
    pub subsets_judged: u64,
    /// Whether the campaign was stopped before its end.
    pub is_stopped: bool,
    /// Duration in seconds.
    pub seconds: f64,
}

impl Tally {
    /// Returns whether the campaign succeeded. Without a negative control, all requested crash
    /// states must have been judged, and the contract must hold in each. With a negative control,
    /// the campaign must have found the fault as lost data of the store, not as an unusable file
    /// system.
    ///
    /// # Errors
    /// The reason for the failure.
    pub fn verdict(&self, control: Option<NegativeControl>) -> Result<(), String> {
        let found: u64 = ["LOST", "HOLE", "OPEN"].iter().filter_map(|kind| self.by_kind.get(*kind)).sum();
        match control {
            None if self.failed > 0 => Err(format!("{} of {} states break the contract", self.failed, self.states)),
            _ if self.is_stopped => Err(format!("stopped after {} states", self.states)),
            _ if self.states == 0 => Err("no state was judged".into()),
            Some(_) if found == 0 => Err(format!("the intentional fault was not found in {} states", self.states)),
            _ => Ok(()),
        }
    }

    /// Counts the verdict on a crash state. Returns the number of crash states so far that violate
    /// the contract.
    fn count(&mut self, verdict: &Result<u64, String>) -> u64 {
        self.states += 1;
        if let Err(reason) = verdict {
            self.failed += 1;
            *self.by_kind.entry(reason.split(':').next().unwrap_or_default().into()).or_default() += 1;
            self.first.get_or_insert_with(|| reason.clone());
        }
        self.failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests the verdict on a whole campaign. A campaign that has judged no crash state fails. A
    /// campaign with an intentional fault succeeds only if it finds lost data of a store. An
    /// unusable file system or a crash of the worker process is not enough.
    #[test]
    fn a_campaign_succeeds_only_with_judged_states_and_the_expected_findings() {
        let tally = |words: &[&str]| {
            let mut tally = Tally::default();
            for word in words {
                tally.count(&if word.is_empty() { Ok(1) } else { Err(format!("{word}: x")) });
            }
            tally
        };
        let verdict = |words: &[&str], control| tally(words).verdict(control);
        let broken = Some(NegativeControl::NoBarrier);
        assert_eq!(verdict(&[""], None), Ok(()));
        assert_eq!(verdict(&["", "LOST"], None), Err("1 of 2 states break the contract".into()));
        for control in [None, broken] {
            assert_eq!(verdict(&[], control), Err("no state was judged".into()));
            let stopped = Tally { is_stopped: true, ..tally(&["", ""]) };
            assert_eq!(stopped.verdict(control), Err("stopped after 2 states".into()));
        }
        for word in ["LOST", "HOLE", "OPEN"] {
            assert_eq!(verdict(&["", word, "MOUNT"], broken), Ok(()), "{word}");
        }
        for words in [&["", ""][..], &["MOUNT", "EXT4", "HANGS", "DIES"]] {
            assert!(verdict(words, broken).unwrap_err().contains("was not found"), "{words:?}");
        }
    }
}
