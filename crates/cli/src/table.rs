//! Prints tables with aligned columns, and formats sizes for people.
use anyhow::Result;
use std::io::Write;

/// Writes `rows` under `header` in aligned columns. The first column is left-aligned, the others
/// are right-aligned.
pub fn write(out: &mut dyn Write, header: &[&str], rows: &[Vec<String>]) -> Result<()> {
    let header: Vec<String> = header.iter().map(|&name| name.to_owned()).collect();
    let widths: Vec<usize> = (0..header.len())
        .map(|column| {
            let cells = rows.iter().chain([&header]).filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        })
        .collect();
    for row in [&header].into_iter().chain(rows) {
        let mut line = String::new();
        for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
            match column {
                0 => line += &format!("{cell:<width$}"),
                _ => line += &format!("  {cell:>width$}"),
            }
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// Formats a size in bytes. Sizes below 10 KiB are exact, larger ones have one decimal.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 10 << 10 {
        return format!("{bytes} B");
    }
    let mut scaled = bytes as f64 / 1024.0;
    let mut unit = 0;
    while scaled >= 1000.0 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    format!("{scaled:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_a_unit() {
        assert_eq!(size(0), "0 B");
        assert_eq!(size(10239), "10239 B");
        assert_eq!(size(10240), "10.0 KiB");
        assert_eq!(size(64 << 20), "64.0 MiB");
        assert_eq!(size(u64::MAX), "16384.0 PiB");
    }

    #[test]
    fn columns_are_aligned() {
        let mut out = Vec::new();
        let rows = [vec!["a".to_owned(), "1".to_owned()], vec!["long".to_owned(), "22".to_owned()]];
        write(&mut out, &["name", "n"], &rows).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "name   n\na      1\nlong  22\n");
    }
}
