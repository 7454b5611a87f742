//! Reads a tracefs instance (a private trace buffer of the kernel) continuously, on its own
//! thread.
use super::{own_threads::Registration, tracefs::Instance};
use std::{
    fs::File,
    io::{self, ErrorKind, Read},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{self, RecvTimeoutError, Sender},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// Interval between two reads of the buffer.
const PERIOD: Duration = Duration::from_millis(5);
/// Maximum number of bytes that are read before they are parsed.
const TEXT_MAX: usize = 8 << 20;

/// Counts events from the kernel's trace text.
pub trait Counter: Send + 'static {
    /// Notes that all following lines are events that have already happened.
    fn batch_read(&mut self);

    /// Handles one line without its line end. Lines that do not matter are ignored.
    fn take(&mut self, line: &str);
}

/// A thread that passes events to a counter until it is dropped.
pub struct Trace<C: Counter> {
    state: Arc<Mutex<TraceState<C>>>,
    /// `None` only while the trace is being dropped.
    reader: Option<(Sender<()>, JoinHandle<()>)>,
}

/// State that the thread and [`Trace::read`] share. Each drains the buffer under the lock.
struct TraceState<C> {
    /// Must be closed before the instance is removed: the kernel does not remove an instance that
    /// is being read.
    pipe: File,
    instance: Instance,
    /// Text that is read but not parsed: the part after the last complete line.
    text: Vec<u8>,
    counter: C,
}

impl<C: Counter> Trace<C> {
    /// Starts to feed `counter` with the events enabled in `instance`.
    pub fn start(instance: Instance, counter: C) -> Result<Trace<C>, String> {
        let state = TraceState { pipe: instance.pipe()?, instance, text: Vec::new(), counter };
        let state = Arc::new(Mutex::new(state));
        let reader = Some(spawn_reader(Arc::clone(&state)));
        Ok(Trace { state, reader })
    }

    /// Calls `ask` after the counter has received every event that happened before this call. If
    /// the kernel lost events, this is an error, because every figure may be wrong.
    pub fn read<T>(&self, ask: impl FnOnce(&mut C) -> T) -> Result<T, String> {
        let mut state = lock(&self.state);
        state.drain().map_err(|error| error.to_string())?;
        match state.instance.lost() {
            Ok(0) => Ok(ask(&mut state.counter)),
            Ok(lost) => Err(format!("{lost} events were lost")),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl<C: Counter> Drop for Trace<C> {
    fn drop(&mut self) {
        if let Some((stop, reader)) = self.reader.take() {
            drop(stop);
            // The thread returns no result. If it panicked, its counts are still valid.
            reader.join().ok();
        }
    }
}

fn lock<C>(state: &Mutex<TraceState<C>>) -> MutexGuard<'_, TraceState<C>> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Spawns the thread that empties the buffer before it is full. Frequent reads also permit name
/// lookups while the files still exist.
fn spawn_reader<C: Counter>(state: Arc<Mutex<TraceState<C>>>) -> (Sender<()>, JoinHandle<()>) {
    let (stop, stopped) = mpsc::channel::<()>();
    let reader = thread::spawn(move || {
        let registration = Registration::of_this_thread();
        while stopped.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
            let mut state = lock(&state);
            // The next `read` meets the same error and reports it.
            state.drain().ok();
            // The thread's time is accounted before the lock is released, because a waiting thread
            // may read it then.
            registration.iter().for_each(Registration::account);
        }
    });
    (stop, reader)
}

impl<C: Counter> TraceState<C> {
    /// Passes all events that happened before this call to the counter.
    fn drain(&mut self) -> io::Result<()> {
        loop {
            let more = self.read_all();
            self.take_text(); // also counts text that was read before an error
            if !more? {
                return Ok(());
            }
        }
    }

    /// Reads the available text up to a limit. Returns whether there may be more.
    fn read_all(&mut self) -> io::Result<bool> {
        let mut buffer = [0; 16 << 10];
        while self.text.len() < TEXT_MAX {
            match self.pipe.read(&mut buffer) {
                Ok(0) => return Ok(false),
                Ok(length) => self.text.extend_from_slice(&buffer[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn take_text(&mut self) {
        let Some(end) = self.text.iter().rposition(|&byte| byte == b'\n') else { return };
        let rest = self.text.split_off(end + 1);
        let lines = std::mem::replace(&mut self.text, rest);
        self.counter.batch_read();
        String::from_utf8_lossy(&lines).lines().for_each(|line| self.counter.take(line));
    }
}

/// The fields of a line with an event: `  name of thread-123  [002] .....  5959.076831:
/// ext4_sync_file_enter: dev 7,0 ino 12`.
#[derive(Debug, PartialEq)]
pub struct Line<'a> {
    /// The thread that passed the tracepoint.
    pub tid: i32,
    /// Time of the kernel's trace clock in seconds.
    pub seconds: f64,
    /// Name of the tracepoint.
    pub event: &'a str,
    /// Text of the tracepoint, with its fields.
    pub fields: &'a str,
}

impl<'a> Line<'a> {
    /// Parses a line; `None` if it is not an event.
    pub fn parse(line: &'a str) -> Option<Line<'a>> {
        // The line begins with the thread's name, which may contain any text, even one that looks
        // like a processor number in brackets.
        line.match_indices(" [").find_map(|(at, _)| Line::around(&line[..at], &line[at + 2..]))
    }

    /// Parses the text on both sides of the processor's opening bracket.
    fn around(head: &'a str, tail: &'a str) -> Option<Line<'a>> {
        let tid = head.trim_end().rsplit_once('-')?.1.parse().ok()?;
        let (cpu, tail) = tail.split_once("] ")?;
        cpu.parse::<u32>().ok()?;
        let (stamp, tail) = tail.split_once(": ")?;
        let seconds = stamp.split_whitespace().next_back()?.parse().ok()?;
        let (event, fields) = tail.split_once(": ")?;
        Some(Line { tid, seconds, event, fields })
    }

    /// Returns the number after the word `name`.
    pub fn field(&self, name: &str) -> Option<u64> {
        self.fields.split_whitespace().skip_while(|word| *word != name).nth(1)?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel_are_understood() {
        let text = " a b-1 [x-24847   [003] .....  5959.5: ext4_sync_file_enter: dev 254,0 ino 37 parent 5 datasync 0 ";
        let line = Line::parse(text).expect("an event");
        assert_eq!((line.tid, line.seconds, line.event), (24847, 5959.5, "ext4_sync_file_enter"));
        assert_eq!((line.field("ino"), line.field("datasync"), line.field("no")), (Some(37), Some(0), None));
        let text = "  <...>-9   [000] d.s1. 1.25: block_rq_complete: 7,0 W () 262664 + 2560 be,0,4 [0]";
        let line = Line::parse(text).expect("an event");
        assert_eq!((line.tid, line.event, line.field("+")), (9, "block_rq_complete", Some(2560)));
        assert_eq!(Line::parse("CPU:0 [LOST 12 EVENTS]"), None);
    }
}
