//! What is left after a power cut? Stores are filled, the power is cut on paper at many moments and in many ways, and what
//! could be left is opened and held against the contract (docs/durability.md): every write that was promised is there, of the
//! rest a prefix, and the store takes writes again.
//!
//! | module | question |
//! |---|---|
//! | `script` | what is written, and is what is left a prefix of it? |
//! | `choose` | which of all possible states are looked at? |
//! | `block` | the campaign on a recorded device, under a real ext4 or without one |
//! | `lives` | the campaigns in which one store goes through cut after cut |
//! | `machine` | ... on an emulated machine that is killed |
//! | `drive` | ... on a drive under load |
//! | `seam` | the campaign on a directory in memory |
//! | `size` | how much is written, into how large a store? |
//! | `fill`, `readers` | how is a history written, what is promised meanwhile, and what must readers see? |
//! | `station`, `worker`, `ground` | who serves a state, who judges it, and what does the store stand on? |
//! | `emulator`, `archive`, `guest` | what runs the machine, what is in it, and how does a worker live there? |
//! | `kept` | how is a failing state made again? |
mod archive;
pub mod block;
mod choose;
pub mod drive;
pub mod emulator;
mod fill;
mod ground;
mod guest;
mod kept;
mod lives;
pub mod machine;
mod readers;
pub mod script;
pub mod seam;
pub mod size;
mod station;
pub mod worker;

use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, path::PathBuf, str::FromStr, time::Duration};

/// What to do.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// As `--engine` spells it.
    pub engine: String,
    /// Of the first history; the next one has the next number.
    pub seed: u64,
    /// Batches of a history.
    pub batches: u64,
    /// Ends after so many states.
    pub states: Option<u64>,
    /// Ends after so long.
    pub time: Option<Duration>,
    /// States that are judged side by side.
    pub workers: usize,
    /// What is broken on purpose.
    pub control: Option<Control>,
    /// Where records and mount points are made.
    pub work: PathBuf,
    /// Where failing states are kept.
    pub keep: Option<PathBuf>,
}

/// Something broken on purpose, that a campaign must notice: what cannot fail proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Control {
    /// The device forgets what came after an earlier flush.
    IgnoredFlushes,
    /// The file system is mounted with `barrier=0`: it sends no flushes.
    NoBarrier,
    /// The engine is told not to sync what is then taken for synced.
    Unsynced,
    /// The engine's tracker calls files durable that are not.
    EarlyTickets,
}

impl Campaign {
    /// The history with this number.
    fn script(&self, number: u64, size: size::Size) -> script::Script {
        script::Script { seed: self.seed.wrapping_add(number), batches: self.batches, size }
    }
}

impl Control {
    /// All of them, by name.
    pub const ALL: [(&'static str, Control); 4] = [
        ("ignored-flushes", Control::IgnoredFlushes),
        ("no-barrier", Control::NoBarrier),
        ("unsynced", Control::Unsynced),
        ("early-tickets", Control::EarlyTickets),
    ];
}

impl FromStr for Control {
    type Err = String;

    fn from_str(text: &str) -> Result<Control, String> {
        let found = Control::ALL.iter().find(|(name, _)| *name == text).map(|(_, control)| *control);
        let names = || Control::ALL.map(|(name, _)| name).join(", ");
        found.ok_or_else(|| format!("no control is named {text:?}; there are {}", names()))
    }
}

/// What a campaign found.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Histories that were written.
    pub histories: u64,
    /// Requests that were recorded.
    pub events: u64,
    /// States that were judged.
    pub states: u64,
    /// States that broke the contract.
    pub failed: u64,
    /// The same by the word that names what was wrong.
    pub by_kind: BTreeMap<String, u64>,
    /// What was wrong with the first.
    pub first: Option<String>,
    /// Files of failing states.
    pub kept: Vec<PathBuf>,
    /// What can be left of windows between two flushes with few requests: so many subsets of them there are in the histories.
    pub subsets: u64,
    /// So many of these were judged.
    pub subsets_judged: u64,
    /// Whether it was ended before it was over.
    pub is_stopped: bool,
    /// How long it took.
    pub seconds: f64,
}

impl Tally {
    /// Whether the campaign ended as it should: every state that was to be judged was, and the contract holds; under a control, what
    /// was broken on purpose was found, by what is lost of the store and not by a file system that fell over.
    ///
    /// # Errors
    /// What it found instead.
    pub fn verdict(&self, control: Option<Control>) -> Result<(), String> {
        let found: u64 = ["LOST", "HOLE", "OPEN"].iter().filter_map(|kind| self.by_kind.get(*kind)).sum();
        match control {
            None if self.failed > 0 => Err(format!("{} of {} states break the contract", self.failed, self.states)),
            _ if self.is_stopped => Err(format!("stopped after {} states", self.states)),
            _ if self.states == 0 => Err("no state was judged".into()),
            Some(_) if found == 0 => Err(format!("what was broken on purpose was not found in {} states", self.states)),
            _ => Ok(()),
        }
    }

    /// Counts a state; the number of failed ones.
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

    /// What says nothing about a store is no good end of a campaign.
    #[test]
    fn a_campaign_ends_well_only_if_it_judged_and_found_what_it_should() {
        let tally = |words: &[&str]| {
            let mut tally = Tally::default();
            for word in words {
                tally.count(&if word.is_empty() { Ok(1) } else { Err(format!("{word}: x")) });
            }
            tally
        };
        let verdict = |words: &[&str], control| tally(words).verdict(control);
        let broken = Some(Control::NoBarrier);
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
