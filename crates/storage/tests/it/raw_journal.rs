//! How long it takes to read the list of files on a device. Here and not beside the format, which has no clock.
use std::time::{Duration, Instant};
use terrace_format::raw::{
    Change, Form,
    journal::{decode, encode_checkpoint, encode_entry},
};

/// Behind a fresh checkpoint lie as many old entries as a half holds. Lengths read between two of them are megabytes, and a checksum
/// over each took 14 s, unoptimised.
#[test]
fn what_an_earlier_use_filled_is_opened_at_once() {
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
    assert_eq!(decode(&half, 9).expect("whole").expect("there").changes, [first]);
    assert!(begin.elapsed() < Duration::from_secs(5), "SLOW: {:?}", begin.elapsed());
}
