//! Splits a compaction into subcompactions. Each subcompaction is a key range, and several threads
//! compact the ranges at the same time. This module does no I/O.
use terrace_format::KeyOrder;

/// Returns how many anchor keys (keys that divide a table into parts of known size) each input
/// table must deliver, for a compaction with `parts` subcompactions. With so many anchors, the
/// size of each subcompaction differs from an equal share by a few percent only.
pub fn anchors_per_table(parts: usize) -> usize {
    16 * parts
}

/// Returns into how many subcompactions a compaction with `bytes` of input is divided: one per
/// `min_bytes`, but at most `max_parts`.
pub fn parts(bytes: u64, min_bytes: u64, max_parts: usize) -> usize {
    usize::try_from(bytes / min_bytes).unwrap_or(max_parts).clamp(1, max_parts)
}

/// Returns the user keys that split a compaction into at most `parts` key ranges of about equal
/// bytes. The keys are ascending and distinct, and each is the first key of a range. `anchors` are
/// user keys from all input tables. Each anchor has the number of bytes between the previous
/// anchor of the same table and itself.
pub fn cuts(order: &KeyOrder, mut anchors: Vec<(Vec<u8>, u64)>, parts: usize) -> Vec<Vec<u8>> {
    anchors.sort_by(|a, b| order.user(&a.0, &b.0));
    let total: u128 = anchors.iter().map(|(_, bytes)| u128::from(*bytes)).sum();
    let share = total / parts.max(1) as u128;
    let (mut cuts, mut bytes_so_far): (Vec<Vec<u8>>, u128) = (Vec::new(), 0);
    for (key, bytes) in anchors {
        bytes_so_far += u128::from(bytes);
        let due = bytes_so_far >= share * (cuts.len() as u128 + 1) && cuts.len() + 1 < parts;
        if due && cuts.last().is_none_or(|last| order.user(last, &key).is_lt()) {
            cuts.push(key);
        }
    }
    cuts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(anchors: &[(&str, u64)], parts: usize) -> Vec<String> {
        let anchors = anchors.iter().map(|(key, bytes)| (key.as_bytes().to_vec(), *bytes)).collect();
        let cuts = cuts(&KeyOrder::Bytewise, anchors, parts);
        cuts.into_iter().map(|key| String::from_utf8(key).expect("text")).collect()
    }

    #[test]
    fn splits_into_equal_shares_in_key_order() {
        let even = [("d", 10), ("b", 10), ("a", 10), ("c", 10)];
        assert_eq!(cut(&even, 1), [""; 0]);
        assert_eq!(cut(&even, 2), ["b"]);
        assert_eq!(cut(&even, 4), ["a", "b", "c"]);
        assert_eq!(cut(&even, 9), ["a", "b", "c", "d"], "at most one part per anchor, and one after the last");
        assert_eq!(cut(&[("a", 1), ("m", 100), ("z", 1)], 4), ["m", "z"], "a range without anchors is not split");
        assert_eq!(cut(&[("a", 5), ("a", 5), ("a", 5)], 3), ["a"], "each key at most once");
        assert_eq!(cut(&[], 3), [""; 0]);
    }

    #[test]
    fn small_compactions_are_not_split() {
        assert_eq!([0, 199, 200, 300, 10_000].map(|bytes| parts(bytes, 100, 4)), [1, 1, 2, 3, 4]);
        assert_eq!(parts(10_000, 100, 1), 1);
    }
}
