//! mixgraph: a model of the store of a social graph (Cao, Dong, Vemuri, Du, FAST 2020), with the
//! parameters that RocksDB's db_bench documents for it. Of all operations, 85 % are gets, 14 % are
//! puts and 1 % are scans. Key ranges have different popularity. The sizes of values and the
//! lengths of scans have Pareto distributions.
//!
//! As in db_bench, one random number determines the operation, the key range and the key. This
//! model differs from db_bench in three points. The source of random numbers is another one. The
//! size of a value depends only on its key and generation (number of changes of the key), so that
//! results can be checked. The rate of operations does not follow a sine, because the lab measures
//! the cost of an operation. `reads` is the total number of operations of all threads.
use super::{
    Job, Stage,
    deletes::share_of,
    ops::Driver,
    rng::{Permutation, Rng, label},
    store::{Content, Store},
    values::{Pareto, Sizes},
};
use crate::measure::{self, Kind, Outcome};
use anyhow::{Result, ensure};

/// Names and descriptions of the workloads.
pub const LIST: [(&str, &str); 2] = [
    ("mixgraph-load", "puts num keys in random order into an empty store, values of Pareto sizes, 35 B on average"),
    ("mixgraph", "85 % gets, 14 % puts, 1 % scans in ranges of unequal popularity"),
];

/// Shares of gets and puts in thousandths. The other operations are scans.
const GETS: u64 = 850;
const PUTS: u64 = 140;
/// Number of key ranges, and the parameters of their popularity. The popularity of the x-th range
/// is a e^(bx) + c e^(dx).
const RANGES: u64 = 30;
const POPULARITY: [f64; 4] = [14.18, -2.917, 0.0164, -0.08082];
/// The parameters a and b of the popularity of keys in a range: the x most popular keys receive
/// the share a x^b of all accesses to the range.
const KEYS_A: f64 = 0.002312;
const KEYS_B: f64 = 0.3467;
/// Distribution of the sizes of values, in bytes.
pub const VALUES: Pareto = Pareto { k: 0.2615, sigma: 25.45, least: 10, most: 1024 };
const SIZES: Sizes = Sizes::Pareto(VALUES);
/// Distribution of the number of entries per scan.
const SCANS: Pareto = Pareto { k: 2.517, sigma: 14.236, least: 1, most: 10_000 };

/// One of the workloads of this module.
#[derive(Clone, Copy, Debug)]
pub struct Mixgraph {
    name: &'static str,
}

/// Returns the stage of the workload called `name`, if this module has it.
pub fn stage(name: &str) -> Option<Mixgraph> {
    LIST.into_iter().find(|(known, _)| *known == name).map(|(name, _)| Mixgraph { name })
}

/// Popularity of the keys of a store.
#[derive(Clone, Debug)]
struct KeyPopularity {
    /// For each range, in key order: the number of accesses to this range and to all ranges before
    /// it.
    ends: Vec<u64>,
    /// Number of keys per range.
    keys: u64,
}

impl KeyPopularity {
    /// Distributes the popularity over `num` keys. Keys after the last complete range are never
    /// accessed.
    fn new(num: u64) -> KeyPopularity {
        let [a, b, c, d] = POPULARITY;
        let popularity = |x: u64| a * (b * x as f64).exp() + c * (d * x as f64).exp();
        let amplify = (1.0 / popularity(RANGES)).floor() + 1.0;
        let mut shares: Vec<u64> = (1..=RANGES).rev().map(|x| (amplify * popularity(x)).floor() as u64).collect();
        let mut rng = Rng::new(shares.iter().sum(), 0);
        for at in 0..shares.len() {
            shares.swap(at, rng.below(RANGES) as usize);
        }
        let ends = shares.iter().scan(0, |end, share| {
            *end += share;
            Some(*end)
        });
        KeyPopularity { ends: ends.collect(), keys: (num / RANGES).max(1) }
    }

    /// Maps `random` to a key.
    fn key(&self, random: u64) -> u64 {
        let place = random % self.ends[self.ends.len() - 1];
        let range = self.ends.partition_point(|end| *end <= place) as u64;
        let u = (random % self.keys) as f64 / self.keys as f64;
        range * self.keys + Rng::new(rank(u), 1).below(self.keys)
    }
}

/// Returns the popularity rank of a key in its range; rank 1 is the most popular key. `u` is a
/// random number from 0 to 1.
fn rank(u: f64) -> u64 {
    (u / KEYS_A).powf(1.0 / KEYS_B).ceil() as u64
}

impl Mixgraph {
    fn loads(self) -> bool {
        self.name == LIST[0].0
    }
}

impl Stage for Mixgraph {
    fn name(&self) -> String {
        self.name.into()
    }

    fn prepare(&self, store: &mut Store<'_>, job: &Job<'_>) -> Result<()> {
        if self.loads() {
            ensure!(job.spec.num >= RANGES, "mixgraph needs {RANGES} keys or more");
            store.fresh(Content::sized(job.spec, SIZES)?)?;
        } else {
            ensure!(store.content.values.sizes() == Some(SIZES), "mixgraph needs mixgraph-load before it");
        }
        store.set_threads(job.spec.threads);
        Ok(())
    }

    fn total(&self, _: &Store<'_>, job: &Job<'_>) -> u64 {
        if self.loads() { job.spec.num } else { job.reads() }
    }

    fn run(&self, store: &mut Store<'_>, job: &Job<'_>, progress: &mut dyn FnMut(u64)) -> Result<Outcome> {
        let (target, content, num) = (store.target(), &store.content, job.spec.num);
        let (order, popularity) = (Permutation::new(num, job.seed ^ label("load")), KeyPopularity::new(num));
        measure::run(job.plan(), progress, &|worker| {
            let mut driver = Driver::new(target, content, false).with_concurrent_writers(job.spec.threads > 1);
            let mut rng = job.rng(worker.index);
            for index in share_of(self.total(store, job), worker.index as u64, job.spec.threads as u64) {
                if self.loads() {
                    driver.put(worker, order.at(index))?;
                } else {
                    step(&mut driver, worker, &popularity, rng.below(num), num)?;
                }
                if !worker.did(1) {
                    break;
                }
            }
            Ok(())
        })
    }
}

/// Performs the operation selected by `random`, a number below `num`.
fn step(
    driver: &mut Driver<'_>,
    worker: &mut measure::Worker<'_>,
    popularity: &KeyPopularity,
    random: u64,
    num: u64,
) -> Result<()> {
    let number = popularity.key(random);
    match random % 1000 {
        dice if dice < GETS => driver.get(worker, number),
        dice if dice < GETS + PUTS => driver.put(worker, number),
        _ => {
            let limit = SCANS.size((random + 1) as f64 / num as f64);
            let start = worker.now();
            driver.scan(worker, Some(number), false, limit, None)?;
            worker.record_since(Kind::Scan, start);
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::chi_square::chi_square;

    #[test]
    fn first_keys_are_frozen() {
        let (popularity, mut rng) = (KeyPopularity::new(30_000), Rng::new(1, 0));
        let first: Vec<u64> = (0..6).map(|_| popularity.key(rng.below(30_000))).collect();
        assert_eq!(first, [20932, 20816, 20562, 20250, 20909, 20151]);
    }

    #[test]
    fn ranges_get_their_share_by_chi_square() {
        let num = 3_000_000;
        let (popularity, mut rng, draws) = (KeyPopularity::new(num), Rng::new(3, 3), 300_000u64);
        let mut counts = [0u64; RANGES as usize];
        (0..draws).for_each(|_| counts[(popularity.key(rng.bits() >> 1) / popularity.keys) as usize] += 1);
        // The published popularity of range x is a e^(bx) + c e^(dx), divided by the sum over all
        // ranges. Which range has which popularity was drawn at random.
        let law = |x: u64| {
            POPULARITY[0] * (POPULARITY[1] * x as f64).exp() + POPULARITY[2] * (POPULARITY[3] * x as f64).exp()
        };
        let sum: f64 = (1..=RANGES).map(law).sum();
        let mut expected: Vec<f64> = (1..=RANGES).map(|x| draws as f64 * law(x) / sum).collect();
        expected.sort_by(f64::total_cmp);
        counts.sort_unstable();
        // RocksDB's db_bench rounds each share down to a whole number, and so does this code. The
        // least popular range has the share 1.
        let amplify = (1.0 / law(RANGES)).floor() + 1.0;
        let mut shares: Vec<f64> = (1..=RANGES).map(|x| (amplify * law(x)).floor()).collect();
        shares.sort_by(f64::total_cmp);
        let total: f64 = shares.iter().sum();
        let expected_of = |share: &f64| draws as f64 * share / total;
        let chi = chi_square(&counts, &shares.iter().map(expected_of).collect::<Vec<_>>());
        // The chi-square statistic has 29 degrees of freedom, so its mean is 29 and its standard
        // deviation is 7.6. The bound is five deviations above the mean. The counts are sorted
        // before the comparison, which can only lower the statistic.
        assert!(chi < 67.0, "{chi}");
        let hottest = counts[29] as f64 / expected[29];
        assert!((0.9..1.1).contains(&hottest), "{hottest}");
    }

    /// Returns the probabilities of the ranges into which `edges` divide the drawn numbers: for
    /// each pair of neighbouring edges, the probability that a number is between them, and at the
    /// end the probability that it is beyond the last edge. `below` is the distribution function;
    /// each probability is a difference of two of its values.
    fn shares(edges: &[u64], below: &dyn Fn(f64) -> f64) -> Vec<f64> {
        let mut before = 0.0;
        let upto = edges.iter().map(|edge| below(*edge as f64)).chain([1.0]);
        upto.map(|upto| upto - std::mem::replace(&mut before, upto)).collect()
    }

    /// Tests the popularity of keys in a range. The x most popular keys of a range must receive the
    /// share a x^b of the accesses to the range. A hash determines which keys these are.
    #[test]
    fn keys_of_a_range_follow_the_published_power_by_chi_square() {
        let (mut rng, draws) = (Rng::new(9, 9), 1_000_000u64);
        let edges = [1u64, 2, 5, 10, 30, 100, 300, 1000, 3000, 10_000, 100_000, 1_000_000];
        let mut counts = [0u64; 13];
        let mut draw = || rank(rng.unit());
        (0..draws).map(|_| draw()).for_each(|rank| counts[edges.partition_point(|edge| *edge < rank)] += 1);
        let shares = shares(&edges, &|x| KEYS_A * x.powf(KEYS_B));
        let chi = chi_square(&counts, &shares.iter().map(|share| draws as f64 * share).collect::<Vec<_>>());
        // The chi-square statistic has 12 degrees of freedom. One statistic in a million exceeds
        // 52.
        assert!(chi < 52.0, "{chi}: {counts:?}");
    }

    /// Tests that the sizes of values and the lengths of scans have the distribution function
    /// F(x) = 1 - (1 + k x / sigma)^(-1 / k). Sizes are rounded to whole numbers. A size above the
    /// limit is reduced modulo the limit, as in the original.
    #[test]
    fn values_and_scans_follow_the_published_pareto_by_chi_square() {
        let (mut rng, draws) = (Rng::new(11, 11), 1_000_000u64);
        for (pareto, edges) in
            [(VALUES, [10u64, 15, 20, 30, 50, 80, 120, 200]), (SCANS, [1, 2, 4, 8, 16, 64, 256, 1024])]
        {
            let mut counts = [0u64; 9];
            let mut draw = || pareto.size(rng.unit());
            (0..draws).map(|_| draw()).for_each(|size| counts[edges.partition_point(|edge| *edge < size)] += 1);
            let law = |x: f64| 1.0 - (1.0 + pareto.k * x / pareto.sigma).powf(-1.0 / pareto.k);
            // The original reduces sizes above `most` modulo `most`.
            let most = pareto.most as f64;
            let between = |from: f64, to: f64| law(to) - law(from);
            let again =
                |x: f64| (1..100_000).map(|n| f64::from(n) * most).map(|from| between(from, from + x)).sum::<f64>();
            let shares = shares(&edges, &|x| law(x) + again(x));
            let chi = chi_square(&counts, &shares.iter().map(|share| draws as f64 * share).collect::<Vec<_>>());
            // The chi-square statistic has 8 degrees of freedom. One statistic in a million exceeds
            // 43.
            assert!(chi < 43.0, "{pareto:?}: {chi}: {counts:?}");
        }
    }

    #[test]
    fn values_have_the_published_mean_and_scans_a_length() {
        let mut rng = Rng::new(5, 5);
        let mean = (0..200_000).map(|_| VALUES.size(rng.unit()) as f64).sum::<f64>() / 200_000.0;
        assert!((34.0..38.0).contains(&mean), "{mean}: 35 B with these parameters");
        assert!((0..10_000).map(|_| SCANS.size(rng.unit())).all(|pairs| (1..=10_000).contains(&pairs)));
    }
}
