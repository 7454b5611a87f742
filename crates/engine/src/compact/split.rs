//! Where a large merge is cut, so that several threads can each do a range of its keys. Pure.
use terrace_format::KeyOrder;

/// Anchors to ask of each input for a cut into `parts`: enough that a part comes out within some percent of its share.
pub fn anchors_per_table(parts: usize) -> usize {
    16 * parts
}

/// How many threads a merge of `bytes` is worth: one for each `worth` bytes, and at most `most`.
pub fn parts(bytes: u64, worth: u64, most: usize) -> usize {
    usize::try_from(bytes / worth).unwrap_or(most).clamp(1, most)
}

/// User keys, in order and each once, that cut a merge into at most `parts` ranges of about equal bytes; a key begins the
/// range behind it. `anchors` are user keys of all inputs, each with the bytes of its input from the anchor before up to it.
pub fn cuts(order: &KeyOrder, mut anchors: Vec<(Vec<u8>, u64)>, parts: usize) -> Vec<Vec<u8>> {
    anchors.sort_by(|a, b| order.user(&a.0, &b.0));
    let total: u64 = anchors.iter().map(|(_, bytes)| bytes).sum();
    let share = total / parts.max(1) as u64;
    let (mut cuts, mut passed): (Vec<Vec<u8>>, u64) = (Vec::new(), 0);
    for (key, bytes) in anchors {
        passed += bytes;
        let due = passed >= share * (cuts.len() as u64 + 1) && cuts.len() + 1 < parts;
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
    fn cuts_into_equal_shares_in_order() {
        let even = [("d", 10), ("b", 10), ("a", 10), ("c", 10)];
        assert_eq!(cut(&even, 1), [""; 0]);
        assert_eq!(cut(&even, 2), ["b"]);
        assert_eq!(cut(&even, 4), ["a", "b", "c"]);
        assert_eq!(cut(&even, 9), ["a", "b", "c", "d"], "no more parts than there are anchors, and one behind them");
        assert_eq!(cut(&[("a", 1), ("m", 100), ("z", 1)], 4), ["m", "z"], "what cannot be cut stays whole");
        assert_eq!(cut(&[("a", 5), ("a", 5), ("a", 5)], 3), ["a"], "each key once");
        assert_eq!(cut(&[], 3), [""; 0]);
    }

    #[test]
    fn small_merges_stay_whole() {
        assert_eq!([0, 199, 200, 300, 10_000].map(|bytes| parts(bytes, 100, 4)), [1, 1, 2, 3, 4]);
        assert_eq!(parts(10_000, 100, 1), 1);
    }
}
