//! Tests of raw devices with a corrupt or impossible file list. The open must repair it from
//! redundant copies, or report the problem.
use super::{formatted, history::History};
use std::{ops::Range, sync::Arc};
use terrace_device::{BlockDevice, Stream};
use terrace_format::raw::{Change, Form, Superblock, journal};
use terrace_sim::{CrashDevice, DeviceImage, Rng};
use terrace_storage::backends::raw::RawFs;

/// Tests corruption of each byte of the metadata in turn. The open of the device must use the
/// other copy of the metadata, or must report a problem or an error. Corruption of a journal entry
/// may go unnoticed only if no later entry records that the entry was flushed: it then looks like
/// the end of a journal after a power cut.
#[test]
fn corruption_is_repaired_or_reported() {
    let mut history = History::new(CrashDevice::new(&formatted()), 5);
    (0..60).for_each(|_| history.act());
    let image = history.device.now();
    let fs = RawFs::new(Arc::new(CrashDevice::new(&image)), "device");
    let (files, (entries, confirmed)) = (fs.files().unwrap(), entries(&image, &fs.superblock().unwrap()));
    assert!(entries.end - entries.start > 200, "the newest half has no entries");
    assert!(confirmed.end - confirmed.start > 200, "no entry records a flush");
    let mut rng = Rng::new(1);
    let meta = fs.superblock().unwrap().slot_at(0) as usize;
    let mut reported = 0;
    // Try every byte of the heads and checkpoints of both halves, and a sample of the other bytes.
    let halves = [0, 1].map(|half| fs.superblock().unwrap().half_at(half));
    let bytes = halves.into_iter().flat_map(|at| (at..at + 36).chain(at + 4096..at + 4150));
    let bytes: Vec<u64> =
        bytes.chain((0..300).map(|_| rng.below(meta) as u64)).chain(entries.clone().step_by(17)).collect();
    for at in bytes {
        let device = CrashDevice::new(&image);
        let mut page = vec![0; 4096];
        device.read_at(at - at % 4096, &mut page).unwrap();
        page[(at % 4096) as usize] ^= 1 << rng.below(8);
        device.write_at(at - at % 4096, &page, Stream(0)).unwrap();
        let fs = RawFs::new(Arc::new(device), "device");
        match fs.problems() {
            Ok(problems) => {
                reported += usize::from(!problems.is_empty());
                let is_last = entries.contains(&at) && !confirmed.contains(&at);
                assert!(is_last || fs.files().unwrap() == files, "ORACLE: byte {at}: another file list");
            }
            Err(error) => {
                assert!(!error.to_string().is_empty(), "byte {at}");
                reported += 1;
            }
        }
    }
    assert!(reported >= 50, "corruption was reported only {reported} times");
}

/// Returns two byte ranges of the device in the newest half of the slot journal: the range of all
/// entries, and the range of those that a later entry confirms as flushed.
fn entries(image: &DeviceImage, superblock: &Superblock) -> (Range<u64>, Range<u64>) {
    let device = CrashDevice::new(image);
    let halves = [0, 1].map(|half| {
        let mut bytes = vec![0; superblock.journal_bytes() as usize];
        device.read_at(superblock.half_at(half), &mut bytes).unwrap();
        let found = journal::decode(&bytes, superblock.id()).unwrap()?;
        let (_, checkpoint) = journal::encode_checkpoint(found.head.id, found.head.generation, &found.changes[0]);
        let at = superblock.half_at(half);
        let flushed = found.changes.iter().flatten().filter_map(|change| match change {
            Change::Flushed { end } => Some(at + end),
            _ => None,
        });
        let begin = at + checkpoint.len() as u64;
        let confirmed = begin..flushed.max().unwrap_or(begin);
        Some((found.head.generation, (begin..at + found.end as u64, confirmed)))
    });
    halves.into_iter().flatten().max_by_key(|(generation, _)| *generation).unwrap().1
}

/// Tests a slot journal with valid checksums and an impossible history, as after a bug or a manual
/// change. The open must report it.
#[test]
fn an_impossible_history_is_reported() {
    let file = |file| Change::File { file, form: Form::Plain, stream: 1 };
    let slots = |file, first, count| Change::Slots { file, first, count };
    let name = |file, name: &str| Change::Name { file, name: name.into() };
    let sound = [file(1), name(1, "a"), slots(1, 0, 2), Change::Bytes { file: 1, bytes: 20_000 }];
    let cases: [(&[Change], &str); 9] = [
        (&[], ""),
        (&[file(2), name(2, "b"), slots(2, 2, 1)], ""),
        (&[file(2), name(2, "b"), slots(2, 1, 1)], "1 slots from 1 are not free for file 2"),
        (&[slots(1, 1, 1)], "1 slots from 1 are not free for file 1"),
        (&[slots(1, 1000, 1)], "1 slots from 1000 are not free for file 1"),
        (&[file(2), slots(2, 2, 1)], "file 2 has no name"),
        (&[file(1)], "file 1 cannot begin here"),
        (&[name(7, "b")], "file 7 does not exist"),
        (&[Change::Bytes { file: 1, bytes: 40_000 }], "file 1 cannot have 40000 bytes"),
    ];
    for (more, wanted) in cases {
        let device = CrashDevice::new(&formatted());
        let superblock = RawFs::new(Arc::new(device.clone()), "device").superblock().unwrap();
        let (_, half) = journal::encode_checkpoint(superblock.id(), 100, &[&sound, more].concat());
        device.write_at(superblock.half_at(1), &half, Stream(0)).unwrap();
        let found = RawFs::new(Arc::new(device), "device").problems();
        let text = found.map_or_else(|error| error.to_string(), |problems| problems.join("\n"));
        assert!(if wanted.is_empty() { text.is_empty() } else { text.contains(wanted) }, "{more:?}: {text}");
    }
}
