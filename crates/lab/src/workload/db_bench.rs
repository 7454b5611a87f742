//! The workloads of LevelDB's db_bench, with its names and scales. The help text of each workload
//! says how the workload uses `num` and `reads`. If `writes` is set, it replaces `num` as the
//! count of random puts.
//!
//! Where LevelDB's comments contradict its code, the numbers and batches here are those of the
//! code: `fillsync` and `fill100K` perform `num` / 1000 operations on keys of the whole range.
//! `fillmixed` is not in db_bench. Fills start with an empty store. The other workloads use the
//! existing contents.
use super::{
    Job, Stage,
    ops::{Batch, Driver},
    store::{Content, Store},
    values::Sizes,
};
use crate::measure::{self, Kind, Outcome, ThreadPlan, Worker};
use anyhow::{Result, ensure};
use std::hint::black_box;
use terrace_format::crc::crc32c;

/// One of db_bench's workloads.
#[derive(Debug)]
pub struct DbBench {
    /// Name of the workload, in the form of `--workload`.
    pub name: &'static str,
    /// Description of the workload.
    pub help: &'static str,
    kind: BenchKind,
}

#[derive(Clone, Copy, Debug)]
enum BenchKind {
    Fill(WriteKind),
    Write(WriteKind),
    Delete { random: bool },
    Scan { reverse: bool },
    Read(Keys),
    MultiRead,
    Seek,
    ReadWhileWriting,
    Compact,
    Open,
    Checksum,
}

/// Parameters of a workload that writes.
#[derive(Clone, Copy, Debug)]
struct WriteKind {
    random: bool,
    sync: bool,
    /// The number of operations is `num` divided by this number.
    divisor: u64,
    /// Number of changes per write; `None` for the cell's batch size.
    batch: Option<usize>,
    value_size: Option<usize>,
    /// Whether values have two sizes; see [`MIXED`].
    mixed: bool,
}

/// The keys that a workload reads: all keys, missing keys, or the 1 % of keys that are hot.
#[derive(Clone, Copy, Debug)]
enum Keys {
    All,
    Missing,
    Hot,
}

/// Number of changes per write of `fillbatch`.
pub const FILLBATCH: usize = 1000;

/// Value sizes of `fillmixed`. The values of each size have half of all bytes.
pub const MIXED: Sizes = Sizes::HalfOfBytes([100, 4096]);

const SEQ: WriteKind =
    WriteKind { random: false, sync: false, divisor: 1, batch: None, value_size: None, mixed: false };
const RANDOM: WriteKind = WriteKind { random: true, ..SEQ };

/// All workloads.
pub const LIST: &[DbBench] = &[
    bench("fillseq", "puts num keys in order into an empty store", BenchKind::Fill(SEQ)),
    bench("fillrandom", "puts num random keys into an empty store", BenchKind::Fill(RANDOM)),
    bench(
        "fillsync",
        "puts num / 1000 random keys into an empty store, each synced",
        BenchKind::Fill(WriteKind { sync: true, divisor: 1000, ..RANDOM }),
    ),
    bench("overwrite", "puts num random keys", BenchKind::Write(RANDOM)),
    bench(
        "fillbatch",
        "puts num keys in order into an empty store, 1000 per write",
        BenchKind::Fill(WriteKind { batch: Some(FILLBATCH), ..SEQ }),
    ),
    bench(
        "fill100K",
        "puts num / 1000 random keys with values of 100,000 bytes into an empty store",
        BenchKind::Fill(WriteKind { divisor: 1000, value_size: Some(100_000), ..RANDOM }),
    ),
    bench(
        "fillmixed",
        "puts num random keys into an empty store: half of the bytes in values of 100 B, half in those of 4 KiB",
        BenchKind::Fill(WriteKind { mixed: true, ..RANDOM }),
    ),
    bench("readseq", "reads entries in order, from the first", BenchKind::Scan { reverse: false }),
    bench("readreverse", "reads entries in reverse order, from the last", BenchKind::Scan { reverse: true }),
    bench("readrandom", "reads random keys", BenchKind::Read(Keys::All)),
    bench(
        "multireadrandom",
        "reads random keys, --batch keys in one call; engines without such a call read them one by one",
        BenchKind::MultiRead,
    ),
    bench("readmissing", "reads random keys that were never written", BenchKind::Read(Keys::Missing)),
    bench("readhot", "reads random keys of the first 1 %", BenchKind::Read(Keys::Hot)),
    bench("seekrandom", "seeks random keys, each with a new iterator, and reads the entry there", BenchKind::Seek),
    bench("deleteseq", "deletes num keys in order", BenchKind::Delete { random: false }),
    bench("deleterandom", "deletes num random keys", BenchKind::Delete { random: true }),
    bench("readwhilewriting", "reads random keys while one more thread puts random keys", BenchKind::ReadWhileWriting),
    bench("compact", "compacts everything", BenchKind::Compact),
    bench("open", "closes and opens the store num / 10000 times", BenchKind::Open),
    bench(
        "crc32c",
        "no engine: checksums of 4 KiB, to measure the processor with so many threads",
        BenchKind::Checksum,
    ),
];

const fn bench(name: &'static str, help: &'static str, kind: BenchKind) -> DbBench {
    DbBench { name, help, kind }
}

impl WriteKind {
    fn count(self, job: &Job<'_>) -> u64 {
        let all = job.spec.writes.filter(|_| self.random).unwrap_or(job.spec.num);
        (all / self.divisor).max(1)
    }
}

impl Stage for &DbBench {
    fn name(&self) -> String {
        self.name.into()
    }

    fn prepare(&self, store: &mut Store<'_>, job: &Job<'_>) -> Result<()> {
        if let BenchKind::Fill(write) = self.kind {
            store.fresh(match write.mixed {
                true => Content::sized(job.spec, MIXED)?,
                false => Content::decimal(job.spec, write.value_size.unwrap_or(job.spec.value_size))?,
            })?;
        }
        let writes = matches!(self.kind, BenchKind::Write(_) | BenchKind::Delete { .. } | BenchKind::ReadWhileWriting);
        let whole = store.content.values.form() == super::values::Form::Whole;
        ensure!(whole || !writes, "{} cannot write to a YCSB store with merging updates", self.name);
        if matches!(self.kind, BenchKind::Scan { .. } | BenchKind::Seek) {
            store.content.sort()?;
        }
        store.set_threads(job.spec.threads + usize::from(matches!(self.kind, BenchKind::ReadWhileWriting)));
        Ok(())
    }

    fn total(&self, _: &Store<'_>, job: &Job<'_>) -> u64 {
        let each = match self.kind {
            BenchKind::Fill(write) | BenchKind::Write(write) => write.count(job),
            BenchKind::Delete { .. } => job.spec.num,
            BenchKind::Compact => return 1,
            BenchKind::Open => return opens(job),
            _ => job.reads(),
        };
        each * job.spec.threads as u64
    }

    fn run(&self, store: &mut Store<'_>, job: &Job<'_>, progress: &mut dyn FnMut(u64)) -> Result<Outcome> {
        if let BenchKind::Open = self.kind {
            return reopen(store, job, progress);
        }
        let (target, content) = (store.target(), &store.content);
        let extra = usize::from(matches!(self.kind, BenchKind::ReadWhileWriting));
        let alone = matches!(self.kind, BenchKind::Compact);
        let plan = ThreadPlan { background: extra, foreground: if alone { 1 } else { job.spec.threads }, ..job.plan() };
        let sync = matches!(self.kind, BenchKind::Fill(WriteKind { sync: true, .. }));
        measure::run(plan, progress, &|worker| {
            let mut driver = Driver::new(target, content, sync);
            match self.kind {
                BenchKind::Fill(write) | BenchKind::Write(write) => {
                    let batch = write.batch.unwrap_or(job.spec.batch);
                    change(&mut driver, worker, job, content.num, (true, write.random, write.count(job), batch))
                }
                BenchKind::Delete { random } => {
                    change(&mut driver, worker, job, content.num, (false, random, job.spec.num, job.spec.batch))
                }
                BenchKind::Read(keys) => read(&mut driver, worker, job, content.num, keys),
                BenchKind::MultiRead => multi_read(&mut driver, worker, job, content.num),
                BenchKind::Scan { reverse } => {
                    driver.scan(worker, None, reverse, job.reads(), Some(Kind::Next)).map(drop)
                }
                BenchKind::Seek => seek(&mut driver, worker, job, content.num),
                BenchKind::ReadWhileWriting if worker.index < job.spec.threads => {
                    read(&mut driver, worker, job, content.num, Keys::All)
                }
                BenchKind::ReadWhileWriting => {
                    let mut rng = job.rng(worker.index);
                    while worker.foreground_works() {
                        driver.put(worker, rng.below(content.num))?;
                        worker.did(1);
                    }
                    Ok(())
                }
                BenchKind::Compact => {
                    let compacted = worker.timed(Kind::Compact, || target.compact());
                    worker.did(1);
                    compacted
                }
                BenchKind::Open => Ok(()),
                BenchKind::Checksum => {
                    checksum(worker, job.reads());
                    Ok(())
                }
            }
        })
    }

    fn only_reads(&self) -> bool {
        matches!(self.kind, BenchKind::Read(_) | BenchKind::MultiRead | BenchKind::Scan { .. } | BenchKind::Seek)
    }

    fn reopens(&self) -> bool {
        matches!(self.kind, BenchKind::Open)
    }
}

/// Number of random keys for which the driver prefetches its own data in one step; see
/// [`Driver::prefetch`].
const PREFETCHED: usize = 32;

/// Puts or deletes `count` keys, `batch` keys per write. If `random`, the keys are drawn from
/// `num` keys. Otherwise they are in order.
fn change(
    driver: &mut Driver<'_>,
    worker: &mut Worker<'_>,
    job: &Job<'_>,
    num: u64,
    (put, random, count, batch): (bool, bool, u64, usize),
) -> Result<()> {
    let mut rng = job.rng(worker.index);
    let mut next = |i: u64| if random { rng.below(num) } else { i };
    if batch == 1 {
        let mut room = [0; PREFETCHED];
        for start in (0..count).step_by(PREFETCHED) {
            let coming = &mut room[..PREFETCHED.min((count - start) as usize)];
            coming.iter_mut().zip(start..).for_each(|(number, i)| *number = next(i));
            if random {
                driver.prefetch(coming);
            }
            for &mut number in coming {
                if put {
                    driver.put(worker, number)?
                } else {
                    driver.delete(worker, number)?
                }
                if !worker.did(1) {
                    return Ok(());
                }
            }
        }
        return Ok(());
    }
    let (mut room, mut start) = (Batch::default(), 0);
    while start < count {
        let end = (start + batch as u64).min(count);
        driver.batch(worker, put, (start..end).map(&mut next), &mut room)?;
        if !worker.did(end - start) {
            break;
        }
        start = end;
    }
    Ok(())
}

fn read(driver: &mut Driver<'_>, worker: &mut Worker<'_>, job: &Job<'_>, num: u64, keys: Keys) -> Result<()> {
    let mut rng = job.rng(worker.index);
    let range = if let Keys::Hot = keys { num.div_ceil(100) } else { num };
    for _ in 0..job.reads() {
        let number = rng.below(range);
        match keys {
            Keys::Missing => driver.get_missing(worker, number)?,
            Keys::All | Keys::Hot => driver.get(worker, number)?,
        }
        if !worker.did(1) {
            break;
        }
    }
    Ok(())
}

fn multi_read(driver: &mut Driver<'_>, worker: &mut Worker<'_>, job: &Job<'_>, num: u64) -> Result<()> {
    let mut rng = job.rng(worker.index);
    let mut left = job.reads();
    while left > 0 {
        let count = left.min(job.spec.batch as u64);
        let numbers: Vec<u64> = (0..count).map(|_| rng.below(num)).collect();
        driver.multi_get(worker, &numbers)?;
        left -= count;
        if !worker.did(count) {
            break;
        }
    }
    Ok(())
}

fn seek(driver: &mut Driver<'_>, worker: &mut Worker<'_>, job: &Job<'_>, num: u64) -> Result<()> {
    let mut rng = job.rng(worker.index);
    for _ in 0..job.reads() {
        let start = worker.now();
        driver.scan(worker, Some(rng.below(num)), false, 1, None)?;
        worker.record_since(Kind::Scan, start);
        if !worker.did(1) {
            break;
        }
    }
    Ok(())
}

/// Computes checksums of bytes that stay in the first-level cache of the processor. The threads
/// therefore compete only for the processor, not for memory.
fn checksum(worker: &mut Worker<'_>, count: u64) {
    let piece = [b'x'; 4096];
    for _ in 0..count {
        black_box(crc32c(black_box(&piece)));
        worker.tally.returned_bytes += piece.len() as u64;
        if !worker.did(1) {
            break;
        }
    }
}

fn opens(job: &Job<'_>) -> u64 {
    (job.spec.num / 10_000).max(1)
}

/// Closes and opens the store repeatedly, and leaves it open. Only one thread does this, because a
/// store can be open only once.
fn reopen(store: &mut Store<'_>, job: &Job<'_>, progress: &mut dyn FnMut(u64)) -> Result<Outcome> {
    let store = std::sync::Mutex::new(store);
    measure::run(ThreadPlan { foreground: 1, ..job.plan() }, progress, &|worker| {
        let mut store = store.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        for _ in 0..opens(job) {
            store.close()?;
            worker.timed(Kind::Open, || store.open())?;
            worker.did(1);
        }
        Ok(())
    })
}
