//! The handler of SIGBUS. An unreadable page of a [`Mapping`](super::Mapping) is replaced by zeros
//! and counted, so that the read fails. If the page belongs to a WAL that is written through a
//! mapping, the handler prints the name of the file, and the process ends.
//!
//! The handler calls only functions that a signal handler may call. It runs on the alternate
//! signal stack if the thread has one, because runtimes such as Go's require that. That stack may
//! be as small as 8 KiB, so the handler's buffers are static.
use super::registry::{MAPPINGS, UNREADABLE, WINDOWS, page_bytes};
use nix::{
    errno::Errno,
    libc::{self, c_int, c_void, siginfo_t},
};
use std::{
    cell::UnsafeCell,
    ptr,
    sync::{
        OnceLock,
        atomic::{
            AtomicBool, AtomicUsize,
            Ordering::{Relaxed, SeqCst},
        },
    },
};

/// The previous handler of SIGBUS.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();
static PAGE_BYTES: AtomicUsize = AtomicUsize::new(4096);

/// Installs the handler, once. Must be called before a file is mapped. Returns whether the handler
/// is the present one: another part of the program may have installed its own since then.
pub(crate) fn watch() -> bool {
    BEFORE.get_or_init(|| {
        PAGE_BYTES.store(page_bytes(), Relaxed);
        // SAFETY: all fields are plain numbers and pointers, for which zero is a value.
        let (mut ours, mut before): (libc::sigaction, libc::sigaction) = unsafe { std::mem::zeroed() };
        let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = page_missing;
        ours.sa_sigaction = handler as usize;
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: the handler does only what a signal handler may.
        unsafe { libc::sigaction(libc::SIGBUS, &ours, &mut before) };
        before
    });
    // SAFETY: all fields are plain numbers and pointers, for which zero is a value.
    let mut present: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: without a new action the call only stores the present one.
    unsafe { libc::sigaction(libc::SIGBUS, ptr::null(), &mut present) };
    let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = page_missing;
    present.sa_sigaction == handler as usize
}

extern "C" fn page_missing(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a valid description of the signal.
    let (address, code) = unsafe { ((*info).si_addr() as usize, (*info).si_code) };
    // The interrupted code may be about to read `errno`.
    let errno = Errno::last_raw();
    // Signals that a process has sent, and reports of memory that no access has reached, are no
    // faults of this thread.
    let is_fault = code > 0 && code != libc::BUS_MCEERR_AO;
    let is_page = [libc::BUS_ADRERR, libc::BUS_OBJERR, libc::BUS_MCEERR_AR].contains(&code);
    if !(is_page && MAPPINGS.contains(address) && replace_page(address)) {
        if is_page && (WINDOWS.contains(address) || MAPPINGS.contains(address)) {
            print_file_of(address as u64);
        }
        pass_on(signal, info, context, is_fault);
    }
    // If the page was replaced, the access is repeated and reads zeros.
    Errno::set_raw(errno);
}

/// Replaces the page at `address`, which belongs to a mapping, by a page of zeros. Returns whether
/// that was possible.
fn replace_page(address: usize) -> bool {
    let page = PAGE_BYTES.load(Relaxed);
    // The counter is increased first: see `UNREADABLE`.
    UNREADABLE.fetch_add(1, SeqCst);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    let at = (address / page * page) as *mut c_void;
    // SAFETY: an access of this thread to a registered mapping caused the signal. The mapping
    // therefore exists until the handler returns, and the page belongs to it.
    let mapped = unsafe { libc::mmap(at, page, libc::PROT_READ, flags, -1, 0) };
    mapped == at
}

/// Calls the previous handler if it is a function. Otherwise the process ends, unless the signal
/// was sent by a process and was ignored before.
fn pass_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void, is_fault: bool) {
    let Some(before) = BEFORE.get() else { return };
    if before.sa_sigaction == libc::SIG_IGN && !is_fault {
        return;
    }
    if before.sa_sigaction == libc::SIG_DFL || before.sa_sigaction == libc::SIG_IGN {
        // SAFETY: `before` was returned by `sigaction`. The signal is sent again and arrives when
        // the handler returns.
        unsafe {
            libc::sigaction(signal, before, ptr::null_mut());
            libc::raise(signal);
        }
    } else if before.sa_flags & libc::SA_SIGINFO != 0 {
        // SAFETY: the flag says that the address is that of a function with these arguments.
        let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) =
            unsafe { std::mem::transmute(before.sa_sigaction) };
        handler(signal, info, context);
    } else {
        // SAFETY: without the flag, the address is that of a function with this argument.
        let handler: extern "C" fn(c_int) = unsafe { std::mem::transmute(before.sa_sigaction) };
        handler(signal);
    }
}

/// The line of /proc/self/maps that is being read: an address range and a path of at most 4096
/// bytes. Only the first thread that fails uses the buffer.
struct Line(UnsafeCell<[u8; 4096 + 128]>);

// SAFETY: `print_file_of` lets only one thread use the buffer.
unsafe impl Sync for Line {}

fn print_file_of(address: u64) {
    static LINE: Line = Line(UnsafeCell::new([0; 4096 + 128]));
    static USED: AtomicBool = AtomicBool::new(false);
    if USED.swap(true, SeqCst) {
        return;
    }
    // SAFETY: the flag was not set before, so no other thread has a reference to the buffer.
    let line = unsafe { &mut *LINE.0.get() };
    if let Some(file) = mapping_around(address, line) {
        say(b"terrace: a page of a mapped file cannot be read (the file was truncated, or its device failed): ");
        say(file);
        say(b"\n");
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
    use crate::mapping::Mapping;
    use std::fs::File;

    #[test]
    fn mappings_have_names() {
        let path = std::env::current_exe().unwrap();
        let mapping = Mapping::of(&File::open(&path).unwrap()).unwrap().unwrap();
        let address = mapping.look(5000..5001, |bytes| bytes.as_ptr().addr() as u64).unwrap();
        let mut line = [0; 4224];
        let found = mapping_around(address, &mut line).map(<[u8]>::to_vec);
        assert_eq!(found.as_deref(), Some(path.to_str().unwrap().as_bytes()));
        assert_eq!(mapping_around(1, &mut line), None);
        assert_eq!(range_of(b"7f00-7f80 r--s"), Some((0x7f00, 0x7f80)));
        assert_eq!(range_of(b"nonsense"), None);
    }
}
