//! Reads the kernel's trace continuously from a tracefs instance, which is a private trace buffer.
//! The reading thread belongs to the ledger (the lab's cost counters), so its cost is not charged
//! to the engine.
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

/// A receiver of the kernel's trace text that counts events.
pub trait Counter: Send + 'static {
    /// Notes that a batch of the trace was read. All lines of the batch, which follow, are events
    /// that have already happened.
    fn batch_read(&mut self);

    /// Handles one line of the trace, without its line end. A line that is not of interest is
    /// ignored.
    fn take(&mut self, line: &str);
}

/// A thread that reads the trace and passes its lines to a counter, until this value is dropped.
pub struct Trace<C: Counter> {
    state: Arc<Mutex<TraceState<C>>>,
    /// The reading thread, and the channel that stops it. `None` only while the trace is being
    /// dropped.
    reader: Option<(Sender<()>, JoinHandle<()>)>,
}

/// State that the reading thread and [`Trace::read`] share. Each of them locks it to read the
/// trace buffer until it is empty.
struct TraceState<C> {
    /// The pipe from which the trace is read. It must be closed before the instance is removed,
    /// because the kernel does not remove an instance while it is being read.
    pipe: File,
    instance: Instance,
    /// Text that was read but not parsed, because its last line is incomplete.
    text: Vec<u8>,
    counter: C,
}

impl<C: Counter> Trace<C> {
    /// Starts to pass the events that are enabled in `instance` to `counter`.
    pub fn start(instance: Instance, counter: C) -> Result<Trace<C>, String> {
        let state = TraceState { pipe: instance.pipe()?, instance, text: Vec::new(), counter };
        let state = Arc::new(Mutex::new(state));
        let reader = Some(spawn_reader(Arc::clone(&state)));
        Ok(Trace { state, reader })
    }

    /// Waits until the counter has received every event that happened before this call. Then calls
    /// `ask` with the counter and returns its result. If the kernel lost events, the result is an
    /// error, because every figure may be wrong.
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
            // The reading thread returns no result, so its panic is ignored. The events that it
            // counted before remain valid.
            reader.join().ok();
        }
    }
}

fn lock<C>(state: &Mutex<TraceState<C>>) -> MutexGuard<'_, TraceState<C>> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts the thread that reads the trace before the buffer is full. Because the thread reads
/// often, the counter can look up the names of files while the files still exist.
fn spawn_reader<C: Counter>(state: Arc<Mutex<TraceState<C>>>) -> (Sender<()>, JoinHandle<()>) {
    let (stop, stopped) = mpsc::channel::<()>();
    let reader = thread::spawn(move || {
        let registration = Registration::of_this_thread();
        while stopped.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
            let mut state = lock(&state);
            // An error is ignored here, because the next call of `read` meets the same error and
            // reports it.
            state.drain().ok();
            // The processor time of this thread is recorded before the lock is released. A thread
            // that waits for the lock may read that time as soon as it has the lock.
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

    /// Reads the available text, at most [`TEXT_MAX`] bytes. Returns whether there may be more.
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

/// The fields of a line that reports an event. An example of a line is `  name of thread-123
/// [002] .....  5959.076831: ext4_sync_file_enter: dev 7,0 ino 12`.
#[derive(Debug, PartialEq)]
pub struct Line<'a> {
    /// Id of the thread that passed the tracepoint.
    pub tid: i32,
    /// Time of the kernel's trace clock in seconds.
    pub seconds: f64,
    /// Name of the tracepoint.
    pub event: &'a str,
    /// Text of the tracepoint, with its fields.
    pub fields: &'a str,
}

impl<'a> Line<'a> {
    /// Parses a line of the trace. Returns `None` if the line does not report an event.
    pub fn parse(line: &'a str) -> Option<Line<'a>> {
        // The line begins with the name of the thread. The name may contain any text, even text
        // that looks like a processor number in brackets.
        line.match_indices(" [").find_map(|(at, _)| Line::around(&line[..at], &line[at + 2..]))
    }

    /// Parses a line. `head` is the text before the opening bracket of the processor number, and
    /// `tail` is the text after it.
    fn around(head: &'a str, tail: &'a str) -> Option<Line<'a>> {
        let tid = head.trim_end().rsplit_once('-')?.1.parse().ok()?;
        let (cpu, tail) = tail.split_once("] ")?;
        cpu.parse::<u32>().ok()?;
        let (stamp, tail) = tail.split_once(": ")?;
        let seconds = stamp.split_whitespace().next_back()?.parse().ok()?;
        let (event, fields) = tail.split_once(": ")?;
        Some(Line { tid, seconds, event, fields })
    }

    /// Returns the number that follows the word `name` in the fields.
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
