//! Numbers and sizes in text: `4096`, `64KiB`, `1.5GiB`, `64M`, `64MB`, `1e6`.

/// Parses a size in bytes: a number, then optionally a unit. `K`, `KB` and `KiB` are 1024 bytes,
/// and so on up to `T`. The case of a unit does not matter. The number may have a decimal point or
/// an exponent, if the product is a whole number.
///
/// ```
/// use terrace::parse_size;
/// assert_eq!(parse_size("64KiB"), Ok(65_536));
/// assert_eq!(parse_size("1.5G"), Ok(1_610_612_736));
/// assert_eq!(parse_size("2MB"), Ok(2_097_152));
/// assert_eq!(parse_size("1e6"), Ok(1_000_000));
/// ```
///
/// # Errors
/// The text is no size, is not a whole number of bytes, or is too large.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let number = parse_number(text).map_err(|why| format!("size {text}: {why}"))?;
    u64::try_from(number).map_err(|_| format!("size {text}: out of range"))
}

/// Parses a number with an optional unit as [`parse_size`] does. The number may be negative.
pub(super) fn parse_number(text: &str) -> Result<i128, String> {
    let text = text.trim();
    let (number, unit) = text.split_at(end_of_number(text));
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let expected = || "expected a whole number, optionally with a unit such as MiB".to_string();
    let digits: i128 = digits.parse().map_err(|_| expected())?;
    let exponent: i32 = exponent.parse().map_err(|_| expected())?;
    let product = digits.checked_mul(factor(unit.trim())?);
    scale(product, exponent.saturating_sub(fraction.len() as i32))
}

/// Returns the length of the number at the start of `text`: a sign, digits with a point, and an
/// exponent.
fn end_of_number(text: &str) -> usize {
    let skip = |from: usize, accepted: fn(char) -> bool| {
        text[from..].find(|c| !accepted(c)).map_or(text.len(), |length| from + length)
    };
    let mantissa = skip(0, |c| c.is_ascii_digit() || c == '-' || c == '.');
    let sign = skip(mantissa, |c| c == 'e' || c == 'E');
    let digits = if sign == mantissa + 1 { skip(sign, |c| c.is_ascii_digit() || c == '-') } else { sign };
    if digits > sign { digits } else { mantissa }
}

/// Returns the number of bytes in a unit.
fn factor(unit: &str) -> Result<i128, String> {
    let upper = unit.to_ascii_uppercase();
    let units = [["", "B", "B"], ["K", "KB", "KIB"], ["M", "MB", "MIB"], ["G", "GB", "GIB"], ["T", "TB", "TIB"]];
    let power = units.iter().position(|names| names.contains(&upper.as_str()));
    let power = power.ok_or_else(|| format!("unknown unit {unit:?}; expected B, KiB, MiB, GiB or TiB"))?;
    Ok(1 << (10 * power))
}

/// Returns `number * 10^exponent`, if this is a whole number.
fn scale(number: Option<i128>, exponent: i32) -> Result<i128, String> {
    let too_large = || "the number is too large".to_string();
    let number = number.ok_or_else(too_large)?;
    if number == 0 {
        return Ok(0);
    }
    let power = 10_i128.checked_pow(exponent.unsigned_abs());
    if exponent >= 0 {
        return power.and_then(|power| number.checked_mul(power)).ok_or_else(too_large);
    }
    match power {
        Some(power) if number % power == 0 => Ok(number / power),
        _ => Err("it is not a whole number".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_fractions_and_exponents_are_read() {
        for (text, bytes) in [
            ("4096", 4096),
            ("0", 0),
            ("0.0", 0),
            ("64B", 64),
            ("64KiB", 64 << 10),
            ("64 MiB", 64 << 20),
            ("64M", 64 << 20),
            ("64mb", 64 << 20),
            ("1.5GiB", 3 << 29),
            ("1.5e3", 1500),
            ("25e-1K", 2560),
            ("1e6", 1_000_000),
            ("2TiB", 2 << 40),
            ("3TB", 3 << 40),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        assert_eq!(parse_number("-1"), Ok(-1));
    }

    #[test]
    fn what_is_no_size_is_refused_by_name() {
        for (text, why) in [
            ("", "expected a whole number"),
            ("MiB", "expected a whole number"),
            ("e6", "expected a whole number"),
            ("1-2", "expected a whole number"),
            ("1.2.3", "expected a whole number"),
            ("--1", "expected a whole number"),
            ("1e", "unknown unit"),
            ("1e6e", "unknown unit"),
            ("64XB", "unknown unit"),
            ("64iB", "unknown unit"),
            ("1.5", "not a whole number"),
            ("1e-1", "not a whole number"),
            ("1e-999999999", "not a whole number"),
            ("-1", "out of range"),
            ("99999999TiB", "out of range"),
            ("1e99", "too large"),
            ("1e999999999999", "expected a whole number"),
        ] {
            let error = parse_size(text).expect_err(text);
            assert!(error.contains(why) && error.contains(text), "{text}: {error}");
        }
    }
}
