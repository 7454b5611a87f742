//! The next windows of a log, made ready by a thread of its own while the one before is filled: a page of a file that is touched
//! for the first time is allocated, filled with zeros and told to the file system, which for values of 1 KiB was half of
//! what a put cost. The thread also lets go of windows that are full, which takes as long as a hundred puts.
//!
//! The zeros are written by system calls, although the range reads as zeros anyway: the page cache holds what is written in
//! large pieces by large folios where the file system has them (ext4 from Linux 6.16 on), and what is touched page by page by pages.
//! Mapping the former takes a fifth of the time in all.
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

/// Zeros that one system call writes, and the largest folio; divides every window. A kernel that does not preempt itself copies a folio to
/// its end before the writer, if it woke up on the same processor, goes on: in a virtual machine whose memory the host has yet to find,
/// 1 MiB takes 2.6 ms.
const ZEROS_BYTES: usize = 128 << 10;

/// Windows that are made ready before they are wanted. The thread gives way to others, and may make one for longer than the one before takes to
/// be filled.
const DEPTH: usize = 2;

/// Where in the file a window begins, and the window.
type Ready = (u64, io::Result<Window>);

enum Work {
    /// This window will be wanted.
    Make(Span),
    LetGo(Window),
}

/// Makes windows of a log ready, one after the other. Has a thread from the first that is asked for to the end.
pub(super) struct Ahead {
    file: Arc<File>,
    helper: Option<Helper>,
    /// From where on windows were asked for last.
    asked: Option<u64>,
    /// Up to where windows were asked for.
    asked_to: u64,
    /// Where the windows begin that are not made yet, as far as is known; in the order of the file, like those that are made.
    under_way: VecDeque<u64>,
    /// Those that are made and not taken.
    made: VecDeque<(u64, Window)>,
    /// What the thread does is not wanted any more.
    ended: Arc<AtomicBool>,
    /// A window could not be had: then it is no time to take space that is not needed yet.
    refused: bool,
}

struct Helper {
    work: Sender<Work>,
    ready: Mutex<Receiver<Ready>>, // never locked: a receiver alone could not be in what threads share
    thread: JoinHandle<()>,
}

impl Ahead {
    /// For the log in `file`.
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

    /// The windows from `at` on, where one begins, will be wanted. Asking again does nothing.
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
            self.helper = start(self.file.clone(), self.ended.clone()).ok(); // without a thread, windows are had when they are wanted
        }
        if self.helper.as_ref().is_some_and(|helper| helper.work.send(Work::Make(window)).is_ok()) {
            self.under_way.push_back(window.from);
        }
    }

    /// The window that begins at `from`, if it was asked for; waits for it, and drops those before it, which the log has passed. `None`
    /// also if it could not be had: whoever wants it now finds out why.
    pub fn take(&mut self, from: u64) -> Option<Window> {
        self.wait_below(from + 1);
        while let Some((at, window)) = self.made.pop_front_if(|(at, _)| *at <= from) {
            if at == from {
                return Some(window);
            }
        }
        None
    }

    /// Waits if bytes of the file before `end` are being filled with zeros. Called before somebody else writes there.
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

    /// `window` is full.
    pub fn let_go(&mut self, window: Window) {
        if let Some(helper) = &self.helper {
            let _ = helper.work.send(Work::LetGo(window)); // what nobody takes goes with the error
        }
    }

    /// Up to where windows were asked for.
    #[cfg(test)]
    pub fn asked_to(&self) -> u64 {
        self.asked_to
    }

    /// The thread does nothing to the file after this, and does not hold it.
    pub fn end(&mut self) {
        self.under_way.clear();
        self.made.clear();
        self.ended.store(true, Relaxed);
        let Some(Helper { work, ready, thread }) = self.helper.take() else { return };
        drop((work, ready));
        let _ = thread.join(); // it has nothing to tell any more
    }
}

fn start(file: Arc<File>, ended: Arc<AtomicBool>) -> io::Result<Helper> {
    let ((work, todo), (give, ready)) = (channel(), channel());
    let serve = move || {
        kernel::give_way();
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

/// Has the page cache hold `window` of `file`, which begins at `from`. For speed only, so what fails is left undone.
fn fill(file: &File, window: &Window, from: u64, zeros: &[u8], ended: &AtomicBool) {
    let bytes = window.bytes().get();
    for at in (0..bytes).step_by(zeros.len()) {
        if ended.load(Relaxed) {
            return;
        }
        let _ = file.write_all_at(zeros, from + at as u64);
        thread::yield_now(); // if this runs where the writer does, the writer goes on in between
    }
    window.touch(0..bytes);
}
