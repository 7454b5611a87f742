//! Draws a picture of the SSTables in key order, with one line per level.
//!
//! A column is a position in the sorted list of all first and last keys, not a distance between
//! keys. Two ranges that overlap therefore always share a column and are drawn one above the
//! other.

/// First and last key of an SSTable.
pub type Range<'a> = (&'a [u8], &'a [u8]);

/// Draws one line per level, `columns` wide. A column without an SSTable is blank. Neighbouring
/// SSTables alternate between `█` and `▓`. A digit (`+` from ten on) is the number of SSTables
/// that overlap there.
pub fn draw(levels: &[Vec<Range<'_>>], columns: usize) -> Vec<String> {
    let mut keys: Vec<&[u8]> = levels.iter().flatten().flat_map(|&(first, last)| [first, last]).collect();
    keys.sort_unstable();
    keys.dedup();
    let column = |key: &[u8]| {
        let rank = keys.partition_point(|&other| other < key);
        rank * (columns - 1) / (keys.len() - 1).max(1)
    };
    levels.iter().map(|tables| draw_level(tables, columns, column)).collect()
}

fn draw_level(tables: &[Range<'_>], columns: usize, column: impl Fn(&[u8]) -> usize) -> String {
    let mut tables = tables.to_vec();
    tables.sort_unstable();
    let mut line = vec![' '; columns];
    let mut depth = vec![0u32; columns];
    let mut last_end = None;
    for (at, &(first, last)) in tables.iter().enumerate() {
        // Neighbouring SSTables may share a column without sharing a key, because the number of
        // columns is limited.
        let overlaps = last_end.is_some_and(|end| first <= end);
        for place in column(first)..=column(last) {
            depth[place] = if overlaps { depth[place] + 1 } else { 1 };
            line[place] = match depth[place] {
                1 => ['█', '▓'][at % 2],
                count => char::from_digit(count, 10).unwrap_or('+'),
            };
        }
        last_end = last_end.max(Some(last));
    }
    line.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_stand_where_their_keys_rank() {
        let levels: Vec<Vec<Range<'_>>> =
            vec![vec![(b"a", b"z"), (b"m", b"z")], vec![(b"a", b"c"), (b"d", b"m")], vec![], vec![(b"c", b"c")]];
        // The keys in order are a c d m z, one column each.
        assert_eq!(draw(&levels, 5), ["███22", "██▓▓ ", "     ", " █   "]);
    }

    #[test]
    fn nothing_draws_nothing() {
        assert_eq!(draw(&[vec![], vec![(b"", b"")]], 3), ["   ", "█  "]);
    }
}
