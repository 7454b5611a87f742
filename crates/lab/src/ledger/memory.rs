//! Peak memory of this process in a window.
use super::own::Registration;
use std::{
    fs,
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread::{self, JoinHandle},
    time::Duration,
};

/// Between two looks at the anonymous memory. A look takes some ten microseconds.
const PERIOD: Duration = Duration::from_millis(20);

/// Watches memory from `start` to `finish`.
pub struct Peaks {
    /// Whether the kernel forgot the peak of earlier windows.
    is_reset: bool,
    stop: Sender<()>,
    sampler: JoinHandle<Sample>,
}

/// The most memory that was held at once, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PeakMemory {
    /// Resident, mapped files included: the kernel's own peak, or the largest sample where that cannot be reset.
    pub rss_bytes: Option<u64>,
    /// Anonymous, sampled every 20 ms.
    pub anon_bytes: Option<u64>,
}

#[derive(Clone, Copy, Default)]
struct Sample {
    rss: Option<u64>,
    anon: Option<u64>,
}

impl Peaks {
    /// Resets the kernel's peak and starts to sample.
    pub fn start() -> Peaks {
        // 5 stands for "reset the peak resident set", see proc_pid_clear_refs(5).
        let is_reset = fs::write("/proc/self/clear_refs", "5").is_ok();
        let (stop, stopped) = mpsc::channel::<()>();
        let sampler = thread::spawn(move || {
            let registration = Registration::of_this_thread();
            let mut most = Sample::default();
            loop {
                let now = status(&fs::read_to_string("/proc/self/status").unwrap_or_default());
                most = Sample { rss: most.rss.max(now.rss), anon: most.anon.max(now.anon) };
                registration.iter().for_each(Registration::account);
                if stopped.recv_timeout(PERIOD) != Err(RecvTimeoutError::Timeout) {
                    return most;
                }
            }
        });
        Peaks { is_reset, stop, sampler }
    }

    /// Stops, and tells.
    pub fn finish(self) -> PeakMemory {
        drop(self.stop);
        let sampled = self.sampler.join().unwrap_or_default();
        let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let rss_bytes = if self.is_reset { field(&text, "VmHWM") } else { sampled.rss };
        PeakMemory { rss_bytes, anon_bytes: sampled.anon.max(status(&text).anon) }
    }
}

fn status(text: &str) -> Sample {
    Sample { rss: field(text, "VmRSS"), anon: field(text, "RssAnon") }
}

/// A field of `/proc/self/status` in bytes; the kernel writes it in `kB` of 1024.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_in_kibibytes() {
        assert_eq!(field("VmHWM:\t   2800 kB\nRssAnon:\t  12 kB\n", "RssAnon"), Some(12 << 10));
        assert_eq!(field("VmHWM:\t 2800 kB\n", "VmRSS"), None);
    }

    #[test]
    fn memory_that_was_held_for_a_while_is_in_the_peak() {
        let peaks = Peaks::start();
        let held = vec![1u8; 64 << 20];
        thread::sleep(PERIOD * 5);
        assert_eq!(held[held.len() - 1], 1);
        drop(held);
        let peak = peaks.finish();
        assert!(peak.anon_bytes >= Some(64 << 20), "{peak:?}");
        assert!(peak.rss_bytes >= peak.anon_bytes, "{peak:?}");
    }
}
