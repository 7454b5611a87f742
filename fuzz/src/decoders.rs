//! Fuzz targets for the decoders of single structures.
use super::heal;
use std::{convert::Infallible, sync::Arc};
use terrace::Options;
use terrace_format::{
    Batch, Codec, Edit, FileName, FormatFile, KeyOrder, Kind, Op, RangeTombstones, SeqNo, TableProperties,
    block::{Block, BlockCursor},
    bundle,
    compress::{self, decompress},
    filter::{Bloom, FilterBlock, FilterBlockBuilder, FilterPolicy},
    footer::{Footer, Handle, open_block},
    key,
    log_record::{Event, Framer, RecordDecoder, is_ours},
    names,
    pair::{InFile, NAME_BYTES_MIN, PairName, PairProperties, Reference},
    value_log::{self, Frames, StoredValue, read_entry},
};

/// Returns all events of a WAL, including its end.
fn deframed(file: &[u8]) -> Vec<Event> {
    let (mut deframer, mut events) = (RecordDecoder::new(file.len() as u64), Vec::new());
    loop {
        let Ok(event) = deframer.next(|offset, buffer: &mut [u8]| -> Result<(), Infallible> {
            buffer.copy_from_slice(&file[offset as usize..][..buffer.len()]);
            Ok(())
        });
        let ended = matches!(event, Event::End { .. });
        events.push(event);
        if ended {
            return events;
        }
        assert!(events.len() <= file.len() + 1, "each event stands for bytes");
    }
}

/// Fuzz target for WALs. Events must be in file order and within the file, and records must
/// round-trip (encoding a decoded value and decoding it again gives the same value).
pub fn log(input: &[u8]) {
    let _ = is_ours(input);
    for file in [input.to_vec(), heal::log(input)] {
        let (mut at, mut framer, mut again) = (0, Framer::new(), Vec::new());
        let events = deframed(&file);
        for event in &events {
            let (offset, bytes) = match event {
                Event::Record { offset, bytes } => (*offset, bytes.len() as u64),
                Event::Bad { offset, bytes, .. } => (*offset, *bytes),
                Event::End { offset, .. } => (*offset, 0),
            };
            assert!(offset.checked_add(bytes).is_some_and(|end| end <= file.len() as u64), "{event:?}");
            if !matches!(event, Event::End { .. }) {
                assert!(at <= offset, "{event:?} behind {at}");
                at = offset;
            }
            if let Event::Record { bytes, .. } = event {
                let Ok(()) = framer.frame(bytes, |piece| -> Result<(), Infallible> {
                    again.extend_from_slice(piece);
                    Ok(())
                });
            }
        }
        let records = |events: Vec<Event>| -> Vec<Vec<u8>> {
            let bytes = |event| if let Event::Record { bytes, .. } = event { Some(bytes) } else { None };
            events.into_iter().filter_map(bytes).collect()
        };
        assert_eq!(records(deframed(&again)), records(events), "framed anew");
    }
}

/// Fuzz target for value-log segments. Frames (the records of a segment) must be in file order and
/// within the file. They must round-trip under the segment's number. The entry of each put must
/// also pass its verification when it is read alone.
pub fn value_log(input: &[u8]) {
    let _ = (StoredValue::parse(input), read_entry(input, |key| key == b"key", SeqNo(7)));
    let (mut frames, mut at) = (Frames::new(7, input.len() as u64), 0);
    let mut read = |offset: u64, buffer: &mut [u8]| -> Result<(), Infallible> {
        buffer.copy_from_slice(&input[offset as usize..][..buffer.len()]);
        Ok(())
    };
    loop {
        let Ok(event) = frames.next(&mut read);
        match event {
            Event::End { .. } => return,
            Event::Bad { offset, bytes, .. } => {
                assert!(at <= offset && offset + bytes <= input.len() as u64 && bytes > 0);
                at = offset + bytes;
            }
            Event::Record { offset, bytes } => {
                assert!(at <= offset);
                let (batch, mut again) = (Batch::decode(bytes).expect("checked"), value_log::MAGIC.to_vec());
                at = frames.places().last().map_or(offset, |place| place.end);
                for ((op, place), seq) in batch.ops().zip(frames.places()).zip(batch.sequence().0..) {
                    if let Op::Put(key, value) = op {
                        let entry = &input[place.start as usize..place.end as usize];
                        assert_eq!(&*read_entry(entry, |found| found == key, SeqNo(seq)).expect("read before"), value);
                    }
                }
                value_log::Framer::new(7, Codec::None, 0, 0).frame(&batch, &mut again, |_, _| {});
                let mut frames = Frames::new(7, again.len() as u64);
                let Ok(event) = frames.next(|offset: u64, buffer: &mut [u8]| -> Result<(), Infallible> {
                    buffer.copy_from_slice(&again[offset as usize..][..buffer.len()]);
                    Ok(())
                });
                assert!(matches!(event, Event::Record { bytes, .. } if bytes == batch.as_bytes()), "framed anew");
            }
        }
    }
}

/// Fuzz target for blocks. A block's entries must be within the block. If they are sorted, seeks
/// must find them, and backward iteration must return the reverse of forward iteration.
pub fn block(input: &[u8]) {
    let _ = (Footer::decode(input), Handle::decode(input), open_block(input, true), open_block(input, false));
    if let Ok(block) = Block::of_internal_keys(input.to_vec()) {
        let _ = block.find(&KeyOrder::Bytewise, &key::lookup(&input[..input.len().min(9)], SeqNo(7)));
    }
    for block in [Block::new(input.to_vec()), Block::of_internal_keys(input.to_vec())] {
        let Ok(block) = block.map(Arc::new) else { continue };
        let (forward, backward) = (walk(&block, false), walk(&block, true));
        let mut cursor = BlockCursor::new(block.clone());
        for target in [&b""[..], input, &input[input.len() / 2..]] {
            let _ = cursor.seek(target, |a, b| a.cmp(b));
            assert!(!cursor.valid() || cursor.value().len() <= input.len());
        }
        if let (Some(forward), Some(mut backward)) = (forward, backward)
            && forward.is_sorted_by(|(a, _), (b, _)| a < b)
        {
            backward.reverse();
            assert_eq!(forward, backward, "backward is forward reversed");
        }
    }
}

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// Returns all entries in one direction, or `None` if an entry does not decode.
fn walk(block: &Arc<Block>, back: bool) -> Option<Entries> {
    let (mut cursor, mut entries) = (BlockCursor::new(block.clone()), Entries::new());
    if back { cursor.seek_last() } else { cursor.seek_first() }.ok()?;
    while cursor.valid() {
        entries.push((cursor.key().to_vec(), cursor.value().to_vec()));
        assert!(entries.len() <= block.byte_len(), "an entry takes three bytes");
        if back { cursor.prev() } else { cursor.next() }.ok()?;
    }
    Some(entries)
}

/// Fuzz target for batches. A decoded batch must have as many operations as its header states, and
/// must round-trip.
pub fn batch(input: &[u8]) {
    let Ok(batch) = Batch::decode(input.to_vec()) else { return };
    let ops: Vec<Op<'_>> = batch.ops().collect();
    assert_eq!(ops.len(), batch.len() as usize);
    let mut again = Batch::new();
    ops.iter().for_each(|op| again.add(*op));
    again.set_sequence(batch.sequence());
    let again = Batch::decode(again.as_bytes().to_vec()).expect("what we write, we read");
    assert!(again.ops().eq(ops) && again.sequence() == batch.sequence());
}

/// Fuzz target for version edits. A decoded edit must round-trip.
pub fn edit(input: &[u8]) {
    if let Ok(edit) = Edit::decode(input) {
        assert_eq!(Edit::decode(&edit.encode()).expect("what we write, we read"), edit);
    }
}

/// Fuzz target for directory tables. A decoded reference or file name must equal the one that the
/// encoder writes. A file must match its name or be rejected.
pub fn pair(input: &[u8]) {
    if let Ok(reference) = Reference::decode(input) {
        let mut again = Vec::new();
        reference.encode(&mut again);
        assert_eq!(Reference::decode(&again), Ok(reference));
        if let Reference::File(file) = reference {
            let _ = file.value_at(&key::lookup(&input[..input.len().min(9)], SeqNo(7)), input, true);
            assert!(file.name(&key::lookup(input, SeqNo(7))).len() <= 3 * input.len() + 40);
        }
    }
    let _ = PairProperties::decode(input);
    let (name, file) = input.split_at(input.iter().position(|byte| *byte == 0).unwrap_or(input.len()));
    if let Some(name) = std::str::from_utf8(name).ok().and_then(PairName::parse)
        && let Ok((internal, at)) = name.open(file)
        && let Reference::File(found) = name.refer((file.len() - at) as u64)
    {
        assert_eq!(found.name(&internal).as_bytes(), &input[..input.len() - file.len()]);
        assert_eq!(found.value_at(&internal, file, true), Ok(at));
    }
    for limit in [NAME_BYTES_MIN, 143, 255] {
        let internal = key::encode(name, SeqNo(file.len() as u64), Kind::Put);
        let new = InFile::new(&internal, file, limit);
        let contents = [&new.head(&internal)[..], file].concat();
        let parsed = PairName::parse(&new.name(&internal)).expect("what we write, we read");
        let at = new.value_at(&internal, &contents, true).expect("what we write, we read");
        assert_eq!(parsed.open(&contents), Ok((internal, at)));
    }
}

/// Fuzz target for small files, file names and properties. They must round-trip.
pub fn marker(input: &[u8]) {
    if let Ok(text) = std::str::from_utf8(input) {
        if let Ok(marker) = FormatFile::decode(text) {
            assert_eq!(FormatFile::decode(&marker.encode()).expect("what we write, we read"), marker);
        }
        if let Some(name) = FileName::parse(text) {
            assert_eq!(FileName::parse(&name.to_string()), Some(name));
        }
    }
    if let Ok(manifest) = names::decode_current(input) {
        assert_eq!(names::encode_current(manifest).as_bytes(), input);
    }
    if let Ok(facts) = TableProperties::decode(input) {
        assert_eq!(facts.encode(), input);
    }
    for offset in [0, 4096, 1 << 20] {
        if let Ok(members) = bundle::decode(input, offset) {
            let again = bundle::decode(&bundle::encode(&members, offset), offset);
            assert_eq!(again.expect("what we write, we read"), members);
        }
    }
}

/// Fuzz target for range tombstones. Decoded ones must round-trip, also when they are inserted one
/// by one. Each must cover its first key.
pub fn range_tombstones(input: &[u8]) {
    let order = KeyOrder::Bytewise;
    let Ok(deletes) = RangeTombstones::decode(&order, input.to_vec()) else { return };
    let again = RangeTombstones::decode(&order, deletes.encode()).expect("what we write, we read");
    assert_eq!(again, deletes);
    let mut together = RangeTombstones::default();
    together.extend(&order, &deletes);
    assert_eq!(together, deletes);
    for fragment in deletes.fragments() {
        assert_eq!(deletes.newest(&order, &fragment.from, SeqNo::MAX), fragment.sequences[0]);
    }
}

/// Fuzz target for options as text. Parsed options must round-trip.
pub fn options(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Ok(options) = Options::from_text(text) {
        let again = Options::from_text(&options.to_text()).expect("what we print, we read");
        assert_eq!(format!("{again:?}"), format!("{options:?}"));
    }
}

/// Fuzz target for filters. An arbitrary filter must give a result without a panic. A filter built
/// from keys must match those keys. The first byte of the input is the key size.
pub fn filter(input: &[u8]) {
    let Some((&size, rest)) = input.split_first() else { return };
    let policy: Arc<dyn FilterPolicy> = Arc::new(Bloom::new(u32::from(size % 32)));
    let keys: Vec<&[u8]> = rest.chunks(usize::from(size).max(1)).collect();
    let any = FilterBlock::new(policy.clone(), rest.to_vec());
    let mut builder = FilterBlockBuilder::new(policy.clone());
    let offset_of = |number: usize| number as u64 / 5 * 1000;
    for (number, key) in keys.iter().enumerate() {
        let _ = (any.may_match(offset_of(number), key), policy.may_match(key, rest));
        if number % 5 == 0 {
            builder.start_block(offset_of(number));
        }
        builder.add_key(key);
    }
    let _ = any.may_match(u64::MAX, rest);
    let (mut whole, blocks) = (Vec::new(), FilterBlock::new(policy.clone(), builder.finish()));
    policy.create(&keys, &mut whole);
    for (number, key) in keys.iter().enumerate() {
        assert!(policy.may_match(key, &whole) && blocks.may_match(offset_of(number), key), "key {number} is denied");
    }
}

/// Fuzz target for keys. The first byte splits the input into two keys. Their comparison must be
/// consistent, and a shortened key must lie between them.
pub fn key(input: &[u8]) {
    let Some((&cut, rest)) = input.split_first() else { return };
    let (a, b) = rest.split_at(usize::from(cut).min(rest.len()));
    let order = KeyOrder::Bytewise;
    for internal in [a, b, rest] {
        if let Ok(parsed) = key::parse(internal) {
            assert_eq!(key::encode(parsed.user, parsed.seq, parsed.kind), internal);
            assert_eq!(key::user_key(internal), parsed.user);
        }
    }
    let [a, b] = [a, b].map(|user| key::encode(user, SeqNo(5), Kind::Put));
    let (low, high) = if order.internal(&a, &b).is_le() { (a, b) } else { (b, a) };
    assert!(order.internal(&high, &low).is_ge());
    let (mut between, mut above) = (low.clone(), low.clone());
    order.shorten_between(&mut between, &high);
    order.shorten_above(&mut above);
    assert!(order.internal(&low, &between).is_le() && order.internal(&low, &above).is_le());
    assert!(low == high || order.internal(&between, &high).is_lt(), "{between:?} is not before {high:?}");
}

/// Fuzz target for compression. Decompression with the codec in the first byte must give a bounded
/// result or an error. Compression must round-trip.
pub fn compress(input: &[u8]) {
    let Some((&id, stored)) = input.split_first() else { return };
    let _ = decompress([0, 1, 2, 4, 0x24][usize::from(id) % 5], stored);
    for codec in [Codec::None, Codec::Snappy, Codec::Zstd, Codec::Lz4] {
        let mut out = Vec::new();
        let used = compress::compress(codec, 1, stored, &mut out);
        assert_eq!(decompress(used as u8, &out).expect("what we compress"), stored, "{codec:?}");
    }
}
