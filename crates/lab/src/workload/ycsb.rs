//! YCSB's core workloads with their original generators (brianfrankcooper/YCSB 0.17).
//!
//! Records are numbered in the order of insertion. The key of a record is `user` and the hash of
//! its number. A record is one value of `value_size` bytes, which represents ten fields. `num`
//! records are loaded. A workload performs `reads` operations (by default `num`), divided among
//! the threads. The order of keys and the distributions are those of the original; the source of
//! random numbers is another one.
//!
//! YCSB's own bindings disagree about the meaning of an update, so a run selects the meaning. An
//! *update* puts a whole record (`blind`), or reads the record, replaces one field and puts the
//! record back (`merge`). A *read-modify-write* always reads. With `merge`, the driver performs
//! the changes of one record one after another. Otherwise a lost update could not be distinguished
//! from a wrong result.
pub use super::update::Update;

use super::{
    Job, Stage,
    deletes::share_of,
    keys::Keys,
    ops::Driver,
    rng::Rng,
    store::{Content, Store},
    values::{Form, Values},
    zipf::{Scrambled, Zipf},
};
use crate::{
    cell::CellSpec,
    measure::{self, Kind, Outcome, Worker},
};
use anyhow::{Context, Result, ensure};
use std::sync::Mutex;

/// Names and descriptions of the workloads.
pub const LIST: [(&str, &str); 9] = [
    ("ycsb-load", "inserts num records into an empty store"),
    ("ycsb-a", "50 % reads, 50 % updates, zipfian"),
    ("ycsb-b", "95 % reads, 5 % updates, zipfian"),
    ("ycsb-c", "reads, zipfian"),
    ("ycsb-d", "95 % reads of the latest records, 5 % inserts"),
    ("ycsb-e", "95 % scans of 1 to 100 records from a zipfian one, 5 % inserts"),
    ("ycsb-f", "50 % reads, 50 % read-modify-writes, zipfian"),
    ("ycsb-write:", "that percentage of updates, the rest reads, zipfian, as in ycsb-write:80"),
    ("ycsb-write-uniform:", "the same, uniform"),
];

/// Maximum length of a scan in records.
const SCAN_MAX: u64 = 100;
/// Number of mutexes that serialize the changes of records. All changes of one record use the same
/// mutex.
const LOCKS: usize = 1024;

/// A YCSB workload: the load of the records, or a workload on the loaded records.
pub struct Ycsb {
    name: String,
    mix: Option<OperationMix>,
}

/// Shares of the operations in percent. The other operations are reads.
#[derive(Clone, Copy)]
struct OperationMix {
    update: u64,
    insert: u64,
    scan: u64,
    rmw: u64,
    choice: Popularity,
}

/// Distribution of the popularity of records.
#[derive(Clone, Copy, PartialEq)]
enum Popularity {
    Zipfian,
    Latest,
    Uniform,
}

const READ: OperationMix = OperationMix { update: 0, insert: 0, scan: 0, rmw: 0, choice: Popularity::Zipfian };

/// Returns the workload called `name`, if this module has it. An invalid percentage is an error.
pub fn stage(name: &str) -> Result<Option<Ycsb>> {
    let mix = match name {
        "ycsb-load" => None,
        "ycsb-a" => Some(OperationMix { update: 50, ..READ }),
        "ycsb-b" => Some(OperationMix { update: 5, ..READ }),
        "ycsb-c" => Some(READ),
        "ycsb-d" => Some(OperationMix { insert: 5, choice: Popularity::Latest, ..READ }),
        "ycsb-e" => Some(OperationMix { insert: 5, scan: 95, ..READ }),
        "ycsb-f" => Some(OperationMix { rmw: 50, ..READ }),
        _ => {
            let choice = match name.split_once(':') {
                Some(("ycsb-write", _)) => Popularity::Zipfian,
                Some(("ycsb-write-uniform", _)) => Popularity::Uniform,
                _ => return Ok(None),
            };
            let share = name.rsplit(':').next().and_then(|share| share.parse().ok());
            let update = share.filter(|share: &u64| *share <= 100);
            let update = update.with_context(|| format!("workload {name}: the share is a percentage"))?;
            Some(OperationMix { update, choice, ..READ })
        }
    };
    Ok(Some(Ycsb { name: name.into(), mix }))
}

fn operations(spec: &CellSpec) -> u64 {
    spec.reads.unwrap_or(spec.num)
}

impl OperationMix {
    /// Returns the number of keys that YCSB reserves for inserts during the run. It is twice the
    /// expected number of inserts.
    fn reserve(self, ops: u64) -> u64 {
        ops * self.insert * 2 / 100
    }

    /// Returns an upper bound of the number of inserts: the reserve (twice the expected number)
    /// plus 100. In short runs, these 100 exceed ten standard deviations of the number of inserts.
    fn room(self, ops: u64) -> u64 {
        if self.insert == 0 { 0 } else { (self.reserve(ops) + 100).min(ops) }
    }
}

impl Ycsb {
    fn load(&self, store: &mut Store<'_>, job: &Job<'_>) -> Result<()> {
        let spec = job.spec;
        let form = if spec.ycsb_update == Update::Merge { Form::Fields } else { Form::Whole };
        let values = Values::new(spec.value_size, spec.compression_ratio, spec.seed, form);
        let mixes = spec.workloads.iter().filter_map(|name| stage(name).ok()??.mix);
        let room = mixes.map(|mix| mix.room(operations(spec))).sum();
        store.fresh(Content::new(Keys::User, values, spec.num, room))
    }
}

impl Stage for Ycsb {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn prepare(&self, store: &mut Store<'_>, job: &Job<'_>) -> Result<()> {
        match self.mix {
            None => self.load(store, job)?,
            Some(mix) => {
                ensure!(store.content.keys == Keys::User, "{} needs ycsb-load before it", self.name);
                if mix.scan > 0 {
                    store.content.sort()?;
                }
            }
        }
        store.set_threads(job.spec.threads);
        Ok(())
    }

    fn total(&self, store: &Store<'_>, job: &Job<'_>) -> u64 {
        if self.mix.is_some() { operations(job.spec) } else { store.content.num }
    }

    fn only_reads(&self) -> bool {
        self.mix.is_some_and(|mix| mix.update + mix.insert + mix.rmw == 0)
    }

    fn run(&self, store: &mut Store<'_>, job: &Job<'_>, progress: &mut dyn FnMut(u64)) -> Result<Outcome> {
        let (target, content, total) = (store.target(), &store.content, self.total(store, job));
        let locks: Vec<Mutex<()>> = (0..LOCKS).map(|_| Mutex::default()).collect();
        let chooser = self.mix.map(|mix| RecordChooser::new(mix, content, total));
        measure::run(job.plan(), progress, &|worker| {
            let share = share_of(total, worker.index as u64, job.spec.threads as u64);
            let mut driver = Driver::new(target, content, false);
            let (Some(mix), Some(chooser)) = (self.mix, chooser.clone()) else {
                for number in share {
                    driver.put(worker, number)?;
                    if !worker.did(1) {
                        break;
                    }
                }
                return Ok(());
            };
            let mut client = Client { mix, chooser, rng: job.rng(worker.index), content, locks: &locks };
            for _ in share {
                client.step(&mut driver, worker)?;
                if !worker.did(1) {
                    break;
                }
            }
            Ok(())
        })
    }
}

/// Chooses one of the existing records according to its popularity.
#[derive(Clone, Debug)]
enum RecordChooser {
    Scrambled(Scrambled),
    Latest(Zipf),
    Uniform,
}

impl RecordChooser {
    fn new(mix: OperationMix, content: &Content, ops: u64) -> RecordChooser {
        let records = content.inserts.below();
        match mix.choice {
            Popularity::Latest => RecordChooser::Latest(Zipf::new(records.saturating_sub(1))),
            // YCSB's own upper bound is inclusive. The range therefore has one number more than
            // there are records and reserved keys.
            Popularity::Zipfian => RecordChooser::Scrambled(Scrambled::new(records + mix.reserve(ops) + 1)),
            Popularity::Uniform => RecordChooser::Uniform,
        }
    }

    /// Returns the number of an existing record. If the drawn number is beyond the last
    /// acknowledged insert, the function draws again.
    fn choose(&mut self, rng: &mut Rng, below: u64) -> u64 {
        match self {
            RecordChooser::Scrambled(scrambled) => loop {
                let number = scrambled.draw(rng);
                if number < below {
                    return number;
                }
            },
            RecordChooser::Uniform => rng.below(below),
            RecordChooser::Latest(zipf) => {
                let last = below.saturating_sub(1);
                zipf.grow(last);
                last.saturating_sub(zipf.draw(rng))
            }
        }
    }
}

/// State of one thread that runs a workload.
struct Client<'a> {
    mix: OperationMix,
    chooser: RecordChooser,
    rng: Rng,
    content: &'a Content,
    locks: &'a [Mutex<()>],
}

impl Client<'_> {
    fn step(&mut self, driver: &mut Driver<'_>, worker: &mut Worker<'_>) -> Result<()> {
        let (mix, dice) = (self.mix, self.rng.below(100));
        if dice < mix.insert {
            let number = self.content.inserts.begin();
            ensure!(number < self.content.model.len(), "more inserts than reserved");
            driver.put(worker, number)?;
            self.content.inserts.end(number);
            return Ok(());
        }
        let number = self.chooser.choose(&mut self.rng, self.content.inserts.below());
        let fields = self.content.values.form() == Form::Fields;
        let changes = mix.insert + mix.update + mix.rmw;
        let _merging = (fields && dice < changes)
            .then(|| self.locks[number as usize % LOCKS].lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
        if dice < mix.insert + mix.update {
            if fields { driver.merge(worker, number) } else { driver.put(worker, number) }
        } else if dice < changes {
            driver.read_modify_write(worker, number)
        } else if dice < changes + mix.scan {
            let limit = 1 + self.rng.below(SCAN_MAX);
            let start = worker.now();
            driver.scan(worker, Some(number), false, limit, None)?;
            worker.record_since(Kind::Scan, start);
            Ok(())
        } else {
            driver.get(worker, number)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::chi_square::chi_square;

    fn content(num: u64) -> Content {
        Content::new(Keys::User, Values::new(10, 0.5, 1, Form::Whole), num, 0)
    }

    #[test]
    fn first_choices_are_frozen() {
        for (name, frozen) in [
            ("ycsb-a", [983, 386, 982, 934, 937, 616]),
            ("ycsb-d", [253, 997, 710, 913, 883, 997]),
            ("ycsb-e", [6, 748, 849, 860, 451, 410]),
            ("ycsb-write-uniform:80", [961, 242, 835, 677, 715, 238]),
        ] {
            let mut chooser = RecordChooser::new(stage(name).unwrap().unwrap().mix.unwrap(), &content(1000), 1000);
            let mut rng = Rng::new(1, 0);
            assert_eq!(std::array::from_fn(|_| chooser.choose(&mut rng, 1000)), frozen, "{name}");
        }
    }

    #[test]
    fn shares_of_writes_are_percentages() {
        let mix = |name: &str| stage(name).unwrap().unwrap().mix.unwrap();
        assert_eq!((mix("ycsb-write:80").update, mix("ycsb-write-uniform:100").update), (80, 100));
        assert!(mix("ycsb-write:0").choice == Popularity::Zipfian && stage("ycsb-g").unwrap().is_none());
        for bad in ["ycsb-write:101", "ycsb-write:x", "ycsb-write:"] {
            assert!(stage(bad).err().unwrap().to_string().contains("percentage"), "{bad}");
        }
    }

    #[test]
    fn latest_by_chi_square() {
        let (records, draws) = (1000u64, 1_000_000u64);
        let mut chooser = RecordChooser::new(stage("ycsb-d").unwrap().unwrap().mix.unwrap(), &content(records), 1000);
        let (mut rng, mut counts) = (Rng::new(17, 17), vec![0u64; records as usize]);
        (0..draws).for_each(|_| counts[chooser.choose(&mut rng, records) as usize] += 1);
        counts.reverse(); // the newest record is now the first
        let zipf = Zipf::new(records - 1);
        assert_eq!(counts.pop(), Some(0), "the oldest is never drawn, as in the original");
        let expected: Vec<f64> = (0..records - 1).map(|age| draws as f64 * zipf.probability(age)).collect();
        let chi = chi_square(&counts, &expected);
        assert!(chi < 1223.0, "{chi}: more than five deviations above 998 degrees of freedom");
    }

    #[test]
    fn latest_prefers_the_newest() {
        let mut chooser = RecordChooser::new(stage("ycsb-d").unwrap().unwrap().mix.unwrap(), &content(1000), 1000);
        let mut rng = Rng::new(2, 0);
        let newest = (0..10_000).filter(|_| chooser.choose(&mut rng, 1500) == 1499).count() as f64;
        let expected = 10_000.0 / (1..1500).map(|i| f64::from(i).powf(-0.99)).sum::<f64>();
        assert!((newest - expected).abs() < 5.0 * expected.sqrt(), "{newest} instead of {expected}");
    }
}
