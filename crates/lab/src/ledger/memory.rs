//! Measures the peak memory of this process between two moments, the start and the end of a
//! measurement.
use super::own_threads::Registration;
use std::{
    fs,
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread::{self, JoinHandle},
    time::Duration,
};

/// Interval between two samples of the anonymous memory. One sample takes about ten microseconds.
const PERIOD: Duration = Duration::from_millis(20);

/// Samples the memory of this process from `start` to `finish`.
pub struct Peaks {
    /// Whether the kernel could reset its peak of the resident memory when sampling started.
    /// Without the reset, the kernel's peak may be older than the start of sampling.
    is_reset: bool,
    stop: Sender<()>,
    sampler: JoinHandle<MemorySample>,
}

/// Peak memory in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PeakMemory {
    /// Resident memory, including mapped files: the peak that the kernel recorded. If the kernel
    /// cannot reset this peak, the largest sample.
    pub rss_bytes: Option<u64>,
    /// Anonymous memory: the largest sample.
    pub anon_bytes: Option<u64>,
}

#[derive(Clone, Copy, Default)]
struct MemorySample {
    rss: Option<u64>,
    anon: Option<u64>,
}

impl Peaks {
    /// Resets the kernel's peak and starts sampling.
    pub fn start() -> Peaks {
        // The value 5 resets the peak resident set size; see proc_pid_clear_refs(5).
        let is_reset = fs::write("/proc/self/clear_refs", "5").is_ok();
        let (stop, stopped) = mpsc::channel::<()>();
        let sampler = thread::spawn(move || {
            let registration = Registration::of_this_thread();
            let mut most = MemorySample::default();
            loop {
                let now = status(&fs::read_to_string("/proc/self/status").unwrap_or_default());
                most = MemorySample { rss: most.rss.max(now.rss), anon: most.anon.max(now.anon) };
                registration.iter().for_each(Registration::account);
                if stopped.recv_timeout(PERIOD) != Err(RecvTimeoutError::Timeout) {
                    return most;
                }
            }
        });
        Peaks { is_reset, stop, sampler }
    }

    /// Stops sampling and returns the peaks.
    pub fn finish(self) -> PeakMemory {
        drop(self.stop);
        let sampled = self.sampler.join().unwrap_or_default();
        let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let rss_bytes = if self.is_reset { field(&text, "VmHWM") } else { sampled.rss };
        PeakMemory { rss_bytes, anon_bytes: sampled.anon.max(status(&text).anon) }
    }
}

fn status(text: &str) -> MemorySample {
    MemorySample { rss: field(text, "VmRSS"), anon: field(text, "RssAnon") }
}

/// Returns a field of `/proc/self/status` in bytes. The kernel prints it in `kB` of 1024 bytes.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_in_kibibytes() {
        assert_eq!(field("VmHWM:\t   2800 kB\nRssAnon:\t  12 kB\n", "RssAnon"), Some(12 << 10));
        assert_eq!(field("VmHWM:\t 2800 kB\n", "VmRSS"), None);
    }

    #[test]
    fn temporarily_held_memory_is_in_the_peak() {
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
