//! Tests of the late tracker, a simulated durability tracker. Its durability handles must become
//! durable step by step, out of order, and never before their files are synced.
use terrace_sim::{CrashFs, LateTracker, Rules};
use terrace_storage::{
    DurabilityHandle, IoStats, Purpose, SyncKind,
    backends::files::fs::FileSystem,
    durability::{DurabilityTracker, Finished},
};

struct Bench {
    fs: CrashFs,
    io_stats: IoStats,
    tracker: LateTracker,
}

impl Bench {
    fn new(tracker: LateTracker) -> Bench {
        let fs = CrashFs::new(Rules::Posix);
        fs.make_directory().unwrap();
        Bench { fs, io_stats: IoStats::default(), tracker }
    }

    fn watch(&self, name: &str) -> DurabilityHandle {
        let mut file = self.fs.create(name).unwrap();
        file.append(b"table").unwrap();
        let files = vec![Finished { name: name.into(), file, bytes: 5, purpose: Purpose::Flush }];
        self.tracker.watch(&self.fs, files, &self.io_stats).unwrap()
    }

    fn survives_every_power_cut(&self, name: &str) -> bool {
        let survives = |seed| self.fs.power_loss(self.fs.steps(), seed).read(name).as_deref() == Some(b"table");
        (0..60).all(survives)
    }

    /// Returns, for each of `count` builds, the number of `advance` calls after which its handle
    /// completed.
    fn completed_after(&self, count: usize) -> Vec<usize> {
        let handles: Vec<DurabilityHandle> = (0..count).map(|build| self.watch(&build.to_string())).collect();
        let mut steps = vec![None; count];
        for step in 0.. {
            for (build, handle) in handles.iter().enumerate() {
                if steps[build].is_none() && !matches!(handle.is_durable(), Ok(false)) {
                    steps[build] = Some(step);
                }
            }
            if !self.tracker.advance(&self.fs, &self.io_stats).unwrap() {
                break;
            }
        }
        steps.into_iter().map(|step| step.expect("advance reports when no build is pending")).collect()
    }
}

#[test]
fn builds_become_durable_within_twelve_steps_in_an_order_determined_by_the_seed() {
    let steps = Bench::new(LateTracker::new(7)).completed_after(100);
    assert_eq!((steps.iter().min(), steps.iter().max()), (Some(&0), Some(&12)));
    assert!(steps.windows(2).any(|pair| pair[0] > pair[1]));
    assert_eq!(steps, Bench::new(LateTracker::new(7)).completed_after(100));
    assert_ne!(steps, Bench::new(LateTracker::new(8)).completed_after(100));
}

#[test]
fn a_handle_is_durable_exactly_when_the_files_are() {
    for seed in 0..40 {
        let bench = Bench::new(LateTracker::new(seed));
        let handle = bench.watch("t");
        for _ in 0..=12 {
            assert_eq!(handle.is_durable().unwrap(), bench.survives_every_power_cut("t"), "seed {seed}");
            bench.tracker.advance(&bench.fs, &bench.io_stats).unwrap();
        }
        assert!(handle.is_durable().unwrap());
        assert_eq!(bench.io_stats.syncs(SyncKind::Tables(Purpose::Flush)).bytes, 5);
        assert_eq!(bench.io_stats.syncs(SyncKind::Directory).count, 1);
    }
}

#[test]
fn commit_completes_all_handles() {
    let bench = Bench::new(LateTracker::new(1));
    let handles: Vec<DurabilityHandle> = (0..20).map(|build| bench.watch(&build.to_string())).collect();
    assert!(handles.iter().any(|handle| !handle.is_durable().unwrap()));
    bench.tracker.commit(&bench.fs, &bench.io_stats).unwrap();
    assert!(handles.iter().all(|handle| handle.is_durable().unwrap()));
    assert!((0..20).all(|build| bench.survives_every_power_cut(&build.to_string())));
    assert!(!bench.tracker.advance(&bench.fs, &bench.io_stats).unwrap());
}

#[test]
fn failing_builds_are_never_synced_and_stay_failed() {
    let bench = Bench::new(LateTracker::failing(3, 300));
    let handles: Vec<DurabilityHandle> = (0..60).map(|build| bench.watch(&build.to_string())).collect();
    assert!(bench.tracker.commit(&bench.fs, &bench.io_stats).is_err());
    // No build is pending, so this commit has nothing to do.
    bench.tracker.commit(&bench.fs, &bench.io_stats).unwrap();
    let failed = handles.iter().filter(|handle| handle.is_durable().is_err()).count();
    assert!((8..=30).contains(&failed), "{failed} of 60");
    for (build, handle) in handles.iter().enumerate() {
        // The directory syncs of other builds make all file names durable. The contents of the
        // files of a failed build stay unsynced.
        assert_eq!(handle.is_durable().is_ok(), bench.survives_every_power_cut(&build.to_string()), "build {build}");
    }
    let synced = bench.io_stats.syncs(SyncKind::Tables(Purpose::Flush)).count;
    assert_eq!(synced as usize, 60 - failed);
}
