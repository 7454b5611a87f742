//! A durability tier for tests: tickets mature late, out of order, or never.
//!
//! With tickets that are mature when handed out, the rule of removal (docs/durability.md, §2) is never put to the
//! test. Here each build becomes durable only after some calls of `advance`, and its files are synced only then,
//! so a power cut in between really takes them.
use crate::Rng;
use parking_lot::Mutex;
use std::{io, time::Duration};
use terrace_storage::{
    Completer, DurabilityHandle, Error, IoStats, Result, SyncKind,
    backends::files::fs::FileSystem,
    durability::{DurabilityTracker, Finished},
};

/// The longest wait of a build, in calls of `advance`.
const STEPS_MAX: usize = 12;

/// See the module. The n-th build's fate depends on the seed and on n alone.
pub struct LateTracker {
    permille: usize,
    state: Mutex<State>, // held while files are synced, so that `commit` waits for whoever settles some of them
}

struct State {
    rng: Rng,
    waiting: Vec<Waiting>,
}

/// A build whose ticket is pending.
struct Waiting {
    files: Vec<Finished>,
    maturity: Completer,
    /// Calls of `advance` until it is settled.
    steps: usize,
    fails: bool,
}

impl LateTracker {
    /// Every build becomes durable, sooner or later.
    pub fn new(seed: u64) -> LateTracker {
        LateTracker::failing(seed, 0)
    }

    /// Of 1000 builds, about `permille` fail instead and are never synced.
    pub fn failing(seed: u64, permille: u32) -> LateTracker {
        LateTracker {
            permille: permille as usize,
            state: Mutex::new(State { rng: Rng::new(seed), waiting: Vec::new() }),
        }
    }
}

impl DurabilityTracker for LateTracker {
    fn durability_mode(&self) -> &'static str {
        "late"
    }

    fn watch(&self, fs: &dyn FileSystem, files: Vec<Finished>, traffic: &IoStats) -> Result<DurabilityHandle> {
        let mut state = self.state.lock();
        let (ticket, maturity) = DurabilityHandle::pending();
        let steps = state.rng.below(STEPS_MAX + 1);
        let fails = state.rng.chance(self.permille, 1000);
        let build = Waiting { files, maturity, steps, fails };
        if steps == 0 {
            // Its failure is the ticket's to tell, as of every other build.
            let _ = build.settle(fs, traffic);
        } else {
            state.waiting.push(build);
        }
        Ok(ticket)
    }

    fn give_up(&self, name: &str) -> Option<Finished> {
        let mut state = self.state.lock();
        state.waiting.iter_mut().find_map(|build| {
            let at = build.files.iter().position(|file| file.name == name)?;
            Some(build.files.swap_remove(at))
        })
    }

    /// One step. True if there was anything to wait for, also if this settled the last of it.
    fn advance(&self, fs: &dyn FileSystem, traffic: &IoStats) -> Result<bool> {
        let mut state = self.state.lock();
        let outstanding = !state.waiting.is_empty();
        state.waiting.iter_mut().for_each(|build| build.steps -= 1);
        for build in state.waiting.extract_if(.., |build| build.steps == 0) {
            let _ = build.settle(fs, traffic); // as in `watch`
        }
        Ok(outstanding)
    }

    /// Settles every build; the first failure among them is the answer.
    fn commit(&self, fs: &dyn FileSystem, traffic: &IoStats) -> Result<()> {
        let mut state = self.state.lock();
        let settled: Vec<Result<()>> = state.waiting.drain(..).map(|build| build.settle(fs, traffic)).collect();
        settled.into_iter().collect()
    }
}

impl Waiting {
    /// Decides the ticket.
    fn settle(self, fs: &dyn FileSystem, traffic: &IoStats) -> Result<()> {
        let done = if self.fails { self.break_promise() } else { self.sync(fs, traffic) };
        match &done {
            Ok(()) => self.maturity.keep(),
            Err(error) => self.maturity.fail(error.clone()),
        }
        done
    }

    fn break_promise(&self) -> Result<()> {
        let object = self.files.first().map_or("(no file)", |file| &file.name);
        Err(Error::io("sync", object, io::Error::other("injected writeback error")))
    }

    /// Syncs the files, then their names. Time is not measured here: nothing in this crate has a clock.
    fn sync(&self, fs: &dyn FileSystem, traffic: &IoStats) -> Result<()> {
        for file in &self.files {
            file.file.sync().map_err(|error| Error::io("sync", &file.name, error))?;
            traffic.synced(SyncKind::Tables(file.purpose), file.bytes, Duration::ZERO);
        }
        fs.sync_directory().map_err(|error| Error::io("sync", fs.name(), error))?;
        traffic.synced(SyncKind::Directory, 0, Duration::ZERO);
        Ok(())
    }
}
