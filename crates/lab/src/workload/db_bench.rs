//! LevelDB's db_bench under its own names, with its scales: what `num` and `reads` mean is said in each help text;
//! `writes` stands for `num` where that counts random puts.
//!
//! Numbers and batches are as in LevelDB's code where its comments differ: `fillsync` and `fill100K` do `num` / 1000
//! operations on keys of the whole range. `fillmixed` is ours. Fills begin with an empty store; the others go on with what is there.
use super::{
    Job, Stage,
    ops::{Batch, Hands},
    store::{Content, Store},
    values::Sizes,
};
use crate::measure::{self, Kind, Outcome, Plan, Worker};
use anyhow::{Result, ensure};
use std::hint::black_box;
use terrace_format::crc::crc32c;

/// One of db_bench's workloads.
#[derive(Debug)]
pub struct Bench {
    /// As `--workload` spells it.
    pub name: &'static str,
    /// What it does.
    pub help: &'static str,
    act: Act,
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Fill(Write),
    Write(Write),
    Delete { random: bool },
    Scan { reverse: bool },
    Read(Keys),
    Seek,
    ReadWhileWriting,
    Compact,
    Open,
    Checksum,
}

/// How writes go.
#[derive(Clone, Copy, Debug)]
struct Write {
    random: bool,
    sync: bool,
    /// `num` is divided by it.
    divisor: u64,
    /// Instead of the cell's.
    batch: Option<usize>,
    value_size: Option<usize>,
    /// Values are of two sizes, [`MIXED`].
    mixed: bool,
}

/// Which keys are read.
#[derive(Clone, Copy, Debug)]
enum Keys {
    All,
    Missing,
    Hot,
}

/// Changes in one write of `fillbatch`.
pub const FILLBATCH: usize = 1000;

/// Bytes of the values of `fillmixed`, as many bytes in those of one size as in those of the other.
pub const MIXED: Sizes = Sizes::HalfOfBytes([100, 4096]);

const SEQ: Write = Write { random: false, sync: false, divisor: 1, batch: None, value_size: None, mixed: false };
const RANDOM: Write = Write { random: true, ..SEQ };

/// All of them.
pub const LIST: &[Bench] = &[
    bench("fillseq", "puts num keys in order into an empty store", Act::Fill(SEQ)),
    bench("fillrandom", "puts num random keys into an empty store", Act::Fill(RANDOM)),
    bench(
        "fillsync",
        "puts num / 1000 random keys into an empty store, each synced",
        Act::Fill(Write { sync: true, divisor: 1000, ..RANDOM }),
    ),
    bench("overwrite", "puts num random keys", Act::Write(RANDOM)),
    bench(
        "fillbatch",
        "puts num keys in order into an empty store, 1000 in a write",
        Act::Fill(Write { batch: Some(FILLBATCH), ..SEQ }),
    ),
    bench(
        "fill100K",
        "puts num / 1000 random keys with values of 100,000 bytes into an empty store",
        Act::Fill(Write { divisor: 1000, value_size: Some(100_000), ..RANDOM }),
    ),
    bench(
        "fillmixed",
        "puts num random keys into an empty store: half of the bytes in values of 100 B, half in those of 4 KiB",
        Act::Fill(Write { mixed: true, ..RANDOM }),
    ),
    bench("readseq", "reads pairs in order, from the first", Act::Scan { reverse: false }),
    bench("readreverse", "reads pairs in reverse order, from the last", Act::Scan { reverse: true }),
    bench("readrandom", "reads random keys", Act::Read(Keys::All)),
    bench("readmissing", "reads random keys that were never written", Act::Read(Keys::Missing)),
    bench("readhot", "reads random keys among the first hundredth", Act::Read(Keys::Hot)),
    bench("seekrandom", "seeks random keys, each with a new iterator, and reads the pair there", Act::Seek),
    bench("deleteseq", "deletes num keys in order", Act::Delete { random: false }),
    bench("deleterandom", "deletes num random keys", Act::Delete { random: true }),
    bench("readwhilewriting", "reads random keys while one more thread puts random keys", Act::ReadWhileWriting),
    bench("compact", "merges everything down", Act::Compact),
    bench("open", "closes and opens the store num / 10000 times", Act::Open),
    bench("crc32c", "no engine: checksums of 4 KiB, for what the processor gives so many threads", Act::Checksum),
];

const fn bench(name: &'static str, help: &'static str, act: Act) -> Bench {
    Bench { name, help, act }
}

impl Write {
    fn count(self, job: &Job<'_>) -> u64 {
        let all = job.spec.writes.filter(|_| self.random).unwrap_or(job.spec.num);
        (all / self.divisor).max(1)
    }
}

impl Stage for &Bench {
    fn name(&self) -> String {
        self.name.into()
    }

    fn prepare(&self, store: &mut Store<'_>, job: &Job<'_>) -> Result<()> {
        if let Act::Fill(write) = self.act {
            store.fresh(match write.mixed {
                true => Content::sized(job.spec, MIXED)?,
                false => Content::decimal(job.spec, write.value_size.unwrap_or(job.spec.value_size))?,
            })?;
        }
        let writes = matches!(self.act, Act::Write(_) | Act::Delete { .. } | Act::ReadWhileWriting);
        let whole = store.content.values.form() == super::values::Form::Whole;
        ensure!(whole || !writes, "{} cannot write into a YCSB store whose updates merge fields", self.name);
        if matches!(self.act, Act::Scan { .. } | Act::Seek) {
            store.content.sort()?;
        }
        store.set_threads(job.spec.threads + usize::from(matches!(self.act, Act::ReadWhileWriting)));
        Ok(())
    }

    fn total(&self, _: &Store<'_>, job: &Job<'_>) -> u64 {
        let each = match self.act {
            Act::Fill(write) | Act::Write(write) => write.count(job),
            Act::Delete { .. } => job.spec.num,
            Act::Compact => return 1,
            Act::Open => return opens(job),
            _ => job.reads(),
        };
        each * job.spec.threads as u64
    }

    fn run(&self, store: &mut Store<'_>, job: &Job<'_>, progress: &mut dyn FnMut(u64)) -> Result<Outcome> {
        if let Act::Open = self.act {
            return reopen(store, job, progress);
        }
        let (target, content) = (store.target(), &store.content);
        let extra = usize::from(matches!(self.act, Act::ReadWhileWriting));
        let alone = matches!(self.act, Act::Compact);
        let plan = Plan { background: extra, foreground: if alone { 1 } else { job.spec.threads }, ..job.plan() };
        let sync = matches!(self.act, Act::Fill(Write { sync: true, .. }));
        measure::run(plan, progress, &|worker| {
            let mut hands = Hands::new(target, content, sync);
            match self.act {
                Act::Fill(write) | Act::Write(write) => {
                    let batch = write.batch.unwrap_or(job.spec.batch);
                    change(&mut hands, worker, job, content.num, (true, write.random, write.count(job), batch))
                }
                Act::Delete { random } => {
                    change(&mut hands, worker, job, content.num, (false, random, job.spec.num, job.spec.batch))
                }
                Act::Read(keys) => read(&mut hands, worker, job, content.num, keys),
                Act::Scan { reverse } => hands.scan(worker, None, reverse, job.reads(), Some(Kind::Next)).map(drop),
                Act::Seek => seek(&mut hands, worker, job, content.num),
                Act::ReadWhileWriting if worker.index < job.spec.threads => {
                    read(&mut hands, worker, job, content.num, Keys::All)
                }
                Act::ReadWhileWriting => {
                    let mut rng = job.rng(worker.index);
                    while worker.foreground_works() {
                        hands.put(worker, rng.below(content.num))?;
                        worker.did(1);
                    }
                    Ok(())
                }
                Act::Compact => {
                    let compacted = worker.timed(Kind::Compact, || target.compact());
                    worker.did(1);
                    compacted
                }
                Act::Open => Ok(()),
                Act::Checksum => {
                    checksum(worker, job.reads());
                    Ok(())
                }
            }
        })
    }

    fn only_reads(&self) -> bool {
        matches!(self.act, Act::Read(_) | Act::Scan { .. } | Act::Seek)
    }

    fn reopens(&self) -> bool {
        matches!(self.act, Act::Open)
    }
}

/// So many random keys are prepared together; see [`Hands::approach`].
const APPROACHED: usize = 32;

/// Puts or deletes `count` keys, in order or random ones of `num`, `batch` in a write.
fn change(
    hands: &mut Hands<'_>,
    worker: &mut Worker<'_>,
    job: &Job<'_>,
    num: u64,
    (put, random, count, batch): (bool, bool, u64, usize),
) -> Result<()> {
    let mut rng = job.rng(worker.index);
    let mut next = |i: u64| if random { rng.below(num) } else { i };
    if batch == 1 {
        let mut room = [0; APPROACHED];
        for start in (0..count).step_by(APPROACHED) {
            let coming = &mut room[..APPROACHED.min((count - start) as usize)];
            coming.iter_mut().zip(start..).for_each(|(number, i)| *number = next(i));
            if random {
                hands.approach(coming);
            }
            for &mut number in coming {
                if put {
                    hands.put(worker, number)?
                } else {
                    hands.delete(worker, number)?
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
        hands.batch(worker, put, (start..end).map(&mut next), &mut room)?;
        if !worker.did(end - start) {
            break;
        }
        start = end;
    }
    Ok(())
}

fn read(hands: &mut Hands<'_>, worker: &mut Worker<'_>, job: &Job<'_>, num: u64, keys: Keys) -> Result<()> {
    let mut rng = job.rng(worker.index);
    let range = if let Keys::Hot = keys { num.div_ceil(100) } else { num };
    for _ in 0..job.reads() {
        let number = rng.below(range);
        match keys {
            Keys::Missing => hands.get_missing(worker, number)?,
            Keys::All | Keys::Hot => hands.get(worker, number)?,
        }
        if !worker.did(1) {
            break;
        }
    }
    Ok(())
}

fn seek(hands: &mut Hands<'_>, worker: &mut Worker<'_>, job: &Job<'_>, num: u64) -> Result<()> {
    let mut rng = job.rng(worker.index);
    for _ in 0..job.reads() {
        let start = worker.now();
        hands.scan(worker, Some(rng.below(num)), false, 1, None)?;
        worker.record_since(Kind::Scan, start);
        if !worker.did(1) {
            break;
        }
    }
    Ok(())
}

/// Bytes that stay in the nearest cache: all that threads share is what the processor shares.
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

/// One thread, because a store is open once. The store stays open at the end.
fn reopen(store: &mut Store<'_>, job: &Job<'_>, progress: &mut dyn FnMut(u64)) -> Result<Outcome> {
    let store = std::sync::Mutex::new(store);
    measure::run(Plan { foreground: 1, ..job.plan() }, progress, &|worker| {
        let mut store = store.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        for _ in 0..opens(job) {
            store.close()?;
            worker.timed(Kind::Open, || store.open())?;
            worker.did(1);
        }
        Ok(())
    })
}
