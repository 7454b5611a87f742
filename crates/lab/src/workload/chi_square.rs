//! The chi-square statistic. Tests use it to compare drawn numbers with a distribution.

/// Returns the chi-square statistic of `counts` against `expected`, over all possible outcomes.
pub(super) fn chi_square(counts: &[u64], expected: &[f64]) -> f64 {
    assert_eq!(counts.len(), expected.len());
    let (possible, never): (Vec<_>, Vec<_>) = counts.iter().zip(expected).partition(|(_, expected)| **expected > 1e-3);
    assert!(never.iter().all(|(count, _)| **count < 2), "outcomes expected once in a thousand tests: {never:?}");
    possible.into_iter().map(|(count, expected)| (*count as f64 - expected).powi(2) / expected).sum()
}
