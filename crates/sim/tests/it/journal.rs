//! Tiers `journal` and `journal-bpf` on a model of ext4's journal: once a ticket is mature, no power cut takes any of its files.
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

/// A directory, a tracker that looks at each step, and what it was given.
struct Bench {
    disk: CrashFs,
    fs: Arc<dyn FileSystem>,
    tracker: JournalTracker,
    traffic: IoStats,
    builds: Vec<(String, Vec<u8>, DurabilityHandle)>,
}

impl Bench {
    fn new(evidence: Evidence, patience: Duration) -> Bench {
        Bench::behind(evidence, patience, |disk| Arc::new(disk.clone()))
    }

    fn behind(evidence: Evidence, patience: Duration, shown: impl Fn(&CrashFs) -> Arc<dyn FileSystem>) -> Bench {
        let disk = CrashFs::new(Rules::Ext4);
        disk.make_directory().unwrap();
        let tracker = JournalTracker::with_patience(evidence, Duration::ZERO, patience);
        Bench { fs: shown(&disk), disk, tracker, traffic: IoStats::default(), builds: Vec::new() }
    }

    fn build(&mut self, rng: &mut Rng) {
        let name = format!("{:06}.ldb", self.builds.len());
        let bytes = vec![7; 1 + rng.below(20_000)];
        let mut file = self.fs.create(&name).unwrap();
        file.append(&bytes).unwrap();
        let finished = Finished { name: name.clone(), file, bytes: bytes.len() as u64, purpose: Purpose::Flush };
        let ticket = self.tracker.watch(&*self.fs, vec![finished], &self.traffic).unwrap();
        self.builds.push((name, bytes, ticket));
    }

    fn advance(&self) -> bool {
        self.tracker.advance(&*self.fs, &self.traffic).unwrap()
    }

    fn look(&self, times: usize) {
        for _ in 0..times {
            self.advance();
        }
    }

    /// Cuts the power, in many ways; the number of builds that are promised, and how many of those not promised survived.
    fn judge(&self, context: &str) -> (usize, usize) {
        let (mut promised, mut lucky) = (0, 0);
        let images: Vec<_> = (0..SEEDS).map(|seed| self.disk.power_loss(self.disk.steps(), seed)).collect();
        for (name, bytes, ticket) in &self.builds {
            let whole = images.iter().filter(|image| image.read(name).as_ref() == Some(bytes)).count();
            if ticket.is_durable().unwrap_or(false) {
                assert_eq!(whole, images.len(), "LOST: {context}: {name}, which was called durable");
                promised += 1;
            } else {
                lucky += usize::from(whole == images.len());
            }
        }
        (promised, lucky)
    }

    fn forced(&self) -> u64 {
        self.traffic.all_syncs().iter().map(|(_, syncs)| syncs.count).sum()
    }
}

/// Builds come at any moment of the journal's life, others commit it now and then, and nothing is ever forced.
#[test]
fn what_is_called_durable_survives_every_cut() {
    for (seed, evidence) in (0..120).map(|seed| (seed, BOTH[seed as usize % 2])) {
        let (mut rng, mut bench) = (Rng::new(seed), Bench::new(evidence, HOUR));
        let mut others = bench.disk.create("others").unwrap();
        for step in 0..60 {
            match rng.below(6) {
                0 if bench.builds.len() < 12 => bench.build(&mut rng),
                1 => {
                    others.append(b"x").unwrap();
                    others.sync().unwrap(); // forces a commit, as any program on the file system may
                }
                _ => bench.look(1),
            }
            bench.judge(&format!("seed {seed}, step {step}"));
        }
        let mut looks = 0;
        while bench.advance() {
            looks += 1;
            assert!(looks < 1000, "seed {seed}: tickets never mature");
        }
        let (promised, _) = bench.judge(&format!("seed {seed}, at the end"));
        assert_eq!((promised, bench.forced()), (bench.builds.len(), 0), "seed {seed}: promised, forced");
    }
}

/// Two commits are waited for, and not many more: the second one has been over for no longer than a look or two.
#[test]
fn tickets_mature_as_soon_as_the_journal_is_known_to_have_them() {
    let (mut early, mut rng) = (0, Rng::new(5));
    for _ in 0..50 {
        let mut bench = Bench::new(Evidence::Count, HOUR);
        (0..rng.below(5)).for_each(|_| drop(bench.disk.commit_count()));
        bench.build(&mut rng);
        bench.advance();
        let begun = bench.disk.commit_count().unwrap();
        while bench.advance() {}
        let took = bench.disk.commit_count().unwrap() - begun;
        assert!(took <= 3, "{took} commits went by");
        early += u64::from(took <= 2);
    }
    assert!(early > 25, "only {early} of 50 matured within two commits");
}

/// A journal that an error aborted goes on counting: what it has not committed is lost, and must be called lost.
#[test]
fn an_aborted_journal_commits_nothing_whatever_it_counts() {
    for (seed, evidence) in (0..200).map(|seed| (seed, BOTH[seed as usize % 2])) {
        let (mut rng, mut bench) = (Rng::new(seed), Bench::new(evidence, HOUR));
        (0..3).for_each(|_| bench.build(&mut rng));
        let looks = rng.below(12);
        bench.look(looks);
        bench.disk.abort_journal();
        let (promised, _) = bench.judge(&format!("seed {seed}"));
        bench.look(100);
        let context = format!("seed {seed}, {promised} promised before the journal was aborted");
        assert_eq!(bench.judge(&context).0, promised, "{context}");
        for (name, _, ticket) in &bench.builds[promised..] {
            let error = ticket.is_durable().expect_err(name);
            assert!(matches!(&error, Error::Io { op: "commit the journal of", .. }), "{context}: {error}");
        }
        assert!(bench.tracker.commit(&*bench.fs, &bench.traffic).is_ok(), "{context}: nothing is left to fail");
    }
}

/// A journal that does not move in time, or cannot be asked, is made to commit.
#[test]
fn a_journal_that_stands_still_or_says_nothing_is_forced() {
    let mut stuck = Bench::new(Evidence::Count, Duration::ZERO);
    stuck.build(&mut Rng::new(1));
    stuck.advance();
    std::thread::sleep(Duration::from_millis(2));
    stuck.advance();
    assert_eq!((stuck.judge("stuck").0, stuck.forced()), (1, 1));

    let mut asked = 0;
    for (call, evidence) in (0..40).flat_map(|call| BOTH.map(|evidence| (call, evidence))) {
        let faults = std::cell::OnceCell::new();
        let mut bench = Bench::behind(evidence, HOUR, |disk| {
            let faulty = FaultFs::new(Arc::new(disk.clone()), Plan::never());
            assert!(faults.set(faulty.clone()).is_ok());
            Arc::new(faulty)
        });
        let faults = faults.into_inner().unwrap();
        bench.build(&mut Rng::new(2));
        faults.arm(Plan::once(faults.calls() + call, terrace_sim::Fault::Eio));
        while bench.advance() {}
        let durable = bench.builds[0].2.is_durable();
        assert!(matches!(durable, Ok(true)) || call == 0, "call {call}: {durable:?}"); // the first call is the writeback
        bench.judge(&format!("call {call}"));
        asked += bench.forced();
    }
    assert!(asked > 0, "no failure was met by a commit");
}

#[test]
fn a_commit_on_demand_decides_every_ticket() {
    let mut bench = Bench::new(Evidence::Count, HOUR);
    let mut rng = Rng::new(3);
    bench.build(&mut rng);
    bench.advance();
    bench.build(&mut rng);
    assert_eq!(bench.judge("before").0, 0);
    bench.tracker.commit(&*bench.fs, &bench.traffic).unwrap();
    assert_eq!((bench.judge("after").0, bench.forced()), (2, 1));
    assert!(!bench.advance(), "nothing is outstanding");
}

/// Where there are descriptors for no more, files are written back as they come: neither the next look nor anything forced is awaited.
#[test]
fn a_crowd_is_written_back_before_it_is_time() {
    for evidence in BOTH {
        for (files_max, promised) in [(0, 2), (usize::MAX, 0)] {
            let (mut rng, mut bench) = (Rng::new(7), Bench::new(evidence, HOUR));
            bench.tracker = JournalTracker::new(evidence, HOUR, HOUR).with_files_max(files_max);
            bench.build(&mut rng);
            bench.advance(); // from here on an hour passes until the next look
            bench.build(&mut rng);
            (0..3).for_each(|_| bench.disk.commit().unwrap());
            bench.build(&mut rng);
            let context = format!("{evidence:?}, descriptors for {files_max}");
            assert_eq!((bench.judge(&context).0, bench.forced()), (promised, 0), "{context}");
        }
    }
}

/// What waiting costs, by count: however often somebody drives the tracker, the file system is asked once in an interval.
#[test]
fn a_journal_is_asked_once_in_an_interval() {
    for evidence in BOTH {
        let inner = CrashFs::new(Rules::Ext4);
        inner.make_directory().unwrap();
        let asked = FaultFs::new(Arc::new(inner), Plan::never());
        let (tracker, traffic) = (JournalTracker::new(evidence, HOUR, HOUR), IoStats::default());
        let mut file = asked.create("000007.ldb").unwrap();
        file.append(b"table").unwrap();
        let finished = Finished { name: "000007.ldb".into(), file, bytes: 5, purpose: Purpose::Flush };
        let ticket = tracker.watch(&asked, vec![finished], &traffic).unwrap();
        let before = asked.calls();
        assert!(tracker.advance(&asked, &traffic).unwrap());
        let once = asked.calls();
        assert!(once > before, "{evidence:?}: it was not asked at all");
        (0..10_000).for_each(|_| assert!(tracker.advance(&asked, &traffic).unwrap()));
        assert_eq!((asked.calls(), ticket.is_durable().unwrap()), (once, false), "{evidence:?}");
    }
}
