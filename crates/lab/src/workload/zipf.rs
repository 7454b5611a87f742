//! Random number generators with Zipfian distributions, as in the original YCSB
//! (brianfrankcooper/YCSB 0.17).
use super::rng::Rng;

/// The exponent θ of YCSB.
const THETA: f64 = 0.99;
/// Number of items of the scrambled distribution, less one. It is a constant of YCSB and does not
/// depend on the number of records.
const SCRAMBLED_ITEMS: u64 = 10_000_000_000;
/// YCSB's constant for the sum of i^−θ over the items of the scrambled distribution.
const SCRAMBLED_ZETA: f64 = 26.469_028_201_783_02;

/// Returns the FNV-1a hash of the eight octets of `x`, lowest first, made positive as in Java.
#[inline]
pub fn fnv64(x: u64) -> u64 {
    let hash = x
        .to_le_bytes()
        .iter()
        .fold(0xCBF2_9CE4_8422_2325u64, |hash, &octet| (hash ^ u64::from(octet)).wrapping_mul(1_099_511_628_211));
    (hash as i64).unsigned_abs()
}

/// A Zipfian distribution of numbers `0 .. items`. The smallest number is the most frequent one
/// (Gray et al., SIGMOD 1994).
#[derive(Clone, Debug)]
pub struct Zipf {
    items: u64,
    zeta: f64,
    eta: f64,
}

impl Zipf {
    /// Creates the distribution over `items` numbers; `items` is at least one. This takes
    /// O(`items`) time.
    pub fn new(items: u64) -> Zipf {
        Zipf::with_zeta(items.max(1), zeta(0.0, 0, items.max(1)))
    }

    fn with_zeta(items: u64, zeta_items: f64) -> Zipf {
        let eta = (1.0 - (2.0 / items as f64).powf(1.0 - THETA)) / (1.0 - zeta(0.0, 0, 2) / zeta_items);
        Zipf { items, zeta: zeta_items, eta }
    }

    /// Extends the distribution to `items` numbers. It never shrinks.
    pub fn grow(&mut self, items: u64) {
        if items > self.items {
            *self = Zipf::with_zeta(items, zeta(self.zeta, self.items, items));
        }
    }

    /// Draws the next number.
    #[inline]
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        let u = rng.unit();
        let scaled = u * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + 0.5f64.powf(THETA) {
            return 1;
        }
        let alpha = 1.0 / (1.0 - THETA);
        ((self.items as f64 * (self.eta * u - self.eta + 1.0).powf(alpha)) as u64).min(self.items - 1)
    }

    /// Returns the probability that the generator draws `i`. For the first two numbers it follows
    /// from Zipf's law. For the other numbers it follows from the inverse of the generator's
    /// formula.
    #[cfg(test)]
    pub(super) fn probability(&self, i: u64) -> f64 {
        let law = |i: u64| (i as f64).powf(-THETA) / self.zeta;
        // Returns the value of u below which the generator draws a number below n. u is the uniform
        // random number in the generator's formula.
        let below = |n: u64| {
            let first = (1.0 + 0.5f64.powf(THETA)) / self.zeta;
            let u = 1.0 - (1.0 - (n as f64 / self.items as f64).powf(1.0 - THETA)) / self.eta;
            if n == self.items { 1.0 } else { u.max(first) }
        };
        match i {
            0 => law(1),
            1 => law(2),
            2 => below(3) - law(1) - law(2),
            _ => below(i + 1) - below(i),
        }
    }
}

/// Adds i^−θ to `sum` for each `i` in `from + 1 ..= to`, and returns the result.
fn zeta(sum: f64, from: u64, to: u64) -> f64 {
    (from + 1..=to).fold(sum, |sum, i| sum + (i as f64).powf(-THETA))
}

/// A Zipfian distribution whose popular items are spread over `0 .. items` by a hash. The most
/// popular item has a share of 1 / 26.47, whatever `items` is.
#[derive(Clone, Debug)]
pub struct Scrambled {
    zipf: Zipf,
    items: u64,
}

impl Scrambled {
    /// Creates the distribution over `items` numbers; `items` is at least one.
    pub fn new(items: u64) -> Scrambled {
        Scrambled { zipf: Zipf::with_zeta(SCRAMBLED_ITEMS + 1, SCRAMBLED_ZETA), items: items.max(1) }
    }

    /// Draws the next number.
    #[inline]
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        fnv64(self.zipf.draw(rng)) % self.items
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::chi_square::chi_square;

    #[test]
    fn first_numbers_are_frozen() {
        let (zipf, scrambled, mut rng) = (Zipf::new(1000), Scrambled::new(1000), Rng::new(1, 0));
        assert_eq!((0..8).map(|_| zipf.draw(&mut rng)).collect::<Vec<_>>(), [747, 2, 290, 86, 116, 2, 2, 5]);
        assert_eq!(
            (0..8).map(|_| scrambled.draw(&mut rng)).collect::<Vec<_>>(),
            [737, 451, 425, 386, 793, 211, 9, 981]
        );
    }

    #[test]
    fn growing_equals_starting_larger() {
        let mut zipf = Zipf::new(10);
        zipf.grow(1000);
        let fresh = Zipf::new(1000);
        assert!((zipf.zeta - fresh.zeta).abs() < 1e-12 && (zipf.eta - fresh.eta).abs() < 1e-12);
    }

    /// Tests the Zipfian generator (Gray et al.), which is exact for the first two numbers and an
    /// approximation for the others. The test compares the first two with Zipf's law, and the
    /// others with the generator's own formula.
    #[test]
    fn zipfian_by_chi_square() {
        let (items, draws) = (1000u64, 1_000_000u64);
        let (zipf, mut rng) = (Zipf::new(items), Rng::new(3, 3));
        let mut counts = vec![0u64; items as usize];
        (0..draws).for_each(|_| counts[zipf.draw(&mut rng) as usize] += 1);
        let expected: Vec<f64> = (0..items).map(|i| draws as f64 * zipf.probability(i)).collect();
        let chi = chi_square(&counts, &expected);
        assert!(chi < 1223.0, "{chi}: more than five deviations above 999 degrees of freedom");
    }

    /// Tests the scrambled distribution. The share of each place is computed from the first million
    /// items, which a hash distributes over the places. All further items are so many and so rare
    /// that every place gets an equal share of them.
    #[test]
    fn scrambled_by_chi_square() {
        let (places, draws, distinguished) = (1000usize, 1_000_000u64, 1_000_000u64);
        let (scrambled, mut rng) = (Scrambled::new(places as u64), Rng::new(13, 13));
        let mut counts = vec![0u64; places];
        (0..draws).for_each(|_| counts[scrambled.draw(&mut rng) as usize] += 1);
        let mut shares = vec![0.0; places];
        (0..distinguished).for_each(|i| shares[fnv64(i) as usize % places] += scrambled.zipf.probability(i));
        let rest = (1.0 - shares.iter().sum::<f64>()) / places as f64;
        assert!((0.0..0.0005).contains(&rest), "{rest}: less than half of the draws hit known items");
        let expected: Vec<f64> = shares.iter().map(|share| draws as f64 * (share + rest)).collect();
        let chi = chi_square(&counts, &expected);
        assert!((775.0..1223.0).contains(&chi), "{chi}: more than five deviations from 999 degrees of freedom");
    }

    #[test]
    fn the_hottest_scrambled_item_gets_its_share() {
        let (scrambled, mut rng, draws) = (Scrambled::new(1_000_000), Rng::new(5, 5), 1_000_000u64);
        let hottest = fnv64(0) % 1_000_000;
        let hits = (0..draws).filter(|_| scrambled.draw(&mut rng) == hottest).count() as f64;
        let expected = draws as f64 / SCRAMBLED_ZETA;
        assert!((hits - expected).abs() < 5.0 * expected.sqrt(), "{hits} instead of {expected}");
    }
}
