//! A durability mode for tests in which files become durable late. A durability handle reports
//! whether the files of a build are durable yet. In this mode, handles become durable after a
//! delay, out of order, or never.
//!
//! The engine may remove an obsolete file only when its replacement is durable
//! (docs/durability.md, §2). If handles were durable immediately, tests would never exercise this
//! rule. In this mode each build (the files of one flush or compaction) becomes durable only after
//! some calls of `advance`. Its files are synced only then, so a power cut before that really
//! loses them.
use crate::Rng;
use parking_lot::Mutex;
use std::{io, time::Duration};
use terrace_storage::{
    Completer, DurabilityHandle, Error, IoStats, Result, SyncKind,
    backends::files::fs::FileSystem,
    durability::{DurabilityTracker, Finished},
};

/// Longest time that a build waits, in calls of `advance`.
const STEPS_MAX: usize = 12;

/// The durability tracker that completes durability handles late. It delays the n-th build for
/// some calls of `advance`, or lets it fail. Both choices depend only on the seed and on n.
pub struct LateTracker {
    permille: usize,
    // This mutex is locked during syncs, so that `commit` also waits for builds that another thread
    // is completing.
    state: Mutex<State>,
}

struct State {
    rng: Rng,
    waiting: Vec<Waiting>,
}

/// A build with a pending durability handle.
struct Waiting {
    files: Vec<Finished>,
    completer: Completer,
    /// Calls of `advance` until the build completes.
    steps: usize,
    fails: bool,
}

impl LateTracker {
    /// Returns a tracker whose builds all become durable eventually.
    pub fn new(seed: u64) -> LateTracker {
        LateTracker::failing(seed, 0)
    }

    /// Returns a tracker that lets about `permille` of 1000 builds fail. The files of a failed
    /// build are never synced.
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

    fn watch(&self, fs: &dyn FileSystem, files: Vec<Finished>, io_stats: &IoStats) -> Result<DurabilityHandle> {
        let mut state = self.state.lock();
        let (handle, completer) = DurabilityHandle::pending();
        let steps = state.rng.below(STEPS_MAX + 1);
        let fails = state.rng.chance(self.permille, 1000);
        let build = Waiting { files, completer, steps, fails };
        if steps == 0 {
            // The durability handle of the build reports the failure, so the error is ignored here.
            let _ = build.complete(fs, io_stats);
        } else {
            state.waiting.push(build);
        }
        Ok(handle)
    }

    fn cancel_sync(&self, name: &str) -> Option<Finished> {
        let mut state = self.state.lock();
        state.waiting.iter_mut().find_map(|build| {
            let at = build.files.iter().position(|file| file.name == name)?;
            Some(build.files.swap_remove(at))
        })
    }

    /// Advances one step. Returns true if any build was pending at the start of the call.
    fn advance(&self, fs: &dyn FileSystem, io_stats: &IoStats) -> Result<bool> {
        let mut state = self.state.lock();
        let outstanding = !state.waiting.is_empty();
        state.waiting.iter_mut().for_each(|build| build.steps -= 1);
        for build in state.waiting.extract_if(.., |build| build.steps == 0) {
            // The durability handle of the build reports the failure, so the error is ignored here.
            let _ = build.complete(fs, io_stats);
        }
        Ok(outstanding)
    }

    /// Completes every pending build. Returns the first failure.
    fn commit(&self, fs: &dyn FileSystem, io_stats: &IoStats) -> Result<()> {
        let mut state = self.state.lock();
        let completed: Vec<Result<()>> = state.waiting.drain(..).map(|build| build.complete(fs, io_stats)).collect();
        completed.into_iter().collect()
    }
}

impl Waiting {
    /// Syncs the files unless the build must fail, and completes the durability handle.
    fn complete(self, fs: &dyn FileSystem, io_stats: &IoStats) -> Result<()> {
        let done = if self.fails { self.injected_failure() } else { self.sync(fs, io_stats) };
        match &done {
            Ok(()) => self.completer.keep(),
            Err(error) => self.completer.fail(error.clone()),
        }
        done
    }

    fn injected_failure(&self) -> Result<()> {
        let object = self.files.first().map_or("(no file)", |file| &file.name);
        Err(Error::io("sync", object, io::Error::other("injected writeback error")))
    }

    /// Syncs the files, then their directory. The reported durations are zero, because this crate
    /// uses no clock.
    fn sync(&self, fs: &dyn FileSystem, io_stats: &IoStats) -> Result<()> {
        for file in &self.files {
            file.file.sync().map_err(|error| Error::io("sync", &file.name, error))?;
            io_stats.synced(SyncKind::Tables(file.purpose), file.bytes, Duration::ZERO);
        }
        fs.sync_directory().map_err(|error| Error::io("sync", fs.name(), error))?;
        io_stats.synced(SyncKind::Directory, 0, Duration::ZERO);
        Ok(())
    }
}
