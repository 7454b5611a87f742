//! Runs one cell (one engine in one round) in its own process. The parent sends the description of
//! the cell as JSON and receives events, one per line.
//!
//! The child's standard input stays open while the parent runs. When the parent has ended, the
//! child reads the end of its input and ends, too ([`serve`]). The child leads its own process
//! group, so that Ctrl-C reaches only the parent.
use crate::cell::{CellSpec, Event};
use anyhow::{Context, Result, anyhow};
use std::{
    io::{BufRead, BufReader, Read, Write},
    os::unix::process::{CommandExt, ExitStatusExt},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    thread::{self, JoinHandle},
    time::Duration,
};

/// Number of bytes that the parent keeps from the end of the child's standard error.
const STDERR_KEPT: usize = 4 << 10;

/// A cell that runs in a child process. Dropping it kills the process.
#[derive(Debug)]
pub struct Running {
    child: Child,
    /// Input of the child. It stays open while the parent runs, because the child ends when it
    /// closes.
    _stdin: ChildStdin,
    events: Receiver<Result<Event>>,
    stderr: Option<JoinHandle<String>>,
}

/// Result of [`Running::next`].
#[derive(Debug)]
pub enum ChildMessage {
    /// The child sent an event.
    Event(Event),
    /// No event arrived before the timeout.
    Silence,
    /// The child has ended. If it failed, the text gives the reason.
    End(Option<String>),
}

impl Running {
    /// Starts a child process with `command` and sends it the description `spec` of the cell.
    pub fn start(mut command: Command, spec: &CellSpec) -> Result<Running> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().context("start the process of a cell")?;
        let mut stdin = child.stdin.take().expect("it is piped");
        let (stdout, stderr) = (child.stdout.take().expect("it is piped"), child.stderr.take().expect("it is piped"));
        let (sender, events) = channel();
        thread::spawn(move || read_events(BufReader::new(stdout), &sender));
        let stderr = thread::spawn(move || read_tail(stderr));
        let mut line = serde_json::to_vec(spec).context("the cell as JSON")?;
        line.push(b'\n');
        // A child that has already ended cannot read its input. The error is ignored here, because
        // the child gives its reason on standard error, which `next` returns.
        stdin.write_all(&line).or_else(|error| match error.kind() {
            std::io::ErrorKind::BrokenPipe => Ok(()),
            _ => Err(error),
        })?;
        Ok(Running { child, _stdin: stdin, events, stderr: Some(stderr) })
    }

    /// Returns the process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for an event of the child, at most for `timeout`. The last message is
    /// [`ChildMessage::End`].
    pub fn next(&mut self, timeout: Duration) -> Result<ChildMessage> {
        match self.events.recv_timeout(timeout) {
            Ok(event) => Ok(ChildMessage::Event(event?)),
            Err(RecvTimeoutError::Timeout) => Ok(ChildMessage::Silence),
            Err(RecvTimeoutError::Disconnected) => {
                let status = self.child.wait().context("wait for the process of a cell")?;
                let stderr = self.stderr.take().and_then(|reader| reader.join().ok()).unwrap_or_default();
                Ok(ChildMessage::End(why(status, &stderr)))
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The kill and the wait can fail only if the child has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs in the child process. Reads the description of the cell, calls `work` with it, and writes
/// events to `out`. If the parent ends, this process ends, too.
pub fn serve(out: &mut dyn Write, work: impl FnOnce(&CellSpec, &mut dyn FnMut(Event)) -> Result<()>) -> Result<()> {
    let mut stdin = BufReader::new(std::io::stdin());
    let mut line = String::new();
    stdin.read_line(&mut line).context("read the cell")?;
    let spec = serde_json::from_str(&line).context("the cell on standard input")?;
    thread::spawn(move || {
        let _ = std::io::copy(&mut stdin, &mut std::io::sink());
        std::process::exit(1);
    });
    let mut lost = None;
    work(&spec, &mut |event| {
        let mut emit = || -> Result<()> {
            serde_json::to_writer(&mut *out, &event)?;
            out.write_all(b"\n")?;
            Ok(out.flush()?)
        };
        if let Err(error) = emit() {
            lost.get_or_insert(error);
        }
    })?;
    lost.map_or(Ok(()), |error| Err(error.context("send an event to the parent")))
}

fn read_events(stdout: impl BufRead, sender: &Sender<Result<Event>>) {
    for line in stdout.lines() {
        let event = line.map_err(Into::into).and_then(|line| {
            serde_json::from_str(&line)
                .map_err(|error| anyhow!("unexpected output of the cell's process: {line:?}: {error}"))
        });
        if sender.send(event).is_err() {
            return; // the receiver is dropped
        }
    }
}

fn read_tail(mut stderr: impl Read) -> String {
    let (mut tail, mut piece) = (Vec::new(), [0; 1024]);
    while let Ok(read @ 1..) = stderr.read(&mut piece) {
        tail.extend_from_slice(&piece[..read]);
        tail.drain(..tail.len().saturating_sub(STDERR_KEPT));
    }
    String::from_utf8_lossy(&tail).trim().into()
}

/// Returns the reason why a process failed, or `None` if it succeeded.
fn why(status: ExitStatus, stderr: &str) -> Option<String> {
    let how = match (status.success(), status.signal(), status.code()) {
        (true, ..) => return None,
        (_, Some(signal), _) => format!("the cell's process was killed by signal {signal}"),
        (_, _, code) => format!("the cell's process ended with status {}", code.unwrap_or(-1)),
    };
    Some(if stderr.is_empty() { how } else { format!("{how}: {stderr}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Running {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Running::start(command, &CellSpec::default()).unwrap()
    }

    fn all(mut running: Running) -> (Vec<Event>, Option<String>) {
        let mut events = Vec::new();
        loop {
            match running.next(Duration::from_secs(60)).unwrap() {
                ChildMessage::Event(event) => events.push(event),
                ChildMessage::Silence => panic!("no event for a minute"),
                ChildMessage::End(why) => return (events, why),
            }
        }
    }

    #[test]
    fn events_are_received_and_the_end_has_a_reason() {
        let progress = r#"{"progress":{"workload":"w","phase":"run","done":1,"total":2}}"#;
        let (events, why) = all(shell(&format!("head -n 1 >/dev/null; echo '{progress}'")));
        assert!(matches!(&events[..], [Event::Progress { progress }] if progress.total == 2), "{events:?}");
        assert_eq!(why, None);
        assert_eq!(
            all(shell("echo disk is full >&2; exit 3")).1.unwrap(),
            "the cell's process ended with status 3: disk is full"
        );
        assert_eq!(all(shell("kill -9 $$")).1.unwrap(), "the cell's process was killed by signal 9");
    }

    #[test]
    fn the_specification_arrives() {
        let (events, why) = all(shell("head -n 1 | grep -q '\"engine\":\"terrace\"' || exit 9"));
        assert!(events.is_empty());
        assert_eq!(why, None);
    }

    #[test]
    fn an_invalid_event_is_an_error_and_dropping_kills() {
        let mut running = shell("echo hello; exec sleep 100");
        let error = running.next(Duration::from_secs(60)).unwrap_err().to_string();
        assert!(error.contains("hello"), "{error}");
        let pid = running.id();
        drop(running);
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn only_the_end_of_a_long_error_output_is_kept() {
        let text = read_tail("x".repeat(9000).as_bytes().chain(&b"the end\n"[..]));
        assert!(text.len() < STDERR_KEPT && text.ends_with("xthe end"));
    }
}
