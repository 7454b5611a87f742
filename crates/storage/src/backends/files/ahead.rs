//! The next window of a log, made ready by a thread of its own while the one before is filled: a page of a file that is touched
//! for the first time is allocated, filled with zeros and told to the file system, which for values of 1 KiB was half of
//! what a put cost.
use super::{kernel::Window, mapped::WINDOW_BYTES};
use parking_lot::Mutex;
use std::{
    fs::File,
    io,
    sync::{
        Arc,
        mpsc::{Receiver, Sender, channel},
    },
    thread::{self, JoinHandle},
};

/// Where in the file a window begins, and the window.
type Ready = (u64, io::Result<Window>);

/// Makes windows of a log ready, one at a time. Has a thread from the first that is asked for to the end.
pub(super) struct Ahead {
    file: Arc<File>,
    helper: Option<Helper>,
    /// Where the window begins that was asked for last.
    asked: Option<u64>,
    /// Whether it has not been taken.
    under_way: bool,
    /// A window could not be had: then it is no time to take space that is not needed yet.
    refused: bool,
}

struct Helper {
    ask: Sender<u64>,
    ready: Mutex<Receiver<Ready>>, // never locked: a receiver alone could not be in what threads share
    thread: JoinHandle<()>,
}

impl Ahead {
    /// For the log in `file`.
    pub fn new(file: Arc<File>) -> Ahead {
        Ahead { file, helper: None, asked: None, under_way: false, refused: false }
    }

    /// The window that begins at `from` will be wanted. Asking again does nothing.
    #[inline]
    pub fn ask(&mut self, from: u64) {
        if self.asked != Some(from) {
            self.request(from);
        }
    }

    #[cold]
    fn request(&mut self, from: u64) {
        self.asked = Some(from);
        if self.refused {
            return;
        }
        if self.helper.is_none() {
            self.helper = start(self.file.clone()).ok(); // without a thread, windows are had when they are wanted
        }
        self.under_way = self.helper.as_ref().is_some_and(|helper| helper.ask.send(from).is_ok());
    }

    /// The window that begins at `from`, if it was asked for; waits for it. `None` also if it could not be had: whoever wants
    /// it now finds out why.
    pub fn take(&mut self, from: u64) -> Option<Window> {
        let helper = self.helper.as_mut().filter(|_| std::mem::take(&mut self.under_way))?;
        let (at, window) = helper.ready.get_mut().recv().ok()?;
        self.refused |= window.is_err();
        window.ok().filter(|_| at == from)
    }

    /// Where the window begins that was asked for last.
    #[cfg(test)]
    pub fn asked(&self) -> Option<u64> {
        self.asked
    }

    /// Nothing is done to the file after this, and nobody else holds it.
    pub fn end(&mut self) {
        let Some(Helper { ask, ready, thread }) = self.helper.take() else { return };
        drop((ask, ready));
        let _ = thread.join(); // it has nothing to tell any more
    }
}

fn start(file: Arc<File>) -> io::Result<Helper> {
    let ((ask, asked), (give, ready)) = (channel(), channel());
    let serve = move || {
        for from in asked {
            let window = Window::map(&file, from, WINDOW_BYTES);
            if let Ok(window) = &window {
                window.touch(0..WINDOW_BYTES.get());
            }
            if give.send((from, window)).is_err() {
                break;
            }
        }
    };
    let thread = thread::Builder::new().name("terrace-log".into()).spawn(serve)?;
    Ok(Helper { ask, ready: Mutex::new(ready), thread })
}
