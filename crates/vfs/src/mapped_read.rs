//! Mapped files and reads into uninitialised memory: all unsafe code for reading.
//!
//! The standard library has no safe function for three operations: reading into uninitialised
//! memory, mapping a file, and prefetching mapped bytes into the processor's caches.
//! docs/decisions/0008-mapped-reads.md describes the effect of an unreadable mapped page.
#![allow(unsafe_code)]
use nix::libc;
use std::{
    fs::File,
    io::{self, ErrorKind},
    os::fd::AsRawFd,
    ptr,
    sync::{Arc, OnceLock},
};
use terrace_format::block::Bytes;

/// Reads `bytes` bytes of `file` from `offset`. Returns `UnexpectedEof` if the file ends earlier.
pub(crate) fn read_at(file: &File, offset: u64, bytes: usize) -> io::Result<Vec<u8>> {
    let mut buffer: Vec<u8> = Vec::with_capacity(bytes);
    while buffer.len() < bytes {
        let filled = buffer.len();
        let at = offset.checked_add(filled as u64).and_then(|at| libc::off_t::try_from(at).ok());
        let at = at.ok_or(ErrorKind::InvalidInput)?;
        let room = &mut buffer.spare_capacity_mut()[..bytes - filled];
        // SAFETY: `room` is unused capacity of the vector. The kernel writes at most `room.len()`
        // bytes into it and reads nothing from it.
        let read = unsafe { libc::pread(file.as_raw_fd(), room.as_mut_ptr().cast(), room.len(), at) };
        match usize::try_from(read) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            // SAFETY: the kernel has initialised `read` bytes after the last one, at most the
            // length of `room`.
            Ok(read) => unsafe { buffer.set_len(filled + read) },
            Err(_) => match io::Error::last_os_error() {
                e if e.kind() == ErrorKind::Interrupted => {}
                e => return Err(e),
            },
        }
    }
    Ok(buffer)
}

/// The mapped pages of a file.
struct Mapping {
    at: *mut libc::c_void,
    bytes: usize,
}

// SAFETY: the pages are never written, and the pointer is used only to unmap them, once.
unsafe impl Send for Mapping {}
// SAFETY: the pages are never written, so several threads may read them.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `map` mapped exactly this range, and every view of it keeps this value alive.
        unsafe { libc::munmap(self.at, self.bytes) };
    }
}

/// Maps all bytes of `file`. The file must not change any more, which is true for finished tables
/// and segments. After the first call, an unreadable mapped page ends this process with a message.
pub(crate) fn map(file: &File) -> io::Result<Bytes> {
    watch();
    let bytes = usize::try_from(file.metadata()?.len()).map_err(|_| ErrorKind::InvalidInput)?;
    if bytes == 0 {
        return Ok(Vec::new().into()); // the kernel does not map empty ranges
    }
    // SAFETY: the kernel chooses a free address range, so no memory in use is replaced. The pages
    // of this range are only read.
    let at = unsafe { libc::mmap(ptr::null_mut(), bytes, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0) };
    if at == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let mapping = Arc::new(Mapping { at, bytes });
    // SAFETY: the pages stay mapped as long as `mapping` lives, which `Bytes` keeps alive. They do
    // not change, because the file is a finished table or segment.
    let shown: &'static [u8] = unsafe { std::slice::from_raw_parts(at.cast::<u8>(), bytes) };
    Ok(Bytes::pinned(shown, mapping))
}

/// Prefetches the mapped `bytes` into the processor's caches, if the architecture allows. Pages
/// that are not in memory are skipped.
pub fn prefetch(bytes: &[u8]) {
    for line in bytes.chunks(64) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: every x86-64 processor has the prefetch instruction. The instruction changes no
        // program state and never faults.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast());
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: every AArch64 processor has the prefetch instruction. The instruction never
        // faults, and it changes no register and no flag.
        unsafe {
            std::arch::asm!("prfm pldl1keep, [{}]", in(reg) line.as_ptr(), options(readonly, nostack, preserves_flags));
        }
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let _ = line;
    }
}

/// The previous handler of SIGBUS.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// Installs a handler for SIGBUS. If a mapped page is unreadable, the handler prints the name of
/// the file before the process ends. Must be called before a file is mapped.
pub(crate) fn watch() {
    BEFORE.get_or_init(|| {
        // SAFETY: all fields are plain numbers and pointers, for which zero is a value.
        let (mut ours, mut before): (libc::sigaction, libc::sigaction) = unsafe { std::mem::zeroed() };
        let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = page_missing;
        ours.sa_sigaction = handler as usize;
        // The handler runs on the stack of the faulting thread, because the alternate signal stack
        // may be too small for a path.
        ours.sa_flags = libc::SA_SIGINFO;
        // SAFETY: the handler does only what a signal handler may.
        unsafe { libc::sigaction(libc::SIGBUS, &ours, &mut before) };
        before
    });
}

/// Prints the name of the file whose mapped page is missing. Then restores the previous handler of
/// the signal, which by default ends the process. The function calls only `open`, `read`, `write`,
/// `close` and `sigaction`, which a signal handler may call.
extern "C" fn page_missing(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid description of the signal.
    let address = unsafe { (*info).si_addr() } as u64;
    let mut line = [0; 4096 + 128]; // a path has at most 4096 bytes
    if let Some(mapping) = mapping_around(address, &mut line) {
        say(b"terrace: a page of a mapped file cannot be read (the file was truncated, or its device failed): ");
        say(mapping);
        say(b"\n");
    }
    if let Some(before) = BEFORE.get() {
        // SAFETY: `before` was returned by `sigaction`. When this function returns, the faulting
        // access is repeated, and the restored handler gets the signal.
        unsafe { libc::sigaction(signal, before, ptr::null_mut()) };
    }
}

fn say(text: &[u8]) {
    // SAFETY: `text` has the given length. A failed write cannot be reported anywhere.
    unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
}

/// Finds the line of /proc/self/maps whose address range contains `address`. Returns the part of
/// the line from the path on.
fn mapping_around(address: u64, line: &mut [u8]) -> Option<&[u8]> {
    // SAFETY: the path is a constant that ends in a zero byte.
    let maps = unsafe { libc::open(c"/proc/self/maps".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    if maps < 0 {
        return Some(b"its name is unknown");
    }
    let (mut bytes, mut found) = (0, None);
    let mut chunk = [0_u8; 512];
    'file: loop {
        // SAFETY: the kernel writes at most `chunk.len()` bytes into `chunk`.
        let read = unsafe { libc::read(maps, chunk.as_mut_ptr().cast(), chunk.len()) };
        for byte in chunk.iter().take(usize::try_from(read).unwrap_or(0)) {
            if *byte != b'\n' {
                line[bytes] = *byte;
                bytes = (bytes + 1).min(line.len() - 1);
            } else if range_of(&line[..bytes]).is_some_and(|(from, to)| (from..to).contains(&address)) {
                found = line[..bytes].iter().position(|byte| *byte == b'/').map(|path| path..bytes);
                break 'file;
            } else {
                bytes = 0;
            }
        }
        if read <= 0 {
            break;
        }
    }
    // SAFETY: this function opened the descriptor, and nothing else uses it.
    unsafe { libc::close(maps) };
    line.get(found?)
}

/// Parses the address range at the start of a line: `7f00-7f80 r--s …`.
fn range_of(line: &[u8]) -> Option<(u64, u64)> {
    let hex = |digits: &[u8]| {
        digits.iter().try_fold(0_u64, |sum, digit| Some(sum << 4 | u64::from(char::from(*digit).to_digit(16)?)))
    };
    let (range, _) = line.split_at(line.iter().position(|byte| *byte == b' ')?);
    let dash = range.iter().position(|byte| *byte == b'-')?;
    Some((hex(&range[..dash])?, hex(&range[dash + 1..])?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn reads_and_mappings_show_the_contents_of_the_file() {
        let file = tempfile::tempfile().unwrap();
        let all: Vec<u8> = (0..10_000_u32).map(|i| ((i * i) >> 5) as u8).collect();
        file.write_all_at(&all, 0).unwrap();
        let mapped = map(&file).unwrap();
        assert_eq!(*mapped, all);
        for (offset, bytes) in [(0, 0), (0, 1), (17, 4096), (0, 10_000), (9_999, 1)] {
            let read = read_at(&file, offset, bytes).unwrap();
            assert_eq!(read[..], mapped[offset as usize..offset as usize + bytes]);
        }
        assert_eq!(read_at(&file, 9_999, 2).unwrap_err().kind(), ErrorKind::UnexpectedEof);
        assert!(read_at(&file, u64::MAX - 5, 2).is_err());
        let part = mapped.part(100..200).unwrap();
        drop((mapped, file));
        assert_eq!(part[..], all[100..200], "a part keeps the mapping");
        assert_eq!(*map(&tempfile::tempfile().unwrap()).unwrap(), *b"");
    }

    #[test]
    fn mappings_have_names() {
        let path = std::env::current_exe().unwrap();
        let mapped = map(&File::open(&path).unwrap()).unwrap();
        let mut line = [0; 4224];
        let found = mapping_around(mapped.as_ptr() as u64 + 5000, &mut line).map(<[u8]>::to_vec);
        assert_eq!(found.as_deref(), Some(path.to_str().unwrap().as_bytes()));
        assert_eq!(mapping_around(1, &mut line), None);
        assert_eq!(range_of(b"7f00-7f80 r--s"), Some((0x7f00, 0x7f80)));
        assert_eq!(range_of(b"nonsense"), None);
    }
}
