//! Tests that Terrace's own formats are frozen: each version of Terrace must write and read the
//! same bytes as earlier versions.
//!
//! The files in tests/golden/terrace contain these bytes in hex. After a deliberate change of a
//! format, `TERRACE_BLESS=1 cargo test -p terrace-format --test it -- frozen::` rewrites the
//! files. Such a change must keep the old format readable.
use std::{convert::Infallible, fs, path::PathBuf};
use terrace_format::{
    Batch, Codec, Edit, FormatFile, Layout, LogId, Referred, SegmentId, SeqNo, TableId, TableProperties,
    batch::head,
    bundle::{self, Member},
    compress::{compress, decompress},
    edit::AddedTable,
    filter::{Bloom, FilterPolicy},
    key::{Kind, encode},
    log_record::{Event, Framer, is_ours},
    pair::{InFile, PairProperties, Reference},
    raw::{Change, Form, PAGE, Sizes, Superblock, journal, page},
    value_log::{self, Frames, MAGIC, ValuePointer, put_inline, read_entry},
};

/// Returns the bytes in the file `name`. If TERRACE_BLESS is set, first replaces them by `bytes`.
fn frozen(name: &str, about: &str, bytes: &[u8]) -> Vec<u8> {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests/golden/terrace", name].iter().collect();
    if std::env::var_os("TERRACE_BLESS").is_some() {
        let mut text = format!("# {about}\n");
        for line in bytes.chunks(16) {
            let hex: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
            text += &(hex.join(" ") + "\n");
        }
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
    }
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.flat_map(str::split_whitespace).map(|hex| u8::from_str_radix(hex, 16).unwrap()).collect()
}

fn file_of_ours(first: &[u8], second: &[u8]) -> Vec<u8> {
    let (mut framer, mut file) = (Framer::new(), Vec::new());
    let mut write = |piece: &[u8]| -> Result<(), Infallible> {
        file.extend_from_slice(piece);
        Ok(())
    };
    let Ok(()) = framer.frame_ours(first, &mut write);
    let Ok(()) = framer.frame(second, &mut write);
    file
}

#[test]
fn log() {
    let mut batch = Batch::new();
    batch.put(b"key", b"value");
    batch.delete(b"gone");
    batch.set_sequence(SeqNo(42));
    let file = file_of_ours(&head(SeqNo(42)), batch.as_bytes());
    assert_eq!(file, frozen("log.hex", "A log of ours: the head for sequence 42, then a put and a delete.", &file));
    assert!(is_ours(&file));
}

#[test]
fn manifest() {
    let snapshot = Edit {
        requires: vec!["lz4".into()],
        comparator: Some("leveldb.BytewiseComparator".into()),
        log_number: Some(4),
        prev_log_number: Some(0),
        next_file_number: Some(6),
        last_sequence: Some(SeqNo(0)),
        ..Edit::default()
    };
    let table = AddedTable {
        id: TableId(5),
        bytes: 1234,
        within: None,
        run: 0,
        smallest: encode(b"a", SeqNo(2), Kind::Put),
        largest: encode(b"b", SeqNo(1), Kind::Delete),
        refs: Vec::new(),
    };
    let change = Edit { added: vec![(0, table)], ..Edit::default() };
    let file = file_of_ours(&snapshot.encode(), &change.encode());
    let about = "A manifest of ours: a first edit with tag 100 (requires lz4), then a table in level 0.";
    assert_eq!(file, frozen("manifest.hex", about, &file));
    assert!(is_ours(&file));
}

#[test]
fn references() {
    let table = AddedTable {
        id: TableId(5),
        bytes: 1234,
        smallest: encode(b"a", SeqNo(2), Kind::Put),
        largest: encode(b"b", SeqNo(1), Kind::Delete),
        within: None,
        run: 0,
        refs: vec![(Referred::Log(LogId(3)), 4096), (Referred::Values(SegmentId(4)), 100)],
    };
    let edit = Edit { added: vec![(0, table)], ..Edit::default() };
    let about = "An edit: a table in level 0 that points into log 3 and segment 4.";
    let bytes = frozen("edit-references.hex", about, &edit.encode());
    assert_eq!((edit.encode(), Edit::decode(&bytes)), (bytes, Ok(edit)));
}

/// Tests that the frozen bytes of the value log are decoded. The encoder's bytes are not compared
/// with them, because a later version of the codec may compress a value better.
#[test]
fn value_log() {
    let mut batch = Batch::new();
    batch.put(b"key", b"value");
    batch.put(b"long", &[b'x'; 600]);
    batch.delete(b"gone");
    batch.delete_range(b"a", b"b");
    batch.set_sequence(SeqNo(42));
    let (mut segment, mut entries) = (MAGIC.to_vec(), Vec::new());
    let mut framer = value_log::Framer::new(7, Codec::Lz4, 1, 512);
    framer.frame(&Batch::decode(head(SeqNo(42)).to_vec()).unwrap(), &mut segment, |_, _| {});
    framer.frame(&batch, &mut segment, |_, entry| entries.push(entry));
    let about = "Segment 7: the head for sequence 42, then two puts (one compressed), a delete, a delete of a range.";
    let bytes = frozen("value-log.hex", about, &segment);
    let mut frames = Frames::new(7, bytes.len() as u64);
    let mut read = |at: u64, buf: &mut [u8]| {
        buf.copy_from_slice(&bytes[at as usize..at as usize + buf.len()]);
        Ok::<(), Infallible>(())
    };
    for wanted in [head(SeqNo(42)).to_vec(), batch.as_bytes().to_vec()] {
        assert!(matches!(frames.next(&mut read), Ok(Event::Record { bytes, .. }) if bytes == wanted));
    }
    assert_eq!(read_entry(&bytes[entries[1].clone()], |key| key == b"long", SeqNo(43)).unwrap(), vec![b'x'; 600]);
    let mut stored = Vec::new();
    ValuePointer { moved: false, segment: 7, offset: 60, bytes: 30 }.put(&mut stored);
    ValuePointer { moved: true, segment: 300, offset: 8, bytes: 600 }.put(&mut stored);
    put_inline(&mut stored, b"value");
    assert_eq!(stored, frozen("stored-values.hex", "A pointer into log 7, one into segment 300, a value.", &stored));
}

#[test]
fn facts() {
    let sequences = (SeqNo(3), SeqNo(1 << 40));
    let facts = TableProperties { entries: 5, deletes: 2, key_bytes: 60, value_bytes: 100, sequences };
    let bytes = frozen("facts.hex", "Meta block terrace.facts.", &facts.encode());
    assert_eq!(facts.encode(), bytes);
    assert_eq!(TableProperties::decode(&bytes), Ok(facts));
}

#[test]
fn table_filter() {
    let keys = [&b"one"[..], b"two", b"three", b"", b"a key longer than the others", b"\xff\xfe\xfd"];
    let mut filter = Vec::new();
    Bloom::new(10).create(&keys, &mut filter);
    let about = "Meta block terrace.filter.leveldb.BuiltinBloomFilter2 of six keys, 10 bits a key.";
    assert_eq!(filter, frozen("table-filter.hex", about, &filter));
}

#[test]
fn bundle_end() {
    let members = [(7, 0, 5000), (8, 8192, 1)].map(|(id, offset, bytes)| Member { id: TableId(id), offset, bytes });
    let about = "The end of a bundle from byte 12288 on: table 7 (5000 bytes at 0) and table 8 (1 byte at 8192).";
    let end = frozen("bundle-end.hex", about, &bundle::encode(&members, 12288));
    assert_eq!(end, bundle::encode(&members, 12288));
    assert_eq!(bundle::decode(&end, 12288), Ok(members.to_vec()));
}

#[test]
fn marker() {
    let marker = FormatFile::new(Layout::default(), ["lz4"]);
    let text = frozen("marker.hex", "A marker that announces lz4.", marker.encode().as_bytes());
    assert_eq!(marker.encode().as_bytes(), text);
    assert_eq!(FormatFile::decode(std::str::from_utf8(&text).unwrap()), Ok(marker));
}

#[test]
fn pairs() {
    let mut bytes = Vec::new();
    for (user, value) in [(&b"user42"[..], &b"value"[..]), (b"a/b c.", b""), (b"", b"x"), (&[b'k'; 300], b"value")] {
        let internal = encode(user, SeqNo(1007), Kind::Put);
        let file = InFile::new(&internal, value, 255);
        for part in [file.name(&internal).as_bytes(), &file.head(&internal), value] {
            bytes.extend_from_slice(part);
            bytes.push(b'\n');
        }
        Reference::File(file).encode(&mut bytes);
    }
    Reference::Here(b"small").encode(&mut bytes);
    bytes.extend(PairProperties { files: 4, file_bytes: 315, value_bytes: 16 }.encode());
    let about =
        "Four pairs: name, head, value, each with a newline, and the reference; a value that is here; terrace.pairs.";
    assert_eq!(bytes, frozen("pairs.hex", about, &bytes));
}

/// Tests that frozen compressed blocks are decoded. The encoder's bytes are not compared with
/// them, because a later version of a codec may find better matches.
#[test]
fn compressed_blocks() {
    let raw = b"terrace, terrace, terrace, terrace, terrace, terrace, terrace!".to_vec();
    let codecs = [(Codec::Snappy, "snappy.hex"), (Codec::Zstd, "zstd.hex"), (Codec::Lz4, "lz4.hex")];
    // `cargo test -p terrace-format` has only the default codecs.
    for (codec, name) in codecs.into_iter().filter(|(codec, _)| *codec != Codec::Zstd || cfg!(feature = "zstd")) {
        let mut stored = Vec::new();
        assert_eq!(compress(codec, 1, &raw, &mut stored), codec);
        let about =
            format!("A block stored with codec {}: 62 bytes, \"terrace, \" six times and \"terrace!\".", codec as u8);
        assert_eq!(decompress(codec as u8, &frozen(name, &about, &stored)), Ok(raw.clone()), "{codec:?}");
    }
}

#[test]
fn superblock() {
    let sizes = Sizes { slot_bytes: 1 << 20, unit_slots: 16 };
    let made = Superblock::new(4 << 30, sizes, 0x0123_4567_89ab_cdef).unwrap();
    let bytes = frozen(
        "superblock.hex",
        "The superblock of a device of 4 GiB, without the zeros behind it.",
        &made.encode()[..64],
    );
    assert_eq!(made.encode()[..64], bytes);
    assert_eq!(Superblock::decode(&bytes), Ok(made));
}

#[test]
fn slot_journal() {
    let name = |file, name: &str| Change::Name { file, name: name.into() };
    let checkpoint = vec![
        Change::File { file: 1, form: Form::Log, stream: 1 },
        Change::Slots { file: 1, first: 0, count: 2 },
        name(1, "000003.log"),
        Change::Next { file: 2 },
    ];
    let entries = [
        vec![Change::File { file: 300, form: Form::Plain, stream: 3 }, name(300, "000005.ldb")],
        vec![Change::Slots { file: 300, first: 700, count: 1 }, Change::Bytes { file: 300, bytes: 1 << 20 }],
        vec![Change::Unname { name: "000003.log".into() }],
    ];
    let (head, mut half) = journal::encode_checkpoint(7, 2, &checkpoint);
    entries.iter().for_each(|changes| half.extend(journal::encode_entry(&head, changes)));
    // Returns the head, the checkpoint and the entries of a half, without the padding zeros.
    let short = |half: &[u8]| [&half[..36], &half[PAGE..PAGE + 25], &half[2 * PAGE..]].concat();
    let about = "A half of a slot journal: its head; a checkpoint of one log; three entries.";
    assert_eq!(short(&half), frozen("slot-journal.hex", about, &short(&half)));
    let read = journal::decode(&half, 7).unwrap().unwrap();
    assert_eq!((&read.changes[0], &read.changes[1..]), (&checkpoint, &entries[..]));
}

#[test]
fn log_page() {
    let mut made = [0; PAGE];
    made[..5].copy_from_slice(b"bytes");
    page::seal(&mut made, 7, 5);
    let short = [&made[..8], &made[PAGE - 16..]].concat();
    let about = "A page of log 7 with five bytes: its first eight bytes and its last sixteen.";
    assert_eq!(short, frozen("log-page.hex", about, &short));
    assert_eq!(page::used(&made, 7), Some(5));
}
