//! Tests of files on a raw device. In most tests a history is followed by a power cut at every
//! request, including torn sectors; in others the device is disconnected. A failure message names
//! the history, the step and the seed.
mod damage;
mod history;
mod logs;
mod remembering;

use history::{History, Written, read};
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    ops::Range,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
        mpsc,
    },
    time::Duration,
};
use terrace_device::{BlockDevice, Stream};
use terrace_format::raw::Sizes;
use terrace_sim::{CrashDevice, DeviceImage, DisconnectedDevice};
use terrace_storage::{
    IoStats, Purpose,
    durability::{DurabilityTracker, Finished, SyncTracker},
};
use terrace_vfs::{
    FileSystem, FileUse, JournalCommit, WalWriteMode, WriteFile,
    raw::{self, RawFs},
};

const SIZES: Sizes = Sizes { slot_bytes: 16 << 10, unit_slots: 4 };
const DEVICE_BYTES: u64 = 1 << 20;

fn formatted() -> DeviceImage {
    let device = CrashDevice::new(&DeviceImage::empty(DEVICE_BYTES));
    raw::format(&device, SIZES, 7).unwrap();
    device.now()
}

/// Writes the history of `seed` and simulates power cuts after every request. Returns the count of
/// crash states, and a description of the first wrong one, if any.
fn campaign(device: CrashDevice, seed: u64, seeds: u64) -> (usize, Option<String>) {
    let mut history = History::new(device, seed);
    for round in 0..4 {
        (0..100).for_each(|_| history.act());
        history.kill();
        // Kills the process several times before any sync, so that checkpoints alternate between
        // the halves of the slot journal.
        for again in 0..round {
            let began = history.device.steps();
            let file = history.fs.create(&format!("round {round} {again}")).unwrap();
            history.open.push((history.files.len(), file));
            let mut names = history.now();
            names.insert(format!("round {round} {again}"), history.files.len());
            history.files.push(Written::default());
            history.names.push((began, names));
            history.kill();
        }
    }
    let mut states = 0;
    for step in 0..=history.device.steps() {
        for cut in 0..seeds {
            states += 1;
            let image = history.device.power_loss(step, cut);
            let fs = RawFs::new(Arc::new(CrashDevice::new(&image)), "cut");
            let outcome = history.judge(step, &fs).and_then(|()| check_usable(&fs));
            if let Err(why) = outcome {
                return (states, Some(format!("history {seed} step {step} seed {cut}: {why}")));
            }
        }
    }
    (states, None)
}

/// Checks that a new file can be written to the device and is there when the device is opened
/// again.
fn check_usable(fs: &RawFs) -> Result<(), String> {
    let held = fs.lock(true).map_err(|e| format!("LOCK: {e}"))?;
    let mut file = fs.create("after").map_err(|e| format!("CREATE: {e}"))?;
    file.append(&[7; 9000]).and_then(|()| file.sync()).map_err(|e| format!("WRITE: {e}"))?;
    drop((file, held));
    let _held = fs.lock(true).map_err(|e| format!("LOCK: {e}"))?;
    let problems = fs.problems().map_err(|e| format!("OPEN: again: {e}"))?;
    if read(fs, "after")? != [7; 9000] || !problems.is_empty() {
        return Err(format!("AFTER: the new file is missing or wrong; {problems:?}"));
    }
    Ok(())
}

#[test]
fn synced_data_survives_a_power_cut_at_any_request() {
    let image = formatted();
    let campaigns = (0..12).map(|seed| campaign(CrashDevice::new(&image), seed, 4));
    let (mut states, mut wrong) = (0, None);
    for (some, first) in campaigns {
        states += some;
        wrong = wrong.or(first);
    }
    println!("{states} states");
    assert_eq!(wrong, None, "ORACLE");
    assert!(states > 15_000, "only {states} states: the campaign has become too small");
}

/// Tests a negative control: the oracle must detect that a device ignores flushes.
#[test]
fn a_device_that_ignores_flushes_is_detected() {
    let image = formatted();
    assert!((0..4).any(|seed| campaign(CrashDevice::lying(&image), seed, 2).1.is_some()));
}

/// Tests power cuts while a device with a store is formatted. After a power cut the device must
/// have the old store, a new store without files, or no store.
#[test]
fn a_power_cut_during_formatting_leaves_the_old_store_a_new_one_or_none() {
    let image = formatted();
    let mut history = History::new(CrashDevice::new(&image), 3);
    (0..80).for_each(|_| history.act());
    history.kill();
    let (names, sizes) = (history.now(), Sizes { slot_bytes: 16 << 10, unit_slots: 2 });
    let device = CrashDevice::new(&history.device.now());
    raw::format(&device, sizes, 8).unwrap();
    let mut seen = [0; 3];
    for step in 0..=device.steps() {
        for seed in 0..50 {
            let image = device.power_loss(step, seed);
            let fs = RawFs::new(Arc::new(CrashDevice::new(&image)), "cut");
            let outcome = match fs.superblock() {
                Err(error) => {
                    assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "step {step} seed {seed}: {error}");
                    0
                }
                Ok(superblock) => {
                    let found: Vec<_> = fs.files().unwrap().into_iter().map(|file| file.name).collect();
                    assert_eq!(fs.problems().unwrap(), Vec::<String>::new());
                    let old = superblock.id() == 7;
                    assert!(if old { names.keys().eq(&found) } else { found.is_empty() }, "step {step} seed {seed}");
                    1 + usize::from(old)
                }
            };
            seen[outcome] += 1;
        }
    }
    assert!(seen.iter().all(|states| *states > 0), "{seen:?}");
}

/// Tests a device on which all requests fail from a given request on. Calls must return errors,
/// never panic or report a false success, and synced data must survive.
#[test]
fn a_disconnected_device_loses_no_synced_data() {
    let image = formatted();
    let run = |requests: u64| -> (u64, usize, CrashDevice) {
        let device = CrashDevice::new(&image);
        let disconnecting = Arc::new(DisconnectedDevice::new(Arc::new(device.clone()), requests));
        let fs = RawFs::new(disconnecting.clone(), "device");
        let mut synced = 0;
        let mut work = || -> std::io::Result<()> {
            let _held = fs.lock(true)?;
            let mut file = fs.create_for("log", FileUse::Log(WalWriteMode::Write))?;
            for number in 1..=40 {
                file.append(&[number; 1000])?;
                file.sync()?;
                synced = usize::from(number) * 1000;
                if number % 8 == 0 {
                    let mut table = fs.create(&format!("{number}"))?;
                    table.append(&[9; 30_000])?;
                    table.sync()?;
                    fs.remove(&format!("{number}"))?;
                }
            }
            Ok(())
        };
        let failed = work().is_err();
        assert!(!failed || disconnecting.left() == 0, "after {requests} requests");
        if failed {
            assert!(fs.create("more").is_err() && fs.sync_directory().is_err(), "after {requests} requests");
        }
        (disconnecting.left(), synced, device)
    };
    let all = u64::MAX - run(u64::MAX).0;
    for requests in 0..all {
        let (_, synced, device) = run(requests);
        assert!(synced < 40_000 || requests + 12 >= all, "after {requests} of {all} requests nothing failed");
        let fs = RawFs::new(Arc::new(CrashDevice::new(&device.now())), "device");
        assert_eq!(fs.problems().unwrap(), Vec::<String>::new(), "after {requests} requests");
        let log = if synced > 0 { read(&fs, "log").unwrap() } else { Vec::new() };
        assert!(log.len() >= synced && log.iter().zip(0..synced).all(|(byte, at)| usize::from(*byte) == at / 1000 + 1));
    }
}

#[test]
fn a_full_device_reports_it_and_takes_more_after_a_removal() {
    let fs = RawFs::new(Arc::new(CrashDevice::new(&formatted())), "device");
    let _held = fs.lock(true).unwrap();
    let free = fs.free_slots().unwrap();
    let fill = |name: &str| {
        let mut file = fs.create(name)?;
        (0..16).try_for_each(|_| file.append(&[1; 8 << 10]))?;
        file.sync()
    };
    let mut made = 0;
    let refused = loop {
        match fill(&format!("{made}")) {
            Ok(()) => made += 1,
            Err(error) => break error,
        }
    };
    assert_eq!((refused.kind(), made), (std::io::ErrorKind::StorageFull, free / 8), "{refused}");
    fs.remove(&format!("{made}")).unwrap();
    fs.remove("0").unwrap();
    fill("again").unwrap();
    assert_eq!(read(&fs, "1").unwrap(), vec![1; 128 << 10]);
    assert_eq!(fs.problems().unwrap(), Vec::<String>::new());
}

/// Tests the reuse of slots. A removed file may reappear after a power cut. It must then have its
/// own bytes, not those of a later file in the same slots.
#[test]
fn slots_are_not_reused_before_the_removal_of_their_file_is_durable() {
    let device = CrashDevice::new(&formatted());
    let fs = RawFs::new(Arc::new(device.clone()), "device");
    let _held = fs.lock(true).unwrap();
    let write = |name: &str, byte: u8, bytes: usize| {
        let mut file = fs.create(name).unwrap();
        file.append(&vec![byte; bytes]).unwrap();
        file
    };
    write("old", 1, 30_000).sync().unwrap();
    write("others", 2, fs.free_slots().unwrap() as usize * (16 << 10)).sync().unwrap();
    let began = device.steps();
    fs.remove("old").unwrap();
    // Only the slots of the removed file are free, so "new" must use them.
    drop(write("new", 3, 30_000));
    let mut seen = [0; 2];
    for step in began..=device.steps() {
        for seed in 0..100 {
            let cut = RawFs::new(Arc::new(CrashDevice::new(&device.power_loss(step, seed))), "cut");
            let is_back = cut.files().unwrap().iter().any(|file| file.name == "old");
            let has_its_own = !is_back || read(&cut, "old").is_ok_and(|bytes| bytes == [1; 30_000]);
            assert!(has_its_own, "ORACLE: step {step} seed {seed}: a file reappeared with the bytes of another");
            seen[usize::from(is_back)] += 1;
        }
    }
    assert!(seen[0] > 50 && seen[1] > 50, "{seen:?}");
}

/// Tests that an open file stays readable after its removal, whatever other data is written in the
/// meantime.
#[test]
fn a_removed_file_keeps_its_slots_while_it_is_open() {
    let fs = RawFs::new(Arc::new(CrashDevice::new(&formatted())), "device");
    let _held = fs.lock(true).unwrap();
    let mut file = fs.create("old").unwrap();
    file.append(&[3; 50_000]).unwrap();
    drop(file);
    let reader = fs.open("old").unwrap();
    fs.remove("old").unwrap();
    fs.sync_directory().unwrap();
    let free = fs.free_slots().unwrap();
    let mut other = fs.create("other").unwrap();
    other.append(&vec![4; free as usize * (16 << 10)]).unwrap();
    other.sync().unwrap();
    assert_eq!(reader.read_at(0, 50_000).unwrap(), [3; 50_000]);
    drop(reader);
    fs.sync_directory().unwrap();
    assert_eq!(fs.free_slots().unwrap(), 4);
}

/// Tests threads that sync, commit, remove and close files at the same time, and that close some
/// files during their removal. There must be no error, no deadlock, and no lost slot.
#[test]
fn concurrent_use_of_a_device_loses_no_slot() {
    let fs = RawFs::new(Arc::new(CrashDevice::new(&formatted())), "device");
    let _held = fs.lock(true).unwrap();
    let free = fs.free_slots().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let fs = &fs;
            scope.spawn(move || {
                for round in 0..400 {
                    let name = format!("{thread}-{round}");
                    let mut file = fs.create(&name).unwrap();
                    file.append(&[thread; 5000]).unwrap();
                    match round % 3 {
                        0 => file.sync().unwrap(),
                        1 => file.write_back().and_then(|()| fs.commit()).unwrap(),
                        _ => fs.sync_directory().unwrap(),
                    }
                    file.append(&[thread; 100]).unwrap();
                    std::thread::scope(|closing| {
                        closing.spawn(move || drop(file));
                        fs.remove(&name).unwrap();
                    });
                }
            });
        }
    });
    fs.commit().unwrap();
    assert_eq!((fs.problems().unwrap(), fs.free_slots().unwrap()), (vec![], free));
}

/// Tests a write that fails while its file is being closed, so that no caller can get the error.
/// No later sync may report this file as durable.
#[test]
fn a_file_whose_last_write_failed_is_not_durable() {
    let device = Failing::new();
    let fs = RawFs::new(device.clone(), "device");
    let _held = fs.lock(true).unwrap();
    let mut file = fs.create("file").unwrap();
    file.append(&[5; 9000]).unwrap();
    device.armed.store(true, SeqCst);
    drop(file);
    assert!(!device.armed.load(SeqCst), "no write was needed");
    let error = fs.sync_file("file").unwrap_err().to_string();
    assert!(error.contains("a file could not be written") && error.contains("one write"), "{error}");
    assert!(fs.sync_directory().is_err() && fs.create("more").is_err());
}

/// Tests that an allocation on a full device waits for slots that another thread is about to free.
#[test]
fn a_device_is_not_full_while_stale_slots_are_discarded() {
    let device = Failing::new();
    let fs = RawFs::new(device.clone(), "device");
    let _held = fs.lock(true).unwrap();
    let room = fs.free_slots().unwrap() as usize * (16 << 10);
    let mut old = fs.create("old").unwrap();
    old.append(&vec![1; room]).unwrap();
    old.sync().unwrap();
    drop(old);
    let (sender, receiver) = mpsc::channel();
    *device.discarding.lock().unwrap() = Some(sender);
    std::thread::scope(|scope| {
        scope.spawn(|| fs.remove("old").and_then(|()| fs.commit()).unwrap());
        receiver.recv().unwrap();
        let mut new = fs.create("new").unwrap();
        new.append(&vec![2; room]).unwrap();
    });
    assert!(read(&fs, "new").unwrap() == vec![2; room]);
}

#[test]
fn the_second_superblock_replaces_an_unreadable_first_one() {
    let device = Failing::new();
    device.unreadable.store(true, SeqCst);
    assert_eq!(RawFs::new(device.clone(), "device").superblock().unwrap().id(), 7);
    device.write_zeroes(64 << 10, 4096).unwrap();
    assert!(RawFs::new(device, "device").superblock().unwrap_err().to_string().contains("page 0"));
}

/// A device with injected failures and delays.
struct Failing {
    inner: CrashDevice,
    /// Whether the next write fails.
    armed: AtomicBool,
    /// Whether a read of byte 0 fails.
    unreadable: AtomicBool,
    /// Channel that is signalled when the next discard begins. That discard then takes long.
    discarding: Mutex<Option<mpsc::Sender<()>>>,
    /// The read-ahead hints that the device received.
    expected: Mutex<Vec<Range<u64>>>,
}

impl Failing {
    fn new() -> Arc<Failing> {
        let (inner, no) = (CrashDevice::new(&formatted()), || AtomicBool::new(false));
        Arc::new(Failing {
            inner,
            armed: no(),
            unreadable: no(),
            discarding: Mutex::default(),
            expected: Mutex::default(),
        })
    }

    fn fail<T>(what: &str) -> terrace_device::Result<T> {
        let source = std::io::Error::other("injected");
        Err(terrace_device::Error::Io { what: what.into(), source })
    }
}

impl BlockDevice for Failing {
    fn len_bytes(&self) -> u64 {
        self.inner.len_bytes()
    }
    fn block_bytes(&self) -> u32 {
        self.inner.block_bytes()
    }
    fn read_at(&self, offset: u64, into: &mut [u8]) -> terrace_device::Result<()> {
        if offset == 0 && self.unreadable.load(SeqCst) {
            Failing::fail("page 0")
        } else {
            self.inner.read_at(offset, into)
        }
    }
    fn expect(&self, offset: u64, len: u64) {
        self.expected.lock().unwrap().push(offset..offset + len);
    }
    fn write_at(&self, offset: u64, bytes: &[u8], stream: Stream) -> terrace_device::Result<()> {
        if self.armed.swap(false, SeqCst) {
            return Failing::fail("one write");
        }
        self.inner.write_at(offset, bytes, stream)
    }
    fn flush(&self) -> terrace_device::Result<()> {
        self.inner.flush()
    }
    fn discard(&self, offset: u64, len: u64) -> terrace_device::Result<()> {
        if let Some(sender) = self.discarding.lock().unwrap().take() {
            sender.send(()).unwrap();
            std::thread::sleep(Duration::from_millis(200));
        }
        self.inner.discard(offset, len)
    }
    fn write_zeroes(&self, offset: u64, len: u64) -> terrace_device::Result<()> {
        self.inner.write_zeroes(offset, len)
    }
}

/// Tests that files with different lifetimes do not share a unit (a group of slots that the drive
/// erases together). The lifetime classes are the root, a WAL, a table of an upper level, a table
/// of a deeper level, and value-log segments.
#[test]
fn each_lifetime_class_has_units_of_its_own() {
    let fs = RawFs::new(Arc::new(CrashDevice::new(&formatted())), "device");
    let _held = fs.lock(true).unwrap();
    let kinds: [(&str, io::Result<Box<dyn WriteFile>>); 5] = [
        ("CURRENT", fs.create("CURRENT")),
        ("000001.log", fs.create_for("000001.log", FileUse::Log(WalWriteMode::Write))),
        ("000002.vlog", fs.create_for("000002.vlog", FileUse::Log(WalWriteMode::Write))),
        ("000003.ldb", fs.create_for("000003.ldb", FileUse::Table { level: 0 })),
        ("000004.ldb", fs.create_for("000004.ldb", FileUse::Table { level: 3 })),
    ];
    for (name, file) in kinds {
        file.unwrap_or_else(|e| panic!("{name}: {e}")).append(&[7; 5000]).unwrap();
    }
    fs.create_for("000005.vals", FileUse::Table { level: 3 }).unwrap().append(&[7; 5000]).unwrap();
    let units: BTreeMap<String, u32> =
        fs.files().unwrap().into_iter().map(|file| (file.name, file.slots[0].start / SIZES.unit_slots)).collect();
    assert_eq!(units.values().collect::<BTreeSet<_>>().len(), 5, "{units:?}");
    assert_eq!(units["000005.vals"], units["000002.vlog"], "segments share units");
}

/// Tests read-ahead hints for the device. They must cover the slots of a file wherever these are,
/// but no unwritten bytes and no bytes after the end of the file.
#[test]
fn read_ahead_hints_reach_the_device() {
    let device = Failing::new();
    let fs = RawFs::new(device.clone(), "device");
    let _held = fs.lock(true).unwrap();
    let slot = u64::from(SIZES.slot_bytes);
    let bytes: Vec<u8> = (0..3 * slot).map(|at| (at % 251) as u8).collect();
    let [mut table, mut other] = ["table", "other"].map(|name| fs.create(name).unwrap());
    for part in bytes.chunks(slot as usize) {
        table.append(part).unwrap();
        // Appends to two files alternate, so that the slots of each file are not adjacent.
        other.append(part).unwrap();
    }
    // Until the files are dropped, their last bytes are only in memory.
    drop((table, other));
    let hints = |name: &str, range: Range<u64>| {
        fs.open(name).unwrap().expect(range.start, range.end - range.start);
        std::mem::take(&mut *device.expected.lock().unwrap())
    };
    let range = slot - 100..2 * slot + 100;
    let found: Vec<u8> = hints("table", range.clone())
        .into_iter()
        .flat_map(|range| {
            let mut part = vec![0; (range.end - range.start) as usize];
            device.read_part(range.start, &mut part).unwrap();
            part
        })
        .collect();
    let wanted = &bytes[range.start as usize..range.end as usize];
    assert!(found == wanted, "{} bytes of {}", found.len(), wanted.len());
    assert_eq!(hints("table", 5 * slot..u64::MAX), Vec::new());
    let mut log = fs.create_for("log", FileUse::Log(WalWriteMode::Write)).unwrap();
    log.append(&bytes[..20_000]).unwrap();
    let pages: u64 = hints("log", 5000..9000).iter().map(|range| range.end - range.start).sum();
    assert!((2 * 4096..=3 * 4096).contains(&pages), "{pages}");
}

/// Tests that a build of several tables in durability mode `sync` needs only one device flush, and
/// that a synced WAL append also needs only one.
#[test]
fn a_sync_is_one_flush() {
    let device = CrashDevice::new(&formatted());
    let fs = RawFs::new(Arc::new(device.clone()), "device");
    let _held = fs.lock(true).unwrap();
    let mut log = fs.create_for("log", FileUse::Log(WalWriteMode::Write)).unwrap();
    // The first change after an open begins a new half of the journal, which needs one more flush.
    // This sync makes that change before the measurement begins.
    log.sync().unwrap();
    fs.sync_directory().unwrap();
    let flushes = |work: &mut dyn FnMut()| {
        let before = device.flushes();
        work();
        device.flushes() - before
    };
    let mut append = || {
        log.append(b"record").unwrap();
        log.sync().unwrap();
        // This sync needs no flush, because nothing was written since the last one.
        fs.sync_directory().unwrap();
    };
    assert_eq!(flushes(&mut append), 1);
    let mut build = || {
        let table = |number: u64| {
            let mut file = fs.create(&format!("{number}")).unwrap();
            file.append(&[7; 5000]).unwrap();
            Finished { name: format!("{number}"), file, bytes: 5000, purpose: Purpose::Flush }
        };
        let handle = SyncTracker.watch(&*fs, (0..5).map(table).collect(), &IoStats::default()).unwrap();
        assert!(handle.is_durable().unwrap());
    };
    assert_eq!(flushes(&mut build), 1);
}
