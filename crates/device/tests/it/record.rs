//! Tests of recorded devices. A replay of a recording must reproduce the device. A crash state
//! must equal that of a naive model of a volatile write cache. Corruption of a recording must be
//! reported as an error.
use proptest::{collection::vec, prelude::*};
use std::{fs, path::Path, sync::Arc};
use terrace_device::{
    BlockDevice, Error, Memory, Stream,
    record::{Kept, Kind, Past, Recorder, State},
    serve::Desk,
};

const BLOCK: u64 = 4096;
const BLOCKS: u64 = 24;

#[derive(Clone, Copy, Debug)]
enum Op {
    Write(u64, u64, u8),
    Discard(u64, u64),
    Zero(u64, u64),
    Flush,
    Mark(u64),
}

fn any_op() -> impl Strategy<Value = Op> {
    let range = (0..BLOCKS).prop_flat_map(|from| (Just(from), 1..=(BLOCKS - from).min(6)));
    prop_oneof![
        6 => (range.clone(), 1u8..).prop_map(|((from, count), byte)| Op::Write(from, count, byte)),
        1 => range.clone().prop_map(|(from, count)| Op::Discard(from, count)),
        1 => range.prop_map(|(from, count)| Op::Zero(from, count)),
        1 => Just(Op::Flush),
        1 => any::<u64>().prop_map(Op::Mark),
    ]
}

/// The data of a write: neighbouring sectors differ.
fn data(count: u64, byte: u8) -> Vec<u8> {
    (0..count * 8).flat_map(|sector| [byte.wrapping_add(sector as u8 * 3) | 1; 512]).collect()
}

/// Records `ops` and opens the recording.
fn record(ops: &[Op], file: &Path) -> Past {
    let memory = Arc::new(Memory::new(BLOCKS * BLOCK).unwrap());
    let recorder = Recorder::new(memory, file).unwrap();
    for op in ops {
        match *op {
            Op::Write(from, count, byte) => {
                recorder.write_at(from * BLOCK, &data(count, byte), Stream::default()).unwrap()
            }
            Op::Discard(from, count) => recorder.discard(from * BLOCK, count * BLOCK).unwrap(),
            Op::Zero(from, count) => recorder.write_zeroes(from * BLOCK, count * BLOCK).unwrap(),
            Op::Flush => recorder.flush().unwrap(),
            Op::Mark(number) => recorder.order(&format!("mark {number}")).unwrap(),
        }
    }
    recorder.finish().unwrap();
    Past::open(file).unwrap()
}

fn all(device: &dyn BlockDevice) -> Vec<u8> {
    let mut bytes = vec![1; (BLOCKS * BLOCK) as usize];
    device.read_at(0, &mut bytes).unwrap();
    bytes
}

/// Applies the request `op` to plain bytes. Of a write, applies only the sectors for which `keeps`
/// returns true.
fn apply(bytes: &mut [u8], op: Op, keeps: impl Fn(usize) -> bool) {
    match op {
        Op::Write(from, count, byte) => {
            for (nth, sector) in data(count, byte).chunks(512).enumerate().filter(|(nth, _)| keeps(*nth)) {
                bytes[(from * BLOCK) as usize + nth * 512..][..512].copy_from_slice(sector);
            }
        }
        Op::Discard(from, count) | Op::Zero(from, count) => {
            bytes[(from * BLOCK) as usize..((from + count) * BLOCK) as usize].fill(0);
        }
        Op::Flush | Op::Mark(_) => {}
    }
}

proptest! {
    #[test]
    fn a_state_is_what_a_volatile_cache_would_have_left(
        ops in vec(any_op(), 1..40),
        cut in any::<prop::sample::Index>(),
        fates in vec((any::<bool>(), prop::option::of(any::<u64>())), 40),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let past = Arc::new(record(&ops, &dir.path().join("past")));
        let until = cut.index(ops.len() + 1);
        let mut wanted = vec![0; (BLOCKS * BLOCK) as usize];
        ops[..until].iter().for_each(|op| apply(&mut wanted, *op, |_| true));

        let replayed = Memory::new(BLOCKS * BLOCK).unwrap();
        past.replay(&replayed, until).unwrap();
        prop_assert!(all(&replayed) == wanted, "replayed until {}", until);
        let state = State::new(past.clone(), until, &[]).unwrap();
        prop_assert!(all(&state) == wanted, "the state before {}", until);

        let mut kept = Vec::new();
        for (event, (op, (keep, torn))) in ops.iter().zip(&fates).enumerate().skip(until).filter(|(_, (_, fate))| fate.0) {
            assert!(keep);
            let sectors = if let Op::Write(_, count, _) = op { count * 8 } else { 0 };
            let keeps = |sector: usize| torn.is_none_or(|mask| mask >> (sector % 64) & 1 == 1);
            apply(&mut wanted, *op, keeps);
            let parts = (0..sectors).filter(|sector| keeps(*sector as usize)).map(|sector| sector * 512..(sector + 1) * 512);
            kept.push(Kept { event, parts: (torn.is_some() && sectors > 0).then(|| parts.collect()) });
        }
        let state = State::new(past.clone(), until, &kept).unwrap();
        prop_assert!(all(&state) == wanted, "kept {:?}", kept);

        // Write even bytes, because the recorded writes contain only odd ones.
        state.write_at(BLOCK, &[2; 2 * BLOCK as usize], Stream::default()).unwrap();
        state.discard(2 * BLOCK, BLOCK).unwrap();
        wanted[BLOCK as usize..][..2 * BLOCK as usize].fill(2);
        apply(&mut wanted, Op::Zero(2, 1), |_| true);
        prop_assert!(all(&state) == wanted, "written to");
        prop_assert!(all(&State::new(past, until, &kept).unwrap()) != wanted, "what was written to one is in another");
    }
}

fn short() -> Vec<Op> {
    vec![Op::Write(1, 2, 7), Op::Mark(3), Op::Flush, Op::Discard(1, 1)]
}

#[test]
fn events_and_marks_round_trip_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let past = record(&short(), &dir.path().join("past"));
    let events: Vec<_> = past.events().iter().map(|event| (event.kind, event.offset, event.len)).collect();
    assert_eq!(
        events,
        [(Kind::Write, 4096, 8192), (Kind::Mark, 3, 0), (Kind::Flush, 0, 0), (Kind::Discard, 4096, 4096)]
    );
}

/// Tests that a replay preserves the streams of writes. A drive with streams places pages
/// differently from a drive without them.
#[test]
fn a_replay_preserves_the_streams() {
    let dir = tempfile::tempdir().unwrap();
    let recorder =
        |name| Recorder::new(Arc::new(Memory::new(BLOCKS * BLOCK).unwrap()), &dir.path().join(name)).unwrap();
    let streams = |name| {
        let past = Past::open(&dir.path().join(name)).unwrap();
        past.events().iter().map(|event| event.stream.0).collect::<Vec<_>>()
    };
    let first = recorder("first");
    (0..4u8).for_each(|at| first.write_at(u64::from(at) * BLOCK, &data(1, at), Stream(at % 3)).unwrap());
    first.finish().unwrap();
    let again = recorder("again");
    Past::open(&dir.path().join("first")).unwrap().replay(&again, 4).unwrap();
    again.finish().unwrap();
    assert_eq!((streams("first"), streams("again")), (vec![0, 1, 2, 0], vec![0, 1, 2, 0]));
}

#[test]
fn every_flipped_byte_and_every_torn_end_is_an_error_that_names_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("past");
    record(&short(), &file);
    let good = fs::read(&file).unwrap();
    let refused = |bytes: &[u8], what: &str| {
        fs::write(&file, bytes).unwrap();
        match Past::open(&file) {
            Err(Error::Damaged { file: named, .. }) => assert_eq!(named, file.display().to_string(), "{what}"),
            Err(other) => panic!("{what}: {other}"),
            Ok(_) => panic!("{what}: taken for good"),
        }
    };
    // Try every byte of the heads, and some bytes of the data, which are at 64..64 + 8192.
    let some = |at: &usize| !(64..64 + 8192).contains(at) || at.is_multiple_of(101);
    for at in (0..good.len()).filter(some) {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        refused(&bad, &format!("byte {at} flipped"));
    }
    // A file that ends here is complete: these are the ends of the head and of each record.
    let whole = [32, 64 + 8192, 96 + 8192, 128 + 8192, 160 + 8192];
    for end in (0..good.len()).filter(some).filter(|end| !whole.contains(end)) {
        refused(&good[..end], &format!("cut at {end}"));
    }
    refused(&[&good[..], &[0; 32]].concat(), "zeros behind it");
}

#[test]
fn impossible_states_and_bad_commands_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    let past = Arc::new(record(&short(), &dir.path().join("past")));
    let state =
        |until, event, parts| State::new(past.clone(), until, &[Kept { event, parts }]).err().unwrap().to_string();
    assert!(state(9, 0, None).contains("until"));
    assert!(state(0, 4, None).contains("event 4"));
    assert!(state(0, 0, Some(std::iter::once(0..100).collect())).contains("0..100"));
    assert!(state(0, 0, Some(std::iter::once(0..8704).collect())).contains("0..8704"));
    let recorder = Recorder::new(Arc::new(Memory::new(BLOCK).unwrap()), &dir.path().join("other")).unwrap();
    assert!(recorder.order("mark x").unwrap_err().contains("'x'"));
    assert!(recorder.order("stop").unwrap_err().contains("'stop'"));
    assert!(Recorder::new(Arc::new(Memory::new(BLOCK).unwrap()), dir.path()).is_err());
}

#[test]
fn requests_after_the_end_are_executed_unrecorded() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("past");
    let memory = Arc::new(Memory::new(BLOCKS * BLOCK).unwrap());
    let recorder = Recorder::new(memory.clone(), &file).unwrap();
    let write = |byte| recorder.write_at(0, &data(1, byte), Stream::default()).unwrap();
    write(1);
    recorder.end().unwrap();
    write(2);
    recorder.flush().unwrap();
    recorder.mark(7).unwrap();
    recorder.finish().unwrap();
    let past = Arc::new(Past::open(&file).unwrap());
    assert_eq!(past.events().iter().map(|event| event.kind).collect::<Vec<_>>(), [Kind::Write]);
    assert_eq!(all(&*memory)[..4096], data(1, 2));
    let kept = Kept { event: 0, parts: None };
    assert_eq!(all(&State::new(past, 0, &[kept]).unwrap())[..4096], data(1, 1));
}

/// Tests that after one record could not be written, the recorder records nothing more. A
/// recording with a gap would yield crash states that cannot occur.
#[test]
fn a_record_that_cannot_be_written_stops_the_device() {
    let memory = Arc::new(Memory::new(1024 * BLOCK).unwrap());
    let Ok(recorder) = Recorder::new(memory, Path::new("/dev/full")) else { return };
    let big = vec![1; 2 << 20];
    assert!(recorder.write_at(0, &big, Stream::default()).is_err(), "there is no room for the record");
    let refused = recorder.write_at(0, &big[..4096], Stream::default()).unwrap_err();
    assert!(refused.to_string().contains("earlier record"), "{refused}");
    assert!(recorder.flush().is_err() && recorder.finish().is_err());
}
