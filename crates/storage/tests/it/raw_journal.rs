//! The time to read the slot journal of a device. It is here rather than in the format crate,
//! which uses no clock.
use std::time::{Duration, Instant};
use terrace_format::raw::{
    Change, Form,
    journal::{decode, encode_checkpoint, encode_entry},
};

/// A fresh checkpoint is followed by as many old entries as fit into a half. Lengths read from the
/// middle of an entry are megabytes, and a checksum over each took 14 s without optimisation.
#[test]
fn a_journal_half_full_of_old_entries_is_opened_quickly() {
    let first = [Change::Next { file: 4 }];
    let (old, mut half) = encode_checkpoint(9, 2, &first);
    while half.len() < 8 << 20 {
        let file = half.len() as u64;
        let begins = Change::File { file, form: Form::Log, stream: 1 };
        half.extend(encode_entry(&old, &[begins, Change::Slots { file, first: 7, count: 1 }]));
    }
    let (_, fresh) = encode_checkpoint(9, 3, &first);
    half[..fresh.len()].copy_from_slice(&fresh);
    let begin = Instant::now();
    assert_eq!(decode(&half, 9).expect("an intact half").expect("a head").changes, [first]);
    assert!(begin.elapsed() < Duration::from_secs(5), "SLOW: {:?}", begin.elapsed());
}
