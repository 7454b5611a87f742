//! Reads a tracefs instance to its end, again and again, on a thread of its own.
use super::{own::Registration, tracefs::Instance};
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

/// Between two looks at the buffer.
const PERIOD: Duration = Duration::from_millis(5);
/// Text that is read before it is looked at.
const TEXT_MAX: usize = 8 << 20;

/// Counts events from the kernel's text of them.
pub trait Counter: Send + 'static {
    /// Whatever the lines that come next tell of has happened.
    fn happened(&mut self);

    /// Takes one line, without its end. Lines that say nothing of interest are passed over.
    fn take(&mut self, line: &str);
}

/// A counter that is fed until it is dropped.
pub struct Trace<C: Counter> {
    state: Arc<Mutex<State<C>>>,
    /// `None` only while it is being dropped.
    reader: Option<(Sender<()>, JoinHandle<()>)>,
}

/// What the thread and [`Trace::read`] share; each drains the buffer under the lock.
struct State<C> {
    /// Closed before the instance goes: an instance with readers cannot be removed.
    pipe: File,
    instance: Instance,
    /// What was read of the pipe and not looked at: what stands behind the last whole line.
    text: Vec<u8>,
    counter: C,
}

impl<C: Counter> Trace<C> {
    /// Begins to feed `counter` with the events that are switched on in `instance`.
    pub fn start(instance: Instance, counter: C) -> Result<Trace<C>, String> {
        let state = State { pipe: instance.pipe()?, instance, text: Vec::new(), counter };
        let state = Arc::new(Mutex::new(state));
        let reader = Some(spawn_reader(Arc::clone(&state)));
        Ok(Trace { state, reader })
    }

    /// Asks the counter, once it has seen every event before now. An error if events were lost, as every figure is wrong
    /// then.
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
            // It has nothing to tell; if it panicked, the counts that it left were still true.
            reader.join().ok();
        }
    }
}

fn lock<C>(state: &Mutex<State<C>>) -> MutexGuard<'_, State<C>> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The thread that keeps the buffer from filling, and lets names be looked up while files still have them.
fn spawn_reader<C: Counter>(state: Arc<Mutex<State<C>>>) -> (Sender<()>, JoinHandle<()>) {
    let (stop, stopped) = mpsc::channel::<()>();
    let reader = thread::spawn(move || {
        let registration = Registration::of_this_thread();
        while stopped.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
            let mut state = lock(&state);
            // An error shows again in the next `read`, which reports it.
            state.drain().ok();
            registration.iter().for_each(Registration::account); // before anybody who waits for the lock looks
        }
    });
    (stop, reader)
}

impl<C: Counter> State<C> {
    /// Counts all that has happened before now.
    fn drain(&mut self) -> io::Result<()> {
        loop {
            let more = self.read_all();
            self.take_text(); // what was read before an error, too
            if !more? {
                return Ok(());
            }
        }
    }

    /// Reads what there is, but no more than so much. Whether there may be more.
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
        self.counter.happened();
        String::from_utf8_lossy(&lines).lines().for_each(|line| self.counter.take(line));
    }
}

/// An event's line, cut up: `  name of thread-123  [002] .....  5959.076831: ext4_sync_file_enter: dev 7,0 ino 12`.
#[derive(Debug, PartialEq)]
pub struct Line<'a> {
    /// The thread that passed the tracepoint.
    pub tid: i32,
    /// The kernel's trace clock.
    pub seconds: f64,
    /// The tracepoint's name.
    pub event: &'a str,
    /// What the tracepoint says.
    pub fields: &'a str,
}

impl<'a> Line<'a> {
    /// `None` for what is no event.
    pub fn parse(line: &'a str) -> Option<Line<'a>> {
        // The name of a thread is first and may hold anything, even what looks like a processor in brackets.
        line.match_indices(" [").find_map(|(at, _)| Line::around(&line[..at], &line[at + 2..]))
    }

    /// Reads what lies on both sides of the processor's opening bracket.
    fn around(head: &'a str, tail: &'a str) -> Option<Line<'a>> {
        let tid = head.trim_end().rsplit_once('-')?.1.parse().ok()?;
        let (cpu, tail) = tail.split_once("] ")?;
        cpu.parse::<u32>().ok()?;
        let (stamp, tail) = tail.split_once(": ")?;
        let seconds = stamp.split_whitespace().next_back()?.parse().ok()?;
        let (event, fields) = tail.split_once(": ")?;
        Some(Line { tid, seconds, event, fields })
    }

    /// The number behind the word `name`.
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
