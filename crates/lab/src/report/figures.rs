//! Formats the figures of a report as text: with three significant digits, as a count, or in MiB.
use super::stats::Estimate;

/// Formats a figure with three significant digits and without an exponent. A missing figure is
/// `-`.
pub(crate) fn figure(value: Option<f64>) -> String {
    let Some(value) = value.filter(|value| value.is_finite()) else { return "-".into() };
    let whole_digits = if value.abs() < 1.0 { 0 } else { value.abs().log10() as usize + 1 };
    match whole_digits {
        0 if value != 0.0 => {
            let zeros = (-value.abs().log10()).ceil().clamp(0.0, 9.0) as usize;
            format!("{value:.*}", zeros + 2)
        }
        0..3 => format!("{value:.*}", 3 - whole_digits.max(1)),
        _ => format!("{value:.0}"),
    }
}

/// Formats a median with its interval, such as `12.3 [11.8–13.1]`.
pub(crate) fn estimate(estimate: Option<Estimate>) -> String {
    let Some(estimate) = estimate else { return "-".into() };
    let middle = figure(Some(estimate.median));
    match estimate.interval {
        Some((low, high)) => format!("{middle} [{}–{}]", figure(Some(low)), figure(Some(high))),
        None => middle,
    }
}

/// Formats a count as a whole number.
pub(super) fn count(value: Option<f64>) -> String {
    value.map_or_else(|| "-".into(), |value| format!("{value:.0}"))
}

/// Formats a number of bytes in MiB.
pub(super) fn mebibytes(bytes: Option<f64>) -> String {
    figure(bytes.map(|bytes| bytes / f64::from(1 << 20)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits() {
        let shown = [0.0, 0.00123, 0.0999, 0.5, 1.0, 9.876, 12.34, 123.4, 1234.6].map(|value| figure(Some(value)));
        assert_eq!(shown, ["0.00", "0.00123", "0.0999", "0.500", "1.00", "9.88", "12.3", "123", "1235"]);
        assert_eq!(figure(None), "-");
        assert_eq!(figure(Some(f64::NAN)), "-");
        assert_eq!(estimate(Estimate::of([1.0])), "1.00");
        assert_eq!(estimate(Estimate::of([1.0, 1.0])), "1.00 [1.00–1.00]");
        assert_eq!(mebibytes(Some(1_572_864.0)), "1.50");
    }
}
