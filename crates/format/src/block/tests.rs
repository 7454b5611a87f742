use super::*;
use std::sync::Arc;

fn block(entries: &[(&[u8], &[u8])], restart_interval: usize) -> Vec<u8> {
    let mut builder = BlockBuilder::new(restart_interval);
    for (key, value) in entries {
        builder.add(key, value);
    }
    let bytes = builder.byte_len();
    let finished = builder.finish().to_vec();
    assert_eq!(finished.len(), bytes);
    finished
}

fn cursor(bytes: &[u8]) -> BlockCursor {
    BlockCursor::new(Arc::new(Block::new(bytes.to_vec()).unwrap()))
}

#[test]
fn bytes_are_leveldbs() {
    let bytes = block(&[(b"apple", b"1"), (b"apply", b"22"), (b"bee", b"")], 2);
    let mut want = b"\0\x05\x01apple1\x04\x01\x02y22\0\x03\0bee".to_vec();
    want.extend_from_slice(b"\0\0\0\0\x0f\0\0\0\x02\0\0\0");
    assert_eq!(bytes, want);
    assert_eq!(block(&[], 16), b"\0\0\0\0\x01\0\0\0");
}

#[test]
fn a_builder_can_be_used_again() {
    let mut builder = BlockBuilder::new(1);
    builder.add(b"a", b"1");
    builder.add(b"ab", b"2");
    assert_eq!(builder.last_key(), b"ab");
    let first = builder.finish().to_vec();
    builder.reset();
    assert!(builder.is_empty() && builder.last_key().is_empty());
    builder.add(b"a", b"1");
    builder.add(b"ab", b"2");
    assert_eq!(builder.finish(), first);
}

#[test]
fn moves_like_a_sorted_list() {
    let entries: Vec<(Vec<u8>, Vec<u8>)> =
        (0..100).map(|i| (format!("key{:04}", i * 2).into_bytes(), vec![b'v'; i * 3])).collect();
    let borrowed: Vec<(&[u8], &[u8])> = entries.iter().map(|(k, v)| (&k[..], &v[..])).collect();
    for restart_interval in [1, 2, 16, 1000] {
        let bytes = block(&borrowed, restart_interval);
        let mut cursor = cursor(&bytes);
        assert!(!cursor.valid());
        cursor.seek_first().unwrap();
        for entry in &borrowed {
            assert_eq!((cursor.key(), cursor.value()), *entry);
            cursor.next().unwrap();
        }
        assert!(!cursor.valid());
        cursor.seek_last().unwrap();
        for entry in borrowed.iter().rev() {
            assert_eq!((cursor.key(), cursor.value()), *entry);
            cursor.prev().unwrap();
        }
        assert!(!cursor.valid());
        for i in 0..200 {
            let target = format!("key{i:04}").into_bytes();
            cursor.seek(&target, |a, b| a.cmp(b)).unwrap();
            assert_eq!(cursor.valid().then(|| cursor.key()), borrowed.iter().map(|e| e.0).find(|k| *k >= &target[..]));
        }
        cursor.seek(b"", |a, b| a.cmp(b)).unwrap();
        assert_eq!(cursor.key(), b"key0000");
    }
}

#[test]
fn empty_blocks_hold_nothing() {
    for bytes in [&block(&[], 16)[..], b"\0\0\0\0"] {
        let mut cursor = cursor(bytes);
        cursor.seek_first().unwrap();
        assert!(!cursor.valid());
        cursor.seek_last().unwrap();
        assert!(!cursor.valid());
        cursor.seek(b"x", |a, b| a.cmp(b)).unwrap();
        assert!(!cursor.valid());
    }
}

#[test]
fn frames_that_cannot_be_are_refused() {
    for bytes in [&b""[..], b"\0\0\0", b"\x01\0\0\0", b"\xff\xff\xff\xff", b"\0\x01\0a\0\0\0\0"] {
        assert!(Block::new(bytes.to_vec()).is_err(), "{bytes:?}");
    }
}

#[test]
fn entries_that_cannot_be_are_met_as_errors() {
    let no_restart_entry = b"\x01\0\0\0\0\x01\0\0\0"; // shares a byte of no key
    let runs_out = b"\0\x05\0abc\0\0\0\0\x01\0\0\0";
    let restart_behind = b"\0\x01\0a\x09\0\0\0\x01\0\0\0";
    for bytes in [&no_restart_entry[..], runs_out, restart_behind] {
        let mut cursor = cursor(bytes);
        assert!(cursor.seek_first().is_err() && !cursor.valid(), "{bytes:?}");
        assert!(cursor.seek_last().is_err() && !cursor.valid());
        assert!(cursor.seek(b"a", |a, b| a.cmp(b)).is_err() && !cursor.valid());
    }
    let short = block(&[(b"1234567", b"")], 16);
    assert!(BlockCursor::new(Arc::new(Block::of_internal_keys(short).unwrap())).seek_first().is_err());
}
