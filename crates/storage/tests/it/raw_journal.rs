//! Measures the time to read the slot journal of a raw device. The test is in this crate because
//! the format crate uses no clock.
use std::time::{Duration, Instant};
use terrace_format::raw::{
    Change, Form,
    journal::{decode, encode_checkpoint, encode_entry},
};

/// Tests that a half of the slot journal with many old entries is read quickly. The half has a new
/// checkpoint, and the rest of it is full of entries of an older generation, which the reader must
/// skip. If the reader takes bytes in the middle of an old entry for a length, that length is
/// megabytes. Computing a checksum over each such length took 14 s without optimisation.
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
