//! Files on a device without a file system: histories with a power cut at every single request, torn sectors included, and a device
//! that is pulled out. A failure names the history, the step and the seed.
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
use terrace_sim::{CrashDevice, DeviceImage, Yanked};
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

/// Writes history `seed` and cuts the power behind every request. How many states, and the first that was wrong.
fn campaign(device: CrashDevice, seed: u64, seeds: u64) -> (usize, Option<String>) {
    let mut history = History::new(device, seed);
    for round in 0..4 {
        (0..100).for_each(|_| history.act());
        history.kill();
        // Killed again and again, each time before anything was synced: the slot journal changes halves without end.
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
            let outcome = history.judge(step, &fs).and_then(|()| goes_on(&fs));
            if let Err(why) = outcome {
                return (states, Some(format!("history {seed} step {step} seed {cut}: {why}")));
            }
        }
    }
    (states, None)
}

/// The device takes new files, and they are there when it is read again.
fn goes_on(fs: &RawFs) -> Result<(), String> {
    let held = fs.lock(true).map_err(|e| format!("LOCK: {e}"))?;
    let mut file = fs.create("after").map_err(|e| format!("CREATE: {e}"))?;
    file.append(&[7; 9000]).and_then(|()| file.sync()).map_err(|e| format!("WRITE: {e}"))?;
    drop((file, held));
    let _held = fs.lock(true).map_err(|e| format!("LOCK: {e}"))?;
    let problems = fs.problems().map_err(|e| format!("OPEN: again: {e}"))?;
    if read(fs, "after")? != [7; 9000] || !problems.is_empty() {
        return Err(format!("AFTER: what was written then is not there; {problems:?}"));
    }
    Ok(())
}

#[test]
fn a_power_cut_at_any_request_keeps_what_was_promised() {
    let image = formatted();
    let campaigns = (0..12).map(|seed| campaign(CrashDevice::new(&image), seed, 4));
    let (mut states, mut wrong) = (0, None);
    for (some, first) in campaigns {
        states += some;
        wrong = wrong.or(first);
    }
    println!("{states} states");
    assert_eq!(wrong, None, "ORACLE");
    assert!(states > 15_000, "only {states} states: the campaign has shrunk");
}

/// The control: a device whose flushes promise nothing must be found out.
#[test]
fn a_device_that_lies_is_caught() {
    let image = formatted();
    assert!((0..4).any(|seed| campaign(CrashDevice::lying(&image), seed, 2).1.is_some()));
}

/// A device with other things on it, formatted anew: what was there, or a store without files, or no store.
#[test]
fn a_power_cut_during_format_leaves_the_old_store_or_a_new_one_or_none() {
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

/// Every request from one on fails: errors, no panic, no promise; and what was promised is there.
#[test]
fn a_device_that_is_pulled_out_loses_nothing_promised() {
    let image = formatted();
    let run = |requests: u64| -> (u64, usize, CrashDevice) {
        let device = CrashDevice::new(&image);
        let yanked = Arc::new(Yanked::new(Arc::new(device.clone()), requests));
        let fs = RawFs::new(yanked.clone(), "device");
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
        assert!(!failed || yanked.left() == 0, "after {requests} requests");
        if failed {
            assert!(fs.create("more").is_err() && fs.sync_directory().is_err(), "after {requests} requests");
        }
        (yanked.left(), synced, device)
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
fn a_full_device_says_so_and_takes_more_when_something_went() {
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

/// A power cut may bring a removed file back: then it has its own bytes, and not those of who took its slots.
#[test]
fn slots_are_not_used_again_before_their_file_is_gone_for_good() {
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
    drop(write("new", 3, 30_000)); // has nowhere else to go
    let mut seen = [0; 2];
    for step in began..=device.steps() {
        for seed in 0..100 {
            let cut = RawFs::new(Arc::new(CrashDevice::new(&device.power_loss(step, seed))), "cut");
            let is_back = cut.files().unwrap().iter().any(|file| file.name == "old");
            let has_its_own = !is_back || read(&cut, "old").is_ok_and(|bytes| bytes == [1; 30_000]);
            assert!(has_its_own, "ORACLE: step {step} seed {seed}: a file is back with the bytes of another");
            seen[usize::from(is_back)] += 1;
        }
    }
    assert!(seen[0] > 50 && seen[1] > 50, "{seen:?}");
}

/// Somebody who reads a file that is removed goes on reading it, whatever is written meanwhile.
#[test]
fn a_removed_file_keeps_its_slots_while_it_is_read() {
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

/// Files are synced, committed, removed and closed at the same time, some while they are removed: nothing of that is an error, nobody waits for
/// good, and no slot is lost.
#[test]
fn many_use_a_device_at_once() {
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

/// A write that fails when a file is closed, which nobody is told: no later sync promises that file.
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
    let told = fs.sync_file("file").unwrap_err().to_string();
    assert!(told.contains("a file could not be written") && told.contains("one write"), "{told}");
    assert!(fs.sync_directory().is_err() && fs.create("more").is_err());
}

/// Slots that somebody else is about to make free are waited for.
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
    let (tell, told) = mpsc::channel();
    *device.discarding.lock().unwrap() = Some(tell);
    std::thread::scope(|scope| {
        scope.spawn(|| fs.remove("old").and_then(|()| fs.commit()).unwrap());
        told.recv().unwrap();
        let mut new = fs.create("new").unwrap();
        new.append(&vec![2; room]).unwrap();
    });
    assert!(read(&fs, "new").unwrap() == vec![2; room]);
}

#[test]
fn the_second_superblock_makes_up_for_an_unreadable_first() {
    let device = Failing::new();
    device.blind.store(true, SeqCst);
    assert_eq!(RawFs::new(device.clone(), "device").superblock().unwrap().id(), 7);
    device.write_zeroes(64 << 10, 4096).unwrap();
    assert!(RawFs::new(device, "device").superblock().unwrap_err().to_string().contains("page 0"));
}

/// A device that fails, or is slow, where it is told to.
struct Failing {
    below: CrashDevice,
    /// The next write fails.
    armed: AtomicBool,
    /// Byte 0 cannot be read.
    blind: AtomicBool,
    /// Told when the next discard begins, which takes long.
    discarding: Mutex<Option<mpsc::Sender<()>>>,
    /// What somebody said that he would read soon.
    expected: Mutex<Vec<Range<u64>>>,
}

impl Failing {
    fn new() -> Arc<Failing> {
        let (below, no) = (CrashDevice::new(&formatted()), || AtomicBool::new(false));
        Arc::new(Failing { below, armed: no(), blind: no(), discarding: Mutex::default(), expected: Mutex::default() })
    }

    fn fail<T>(what: &str) -> terrace_device::Result<T> {
        let source = std::io::Error::other("injected");
        Err(terrace_device::Error::Io { what: what.into(), source })
    }
}

impl BlockDevice for Failing {
    fn len_bytes(&self) -> u64 {
        self.below.len_bytes()
    }
    fn block_bytes(&self) -> u32 {
        self.below.block_bytes()
    }
    fn read_at(&self, offset: u64, into: &mut [u8]) -> terrace_device::Result<()> {
        if offset == 0 && self.blind.load(SeqCst) { Failing::fail("page 0") } else { self.below.read_at(offset, into) }
    }
    fn expect(&self, offset: u64, len: u64) {
        self.expected.lock().unwrap().push(offset..offset + len);
    }
    fn write_at(&self, offset: u64, bytes: &[u8], stream: Stream) -> terrace_device::Result<()> {
        if self.armed.swap(false, SeqCst) {
            return Failing::fail("one write");
        }
        self.below.write_at(offset, bytes, stream)
    }
    fn flush(&self) -> terrace_device::Result<()> {
        self.below.flush()
    }
    fn discard(&self, offset: u64, len: u64) -> terrace_device::Result<()> {
        if let Some(told) = self.discarding.lock().unwrap().take() {
            told.send(()).unwrap();
            std::thread::sleep(Duration::from_millis(200));
        }
        self.below.discard(offset, len)
    }
    fn write_zeroes(&self, offset: u64, len: u64) -> terrace_device::Result<()> {
        self.below.write_zeroes(offset, len)
    }
}

/// What a drive erases at a time dies together: the root, a log, a table that is soon merged, one that is not, and segments of values share none.
#[test]
fn each_lifetime_has_a_unit() {
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
    assert_eq!(units["000005.vals"], units["000002.vlog"], "values with values");
}

/// In whichever slots it lies; of what is not written yet, and of what lies behind the end, nothing.
#[test]
fn what_will_be_read_is_asked_of_the_device() {
    let device = Failing::new();
    let fs = RawFs::new(device.clone(), "device");
    let _held = fs.lock(true).unwrap();
    let slot = u64::from(SIZES.slot_bytes);
    let bytes: Vec<u8> = (0..3 * slot).map(|at| (at % 251) as u8).collect();
    let [mut table, mut other] = ["table", "other"].map(|name| fs.create(name).unwrap());
    for part in bytes.chunks(slot as usize) {
        table.append(part).unwrap();
        other.append(part).unwrap(); // so that slots do not follow one another
    }
    drop((table, other)); // what was written last is in memory until then
    let asked = |name: &str, range: Range<u64>| {
        fs.open(name).unwrap().expect(range.start, range.end - range.start);
        std::mem::take(&mut *device.expected.lock().unwrap())
    };
    let range = slot - 100..2 * slot + 100;
    let found: Vec<u8> = asked("table", range.clone())
        .into_iter()
        .flat_map(|range| {
            let mut part = vec![0; (range.end - range.start) as usize];
            device.read_part(range.start, &mut part).unwrap();
            part
        })
        .collect();
    let wanted = &bytes[range.start as usize..range.end as usize];
    assert!(found == wanted, "{} bytes of {}", found.len(), wanted.len());
    assert_eq!(asked("table", 5 * slot..u64::MAX), Vec::new());
    let mut log = fs.create_for("log", FileUse::Log(WalWriteMode::Write)).unwrap();
    log.append(&bytes[..20_000]).unwrap();
    let pages: u64 = asked("log", 5000..9000).iter().map(|range| range.end - range.start).sum();
    assert!((2 * 4096..=3 * 4096).contains(&pages), "{pages}");
}

/// A build of several tables under tier `sync`, and a synced log: one flush each.
#[test]
fn a_sync_is_one_flush() {
    let device = CrashDevice::new(&formatted());
    let fs = RawFs::new(Arc::new(device.clone()), "device");
    let _held = fs.lock(true).unwrap();
    let mut log = fs.create_for("log", FileUse::Log(WalWriteMode::Write)).unwrap();
    log.sync().unwrap(); // the first record begins a half of the journal, with a flush of its own
    fs.sync_directory().unwrap();
    let flushes = |work: &mut dyn FnMut()| {
        let before = device.flushes();
        work();
        device.flushes() - before
    };
    let mut append = || {
        log.append(b"record").unwrap();
        log.sync().unwrap();
        fs.sync_directory().unwrap(); // nothing was written since
    };
    assert_eq!(flushes(&mut append), 1);
    let mut build = || {
        let table = |number: u64| {
            let mut file = fs.create(&format!("{number}")).unwrap();
            file.append(&[7; 5000]).unwrap();
            Finished { name: format!("{number}"), file, bytes: 5000, purpose: Purpose::Flush }
        };
        let ticket = SyncTracker.watch(&*fs, (0..5).map(table).collect(), &IoStats::default()).unwrap();
        assert!(ticket.is_durable().unwrap());
    };
    assert_eq!(flushes(&mut build), 1);
}
