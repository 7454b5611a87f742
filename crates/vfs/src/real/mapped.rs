//! A WAL to which records are appended without a system call for each. The file is allocated in
//! windows (ranges of 1 to 4 MiB). Each window is mapped while it is filled, and a thread prepares
//! the next windows in the meantime; see [`Ahead`].
//!
//! Until the WAL is ended, and after a kill, the file is longer than the appended bytes and ends
//! in zeros. Every WAL reader takes the zeros as the end of the WAL.
//!
//! A window is divided into stretches of 64 to 256 KiB. The first sync in a stretch fills the
//! whole stretch with zeros. After that, the sync of a record in this stretch changes no metadata
//! of the file, so it costs a device flush but no journal commit.
use super::{
    ahead::Ahead,
    file::Writing,
    span::{Span, WINDOW_MIN},
};
use crate::{
    file::WriteFile,
    kernel::{self, Window},
    process::Process,
};
use nix::{
    errno::Errno,
    sys::statfs::{EXT4_SUPER_MAGIC, FsType, TMPFS_MAGIC, fstatfs},
};
use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
};

/// The minimum size of a stretch (a part of a window that is filled with zeros together). The size
/// of every stretch is a multiple of this number, and so is the size of a window.
const FILL_MIN: usize = 64 << 10;
/// The maximum size of a stretch (a part of a window that is filled with zeros together). The size
/// of a window is a multiple of this number.
const FILL_MAX: usize = 256 << 10;
/// A stretch (a part of a mapped window that is filled with zeros together) is made long enough
/// for the records of this number of syncs, up to the maximum size. The number is a compromise.
/// The first sync in a stretch costs a journal commit and takes several times as long as the later
/// syncs in it; but the longer the stretch, the longer this first sync takes.
const FILL_SYNCS: u64 = 100;
/// When the writer has filled this many bytes of the first window (mapped range of the WAL), it
/// requests the next windows from the thread that prepares windows. It requests later windows
/// whenever it has filled a window. If the WAL was synced while the current window was open, the
/// writer requests none, because the bytes of prepared windows would be written to the device
/// twice.
const ASK_BYTES: u64 = WINDOW_MIN / 4;
/// A record of at least this many bytes is written by a system call. A system call costs less than
/// a page fault for each page.
const CALL_BYTES: usize = 16 << 10;
/// The file systems on which WALs are mapped: those that rewrite an allocated page in place.
/// Another file system may have to allocate new space for the page, which a full disk does not
/// have.
const IN_PLACE: [FsType; 3] = [EXT4_SUPER_MAGIC, XFS_MAGIC, TMPFS_MAGIC];
/// The magic number of XFS, the letters "XFSB". Not every C library declares it.
const XFS_MAGIC: FsType = FsType(0x5846_5342);

/// The file of a WAL while it grows.
pub(super) struct MappedFile {
    file: Arc<File>,
    window: Option<Open>,
    ahead: Ahead,
    /// Number of appended bytes.
    bytes: u64,
    /// Number of appended bytes at the last sync.
    synced: AtomicU64,
    /// Whether the writer uses no windows, because this file system does not support them. A system
    /// call then writes every record.
    calls_only: bool,
    /// Whether the file was ended: nothing is appended any more.
    ended: bool,
    /// The only process that writes the file. A forked child must not touch the mapped parts,
    /// because the parent may truncate the file, and the parts would then disappear.
    process: Process,
}

struct Open {
    window: Window,
    /// The offset of the window in the file. It is a multiple of the window's size.
    from: u64,
    /// Whether the window (mapped range of the WAL) was prepared in advance, so that the page cache
    /// contains it in large folios (groups of pages). In such a window, a write through the mapping
    /// after a sync would make the next sync write a whole folio, of up to 128 KiB.
    zeroed: bool,
    /// The offset in the window up to which it was filled with zeros. It is a multiple of
    /// [`FILL_MIN`], and 0 before the first sync.
    filled: AtomicUsize,
}

impl MappedFile {
    /// Returns whether the file system of `file` supports mapped WALs safely.
    pub fn fits(file: &File) -> io::Result<bool> {
        Ok(IN_PLACE.contains(&fstatfs(file)?.filesystem_type()))
    }

    /// Makes a WAL in `file`, which must be empty and open for reading and writing.
    pub fn new(file: File) -> MappedFile {
        let file = Arc::new(file);
        MappedFile {
            ahead: Ahead::new(file.clone()),
            file,
            window: None,
            bytes: 0,
            synced: AtomicU64::new(0),
            calls_only: false,
            ended: false,
            process: Process::current(),
        }
    }

    fn call(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.ahead.wait_below(self.bytes + bytes.len() as u64);
        self.file.write_all_at(bytes, self.bytes)?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Moves to the next window (mapped range of the WAL), if the file system provides one. If the
    /// disk has no room for a window, the WAL continues without one: the disk may still have room
    /// for the record, which a system call then writes.
    fn advance(&mut self) -> io::Result<()> {
        let full = self.window.take();
        let span = Span::of(self.bytes);
        let ready = self.ahead.take(span.from);
        let zeroed = ready.is_some();
        match ready.map_or_else(|| Window::map(&self.file, span.from, span.bytes), Ok) {
            Ok(window) => self.window = Some(Open { window, from: span.from, zeroed, filled: AtomicUsize::new(0) }),
            Err(e) if is_refusal(&e) => self.calls_only = true,
            Err(e) if e.kind() == io::ErrorKind::StorageFull => {}
            Err(e) => return Err(e),
        }
        if let Some(full) = full {
            if !full.is_synced() && self.window.is_some() {
                self.ahead.ask(span.end()); // without syncs, the next windows fill soon
            }
            self.ahead.let_go(full.window);
        }
        Ok(())
    }

    /// Returns how many of the record's remaining `left` bytes a system call must write. Returns
    /// `None` if these bytes must be copied into the mapped window instead.
    fn by_call(&self, left: usize) -> Option<usize> {
        match &self.window {
            Some(open) if left < CALL_BYTES => {
                (open.zeroed && open.is_synced()).then(|| left.min((open.end() - self.bytes) as usize))
            }
            _ => Some(left),
        }
    }
}

impl Open {
    fn end(&self) -> u64 {
        self.from + self.window.bytes().get() as u64
    }

    fn holds(&self, at: u64) -> bool {
        (self.from..self.end()).contains(&at)
    }

    fn is_synced(&self) -> bool {
        self.filled.load(Relaxed) > 0
    }

    /// Fills the stretch (part of the mapped window) that contains offset `at`, the end of the WAL,
    /// with zeros. Does nothing if this stretch was filled before. `added` is the number of bytes
    /// appended since the last sync.
    fn fill(&self, at: u64, added: u64) {
        let at = (at - self.from) as usize;
        if at <= self.filled.load(Relaxed) {
            return;
        }
        let begin = at - at % FILL_MIN;
        let stretch =
            (added * FILL_SYNCS).clamp(FILL_MIN as u64, FILL_MAX as u64).next_multiple_of(FILL_MIN as u64) as usize;
        let to = (begin + stretch).min(self.window.bytes().get());
        self.filled.store(to, Relaxed);
        let is_of_use = at as u64 + added <= to as u64; // useful for a next sync of the same size
        if is_of_use && !self.zeroed {
            self.window.touch(begin..to);
        }
    }
}

/// Returns whether the error means that this kernel or file system lacks the feature. If not, the
/// feature exists and only this call failed.
fn is_refusal(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw);
    matches!(errno, Some(Errno::EOPNOTSUPP | Errno::ENOSYS | Errno::EINVAL | Errno::ENODEV | Errno::EPERM))
}

impl WriteFile for MappedFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut left = bytes;
        while !left.is_empty() {
            let wants_window = !self.calls_only && left.len() < CALL_BYTES;
            if wants_window && self.window.as_ref().is_none_or(|open| !open.holds(self.bytes)) {
                self.advance()?;
            }
            if let Some(bytes) = self.by_call(left.len()) {
                self.call(&left[..bytes])?;
                left = &left[bytes..];
            } else if let Some(open) = &mut self.window {
                let written = open.window.write((self.bytes - open.from) as usize, left);
                left = &left[written..];
                self.bytes += written as u64;
                if open.from == 0 && self.bytes >= ASK_BYTES && !open.is_synced() {
                    self.ahead.ask(open.end());
                }
            }
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let added = self.bytes - self.synced.swap(self.bytes, Relaxed);
        if let Some(open) = self.window.as_ref().filter(|open| open.holds(self.bytes)) {
            open.fill(self.bytes, added);
        }
        crate::mapping::checked(self.file.sync_data())
    }

    /// Ends the file, which truncates it to the appended bytes. Only the first call truncates the
    /// file, because later a reader may have mapped it. In a forked child the call does nothing,
    /// because the parent still writes through windows that the child does not know.
    fn end(&mut self) {
        if self.process.is_current() && !std::mem::replace(&mut self.ended, true) {
            self.window = None;
            self.ahead.end();
            let _ = self.file.set_len(self.bytes); // best effort: trailing zeros do no harm
        }
    }

    fn second_handle(&self) -> io::Result<Box<dyn WriteFile>> {
        Ok(Box::new(Writing(self.file.try_clone()?)))
    }

    fn write_back(&self) -> io::Result<()> {
        crate::mapping::checked(kernel::write_back(&self.file))
    }
}

/// Ends the file, which truncates it to its records.
impl Drop for MappedFile {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs,
        os::unix::process::ExitStatusExt,
        process::{Command, Output},
    };

    const LOG: &str = "TERRACE_TEST_MAPPED_LOG";
    const SIGBUS: i32 = 7;

    /// Appends to a WAL whose file was truncated. This is not a test of its own. The test
    /// `an_unreadable_page_of_a_log_ends_the_process_and_names_the_file` runs it as a child
    /// process.
    #[test]
    fn child_that_appends_to_a_log_cut_short() {
        let Some(path) = std::env::var_os(LOG) else { return };
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        let mut mapped = MappedFile::new(file);
        // The test appends 100 bytes: too few for the writer to request prepared windows. A
        // prepared window would extend the truncated file again.
        mapped.append(&[1; 100]).unwrap();
        File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
        let appended = mapped.append(&[2; 100]);
        unreachable!("a page that cannot be read was written: {appended:?}");
    }

    #[test]
    fn an_unreadable_page_of_a_log_ends_the_process_and_names_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("000003.log");
        let Output { status, stderr, .. } = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "real::mapped::tests::child_that_appends_to_a_log_cut_short", "--nocapture"])
            .env(LOG, &path)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&stderr);
        assert_eq!(status.signal(), Some(SIGBUS), "{status}, {said}");
        assert!(
            said.contains("a page of a mapped file cannot be read") && said.contains(path.to_str().unwrap()),
            "its last words: {said}"
        );
    }

    #[test]
    fn appended_bytes_are_readable_at_once_and_the_ended_file_has_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        let (mut mapped, mut wanted) = (MappedFile::new(file), Vec::new());
        let sizes =
            [1, 100, 0, CALL_BYTES - 1, CALL_BYTES, 7, WINDOW_MIN as usize - 100, 9 * WINDOW_MIN as usize + 5, 50];
        for (n, bytes) in sizes.into_iter().chain([CALL_BYTES - 1; 40]).enumerate() {
            let record = vec![n as u8 + 1; bytes];
            mapped.append(&record).unwrap();
            wanted.extend_from_slice(&record);
            let found = fs::read(&path).unwrap();
            let (there, behind) = found.split_at(wanted.len());
            assert!(there == wanted && behind.iter().all(|byte| *byte == 0), "after {bytes} B as number {n}");
            if n % 7 == 0 {
                mapped.sync().unwrap();
            }
        }
        drop(mapped);
        assert!(fs::read(&path).unwrap() == wanted);
    }

    /// Tests WALs of several sizes, some with a next window that is being prepared. After the end
    /// of a WAL, its file must have exactly the appended bytes. In a synced WAL, only the stretch
    /// (range of 64 to 256 KiB) that contains the end is filled with zeros, so no window is
    /// prepared.
    #[test]
    fn a_prepared_window_leaves_no_bytes_in_the_ended_file() {
        let folder = tempfile::tempdir().unwrap();
        const LOGS: [usize; 7] = [10, 65, 66, 67, 140, 270, 5000];
        let record = [7; 4000];
        for (log, records) in LOGS.into_iter().enumerate() {
            let path = folder.path().join(log.to_string());
            let open = File::options().read(true).write(true).create_new(true).open(&path);
            let mut mapped = MappedFile::new(open.unwrap());
            (0..records).for_each(|_| mapped.append(&record).unwrap());
            let window = mapped.window.as_ref().unwrap();
            let wanted = window.from > 0 || records as u64 * 4000 >= ASK_BYTES;
            let next = Span::of(window.end());
            let two = if wanted { Span::of(next.end()).end() } else { 0 };
            assert_eq!(mapped.ahead.asked_to(), two, "{records} records");
            drop(mapped);
            assert!(fs::read(&path).unwrap() == record.repeat(records), "{records} records");
        }
        let open = File::options().read(true).write(true).create_new(true).open(folder.path().join("synced"));
        let mut mapped = MappedFile::new(open.unwrap());
        for _ in 0..200 {
            mapped.append(&record).unwrap();
            mapped.sync().unwrap();
        }
        assert_eq!(mapped.ahead.asked_to(), 0);
        for (log, records) in LOGS.into_iter().enumerate() {
            let bytes = fs::metadata(folder.path().join(log.to_string())).unwrap().len();
            assert_eq!(bytes, records as u64 * 4000, "{records} records: what was on its way CAME LATER");
        }
    }

    #[test]
    fn zeros_are_filled_for_the_next_syncs_and_not_again() {
        let folder = tempfile::tempdir().unwrap();
        // For each record size in bytes: the offset up to which the window is filled with zeros
        // after 1, 140 and 280 synced records.
        for (bytes, wanted) in
            [(100, [64, 64, 64]), (1000, [128, 256, 384]), (3000, [256, 512, 1024]), (9000, [256, 256, 512])]
        {
            let open =
                File::options().read(true).write(true).create_new(true).open(folder.path().join(bytes.to_string()));
            let mut mapped = MappedFile::new(open.unwrap());
            let mut filled = Vec::new();
            for n in 1..=280 {
                mapped.append(&vec![7; bytes]).unwrap();
                mapped.sync().unwrap();
                if n == 1 || n % 140 == 0 {
                    filled.push(mapped.window.as_ref().unwrap().filled.load(Relaxed) >> 10);
                }
            }
            assert_eq!(filled, wanted, "{bytes}");
        }
    }

    #[test]
    fn windows_follow_each_other_and_grow() {
        let (mut from, mut sizes) = (0, Vec::new());
        while from < 64 << 20 {
            let Span { from: begins, bytes } = Span::of(from);
            let last = from + bytes.get() as u64 - 1;
            assert_eq!((begins, Span::of(last).from, Span::of(last).bytes), (from, from, bytes));
            sizes.push(bytes.get() >> 20);
            from = last + 1;
        }
        assert_eq!((&sizes[..9], &sizes[12..]), (&[1, 1, 1, 1, 1, 1, 1, 1, 2][..], &[4; 12][..]));
    }

    /// Tests records that a system call writes into a window while the preparing thread fills it
    /// with zeros. The zeros must not overwrite the records.
    #[test]
    fn zeros_never_come_later_than_records() {
        let folder = tempfile::tempdir().unwrap();
        let small = vec![7; 4000];
        for log in 0..60 {
            // Depending on `log`, the large record ends in the first window, in the second one, or
            // after both.
            let large = vec![9; (1 + log % 3) << 20];
            let path = folder.path().join(log.to_string());
            let open = File::options().read(true).write(true).create_new(true).open(&path);
            let mut mapped = MappedFile::new(open.unwrap());
            (0..67).for_each(|_| mapped.append(&small).unwrap());
            assert!(mapped.ahead.asked_to() > 0, "nothing is filled");
            mapped.append(&large).unwrap();
            mapped.append(&small).unwrap();
            drop(mapped);
            assert!(fs::read(&path).unwrap() == [small.repeat(67), large, small.clone()].concat(), "log {log}");
        }
    }
}
