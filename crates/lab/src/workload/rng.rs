//! A random number generator. The crate does not use a library for it, so that a seed gives the
//! same operations on every machine and in every version.
//!
//! The generator is xoshiro256++, seeded by splitmix64 (Blackman and Vigna). A seed and a label
//! identify a stream of numbers. The threads and workloads of a run have different labels, so they
//! draw independently.

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Rng([u64; 4]);

impl Rng {
    /// Creates the stream `label` of `seed`.
    pub fn new(seed: u64, label: u64) -> Rng {
        let mut state = mix(seed).wrapping_add(label.wrapping_mul(GOLDEN));
        Rng(std::array::from_fn(|_| {
            state = state.wrapping_add(GOLDEN);
            mix(state)
        }))
    }

    /// Returns 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        let [a, b, c, d] = self.0;
        let result = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let (c, d) = (c ^ a, d ^ b);
        self.0 = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        result
    }

    /// Returns a uniform random number in `0 .. bound`; 0 if `bound` is 0. The deviation from a
    /// uniform distribution is below `bound` / 2^64.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns a uniform random number in `0.0 .. 1.0`, in steps of 2^-53.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
}

/// 2^64 / golden ratio, made odd: the increment of splitmix64.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// Returns the result of splitmix64's final step for `x`. The step is a bijection. If one input
/// bit flips, about half of the output bits flip.
#[inline]
pub fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// Returns a number that is computed from a text. As the label of a random stream, it gives the
/// stream a name.
pub fn label(text: &str) -> u64 {
    text.bytes().fold(GOLDEN, |sum, byte| mix(sum ^ u64::from(byte)))
}

/// A random permutation of `0 .. len` that needs no memory. It applies a bijection on the numbers
/// below the next power of two repeatedly, until the result is below `len`. On average this takes
/// at most two steps.
#[derive(Clone, Debug)]
pub struct Permutation {
    len: u64,
    mask: u64,
    shift: u32,
    keys: [u64; 3],
}

impl Permutation {
    /// Creates the permutation of `seed`.
    pub fn new(len: u64, seed: u64) -> Permutation {
        let mask = len.max(2).next_power_of_two() - 1;
        let mut rng = Rng::new(seed, len);
        Permutation { len, mask, shift: mask.count_ones().div_ceil(2), keys: std::array::from_fn(|_| rng.bits() | 1) }
    }

    /// Returns the element of the permutation at `index`, which must be below the length.
    #[inline]
    pub fn at(&self, index: u64) -> u64 {
        let mut x = index;
        loop {
            for key in self.keys {
                // Each step is a bijection on the low bits, so the steps together are a bijection,
                // too.
                x = x.wrapping_mul(key).wrapping_add(key >> 32) & self.mask;
                x ^= x >> self.shift;
            }
            if x < self.len {
                return x;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_numbers_are_frozen() {
        let mut rng = Rng::new(1, 0);
        let first: Vec<u64> = (0..3).map(|_| rng.bits()).collect();
        assert_eq!(first, [17730607322089975729, 4464893370519901181, 15413697039359713850]);
        assert_eq!((0..5).map(|_| rng.below(1000)).collect::<Vec<_>>(), [677, 715, 238, 240, 323]);
        assert_eq!(label("fillrandom"), 4573173858922217193);
    }

    #[test]
    fn reference_vector_of_xoshiro256_plus_plus() {
        // The expected numbers are the first outputs of the C code of the generator's authors, for
        // the state 1, 2, 3, 4.
        let mut rng = Rng([1, 2, 3, 4]);
        assert_eq!([rng.bits(), rng.bits(), rng.bits()], [41943041, 58720359, 3588806011781223]);
    }

    #[test]
    fn streams_differ() {
        let mut outputs: Vec<u64> = (0..100).map(|label| Rng::new(1, label).bits()).collect();
        outputs.extend((2..100).map(|seed| Rng::new(seed, 0).bits()));
        let count = outputs.len();
        outputs.sort_unstable();
        outputs.dedup();
        assert_eq!(outputs.len(), count);
    }

    #[test]
    fn uniform_by_chi_square() {
        let (mut rng, cells, draws) = (Rng::new(7, 7), 1000, 1_000_000u64);
        let mut counts = vec![0u64; cells];
        (0..draws).for_each(|_| counts[rng.below(cells as u64) as usize] += 1);
        let expected = draws as f64 / cells as f64;
        let chi: f64 = counts.iter().map(|&n| (n as f64 - expected).powi(2) / expected).sum();
        // The chi-square statistic has 999 degrees of freedom, so its mean is 999 and its standard
        // deviation is 44.7. The bounds are five deviations from the mean.
        assert!((775.0..1223.0).contains(&chi), "{chi}");
    }

    #[test]
    fn a_permutation_contains_every_number_once() {
        for len in [1u64, 2, 3, 10, 1000, 4096, 5000] {
            for seed in 0..5 {
                let order = Permutation::new(len, seed);
                let mut met: Vec<u64> = (0..len).map(|i| order.at(i)).collect();
                if len == 5000 {
                    let stays = met.iter().enumerate().filter(|(i, x)| *i as u64 == **x).count();
                    assert!(stays < 10, "{stays} numbers stay in place");
                }
                met.sort_unstable();
                assert!(met.iter().copied().eq(0..len), "len {len} seed {seed}");
            }
        }
    }
}
