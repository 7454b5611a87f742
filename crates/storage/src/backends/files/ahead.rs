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
    thread,
};

/// Where in the file a window begins, and the window.
type Ready = (u64, io::Result<Window>);

/// Ends when it is dropped.
struct Helper {
    ask: Sender<u64>,
    ready: Mutex<Receiver<Ready>>, // never locked: a receiver alone could not be in what threads share
}

/// Makes windows of a log ready, one at a time. Has a thread once one was asked for.
pub(super) struct Ahead {
    file: Arc<File>,
    helper: Option<Helper>,
    /// Where the window begins that was asked for last.
    asked: Option<u64>,
    /// Whether it has not been taken.
    under_way: bool,
}

impl Ahead {
    /// For the log in `file`.
    pub fn new(file: Arc<File>) -> Ahead {
        Ahead { file, helper: None, asked: None, under_way: false }
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
        if self.helper.is_none() {
            self.helper = start(self.file.clone()).ok(); // without a thread, windows are had when they are wanted
        }
        self.under_way = self.helper.as_ref().is_some_and(|helper| helper.ask.send(from).is_ok());
    }

    /// The window that begins at `from`, if it was asked for; waits for it. None if it could not be had: whoever wants it
    /// now finds out why.
    pub fn take(&mut self, from: u64) -> Option<io::Result<Window>> {
        let helper = self.helper.as_mut().filter(|_| std::mem::take(&mut self.under_way))?;
        let (at, window) = helper.ready.get_mut().recv().ok()?;
        (at == from && window.is_ok()).then_some(window)
    }

    /// Where the window begins that was asked for last.
    #[cfg(test)]
    pub fn asked(&self) -> Option<u64> {
        self.asked
    }

    /// Nothing is done to the file after this.
    pub fn end(&mut self) {
        let _ = self.take(u64::MAX);
        self.helper = None;
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
    thread::Builder::new().name("terrace-log".into()).spawn(serve)?;
    Ok(Helper { ask, ready: Mutex::new(ready) })
}
