//! Property tests of the decoders. For any input, a decoder must return a result or an error, and
//! must not panic. It must also decode the bytes that the encoder writes.
use proptest::{collection::vec, prelude::*};
use std::{convert::Infallible, sync::Arc};
use terrace_format::{
    AddedTable, Batch, Codec, Edit, FamilyId, FileName, FormatFile, KeyOrder, Kind, Op, SeqNo, TableId,
    TableProperties, Within,
    block::{Block, BlockBuilder, BlockCursor},
    bundle,
    coding::{Input, put_slice, put_varint32, put_varint64},
    compress::{compress, decompress},
    edit::FamilyChange,
    filter::{Bloom, FilterBlock, FilterBlockBuilder, FilterPolicy},
    footer::{Footer, Handle, open_block},
    key,
    log_record::{Event, Framer, RecordDecoder, is_ours},
    names,
};

fn bytes(max: usize) -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..max)
}

fn internal_key() -> impl Strategy<Value = Vec<u8>> {
    (bytes(20), 0..=SeqNo::MAX.0, any::<bool>())
        .prop_map(|(user, seq, put)| key::encode(&user, SeqNo(seq), if put { Kind::Put } else { Kind::Delete }))
}

/// Generates the sorted entries of a block.
fn entries() -> impl Strategy<Value = Vec<(Vec<u8>, Vec<u8>)>> {
    let key = vec(prop::sample::select(&b"ab\xff\0"[..]), 0..12);
    prop::collection::btree_map(key, bytes(40), 0..60).prop_map(|map| {
        let entry = |(key, value): (Vec<u8>, Vec<u8>)| (key::encode(&key, SeqNo(7), Kind::Put), value);
        map.into_iter().map(entry).collect()
    })
}

fn any_edit() -> impl Strategy<Value = Edit> {
    let name = prop::option::of("[ -~]{0,30}");
    let numbers = (any::<Option<u64>>(), any::<Option<u64>>(), any::<Option<u64>>());
    let within = prop::option::of((any::<u64>(), any::<u64>()))
        .prop_map(|place| place.map(|(bundle, offset)| Within { bundle: TableId(bundle), offset }));
    let table = (any::<u64>(), any::<u64>(), within, internal_key(), internal_key(), 0..3_u64).prop_map(
        |(id, bytes, within, smallest, largest, run)| AddedTable {
            id: TableId(id),
            bytes,
            within,
            run,
            smallest,
            largest,
            refs: Vec::new(),
        },
    );
    let tables = (
        vec((0..21_usize, internal_key()), 0..3),
        vec((0..21_usize, any::<u64>().prop_map(TableId)), 0..4),
        vec((0..21_usize, table), 0..4),
        vec((any::<u64>().prop_map(TableId), any::<u64>()), 0..4),
    );
    let sequence = prop::option::of((0..=SeqNo::MAX.0).prop_map(SeqNo));
    let family = (1..1000_u32, prop::option::of(("[ -~]{0,9}", "[a-z]{1,9}"))).prop_map(|(id, names)| match names {
        Some((name, comparator)) => FamilyChange::Created { id: FamilyId(id), name, comparator },
        None => FamilyChange::Dropped(FamilyId(id)),
    });
    let named = (name, vec(family, 0..3));
    (vec("[a-z]{1,8}", 0..3), named, numbers, sequence, tables).prop_map(
        |(requires, named, (log, previous, next), last_sequence, (compact_pointers, deleted, added, entries))| {
            let (comparator, families) = named;
            Edit {
                requires,
                comparator,
                log_number: log,
                prev_log_number: previous,
                next_file_number: next,
                last_sequence,
                families,
                compact_pointers,
                deleted,
                added,
                entries,
            }
        },
    )
}

fn built(entries: &[(Vec<u8>, Vec<u8>)], restart_interval: usize) -> Vec<u8> {
    let mut builder = BlockBuilder::new(restart_interval);
    for (key, value) in entries {
        builder.add(key, value);
    }
    builder.finish().to_vec()
}

fn framed(records: &[Vec<u8>], ours: bool) -> Vec<u8> {
    let (mut framer, mut file) = (Framer::new(), Vec::new());
    for (i, record) in records.iter().enumerate() {
        let emit = |piece: &[u8]| -> Result<(), Infallible> {
            file.extend_from_slice(piece);
            Ok(())
        };
        let Ok(()) = if ours && i == 0 { framer.frame_ours(record, emit) } else { framer.frame(record, emit) };
    }
    file
}

/// Returns all events up to the end of the file. Asserts that all events except the last concern
/// bytes of the file, in order.
fn events(file: &[u8]) -> Vec<Event> {
    let (mut deframer, mut events, mut reached) = (RecordDecoder::new(file.len() as u64), Vec::new(), 0);
    loop {
        let Ok(event) = deframer.next(|offset, buf: &mut [u8]| -> Result<(), Infallible> {
            buf.copy_from_slice(&file[offset as usize..][..buf.len()]);
            Ok(())
        });
        let (from, to) = match &event {
            // The record takes at least these bytes.
            Event::Record { offset, bytes } => (*offset, offset + bytes.len() as u64 + 7),
            Event::Bad { offset, bytes, .. } => (*offset, offset + bytes),
            Event::End { offset, .. } => {
                assert!(*offset <= file.len() as u64);
                events.push(event);
                return events;
            }
        };
        assert!(reached <= from && from < to && to <= file.len() as u64, "{event:?} after {reached}");
        reached = to;
        events.push(event);
    }
}

fn flip(bytes: &mut [u8], flips: &[(prop::sample::Index, u8)]) {
    for (at, mask) in flips {
        if !bytes.is_empty() {
            bytes[at.index(bytes.len())] ^= mask;
        }
    }
}

fn flips() -> impl Strategy<Value = Vec<(prop::sample::Index, u8)>> {
    vec((any::<prop::sample::Index>(), 1..=255_u8), 1..4)
}

/// Iterates over a corrupt block in every way that a cursor offers. Asserts that the cursor
/// returns only entries of the block and errors.
fn walk(bytes: Vec<u8>, target: &[u8]) {
    let Ok(block) = Block::of_internal_keys(bytes) else { return };
    let (limit, block) = (block.byte_len() + 2, Arc::new(block));
    let order = KeyOrder::Bytewise;
    let seeks: [&dyn Fn(&mut BlockCursor) -> bool; 3] =
        [&|cursor| cursor.seek_first().is_ok(), &|cursor| cursor.seek_last().is_ok(), &|cursor| {
            cursor.seek(target, |a, b| order.internal(a, b)).is_ok()
        }];
    for seek in seeks {
        for forward in [true, false] {
            let mut cursor = BlockCursor::new(block.clone());
            let mut went = seek(&mut cursor);
            for _ in 0..limit {
                assert!(went || !cursor.valid());
                if !cursor.valid() {
                    break;
                }
                let _ = (key::user_key(cursor.key()), cursor.value().len());
                went = if forward { cursor.next() } else { cursor.prev() }.is_ok();
            }
            assert!(!cursor.valid(), "a walk without an end");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn integers_and_slices_come_back(a in any::<u32>(), b in any::<u64>(), c in bytes(300)) {
        let mut out = Vec::new();
        put_varint32(&mut out, a);
        put_varint64(&mut out, b);
        put_slice(&mut out, &c);
        let mut input = Input::new("test", &out);
        prop_assert_eq!((input.varint32(), input.varint64(), input.slice()), (Ok(a), Ok(b), Ok(&c[..])));
        prop_assert!(input.is_empty());
    }

    #[test]
    fn batches_come_back(
        ops in vec((bytes(30), prop::option::of(bytes(60))), 0..20),
        families in vec(0..3_u32, 20),
        flips in flips(),
    ) {
        let mut batch = Batch::new();
        for ((key, value), family) in ops.iter().zip(families) {
            let op = value.as_ref().map_or(Op::Delete(key), |value| Op::Put(key, value));
            batch.add(op.in_family(FamilyId(family)));
        }
        let decoded = Batch::decode(batch.as_bytes().to_vec()).unwrap();
        let found: Vec<_> = decoded.ops().map(|op| match op.split().1 {
            Op::Put(key, value) => (key.to_vec(), Some(value.to_vec())),
            Op::Delete(key) => (key.to_vec(), None),
            _ => panic!("the batch has only puts and deletes"),
        }).collect();
        prop_assert_eq!(found, ops);
        prop_assert_eq!(&decoded, &batch);
        let mut bytes = batch.as_bytes().to_vec();
        flip(&mut bytes, &flips);
        if let Ok(batch) = Batch::decode(bytes) {
            prop_assert_eq!(batch.ops().count(), batch.len() as usize);
        }
    }

    #[test]
    fn edits_come_back(edit in any_edit(), flips in flips()) {
        let mut bytes = edit.encode();
        prop_assert_eq!(Edit::decode(&bytes), Ok(edit));
        flip(&mut bytes, &flips);
        if let Ok(edit) = Edit::decode(&bytes) {
            prop_assert_eq!(Edit::decode(&edit.encode()), Ok(edit));
        }
    }

    #[test]
    fn records_come_back(sizes in vec(prop_oneof![0..100_usize, 32_700..32_800_usize, 0..100_000_usize], 1..8), ours in any::<bool>()) {
        let mut records: Vec<Vec<u8>> = sizes.iter().enumerate().map(|(i, &size)| vec![i as u8 + 1; size]).collect();
        if ours {
            records[0].extend_from_slice(b"six ..");
        }
        let file = framed(&records, ours);
        prop_assert_eq!(is_ours(&file), ours);
        let found: Vec<Vec<u8>> = events(&file).into_iter().filter_map(|event| match event {
            Event::Record { bytes, .. } => Some(bytes),
            _ => None,
        }).collect();
        prop_assert!(found == records);
    }

    /// Tests corruption of a WAL, which may lose records. The decoder must never return a record
    /// that was not written.
    #[test]
    fn damaged_logs_hold_only_what_was_written(
        sizes in vec(prop_oneof![8..100_usize, 30_000..40_000_usize], 1..20),
        flips in flips(),
        zeros in any::<Option<(prop::sample::Index, prop::sample::Index)>>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let records: Vec<Vec<u8>> = sizes.iter().enumerate().map(|(i, &size)| vec![i as u8 + 1; size]).collect();
        let mut file = framed(&records, false);
        flip(&mut file, &flips);
        if let Some((from, to)) = zeros {
            let (from, to) = (from.index(file.len()), to.index(file.len()));
            file[from.min(to)..from.max(to)].fill(0);
        }
        file.truncate(cut.index(file.len()) + 1);
        let mut last = 0;
        for event in events(&file) {
            if let Event::Record { bytes, .. } = event {
                prop_assert!(bytes[0] > last && records[bytes[0] as usize - 1] == bytes);
                last = bytes[0];
            }
        }
    }

    #[test]
    fn blocks_come_back(entries in entries(), restart_interval in 1..20_usize, target in internal_key(), flips in flips()) {
        let mut bytes = built(&entries, restart_interval);
        let mut cursor = BlockCursor::new(Arc::new(Block::of_internal_keys(bytes.clone()).unwrap()));
        let order = KeyOrder::Bytewise;
        cursor.seek(&target, |a, b| order.internal(a, b)).unwrap();
        let want = entries.iter().position(|(key, _)| order.internal(key, &target).is_ge());
        prop_assert_eq!(cursor.valid().then(|| cursor.key()), want.map(|at| &entries[at].0[..]));
        if let Some(at) = want {
            cursor.prev().unwrap();
            prop_assert_eq!(cursor.valid().then(|| cursor.value()), at.checked_sub(1).map(|at| &entries[at].1[..]));
        }
        flip(&mut bytes, &flips);
        walk(bytes, &target);
    }

    #[test]
    fn filters_admit_their_keys(keys in vec(bytes(20), 0..100), bits in 0..40_u32, offset in 0..100_000_u64, flips in flips()) {
        let bloom = Arc::new(Bloom::new(bits));
        let mut builder = FilterBlockBuilder::new(bloom.clone());
        builder.start_block(offset);
        keys.iter().for_each(|key| builder.add_key(key));
        let mut filters = builder.finish();
        let read = FilterBlock::new(bloom.clone(), filters.clone());
        prop_assert!(keys.iter().all(|key| read.may_match(offset, key)));
        flip(&mut filters, &flips);
        FilterBlock::new(bloom, filters).may_match(offset, b"any");
    }

    #[test]
    fn codecs_come_back(words in vec(0..50_u32, 0..2000), flips in flips(), cut in any::<prop::sample::Index>()) {
        let raw: Vec<u8> = words.iter().flat_map(|word| format!("{word} ").into_bytes()).collect();
        for codec in Codec::ALL {
            let mut stored = Vec::new();
            let id = compress(codec, 1, &raw, &mut stored) as u8;
            prop_assert!(decompress(id, &stored).as_ref() == Ok(&raw));
            flip(&mut stored, &flips);
            let _ = decompress(id, &stored);
            stored.truncate(cut.index(stored.len() + 1));
            let _ = decompress(id, &stored);
        }
    }

    #[test]
    fn shortened_keys_stay_between_their_neighbours(a in internal_key(), b in internal_key()) {
        let order = KeyOrder::Bytewise;
        let (low, high) = if order.internal(&a, &b).is_le() { (a, b) } else { (b, a) };
        let mut key = low.clone();
        order.shorten_between(&mut key, &high);
        prop_assert!(order.internal(&low, &key).is_le() && key.len() <= low.len());
        prop_assert!(low == high || order.internal(&key, &high).is_lt());
        order.shorten_above(&mut key);
        prop_assert!(order.internal(&low, &key).is_le());
    }

    #[test]
    fn any_bytes_are_an_answer_or_an_error(input in bytes(400), id in any::<u8>(), target in internal_key()) {
        let _ = (Batch::decode(input.clone()), Edit::decode(&input), TableProperties::decode(&input));
        let _ = (Footer::decode(&input), Handle::decode(&input), open_block(&input, true), open_block(&input, false));
        let _ = (names::decode_current(&input), key::parse(&input), is_ours(&input));
        let text = String::from_utf8_lossy(&input);
        let _ = (FormatFile::decode(&text), FileName::parse(&text), bundle::decode(&input, input.len() as u64));
        for id in [id, 1, 2, 4, 0x24] {
            let _ = decompress(id, &input);
        }
        let bloom = Arc::new(Bloom::new(10));
        bloom.may_match(b"key", &input);
        let filters = FilterBlock::new(bloom, input.clone());
        let _ = (filters.may_match(0, b"key"), filters.may_match(u64::MAX, b"key"));
        events(&input);
        walk(input, &target);
    }
}
