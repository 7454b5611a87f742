use super::*;
use std::convert::Infallible;

fn framed(records: &[&[u8]]) -> Vec<u8> {
    let (mut framer, mut file) = (Framer::new(), Vec::new());
    for record in records {
        append(&mut framer, &mut file, record);
    }
    file
}

fn append(framer: &mut Framer, file: &mut Vec<u8>, record: &[u8]) {
    let Ok(()) = framer.frame(record, |piece| -> Result<(), Infallible> {
        file.extend_from_slice(piece);
        Ok(())
    });
}

fn ours(first: &[u8]) -> Vec<u8> {
    let mut file = Vec::new();
    let Ok(()) = Framer::new().frame_ours(first, |piece| -> Result<(), Infallible> {
        file.extend_from_slice(piece);
        Ok(())
    });
    file
}

fn events(file: &[u8]) -> Vec<Event> {
    let mut deframer = RecordDecoder::new(file.len() as u64);
    let mut events = Vec::new();
    loop {
        let Ok(event) = deframer.next(|offset, buf: &mut [u8]| -> Result<(), Infallible> {
            buf.copy_from_slice(&file[offset as usize..][..buf.len()]);
            Ok(())
        });
        let ended = matches!(event, Event::End { .. });
        events.push(event);
        if ended {
            return events;
        }
    }
}

fn record(offset: u64, bytes: &[u8]) -> Event {
    Event::Record { offset, bytes: bytes.to_vec() }
}

fn bad(offset: u64, bytes: u64, reason: &str) -> Event {
    Event::Bad { offset, bytes, reason: reason.into() }
}

fn end(offset: u64, torn: bool) -> Event {
    Event::End { offset, torn }
}

const BLOCK: u64 = BLOCK_BYTES as u64;

/// Returns a record that, as the first record of a file, leaves `left` bytes of its block unused.
fn filler(left: usize) -> Vec<u8> {
    vec![b'f'; BLOCK_BYTES - HEADER_BYTES - left]
}

#[test]
fn records_come_back() {
    let huge = vec![7; 3 << 20];
    let file = framed(&[b"one", b"", &huge, b"two"]);
    let found = events(&file);
    assert_eq!(found[..3], [record(0, b"one"), record(10, b""), record(17, &huge)]);
    assert!(matches!(&found[3], Event::Record { bytes, .. } if bytes == b"two"));
    assert_eq!(found[4], end(file.len() as u64, false));
    assert_eq!(events(b""), [end(0, false)]);
}

#[test]
fn block_tails_are_padded_or_hold_an_empty_first() {
    for (left, offset) in [(8, BLOCK - 8), (7, BLOCK - 7), (6, BLOCK), (1, BLOCK), (0, BLOCK)] {
        let first = filler(left);
        let file = framed(&[&first, b"second"]);
        assert_eq!(events(&file)[..2], [record(0, &first), record(offset, b"second")], "{left} left");
        let fragments = if left >= 7 { 3 } else { 2 };
        let padding = if left < 7 { left } else { 0 };
        assert_eq!(file.len(), first.len() + 6 + padding + fragments * HEADER_BYTES, "{left} left");
    }
}

#[test]
fn small_records_take_one_call_and_huge_ones_bounded_ones() {
    let mut framer = Framer::new();
    let mut pieces = |bytes: usize| {
        let mut sizes = Vec::new();
        let Ok(()) = framer.frame(&vec![1; bytes], |piece| -> Result<(), Infallible> {
            sizes.push(piece.len());
            Ok(())
        });
        sizes
    };
    assert_eq!(pieces(100), [107]);
    assert_eq!(pieces(1_000_000).len(), 1);
    let huge = pieces(5 << 20);
    assert!(huge.len() > 5 && huge.iter().all(|&bytes| bytes <= 1 << 20), "{huge:?}");
}

#[test]
fn errors_of_emit_and_read_are_passed_on() {
    assert_eq!(Framer::new().frame(b"x", |_| Err("full")), Err("full"));
    let file = framed(&[b"x"]);
    let mut deframer = RecordDecoder::new(file.len() as u64);
    assert_eq!(deframer.next(|_, _| Err("broken")), Err("broken"));
    let again = deframer.next(|_, buf| -> Result<(), &str> {
        buf.copy_from_slice(&file);
        Ok(())
    });
    assert_eq!(again, Ok(record(0, b"x")));
}

#[test]
fn terraces_first_record_is_recognized_and_readable() {
    for first in [&b"123456"[..], b"twelve bytes", &vec![9; 100_000]] {
        let file = ours(first);
        assert!(is_ours(&file));
        assert_eq!(events(&file), [record(0, first), end(file.len() as u64, false)]);
        assert!(!is_ours(&framed(&[first])));
        assert!(!is_ours(&file[..OURS_HEAD_BYTES - 1]));
    }
    let good = ours(b"twelve bytes");
    assert_eq!((good[4], good[6], good[16], good[18]), (5, FIRST, 7, LAST));
    for at in (0..12).chain(17..19) {
        let mut flipped = good.clone();
        flipped[at] ^= 0x80;
        assert!(!is_ours(&flipped), "byte {at}");
    }
}

#[test]
fn any_cut_is_a_torn_end() {
    let long = vec![5; 40_000];
    let file = framed(&[b"one", &long]);
    for cut in (1..30).chain(32_740..32_800).chain(file.len() - 20..file.len()) {
        let found = events(&file[..cut]);
        let whole = usize::from(cut >= 10);
        assert_eq!(found.len(), whole + 1, "cut at {cut}");
        assert_eq!(found[whole], end(10 * whole as u64, cut != 10), "cut at {cut}");
    }
}

/// Returns two full blocks and a short one. The first two contain "one" and "two", each with a
/// filler; the third contains "three".
fn three_blocks() -> (Vec<u8>, Vec<u8>) {
    let fill = vec![b'f'; BLOCK_BYTES - HEADER_BYTES - 10];
    (framed(&[b"one", &fill, b"two", &fill, b"three"]), fill)
}

#[test]
fn a_bad_checksum_or_length_skips_the_block() {
    let (good, fill) = three_blocks();
    let rest =
        [record(BLOCK, b"two"), record(BLOCK + 10, &fill), record(2 * BLOCK, b"three"), end(2 * BLOCK + 12, false)];
    for (at, reason) in [(8, "checksum mismatch"), (6, "checksum mismatch"), (5, "a fragment extends past its block")] {
        let mut file = good.clone();
        file[at] ^= 0x80;
        assert_eq!(events(&file)[0], bad(0, BLOCK, reason));
        assert_eq!(events(&file)[1..], rest);
    }
    let mut file = good.clone();
    file[10 + 8] ^= 1;
    assert_eq!(events(&file)[..2], [record(0, b"one"), bad(10, BLOCK - 10, "checksum mismatch")]);
    assert_eq!(events(&file)[2..], rest);
    let mut file = good;
    file[2 * BLOCK_BYTES + 8] ^= 1;
    assert_eq!(events(&file)[4..], [bad(2 * BLOCK, 12, "checksum mismatch"), end(2 * BLOCK, false)]);
}

#[test]
fn zeros_end_the_file_only_if_nothing_follows() {
    let (good, _) = three_blocks();
    let mut file = good.clone();
    file.resize(file.len() + 5 * BLOCK_BYTES, 0);
    assert_eq!(events(&file)[5], end(good.len() as u64, false));
    assert_eq!(events(&vec![0; 100_000]), [end(0, false)]);

    let mut file = good.clone();
    file[..BLOCK_BYTES].fill(0); // a page that was never written back
    assert_eq!(events(&file)[..2], [bad(0, BLOCK, ZEROS), record(BLOCK, b"two")]);
    file[..2 * BLOCK_BYTES].fill(0);
    assert_eq!(events(&file)[..2], [bad(0, 2 * BLOCK, ZEROS), record(2 * BLOCK, b"three")]);

    let mut file = good;
    file[..4096].fill(0); // the zeros end within the block
    assert_eq!(events(&file)[..2], [bad(0, BLOCK, ZEROS), record(BLOCK, b"two")]);
    let mut file = framed(&[b"last"]);
    file.extend_from_slice(b"\0\0\0\0\0\0\0\0\0x");
    assert_eq!(events(&file)[1..], [bad(11, 10, ZEROS), end(11, false)]);
}

#[test]
fn zeros_within_a_record_are_a_torn_end() {
    for room in [0, 3, BLOCK_BYTES, 5 * BLOCK_BYTES] {
        let mut file = framed(&[b"one"]);
        let filler = vec![b'f'; BLOCK_BYTES - file.len() - HEADER_BYTES - 4];
        file.extend_from_slice(&framed(&[&filler])); // leaves 4 bytes, too few for a header
        let whole = file.len() as u64;
        file.resize(BLOCK_BYTES + room, 0);
        assert_eq!(events(&file)[2..], [end(whole, false)], "{room} zeros behind a block");

        let mut file = framed(&[&vec![b'f'; BLOCK_BYTES + 100]]);
        file.truncate(BLOCK_BYTES); // a record whose last fragment is missing
        file.resize(BLOCK_BYTES + room, 0);
        assert_eq!(events(&file), [end(0, true)], "{room} zeros within a record");
    }
    let mut deframer = RecordDecoder::new(12);
    let mut file = framed(&[b"one"]);
    file.extend([0; 2]);
    let mut next = || {
        deframer.next(|at, buf: &mut [u8]| -> Result<(), Infallible> {
            buf.copy_from_slice(&file[at as usize..][..buf.len()]);
            Ok(())
        })
    };
    next().unwrap();
    assert_eq!([next().unwrap(), next().unwrap()], [end(10, false), end(10, false)], "the end stays the end");
}

const ZEROS: &str = "zeros in place of a record";

#[test]
fn a_record_across_damage_is_skipped_whole() {
    let long = vec![5; 3 * BLOCK_BYTES];
    let good = framed(&[b"one", &long, b"two"]);
    let after = events(&good)[2].clone();
    let last = bad(3 * BLOCK, 38, "a fragment without its record's first fragment");
    let mut file = good.clone();
    file[BLOCK_BYTES + 50] ^= 1;
    let middle = bad(2 * BLOCK, BLOCK, "a fragment without its record's first fragment");
    let spoiled = bad(10, 2 * BLOCK - 10, "checksum mismatch, within a record");
    assert_eq!(events(&file)[1..5], [spoiled, middle, last.clone(), after.clone()]);
    let mut file = good;
    file[BLOCK_BYTES..3 * BLOCK_BYTES].fill(0);
    assert_eq!(events(&file)[1..4], [bad(10, 3 * BLOCK - 10, ZEROS), last, after]);
}

/// Returns a fragment of any type.
fn fragment(kind: u8, payload: &[u8]) -> Vec<u8> {
    [&Header::of(kind, payload).encode()[..], payload].concat()
}

#[test]
fn fragments_out_of_place() {
    let begun = "a record without its last fragment";
    let orphan = "a fragment without its record's first fragment";
    for (fragments, want) in [
        (vec![fragment(FIRST, b"a"), fragment(FULL, b"b")], vec![bad(0, 8, begun), record(8, b"b")]),
        (
            vec![fragment(FIRST, b"a"), fragment(FIRST, b"b"), fragment(LAST, b"c")],
            vec![bad(0, 8, begun), record(8, b"bc")],
        ),
        (vec![fragment(FIRST, b""), fragment(FULL, b"b")], vec![record(7, b"b")]),
        (vec![fragment(MIDDLE, b"a"), fragment(FULL, b"b")], vec![bad(0, 8, orphan), record(8, b"b")]),
        (vec![fragment(LAST, b"a"), fragment(FULL, b"b")], vec![bad(0, 8, orphan), record(8, b"b")]),
        (vec![fragment(9, b"a"), fragment(FULL, b"b")], vec![bad(0, 8, "unknown fragment type 9"), record(8, b"b")]),
        (
            vec![fragment(FIRST, b"a"), fragment(0, b"x"), fragment(LAST, b"c"), fragment(FULL, b"b")],
            vec![bad(0, 16, "unknown fragment type 0, within a record"), bad(16, 8, orphan), record(24, b"b")],
        ),
    ] {
        let file = fragments.concat();
        let mut want = want;
        want.push(end(file.len() as u64, false));
        assert_eq!(events(&file), want);
    }
    let file = [fragment(FULL, b"a"), fragment(FIRST, b"b")].concat();
    assert_eq!(events(&file), [record(0, b"a"), end(8, true)]);
}
