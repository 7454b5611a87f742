//! A workload similar to the writes and reads of the set of unspent coins in a Bitcoin node. Keys
//! are hashes, reads are random, and the changes of a minute are written in one burst. Such loads
//! wear out users' drives today.
//!
//! At the start, `num` coins are loaded. Each simulated minute then has three steps. It reads
//! coins that are drawn at random from the existing ones. It spends these coins, with one delete
//! each. It creates as many new coins, with one put each. The deletes and puts are a burst of 2
//! MiB, in two unsynced writes. There is no pause between two minutes. `reads` is the total number
//! of spent coins, by default `num`. Keys have 32 bytes. The keys of a Bitcoin node have a few
//! more, which name the output of the transaction.
use super::{
    Job, Stage,
    keys::Keys,
    ops::{Batch, Driver},
    rng::Rng,
    store::{Content, Store},
    values::{Form, Values},
};
use crate::measure::{self, Outcome, ThreadPlan};
use anyhow::{Result, ensure};
use std::collections::HashSet;

/// Names and descriptions of the workloads.
pub const LIST: [(&str, &str); 2] = [
    ("chainstate-load", "puts num coins with 32-byte hash keys into an empty store, 2 MiB per write"),
    ("chainstate", "reads and deletes random coins and puts as many new ones, in bursts of 2 MiB"),
];

/// Bytes of the keys and values that one minute writes.
const BURST_BYTES: u64 = 2 << 20;

/// One of the workloads of this module.
#[derive(Clone, Copy, Debug)]
pub struct Chainstate {
    name: &'static str,
}

/// Returns the stage of the workload called `name`, if this module has it.
pub fn stage(name: &str) -> Option<Chainstate> {
    LIST.into_iter().find(|(known, _)| *known == name).map(|(name, _)| Chainstate { name })
}

/// Returns the number of coins that one write of the load contains. Their keys and values fill a
/// burst.
fn loaded_at_once(value_bytes: usize) -> u64 {
    (BURST_BYTES / (Keys::HASH_BYTES + value_bytes) as u64).max(1)
}

/// Returns the number of coins that a minute spends, which equals the number of coins that it
/// creates. The keys of the deletes and the entries of the puts fill a burst.
fn spent_in_a_minute(value_bytes: usize) -> u64 {
    (BURST_BYTES / (2 * Keys::HASH_BYTES + value_bytes) as u64).max(1)
}

impl Chainstate {
    fn loads(self) -> bool {
        self.name == LIST[0].0
    }

    /// Puts all coins into the store, one burst per write.
    fn load(job: &Job<'_>, driver: &mut Driver<'_>, worker: &mut measure::Worker<'_>) -> Result<()> {
        let (mut buffer, mut start, at_once) = (Batch::default(), 0, loaded_at_once(job.spec.value_size));
        while start < job.spec.num {
            let end = (start + at_once).min(job.spec.num);
            driver.batch(worker, true, start..end, &mut buffer)?;
            if !worker.did(end - start) {
                break;
            }
            start = end;
        }
        Ok(())
    }

    /// Simulates minutes until the requested number of coins is spent.
    fn simulate(
        job: &Job<'_>,
        content: &Content,
        driver: &mut Driver<'_>,
        worker: &mut measure::Worker<'_>,
    ) -> Result<()> {
        let (mut rng, mut buffer) = (job.rng(0), Batch::default());
        let (mut spent, mut are_spent) = (Vec::new(), HashSet::new());
        let mut left = job.reads();
        while left > 0 {
            let count = left.min(spent_in_a_minute(job.spec.value_size));
            spent.clear();
            are_spent.clear();
            for _ in 0..count {
                let number = unspent(content, &mut rng, &are_spent)?;
                driver.get(worker, number)?;
                if !worker.did(1) {
                    return Ok(());
                }
                spent.push(number);
                are_spent.insert(number);
            }
            driver.batch(worker, false, spent.iter().copied(), &mut buffer)?;
            worker.did(count);
            let made: Vec<u64> = (0..count).map(|_| content.inserts.begin()).collect();
            ensure!(
                made.last().is_none_or(|last| *last < content.model.len()),
                "more new coins than keys reserved for them"
            );
            driver.batch(worker, true, made.iter().copied(), &mut buffer)?;
            made.into_iter().for_each(|number| content.inserts.end(number));
            left -= count;
            if !worker.did(count) {
                break;
            }
        }
        Ok(())
    }
}

/// Draws a coin that exists and that the current burst does not spend. `spent` contains the coins
/// that the current burst spends. The existing coins are a large share of all coins ever created,
/// so few draws are needed.
fn unspent(content: &Content, rng: &mut Rng, spent: &HashSet<u64>) -> Result<u64> {
    for _ in 0..1_000_000 {
        let number = rng.below(content.inserts.below());
        // A drawn coin is rarely one that the current burst spends, because a burst spends only a
        // few of all coins.
        if content.model.present(number) == Some(true) && !spent.contains(&number) {
            return Ok(number);
        }
    }
    anyhow::bail!("too few coins are left to spend")
}

impl Stage for Chainstate {
    fn name(&self) -> String {
        self.name.into()
    }

    fn prepare(&self, store: &mut Store<'_>, job: &Job<'_>) -> Result<()> {
        ensure!(job.spec.threads == 1, "{} supports only one thread", self.name);
        if self.loads() {
            let spec = job.spec;
            let values = Values::new(spec.value_size, spec.compression_ratio, spec.seed, Form::Whole);
            store.fresh(Content::new(Keys::Hash, values, spec.num, job.reads()))?;
        } else {
            ensure!(store.content.keys == Keys::Hash, "chainstate needs chainstate-load before it");
        }
        store.set_threads(1);
        Ok(())
    }

    fn total(&self, _: &Store<'_>, job: &Job<'_>) -> u64 {
        if self.loads() { job.spec.num } else { 3 * job.reads() }
    }

    fn run(&self, store: &mut Store<'_>, job: &Job<'_>, progress: &mut dyn FnMut(u64)) -> Result<Outcome> {
        let (target, content) = (store.target(), &store.content);
        measure::run(ThreadPlan { foreground: 1, ..job.plan() }, progress, &|worker| {
            let mut driver = Driver::new(target, content, false);
            match self.loads() {
                true => Chainstate::load(job, &mut driver, worker),
                false => Chainstate::simulate(job, content, &mut driver, worker),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests that a burst has 2 MiB. A delete counts as the bytes of its key, a put as those of its
    /// key and its value.
    #[test]
    fn a_burst_has_two_mib() {
        for value_bytes in [1, 40, 400, 100_000] {
            let coins = spent_in_a_minute(value_bytes);
            let bytes = |coins: u64| coins * 32 + coins * (32 + value_bytes as u64);
            assert!(bytes(coins) <= 2 << 20 && bytes(coins + 1) > 2 << 20, "{value_bytes}: {coins} coins");
            let bytes = |coins: u64| coins * (32 + value_bytes as u64);
            let coins = loaded_at_once(value_bytes);
            assert!(bytes(coins) <= 2 << 20 && bytes(coins + 1) > 2 << 20, "{value_bytes}: {coins} coins");
        }
        assert_eq!((spent_in_a_minute(0), loaded_at_once(0)), (32_768, 65_536));
        assert_eq!((spent_in_a_minute(4 << 20), loaded_at_once(4 << 20)), (1, 1));
    }

    #[test]
    fn coins_are_drawn_uniformly_from_the_existing_ones() {
        let content = Content::new(Keys::Hash, Values::new(10, 0.5, 1, Form::Whole), 100, 0);
        for number in 0..100 {
            content.model.end(content.model.begin(number, true));
        }
        for number in 50..100 {
            content.model.end(content.model.begin(number, false));
        }
        let mut rng = Rng::new(1, 0);
        let first: Vec<u64> = (0..6).map(|_| unspent(&content, &mut rng, &HashSet::new()).unwrap()).collect();
        assert_eq!(first, [24, 23, 24, 32, 12, 2]);
        let (mut counts, draws) = ([0u64; 50], 100_000u64);
        for _ in 0..draws {
            counts[unspent(&content, &mut rng, &[7].into()).unwrap() as usize] += 1;
        }
        assert_eq!(counts[7], 0, "it is about to be spent");
        let expected = draws as f64 / 49.0;
        let chi: f64 = counts
            .iter()
            .enumerate()
            .filter(|(at, _)| *at != 7)
            .map(|(_, n)| (*n as f64 - expected).powi(2) / expected)
            .sum();
        // The chi-square statistic has 48 degrees of freedom, so its mean is 48 and its standard
        // deviation is 9.8. The bound is five deviations above the mean.
        assert!(chi < 97.0, "{chi}");
    }
}
