//! A logger: a function of the C program that receives the lines of the info log.
#![expect(unsafe_code, reason = "C passes a callback and its state")]
use crate::options::Options;
use libc::c_void;
use std::sync::Arc;
use terrace::{Event, Listener, log_line};

type Log = unsafe extern "C" fn(*mut c_void, *const u8, usize);

/// A function with the state that it receives.
pub struct Logger {
    state: *mut c_void,
    log: Log,
}

// SAFETY: the header requires a function that several threads may call at once.
unsafe impl Send for Logger {}
// SAFETY: the header requires a function that several threads may call at once.
unsafe impl Sync for Logger {}

impl Logger {
    pub fn line(&self, line: &str) {
        // SAFETY: guaranteed by the caller of `terrace_options_set_logger`, until the store is
        // closed.
        unsafe { (self.log)(self.state, line.as_ptr(), line.len()) };
    }
}

impl Listener for Logger {
    fn event(&self, event: &Event) {
        if let Some(line) = log_line(event) {
            self.line(&line);
        }
    }
}

/// # Safety
/// Until the stores that are opened with these options are closed, several threads may call `log`
/// with `state` at the same time.
#[unsafe(no_mangle)]
unsafe extern "C" fn terrace_options_set_logger(options: &mut Options, state: *mut c_void, log: Option<Log>) {
    options.logger = log.map(|log| Arc::new(Logger { state, log }));
}
