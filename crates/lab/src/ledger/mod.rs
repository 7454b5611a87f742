//! The ledger counts bytes, syncs and resources at each layer below the user. Its source is the
//! kernel, not the engine.
//!
//! ```text
//! user ─▶ engine ─▶ process ─▶ file system ─▶ block device ─▶ flash
//! ```
//!
//! | module | layer | source |
//! |---|---|---|
//! | `process` | process | `/proc/self/io`, `getrusage`, `/proc/self/task` |
//! | `memory` | process | `/proc/self/status`; the kernel's peak is reset before each measurement |
//! | `space` | store | the sizes of the store's files |
//! | `block` | device, flash | `/sys/class/block/X/stat`, ext4, jbd2; a virtual SSD's counters |
//! | `flash` | flash | the counters of a real drive |
//! | `causes` | device | ext4's and the block layer's tracepoints; `layout` for existing files |
//! | `syncs` | file system | ext4's tracepoints in a private tracefs instance |
//! | `settle` | all | detection of the end of background work |
//!
//! A [`Ledger`] counts this process, so each cell (one engine in one round) is a separate process.
//! The difference of two [`Reading`]s is a [`LedgerDelta`]. A figure that cannot be counted is
//! `None`, and a note gives the reason. The work of the ledger's own threads is excluded from
//! every figure, but the memory of these threads is included. The ledger needs one byte per block
//! of the device, the path of each file, and some MiB for the kernel's trace text.
mod block;
mod causes;
mod entry_files;
mod flash;
mod layout;
mod memory;
mod names;
mod own_threads;
pub(crate) mod process;
mod settle;
mod space;
mod syncs;
mod trace;
mod tracefs;

pub use memory::{PeakMemory, Peaks};
pub use settle::{Settled, settle};
pub use space::{PeakSpace, device_bytes, space};
pub use tracefs::remove_stale;

use crate::target::SyncCount;
use block::{BlockCounters, BlockDevice, DriveCounters};
pub use causes::CAUSES;
use causes::{Causes, Writes};
use flash::Flash;
use process::{Cpu, Io, NamedThread};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};
use syncs::{SyncReading, Syncs};
use terrace_device::{smart, ssd::Cause};

/// Maximum relative difference between two independent counters of the same bytes, as 1/n. With a
/// larger difference, the figures are unreliable and are not reported.
const COUNTERS_MAY_DIFFER: u64 = 1000;
/// Maximum share of the device's written bytes that may belong to files outside the store, as 1/n.
/// With a larger share, the figures are not reported.
const OTHERS_MAY_WRITE: u64 = 100;
/// Maximum share of the device's bytes that may have no known cause, as 1/n. With a larger share,
/// the other causes are not reported.
const MAY_BE_UNKNOWN: u64 = 100;
/// Number of bytes by which two counters may differ in every comparison. The bytes are a few
/// blocks that are being written, or an update of a superblock.
const NEGLIGIBLE_BYTES: u64 = 64 << 10;
/// Maximum number of attempts to read the device's counter and the trace without a write to the
/// device between the two reads. Such a write would make the two counts differ.
const MARKS_MAX: usize = 10;

/// Counts the I/O and the resources of this process, of the device under its store, and of its
/// syncs.
pub struct Ledger {
    dir: PathBuf,
    device: Option<BlockDevice>,
    writes: Option<Writes>,
    flash: Option<Flash>,
    syncs: Option<Syncs>,
    notes: Vec<String>,
}

/// The values of all counters of a ledger at one moment.
#[derive(Clone, Debug)]
pub struct Reading {
    io: Option<Io>,
    cpu: Cpu,
    threads: Option<BTreeMap<i32, NamedThread>>,
    block: Option<BlockCounters>,
    causes: Option<Causes>,
    syncs: Option<SyncReading>,
    notes: Vec<String>,
}

/// Flash counters of a real drive, or the reason why they are unknown.
type DriveReading = Result<smart::Reading, String>;

/// Differences between two readings of a ledger.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LedgerDelta {
    /// Bytes that this process dirtied and that the kernel has written or will write. Cancelled
    /// writes, of files that were deleted or truncated first, are subtracted. The figure is unknown
    /// if it exceeds the bytes written to the device. It can exceed them because the kernel charges
    /// a whole folio of the page cache, of up to 2 MiB, to a process that writes a part of the
    /// folio.
    pub process_write_bytes: Option<u64>,
    /// Bytes that this process dirtied and that were cancelled before they were written to a
    /// device. If `process_write_bytes` is unknown, this figure is unknown, too, because the same
    /// counter is wrong.
    pub never_written_bytes: Option<u64>,
    /// Bytes read from storage for this process; reads from the page cache are not included.
    pub process_read_bytes: Option<u64>,
    /// Bytes written to the block device, by all processes.
    pub device_write_bytes: Option<u64>,
    /// `device_write_bytes` by cause, from the kernel's trace. The causes are kinds of files (the
    /// first write to a block), `rewritten` (later writes to the block), `directory`, `metadata`,
    /// `journal`, `elsewhere` (files outside the store) and `unknown` (the file was deleted before
    /// its name was looked up). The trace and `device_write_bytes` are independent counts. If their
    /// sums differ, or if too much is `unknown`, the causes are omitted and a note gives the
    /// reason.
    pub device_by_cause: Option<BTreeMap<String, u64>>,
    /// The bytes of cause `rewritten` in `device_by_cause`, by the kind of the file. This figure is
    /// known only if `device_by_cause` is known.
    pub device_rewritten_by_kind: Option<BTreeMap<String, u64>>,
    /// Bytes read from the block device, by all processes.
    pub device_read_bytes: Option<u64>,
    /// Cache flush commands sent to the device.
    pub device_flushes: Option<u64>,
    /// Transactions committed by the file system's journal.
    pub journal_commits: Option<u64>,
    /// Bytes of the write commands that a virtual SSD received, by its own count.
    pub drive_write_bytes: Option<u64>,
    /// Bytes programmed into flash. They are exact for a virtual SSD. A real drive counts in coarse
    /// units, if at all.
    pub nand_bytes: Option<u64>,
    /// `nand_bytes` by cause ([`Cause::name`]), on a virtual SSD.
    pub nand_by_cause: Option<BTreeMap<String, u64>>,
    /// Bytes that ext4 wrote to the device, by its own count. ext4 counts from the mount and rounds
    /// down to KiB; the figure is the difference of two such counts.
    pub fs_session_write: Option<u64>,
    /// Finished syncs of this process by kind (`tables manifest log value_log root directory
    /// filesystem other`, and `unknown` for a file that was deleted before its name was looked up).
    /// `blocking` equals the number of all syncs: each sync blocks the thread that calls it, and
    /// the kernel does not show whether other threads wait for this thread.
    pub syncs_outside: Option<BTreeMap<String, SyncCount>>,
    /// Reason why the differences between the two readings must not be reported: independent
    /// counters disagree, or other programs wrote to the device.
    pub trouble: Option<String>,
    /// Seconds of processor time in user mode.
    pub cpu_user: f64,
    /// Seconds of processor time in kernel mode.
    pub cpu_system: f64,
    /// Seconds of processor time of the threads that are still running, by thread name.
    pub cpu_by_thread: Option<BTreeMap<String, f64>>,
    /// Reasons for missing figures, and remarks.
    pub notes: Vec<String>,
}

impl Ledger {
    /// Starts to count the I/O of this process. The store of the process is in `dir`, which must
    /// exist, on the block device `device_node`.
    ///
    /// Without `device_node`, the figures of the device remain `None`. The caller passes it only if
    /// no other process writes to that device. The ledger covers the threads that exist at this
    /// call and the threads that those start later. The caller therefore opens the ledger before
    /// the engine.
    pub fn open(dir: &Path, device_node: Option<&Path>) -> Ledger {
        let mut notes = Vec::new();
        let device = device_node.and_then(|node| BlockDevice::open(node).map_err(|why| notes.push(why)).ok());
        let writes = device
            .as_ref()
            .and(device_node)
            .and_then(|node| Writes::start(dir, node).map_err(|why| notes.push(causes_unknown(why))).ok());
        let flash = device.as_ref().and_then(|device| device.flash().map_err(|why| notes.push(why)).ok().flatten());
        let syncs = Syncs::start(dir).map_err(|why| notes.push(format!("syncs are not counted by the kernel: {why}")));
        Ledger { dir: dir.to_owned(), device, writes, flash, syncs: syncs.ok(), notes }
    }

    /// Reads all counters. The call waits until all events of the kernel's trace are read. If the
    /// device receives writes in this time, the call reads the counters of the device several
    /// times.
    pub fn mark(&self) -> Reading {
        let mut notes = self.notes.clone();
        let (block, causes) = self.mark_device(&mut notes);
        Reading {
            io: process::io(),
            cpu: process::cpu(),
            threads: process::threads_named(),
            block,
            causes,
            syncs: self.syncs.as_ref().and_then(|syncs| syncs.read().map_err(|why| notes.push(why)).ok()),
            notes,
        }
    }

    /// Reads the flash counters of a real drive. Returns `None` if there is no real drive. The call
    /// runs other programs, and the kernel charges their reads to this process. To exclude these
    /// reads, the caller makes this call before the first [`mark`](Self::mark) and after the last.
    pub fn query_drive(&self) -> Option<DriveReading> {
        self.flash.as_ref().map(Flash::read)
    }

    /// Reads two counts of the bytes written to the device: the device's own counter, and the
    /// trace's bytes by cause. The two must agree, so both are read again if the device received a
    /// write between the two reads.
    fn mark_device(&self, notes: &mut Vec<String>) -> (Option<BlockCounters>, Option<Causes>) {
        let block = || self.device.as_ref().map(BlockDevice::read).transpose();
        let causes = || self.writes.as_ref().map(Writes::read).transpose();
        let (mut counters, mut traced) = (block(), causes());
        for _ in 0..MARKS_MAX {
            let again = block();
            if again == counters {
                break;
            }
            (counters, traced) = (again, causes());
        }
        (
            counters.map_err(|why| notes.push(why)).ok().flatten(),
            traced.map_err(|why| notes.push(causes_unknown(why))).ok().flatten(),
        )
    }
}

fn causes_unknown(why: String) -> String {
    format!("the causes of the device's bytes are unknown: {why}")
}

impl Reading {
    /// Returns the differences since `earlier`, an earlier reading of this ledger.
    pub fn since(&self, earlier: &Reading) -> LedgerDelta {
        let mut delta = LedgerDelta {
            cpu_user: (self.cpu.user - earlier.cpu.user).max(0.0),
            cpu_system: (self.cpu.system - earlier.cpu.system).max(0.0),
            cpu_by_thread: self
                .threads
                .as_ref()
                .zip(earlier.threads.as_ref())
                .map(|(now, then)| process::by_name(then, now)),
            notes: self.notes.clone(),
            ..LedgerDelta::default()
        };
        match (&self.io, &earlier.io) {
            (Some(now), Some(then)) => delta.add_io(now, then),
            _ => delta.notes.push("/proc/self/io cannot be read: bytes of the process are not counted".into()),
        }
        if let (Some(now), Some(then)) = (&self.block, &earlier.block) {
            delta.add_block(now, then);
            delta.doubt_io();
        }
        if let (Some(now), Some(then)) = (&self.causes, &earlier.causes) {
            delta.add_causes(now, then);
        }
        if let (Some(now), Some(then)) = (&self.syncs, &earlier.syncs) {
            delta.syncs_outside = Some(now.since(then, &mut delta.notes));
        }
        delta
    }
}

impl LedgerDelta {
    fn add_io(&mut self, now: &Io, then: &Io) {
        self.process_read_bytes = Some(now.read_bytes.saturating_sub(then.read_bytes));
        let written = now.write_bytes.saturating_sub(then.write_bytes);
        let cancelled = now.cancelled_write_bytes.saturating_sub(then.cancelled_write_bytes);
        if cancelled > written {
            self.notes.push(format!("{} B more were cancelled than written, from earlier work", cancelled - written));
        }
        self.process_write_bytes = Some(written.saturating_sub(cancelled));
        self.never_written_bytes = Some(cancelled);
    }

    /// Sets the bytes written by the process to unknown if they exceed the bytes written to the
    /// device. Such a count must be wrong: before the ledger reads its counters, a sync ends the
    /// wait for background work, so all bytes that the process dirtied and did not cancel have
    /// reached the device.
    fn doubt_io(&mut self) {
        let (Some(process), Some(device)) = (self.process_write_bytes, self.device_write_bytes) else { return };
        if process > device + device / COUNTERS_MAY_DIFFER + NEGLIGIBLE_BYTES {
            (self.process_write_bytes, self.never_written_bytes) = (None, None);
            self.notes.push(format!(
                "the kernel charged {process} B to this process, but {device} B were written to the device: probably whole \
                 folios of the page cache for partial writes. The bytes of the process, and those never written, are unknown"
            ));
        }
    }

    fn add_causes(&mut self, now: &Causes, then: &Causes) {
        let Causes { bytes: causes, rewritten } = now.since(then);
        let Some(device) = self.device_write_bytes else { return };
        let sum = causes.values().sum::<u64>();
        self.compare_with("the kernel's trace", sum);
        let others = causes.get("elsewhere").copied().unwrap_or(0);
        if others > device / OTHERS_MAY_WRITE + NEGLIGIBLE_BYTES {
            let share = 100.0 * others as f64 / device as f64;
            self.trouble = Some(format!("others wrote {others} B to the device, {share:.1} % of all"));
        }
        let unknown = causes.get("unknown").copied().unwrap_or(0);
        // This comparison does not allow for [`NEGLIGIBLE_BYTES`], because the bytes of all causes
        // must add up to the bytes of the device.
        if sum.abs_diff(device) > device / COUNTERS_MAY_DIFFER {
            self.notes.push(format!("the trace shows {sum} B written to the device, the device's counter {device} B"));
        } else if unknown > device / MAY_BE_UNKNOWN + NEGLIGIBLE_BYTES {
            self.notes.push(causes_unknown(format!("{unknown} of {device} B have no cause")));
        } else {
            self.device_by_cause = Some(causes);
            self.device_rewritten_by_kind = Some(rewritten);
        }
    }

    /// Compares the bytes written to the device with `saw`, which is the same figure by another
    /// counter. If the two differ by more than the tolerance, the figures must not be reported.
    fn compare_with(&mut self, counter: &str, saw: u64) {
        let Some(device) = self.device_write_bytes else { return };
        if saw.abs_diff(device) > device / COUNTERS_MAY_DIFFER + NEGLIGIBLE_BYTES {
            self.trouble =
                Some(format!("{counter} shows {saw} B written to the device, the kernel's counter {device} B"));
        }
    }

    fn add_block(&mut self, now: &BlockCounters, then: &BlockCounters) {
        let both = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        self.device_write_bytes = Some(now.write_bytes.saturating_sub(then.write_bytes));
        self.device_read_bytes = Some(now.read_bytes.saturating_sub(then.read_bytes));
        self.device_flushes = both(now.flushes, then.flushes);
        self.journal_commits = both(now.journal_commits, then.journal_commits);
        self.fs_session_write = both(now.session_write_bytes, then.session_write_bytes);
        if let (Some(now), Some(then)) = (&now.drive, &then.drive) {
            self.add_drive(now, then);
        }
        // ext4 does not count writes that bypass the file system. Its count can therefore be below
        // the device's count, but not above it.
        if let (Some(session), Some(device)) = (self.fs_session_write, self.device_write_bytes)
            && session > device + device / COUNTERS_MAY_DIFFER + NEGLIGIBLE_BYTES
        {
            self.trouble = Some(format!("ext4 wrote {session} B by its own count, the device {device} B"));
        }
    }

    /// Adds the number of bytes that a real drive programmed into flash. `then` was read before the
    /// ledger's first reading, `now` after the second one.
    pub fn add_flash(&mut self, then: DriveReading, now: DriveReading) {
        let Some(device) = self.device_write_bytes else { return };
        let programmed = now.and_then(|now| flash::programmed(&now, &then?, device));
        self.nand_bytes = programmed.map_err(|why| self.notes.push(format!("WA2 is unknown: {why}"))).ok();
    }

    fn add_drive(&mut self, now: &DriveCounters, then: &DriveCounters) {
        let written = now.write_bytes.saturating_sub(then.write_bytes);
        let nand = now.nand_bytes.saturating_sub(then.nand_bytes);
        let grown = now.nand_by_cause.iter().zip(then.nand_by_cause).map(|(now, then)| now.saturating_sub(then));
        let causes: BTreeMap<String, u64> = Cause::ALL.iter().map(|cause| cause.name().into()).zip(grown).collect();
        let sum = causes.values().sum::<u64>();
        self.drive_write_bytes = Some(written);
        self.nand_bytes = Some(nand);
        self.compare_with("the drive's counter", written);
        // The drive computes its total from its counts by cause. The comparison of the total with
        // their sum therefore checks only that the drive's report was read correctly.
        if sum != nand && self.trouble.is_none() {
            self.trouble =
                Some(format!("the drive programmed {nand} B by one counter, {sum} B by the sum over causes"));
        }
        self.nand_by_cause = Some(causes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(write_bytes: u64, cancelled_write_bytes: u64, device: u64) -> Reading {
        Reading {
            io: Some(Io { write_bytes, cancelled_write_bytes, ..Io::default() }),
            cpu: Cpu::default(),
            threads: None,
            block: Some(BlockCounters { write_bytes: device, flushes: Some(device / 10), ..BlockCounters::default() }),
            causes: Some(causes([("log", device), ("journal", 7)])),
            syncs: None,
            notes: Vec::new(),
        }
    }

    fn causes<const N: usize>(bytes: [(&str, u64); N]) -> Causes {
        Causes { bytes: bytes.map(|(cause, bytes)| (cause.to_owned(), bytes)).into(), ..Causes::default() }
    }

    #[test]
    fn a_delta_is_the_difference_and_missing_stays_missing() {
        let delta = reading(900, 100, 50).since(&reading(100, 50, 20));
        assert_eq!(delta.process_write_bytes, Some(750));
        assert_eq!((delta.device_write_bytes, delta.device_flushes), (Some(30), Some(3)));
        assert_eq!((delta.journal_commits, delta.syncs_outside), (None, None));
        assert_eq!((delta.device_by_cause, delta.never_written_bytes), (Some([("log".into(), 30)].into()), Some(50)));
        assert!(delta.notes.is_empty(), "{:?}", delta.notes);
    }

    #[test]
    fn a_process_count_above_the_device_count_is_unknown() {
        const MIB: u64 = 1 << 20;
        let delta = |device| reading(1000 * MIB, 100 * MIB, device).since(&reading(0, 0, 0));
        let known = |delta: &LedgerDelta| (delta.process_write_bytes, delta.never_written_bytes);
        let right = delta(900 * MIB);
        assert_eq!(known(&right), (Some(900 * MIB), Some(100 * MIB)));
        assert!(!right.notes.iter().any(|note| note.contains("charged")), "{:?}", right.notes);
        let wrong = delta(898 * MIB);
        assert_eq!((known(&wrong), wrong.trouble), ((None, None), None));
        assert!(wrong.notes.iter().any(|note| note.contains("charged 943718400 B")), "{:?}", wrong.notes);
        let unseen = Reading { block: None, ..reading(1000, 100, 0) }.since(&reading(0, 0, 0));
        assert_eq!(known(&unseen), (Some(900), Some(100)), "without a device there is no second counter");
    }

    #[test]
    fn disagreeing_counters_are_reported() {
        let mut later = reading(900, 100, 50);
        later.causes = Some(causes([("log", 49)]));
        let delta = later.since(&reading(100, 50, 20));
        assert_eq!(delta.device_by_cause, None);
        assert!(delta.notes.iter().any(|note| note.contains("29 B") && note.contains("30 B")), "{:?}", delta.notes);
    }

    #[test]
    fn causes_with_many_unknown_bytes_are_dropped() {
        let later = |unknown: u64| Reading {
            causes: Some(causes([("tables", (1 << 30) - unknown), ("unknown", unknown)])),
            ..reading(0, 0, 1 << 30)
        };
        let delta = |unknown| later(unknown).since(&Reading { causes: Some(Causes::default()), ..reading(0, 0, 0) });
        assert_eq!(delta(1 << 23).device_by_cause.expect("known")["unknown"], 1 << 23);
        let much = delta(1 << 24);
        assert_eq!((much.device_by_cause, much.trouble), (None, None));
        assert!(much.notes.iter().any(|note| note.contains("16777216 of 1073741824 B")), "{:?}", much.notes);
    }

    #[test]
    fn contradicted_figures_are_marked_as_unreliable() {
        struct Counts {
            device: u64,
            drive: u64,
            session: u64,
            traced: u64,
            elsewhere: u64,
        }
        let later = |counts: Counts| {
            let counters = BlockCounters {
                write_bytes: counts.device,
                drive: Some(DriveCounters { write_bytes: counts.drive, ..DriveCounters::default() }),
                session_write_bytes: Some(counts.session),
                ..BlockCounters::default()
            };
            let own = counts.traced - counts.elsewhere;
            let causes = causes([("log", own), ("elsewhere", counts.elsewhere)]);
            Reading { block: Some(counters), causes: Some(causes), ..reading(0, 0, 0) }
        };
        let all = |bytes| Counts { device: bytes, drive: bytes, session: bytes, traced: bytes, elsewhere: 0 };
        let trouble = |counts| later(counts).since(&later(all(0))).trouble;
        const GIB: u64 = 1 << 30;
        let (near, far) = (GIB + GIB / 2000, GIB + GIB / 500);
        let agreed = Counts { drive: near, session: near, traced: near, elsewhere: GIB / 200, ..all(GIB) };
        assert_eq!(trouble(agreed), None);
        for (counts, why) in [
            (Counts { drive: far, ..all(GIB) }, "the drive's counter shows"),
            (Counts { traced: far, ..all(GIB) }, "the kernel's trace shows"),
            (Counts { traced: GIB - GIB / 500, ..all(GIB) }, "the kernel's trace shows"),
            (Counts { session: far, ..all(GIB) }, "by its own count"),
            (Counts { elsewhere: GIB / 50, ..all(GIB) }, "2.0 % of all"),
        ] {
            let reported = trouble(counts).unwrap_or_default();
            assert!(reported.contains(why), "{reported:?}, not {why}");
        }
        assert_eq!(trouble(Counts { device: 1000, ..all(0) }), None, "a block in flight is within tolerance");
    }

    #[test]
    fn flash_bytes_are_fully_split_by_cause() {
        let drive = |nand_bytes, nand_by_cause| DriveCounters { write_bytes: 0, nand_bytes, nand_by_cause };
        let at = |drive| Reading {
            block: Some(BlockCounters { drive: Some(drive), ..BlockCounters::default() }),
            ..reading(0, 0, 0)
        };
        let delta = at(drive(100, [60, 30, 0, 10])).since(&at(drive(10, [10, 0, 0, 0])));
        let causes = [("host", 50), ("gc", 30), ("wear_levelling", 0), ("padding", 10)];
        assert_eq!(delta.nand_by_cause, Some(causes.map(|(cause, bytes)| (cause.to_owned(), bytes)).into()));
        assert_eq!((delta.nand_bytes, delta.trouble), (Some(90), None));
        let delta = at(drive(100, [60, 30, 0, 9])).since(&at(drive(10, [10, 0, 0, 0])));
        assert!(delta.trouble.is_some_and(|why| why.contains("90 B") && why.contains("89 B")));
    }

    #[test]
    fn flash_of_a_real_drive_is_reported_or_the_reason() {
        let counter = |bytes| smart::Told { bytes, unit_bytes: 1, from: "a test".into(), is_average: false };
        let reading = |host, nand| smart::Reading {
            model: "model".into(),
            serial: None,
            host: Some(counter(host)),
            nand: Ok(counter(nand)),
        };
        let delta = |then, now| {
            let mut delta = LedgerDelta { device_write_bytes: Some(1000), ..LedgerDelta::default() };
            delta.add_flash(then, now);
            (delta.nand_bytes, delta.notes.concat())
        };
        assert_eq!(delta(Ok(reading(5, 7)), Ok(reading(1005, 2007))), (Some(2000), String::new()));
        for (then, now) in
            [(Err("no tool".to_owned()), Ok(reading(1005, 2007))), (Ok(reading(5, 7)), Err("no tool".to_owned()))]
        {
            assert_eq!(delta(then, now), (None, "WA2 is unknown: no tool".to_owned()));
        }
    }

    #[test]
    fn cancelling_earlier_bytes_is_noted_and_never_negative() {
        let delta = reading(110, 100, 0).since(&reading(100, 50, 0));
        assert_eq!(delta.process_write_bytes, Some(0));
        assert!(delta.notes[0].contains("40 B more"), "{:?}", delta.notes);
    }
}
