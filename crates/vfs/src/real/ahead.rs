//! Prepares the next windows of a WAL in a thread while the writer fills the current window. A
//! window is a mapped range of the file. At the first access to a page the kernel allocates the
//! page, zeroes it and informs the file system. Without preparation, these page faults take half
//! the time of a put with a value of 1 KiB. The thread also unmaps full windows, which takes as
//! long as a hundred puts.
//!
//! The thread writes zeros into the window by system calls, although the range reads as zeros
//! anyway. The reason is the page cache: it stores bytes that are written in large pieces in large
//! folios (groups of pages), if the file system supports them (ext4 from Linux 6.16 on). Pages
//! that are touched one by one are stored as single pages. Writing the zeros and mapping large
//! folios together take a fifth of the time that mapping single pages takes.
use super::span::Span;
use crate::kernel::{self, Window};
use parking_lot::Mutex;
use std::{
    collections::VecDeque,
    fs::File,
    io,
    os::unix::fs::FileExt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc::{Receiver, Sender, channel},
    },
    thread::{self, JoinHandle},
};

/// Number of zeros that one system call writes. It is also the size of the largest folio (group of
/// pages of the page cache), and it divides the size of every window. The number is small because
/// a kernel without preemption copies a whole folio before a writer that woke up on the same
/// processor can continue. In a virtual machine whose memory the host has not allocated yet,
/// copying 1 MiB takes 2.6 ms.
const ZEROS_BYTES: usize = 128 << 10;

/// The number of windows (mapped ranges of the WAL) that are prepared in advance. One would be too
/// few, because the preparing thread yields to other threads: it may need more time to prepare a
/// window than the writer needs to fill the window before it.
const DEPTH: usize = 2;

/// The offset of a window in the file, and the window.
type Ready = (u64, io::Result<Window>);

enum Work {
    /// Allocate and map this window, and fill it with zeros.
    Make(Span),
    LetGo(Window),
}

/// Prepares windows (mapped ranges) of a WAL, one after the other, in a thread. The thread runs
/// from the first request to the end of the WAL.
pub(super) struct Ahead {
    file: Arc<File>,
    helper: Option<Helper>,
    /// The offset of the last request; see [`Ahead::ask`].
    asked: Option<u64>,
    /// The end of the last requested window, as an offset in the file.
    asked_to: u64,
    /// The offsets of requested windows that are not known to be ready, in file order.
    under_way: VecDeque<u64>,
    /// Windows that are ready and were not taken yet.
    made: VecDeque<(u64, Window)>,
    /// Whether the WAL was ended, so that the thread need not do the remaining work.
    ended: Arc<AtomicBool>,
    /// Whether the kernel refused a window (a mapped range of the WAL). Space is then scarce, and
    /// no further window is prepared.
    refused: bool,
}

struct Helper {
    work: Sender<Work>,
    ready: Mutex<Receiver<Ready>>, // never locked: a receiver alone is not `Sync`
    thread: JoinHandle<()>,
}

impl Ahead {
    /// Makes the object for the WAL in `file`. The first request starts the thread.
    pub fn new(file: Arc<File>) -> Ahead {
        Ahead {
            file,
            helper: None,
            asked: None,
            asked_to: 0,
            under_way: VecDeque::new(),
            made: VecDeque::new(),
            ended: Arc::default(),
            refused: false,
        }
    }

    /// Requests the next windows (mapped ranges of the WAL) from the preparing thread. The first of
    /// them begins at offset `at`, which must be the start of a window. A repeated request does
    /// nothing.
    #[inline]
    pub fn ask(&mut self, at: u64) {
        if self.asked != Some(at) {
            self.request(at);
        }
    }

    #[cold]
    fn request(&mut self, mut at: u64) {
        self.asked = Some(at);
        for _ in 0..DEPTH {
            let window = Span::of(at);
            at = window.end();
            if window.from >= self.asked_to && !self.refused {
                self.asked_to = at;
                self.send(window);
            }
        }
    }

    fn send(&mut self, window: Span) {
        if self.helper.is_none() {
            // If no thread can be started, the writer of the WAL makes each window when it is
            // needed.
            self.helper = start(self.file.clone(), self.ended.clone()).ok();
        }
        if self.helper.as_ref().is_some_and(|helper| helper.work.send(Work::Make(window)).is_ok()) {
            self.under_way.push_back(window.from);
        }
    }

    /// Takes the window (mapped range of the WAL) at offset `from` if it was requested, and waits
    /// until it is ready. Drops earlier windows, because the end of the WAL is already after them.
    /// Returns `None` if the window was not requested or could not be made. In that case the caller
    /// makes the window itself and gets the error.
    pub fn take(&mut self, from: u64) -> Option<Window> {
        self.wait_below(from + 1);
        while let Some((at, window)) = self.made.pop_front_if(|(at, _)| *at <= from) {
            if at == from {
                return Some(window);
            }
        }
        None
    }

    /// Waits while the preparing thread fills bytes of the file before `end` with zeros. Called
    /// before the writer writes to that range by a system call, so that the zeros cannot overwrite
    /// the record.
    pub fn wait_below(&mut self, end: u64) {
        while self.under_way.pop_front_if(|from| *from < end).is_some() {
            self.wait();
        }
    }

    fn wait(&mut self) {
        let Some(helper) = &mut self.helper else { return };
        if let Ok((at, window)) = helper.ready.get_mut().recv() {
            self.refused |= window.is_err();
            self.made.extend(window.ok().map(|window| (at, window)));
        }
    }

    /// Lets the preparing thread unmap `window`, which is full.
    pub fn let_go(&mut self, window: Window) {
        if let Some(helper) = &self.helper {
            // If the preparing thread has ended, `send` returns the window in an error, and the
            // drop of this error unmaps the window.
            let _ = helper.work.send(Work::LetGo(window));
        }
    }

    /// Returns the end of the last requested window.
    #[cfg(test)]
    pub fn asked_to(&self) -> u64 {
        self.asked_to
    }

    /// Stops the thread. Afterwards the thread neither uses the file nor keeps it open.
    pub fn end(&mut self) {
        self.under_way.clear();
        self.made.clear();
        self.ended.store(true, Relaxed);
        let Some(Helper { work, ready, thread }) = self.helper.take() else { return };
        drop((work, ready));
        let _ = thread.join(); // it has no result
    }
}

fn start(file: Arc<File>, ended: Arc<AtomicBool>) -> io::Result<Helper> {
    let ((work, todo), (give, ready)) = (channel(), channel());
    let serve = move || {
        kernel::run_in_background();
        let zeros = vec![0; ZEROS_BYTES];
        for work in todo {
            let Span { from, bytes } = match work {
                Work::Make(_) if ended.load(Relaxed) => break,
                Work::Make(window) => window,
                Work::LetGo(full) => {
                    drop(full);
                    continue;
                }
            };
            let window = Window::map(&file, from, bytes);
            if let Ok(window) = &window {
                fill(&file, window, from, &zeros, &ended);
            }
            if give.send((from, window)).is_err() {
                break;
            }
        }
    };
    let thread = thread::Builder::new().name("terrace-log".into()).spawn(serve)?;
    Ok(Helper { work, ready: Mutex::new(ready), thread })
}

/// Fills `window`, a mapped range of `file` at offset `from`, with zeros, which loads it into the
/// page cache. The zeros only improve speed, so a failure is ignored.
fn fill(file: &File, window: &Window, from: u64, zeros: &[u8], ended: &AtomicBool) {
    let bytes = window.bytes().get();
    for at in (0..bytes).step_by(zeros.len()) {
        if ended.load(Relaxed) {
            return;
        }
        let _ = file.write_all_at(zeros, from + at as u64);
        thread::yield_now(); // lets a writer on the same processor continue
    }
    window.touch(0..bytes);
}
