//! Parses sizes such as `64MiB`, in the form that the command line and the experiments use.

/// Parses a size such as `64MiB`: a whole number, then optionally `B`, `KiB`, `MiB`, `GiB` or
/// `TiB`.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit {
        "" | "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        "TiB" => 40,
        _ => return Err(format!("size {text}: unknown unit {unit}; the units are B, KiB, MiB, GiB and TiB")),
    };
    let number: u64 = number.parse().map_err(|_| format!("size {text}: expected a whole number before the unit"))?;
    number.checked_mul(1 << shift).ok_or_else(|| format!("size {text}: too large"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_binary_units_and_others_are_named() {
        assert_eq!(parse_size("4096"), Ok(4096));
        assert_eq!(parse_size("64MiB"), Ok(64 << 20));
        assert_eq!(parse_size("16GiB"), Ok(16 << 30));
        for bad in ["64MB", "MiB", "", "1.5GiB", "-1", "99999999TiB", "64 MiB"] {
            let error = parse_size(bad).expect_err(bad);
            assert!(error.contains(bad), "{error}");
        }
    }
}
