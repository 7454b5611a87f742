//! Tests of the durability modes `journal` and `journal-bpf` on a model of ext4's journal. Once a
//! durability handle reports a build as durable, no power cut may lose any file of the build.
use std::{sync::Arc, time::Duration};
use terrace_sim::{CrashFs, FaultFs, Plan, Rng, Rules};
use terrace_storage::{
    DurabilityHandle, Error, IoStats, Purpose,
    durability::{DurabilityTracker, Evidence, Finished, JournalTracker},
};
use terrace_vfs::{FileSystem, JournalCommit};

const SEEDS: u64 = 40;
const HOUR: Duration = Duration::from_secs(3600);
const BOTH: [Evidence; 2] = [Evidence::Count, Evidence::Transactions];

/// A directory, a durability tracker that probes the journal once per step, and the builds that
/// the tracker watches.
struct Bench {
    disk: CrashFs,
    fs: Arc<dyn FileSystem>,
    tracker: JournalTracker,
    io_stats: IoStats,
    builds: Vec<(String, Vec<u8>, DurabilityHandle)>,
}

impl Bench {
    fn new(evidence: Evidence, patience: Duration) -> Bench {
        Bench::through(evidence, patience, |disk| Arc::new(disk.clone()))
    }

    fn through(evidence: Evidence, patience: Duration, wrap: impl Fn(&CrashFs) -> Arc<dyn FileSystem>) -> Bench {
        let disk = CrashFs::new(Rules::Ext4);
        disk.make_directory().unwrap();
        let tracker = JournalTracker::with_patience(evidence, Duration::ZERO, patience);
        Bench { fs: wrap(&disk), disk, tracker, io_stats: IoStats::default(), builds: Vec::new() }
    }

    fn build(&mut self, rng: &mut Rng) {
        let name = format!("{:06}.ldb", self.builds.len());
        let bytes = vec![7; 1 + rng.below(20_000)];
        let mut file = self.fs.create(&name).unwrap();
        file.append(&bytes).unwrap();
        let finished = Finished { name: name.clone(), file, bytes: bytes.len() as u64, purpose: Purpose::Flush };
        let handle = self.tracker.watch(&*self.fs, vec![finished], &self.io_stats).unwrap();
        self.builds.push((name, bytes, handle));
    }

    fn advance(&self) -> bool {
        self.tracker.advance(&*self.fs, &self.io_stats).unwrap()
    }

    fn probe(&self, times: usize) {
        for _ in 0..times {
            self.advance();
        }
    }

    /// Simulates many power cuts and checks the files of all builds after each one. Returns two
    /// counts: the builds that were reported as durable, and the other builds, which survived only
    /// by chance.
    fn judge(&self, context: &str) -> (usize, usize) {
        let (mut promised, mut lucky) = (0, 0);
        let images: Vec<_> = (0..SEEDS).map(|seed| self.disk.power_loss(self.disk.steps(), seed)).collect();
        for (name, bytes, handle) in &self.builds {
            let whole = images.iter().filter(|image| image.read(name).as_ref() == Some(bytes)).count();
            if handle.is_durable().unwrap_or(false) {
                assert_eq!(whole, images.len(), "LOST: {context}: {name}, which was reported durable");
                promised += 1;
            } else {
                lucky += usize::from(whole == images.len());
            }
        }
        (promised, lucky)
    }

    fn forced(&self) -> u64 {
        self.io_stats.all_syncs().iter().map(|(_, syncs)| syncs.count).sum()
    }
}

/// Tests builds that end at random moments of a journal commit, while other programs sometimes
/// commit. Each build that is reported as durable must survive every power cut. The tracker must
/// never force a commit.
#[test]
fn what_is_reported_durable_survives_every_power_cut() {
    for (seed, evidence) in (0..120).map(|seed| (seed, BOTH[seed as usize % 2])) {
        let (mut rng, mut bench) = (Rng::new(seed), Bench::new(evidence, HOUR));
        let mut others = bench.disk.create("others").unwrap();
        for step in 0..60 {
            match rng.below(6) {
                0 if bench.builds.len() < 12 => bench.build(&mut rng),
                1 => {
                    others.append(b"x").unwrap();
                    // This sync commits the journal. It stands for any other program on the file
                    // system.
                    others.sync().unwrap();
                }
                _ => bench.probe(1),
            }
            bench.judge(&format!("seed {seed}, step {step}"));
        }
        let mut probes = 0;
        while bench.advance() {
            probes += 1;
            assert!(probes < 1000, "seed {seed}: the handles never become durable");
        }
        let (promised, _) = bench.judge(&format!("seed {seed}, at the end"));
        assert_eq!((promised, bench.forced()), (bench.builds.len(), 0), "seed {seed}: durable, forced");
    }
}

/// Tests how soon a build is reported as durable. The tracker needs two commits for this, and must
/// notice the second commit within one or two probes.
#[test]
fn handles_become_durable_soon_after_the_second_commit() {
    let (mut early, mut rng) = (0, Rng::new(5));
    for _ in 0..50 {
        let mut bench = Bench::new(Evidence::Count, HOUR);
        (0..rng.below(5)).for_each(|_| drop(bench.disk.commit_count()));
        bench.build(&mut rng);
        bench.advance();
        let begun = bench.disk.commit_count().unwrap();
        while bench.advance() {}
        let took = bench.disk.commit_count().unwrap() - begun;
        assert!(took <= 3, "it took {took} commits");
        early += u64::from(took <= 2);
    }
    assert!(early > 25, "only {early} of 50 became durable within two commits");
}

/// Tests a journal that ext4 has aborted. It continues to count commits, but builds that it did
/// not commit are lost. The tracker must report these builds as failed.
#[test]
fn an_aborted_journal_commits_nothing_whatever_it_counts() {
    for (seed, evidence) in (0..200).map(|seed| (seed, BOTH[seed as usize % 2])) {
        let (mut rng, mut bench) = (Rng::new(seed), Bench::new(evidence, HOUR));
        (0..3).for_each(|_| bench.build(&mut rng));
        let probes = rng.below(12);
        bench.probe(probes);
        bench.disk.abort_journal();
        let (promised, _) = bench.judge(&format!("seed {seed}"));
        bench.probe(100);
        let context = format!("seed {seed}, {promised} promised before the journal was aborted");
        assert_eq!(bench.judge(&context).0, promised, "{context}");
        for (name, _, handle) in &bench.builds[promised..] {
            let error = handle.is_durable().expect_err(name);
            assert!(matches!(&error, Error::Io { op: "commit the journal of", .. }), "{context}: {error}");
        }
        assert!(bench.tracker.commit(&*bench.fs, &bench.io_stats).is_ok(), "{context}: no build is pending");
    }
}

/// Tests a journal that makes no progress in time, or that cannot be read. The tracker must then
/// force a commit.
#[test]
fn a_journal_without_progress_or_with_read_errors_is_forced() {
    let mut stuck = Bench::new(Evidence::Count, Duration::ZERO);
    stuck.build(&mut Rng::new(1));
    stuck.advance();
    std::thread::sleep(Duration::from_millis(2));
    stuck.advance();
    assert_eq!((stuck.judge("stuck").0, stuck.forced()), (1, 1));

    let mut forced = 0;
    for (call, evidence) in (0..40).flat_map(|call| BOTH.map(|evidence| (call, evidence))) {
        let faults = std::cell::OnceCell::new();
        let mut bench = Bench::through(evidence, HOUR, |disk| {
            let faulty = FaultFs::new(Arc::new(disk.clone()), Plan::never());
            assert!(faults.set(faulty.clone()).is_ok());
            Arc::new(faulty)
        });
        let faults = faults.into_inner().unwrap();
        bench.build(&mut Rng::new(2));
        faults.arm(Plan::once(faults.calls() + call, terrace_sim::Fault::Eio));
        while bench.advance() {}
        let durable = bench.builds[0].2.is_durable();
        // Call 0 writes the files back. Only a failure of this call may make the build fail.
        assert!(matches!(durable, Ok(true)) || call == 0, "call {call}: {durable:?}");
        bench.judge(&format!("call {call}"));
        forced += bench.forced();
    }
    assert!(forced > 0, "no failure led to a forced commit");
}

#[test]
fn a_commit_on_demand_completes_every_handle() {
    let mut bench = Bench::new(Evidence::Count, HOUR);
    let mut rng = Rng::new(3);
    bench.build(&mut rng);
    bench.advance();
    bench.build(&mut rng);
    assert_eq!(bench.judge("before").0, 0);
    bench.tracker.commit(&*bench.fs, &bench.io_stats).unwrap();
    assert_eq!((bench.judge("after").0, bench.forced()), (2, 1));
    assert!(!bench.advance(), "no build is pending");
}

/// Tests a tracker for which no file descriptors are available. It must write files back as soon
/// as a build ends, and must not force a commit.
#[test]
fn files_over_the_descriptor_limit_are_written_back_at_once() {
    for evidence in BOTH {
        for (files_max, promised) in [(0, 2), (usize::MAX, 0)] {
            let (mut rng, mut bench) = (Rng::new(7), Bench::new(evidence, HOUR));
            bench.tracker = JournalTracker::new(evidence, HOUR, HOUR).with_files_max(files_max);
            bench.build(&mut rng);
            // This call probes the journal. By the schedule, the next probe is an hour later.
            bench.advance();
            bench.build(&mut rng);
            (0..3).for_each(|_| bench.disk.commit().unwrap());
            bench.build(&mut rng);
            let context = format!("{evidence:?}, descriptors for {files_max}");
            assert_eq!((bench.judge(&context).0, bench.forced()), (promised, 0), "{context}");
        }
    }
}

/// Tests that waiting for the journal is cheap: however often `advance` is called, the tracker
/// must probe the file system only once per interval.
#[test]
fn a_journal_is_probed_once_per_interval() {
    for evidence in BOTH {
        let inner = CrashFs::new(Rules::Ext4);
        inner.make_directory().unwrap();
        let fs = FaultFs::new(Arc::new(inner), Plan::never());
        let (tracker, io_stats) = (JournalTracker::new(evidence, HOUR, HOUR), IoStats::default());
        let mut file = fs.create("000007.ldb").unwrap();
        file.append(b"table").unwrap();
        let finished = Finished { name: "000007.ldb".into(), file, bytes: 5, purpose: Purpose::Flush };
        let handle = tracker.watch(&fs, vec![finished], &io_stats).unwrap();
        let before = fs.calls();
        assert!(tracker.advance(&fs, &io_stats).unwrap());
        let once = fs.calls();
        assert!(once > before, "{evidence:?}: the journal was not probed");
        (0..10_000).for_each(|_| assert!(tracker.advance(&fs, &io_stats).unwrap()));
        assert_eq!((fs.calls(), handle.is_durable().unwrap()), (once, false), "{evidence:?}");
    }
}
