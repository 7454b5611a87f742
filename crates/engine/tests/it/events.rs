//! Tests of events. A listener must receive an event when a job begins and when it ends. The sums
//! over all events must equal the statistics.
use crate::common::kit;
use kit::{TIGHT, options};
use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};
use terrace::{Db, Event, Options, WriteOptions};
use terrace_sim::{Fault, FaultFs, Plan};
use terrace_storage::backends::files::fs::FileSystem;

type Recorded = Arc<Mutex<Vec<Event>>>;

fn listening(options: Options) -> (Options, Recorded) {
    let recorded = Recorded::default();
    let book = recorded.clone();
    (options.listener(Arc::new(move |event: &Event| book.lock().unwrap().push(event.clone()))), recorded)
}

fn count(recorded: &Recorded, which: impl Fn(&Event) -> bool) -> usize {
    recorded.lock().unwrap().iter().filter(|event| which(event)).count()
}

/// Waits until every job that began has sent its end event. A job sends this event after its work,
/// so a thread that waits only for the work may continue before the event is sent.
fn wait_for_end_events(recorded: &Recorded) {
    let given_up = Instant::now() + Duration::from_secs(100);
    loop {
        let flushes = count(recorded, |e| matches!(e, Event::FlushBegin { .. }));
        let compactions = count(recorded, |e| matches!(e, Event::CompactionBegin { .. }));
        let flushed = count(recorded, |e| matches!(e, Event::FlushEnd { .. }));
        let compacted = count(recorded, |e| matches!(e, Event::CompactionEnd { .. }));
        if (flushes, compactions) == (flushed, compacted) {
            return;
        }
        assert!(
            Instant::now() < given_up,
            "{flushed} of {flushes} flushes, {compacted} of {compactions} compactions end"
        );
        std::thread::yield_now();
    }
}

fn fill(db: &Db) {
    for number in 0..3000u32 {
        db.put((number * 7919 % 3000).to_be_bytes(), vec![number as u8; 500]).unwrap();
    }
}

#[test]
fn begin_and_end_events_agree_with_the_statistics() {
    for manual in [true, false] {
        let (layout, recorded) = listening(options(&[TIGHT, &[("compression", "none")]].concat()));
        let db = kit::Place::any().open(&layout, manual).unwrap();
        fill(&db);
        db.put_with("synced", "", WriteOptions::synced()).unwrap();
        db.flush().unwrap();
        db.wait_idle().unwrap();
        wait_for_end_events(&recorded);
        let statistics = db.statistics();
        let sum = |which: fn(&Event) -> Option<u64>| recorded.lock().unwrap().iter().filter_map(which).sum::<u64>();
        let flushed = sum(|event| match event {
            Event::FlushEnd { bytes, .. } => Some(*bytes),
            _ => None,
        });
        let merged = sum(|event| match event {
            Event::CompactionEnd { bytes, .. } => Some(*bytes),
            _ => None,
        });
        let by_level = statistics.levels.iter().map(|level| level.compactions.bytes_written).sum::<u64>();
        assert_eq!((flushed, merged), (statistics.flushes.bytes_written, by_level), "manual: {manual}");
        assert!(flushed > 1_000_000 && merged > 1_000_000, "{flushed} {merged}");
        let pairs = [
            (
                count(&recorded, |e| matches!(e, Event::FlushBegin { .. })),
                count(&recorded, |e| matches!(e, Event::FlushEnd { .. })),
            ),
            (
                count(&recorded, |e| matches!(e, Event::CompactionBegin { .. })),
                count(&recorded, |e| matches!(e, Event::CompactionEnd { .. })),
            ),
            (
                count(&recorded, |e| matches!(e, Event::StallBegin)),
                count(&recorded, |e| matches!(e, Event::StallEnd { .. })),
            ),
            (
                count(&recorded, |e| matches!(e, Event::SyncBegin)),
                count(&recorded, |e| matches!(e, Event::SyncEnd { .. })),
            ),
        ];
        assert!(pairs.iter().all(|(begun, ended)| begun == ended && *begun > 0), "{pairs:?}");
        assert_eq!(pairs[2].0 as u64, statistics.stalls);
        let durable = recorded.lock().unwrap().iter().rev().find_map(|event| match event {
            Event::SyncEnd { durable, .. } => Some(*durable),
            _ => None,
        });
        assert_eq!(durable, Some(db.durable_sequence()));
    }
}

#[test]
fn a_stop_and_its_resume_are_reported_once() {
    let disk = FaultFs::new(kit::anywhere(), Plan::never());
    let fs: Arc<dyn FileSystem> = Arc::new(disk.clone());
    let (layout, recorded) = listening(options(TIGHT));
    let db = kit::open(&fs, &layout, true).unwrap();
    db.put("a", "1").unwrap();
    disk.arm(Plan::from_then_on(disk.calls(), Fault::Enospc));
    (0..3).for_each(|_| assert!(db.put("b", "2").is_err()));
    disk.heal();
    db.resume().unwrap();
    db.resume().unwrap();
    let stops = recorded
        .lock()
        .unwrap()
        .iter()
        .filter_map(|event| match event {
            Event::Stopped { error } => Some(error.is_no_space()),
            Event::StallEnd { time } => Some(*time == Duration::MAX),
            _ => None,
        })
        .collect::<Vec<_>>();
    assert_eq!(stops, [true]);
    assert_eq!(count(&recorded, |event| matches!(event, Event::Resumed)), 1);
}
