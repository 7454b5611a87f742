//! Medians over the rounds of a comparison, and their confidence intervals.
use crate::workload::rng::Rng;

/// Minimum number of rounds for a claim. With fewer rounds, a comparison is only indicative.
pub const ROUNDS_OF_A_CLAIM: usize = 9;
/// Number of bootstrap samples per interval.
const RESAMPLES: usize = 10_000;
/// Seed of the bootstrap's random numbers. It is constant, so that the same rounds give the same
/// interval.
const SEED: u64 = 301;

/// A median with its 95 % confidence interval, which is computed by the bootstrap method.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The median.
    pub median: f64,
    /// The range that contains 95 % of the medians of resampled rounds. `None` if there is only one
    /// round.
    pub interval: Option<(f64, f64)>,
    /// Number of rounds.
    pub rounds: usize,
}

impl Estimate {
    /// Computes the median and the interval from the values of all rounds. Values that are not
    /// finite are omitted. Returns `None` if no value remains.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Estimate> {
        let mut values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        let rounds = values.len();
        let middle = median(&mut values)?;
        let interval = (rounds > 1).then(|| bootstrap(&values));
        Some(Estimate { median: middle, interval, rounds })
    }
}

/// Returns the middle value, or the mean of the two middle values. Sorts `values`.
pub fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    let lower = values[(values.len() - 1) / 2];
    Some(lower + (upper - lower) / 2.0)
}

/// Returns the confidence interval of the median of `values` by the percentile bootstrap. Each
/// resample draws as many values as `values` has, with replacement.
fn bootstrap(values: &[f64]) -> (f64, f64) {
    let mut rng = Rng::new(SEED, values.len() as u64);
    let mut drawn = vec![0.0; values.len()];
    let mut medians: Vec<f64> = (0..RESAMPLES)
        .filter_map(|_| {
            drawn.iter_mut().for_each(|slot| *slot = values[rng.below(values.len() as u64) as usize]);
            median(&mut drawn)
        })
        .collect();
    medians.sort_unstable_by(f64::total_cmp);
    (medians[RESAMPLES / 40], medians[RESAMPLES - 1 - RESAMPLES / 40])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&mut []), None);
        assert_eq!(median(&mut [7.0]), Some(7.0));
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn intervals_are_the_same_every_time_and_as_wide_as_theory_says() {
        assert_eq!(Estimate::of([]), None);
        assert_eq!(Estimate::of([f64::NAN]), None);
        assert_eq!(Estimate::of([5.0]).unwrap().interval, None);
        assert_eq!(Estimate::of([5.0; 9]).unwrap().interval, Some((5.0, 5.0)));
        let nine = Estimate::of((1..=9).map(f64::from)).unwrap();
        assert_eq!(nine, Estimate::of((1..=9).rev().map(f64::from)).unwrap());
        // The nine values are 1 to 9. The median of a resample is at most k if at least five of its
        // nine draws are at most k. The binomial distribution (9, k/9) gives 0.1 % for k = 1 and
        // 3.0 % for k = 2. The 2.5 % quantile is therefore 2, and by symmetry the 97.5 % quantile
        // is 8.
        assert_eq!((nine.median, nine.interval), (5.0, Some((2.0, 8.0))));
    }

    #[test]
    fn intervals_cover_the_true_median_about_as_often_as_they_say() {
        let mut rng = Rng::new(7, 7);
        let covered = (0..200)
            .filter(|_| {
                let (low, high) = Estimate::of((0..9).map(|_| rng.unit())).unwrap().interval.unwrap();
                (low..=high).contains(&0.5)
            })
            .count();
        assert!((180..=200).contains(&covered), "{covered} of 200");
    }
}
