//! Measures how much processor time other processes use during a cell (one engine in one round).
//! The time of this run is excluded, and so is the time that the kernel spends for this run.
//!
//! Kernel threads do not count as other processes, because they perform writeback, journal commits
//! and loop device I/O for the cell. Interrupts are excluded for the same reason. Time that a
//! hypervisor takes away is included, because the run cannot use it.
use std::{collections::BTreeMap, fs, process, time::Instant};

/// Number of ticks per second. Linux reports processor times to programs in ticks, and this number
/// is the same on every architecture.
const TICKS: f64 = 100.0;
/// The flag of a kernel thread in field 9 of /proc/PID/stat.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// Processor times of the machine and of this run at one moment, in ticks.
#[derive(Clone, Debug)]
pub struct ProcessorSample {
    at: Instant,
    busy: u64,
    own: u64,
    kernel: BTreeMap<u32, u64>,
}

impl ProcessorSample {
    /// Takes a sample of the processor times. The time of this run is that of this process and its
    /// descendants, such as the server of a virtual SSD. Returns `None` if the kernel does not
    /// report the times.
    pub fn take() -> Option<ProcessorSample> {
        let busy = busy(&fs::read_to_string("/proc/stat").ok()?)?;
        let names = fs::read_dir("/proc").ok()?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let tasks: BTreeMap<u32, Task> = names.filter_map(|pid| Some((pid, Task::read(pid)?))).collect();
        let own = tasks.keys().filter(|pid| descends(&tasks, **pid, process::id())).map(|pid| tasks[pid].whole()).sum();
        let kernel = tasks.iter().filter(|(_, task)| task.kernel).map(|(pid, task)| (*pid, task.ticks)).collect();
        Some(ProcessorSample { at: Instant::now(), busy, own, kernel })
    }

    /// Returns the mean number of processors that other processes used since `earlier`. A period
    /// shorter than one second is treated as one second, because the times are in coarse ticks.
    pub fn others_since(&self, earlier: &ProcessorSample) -> f64 {
        let kernel: u64 =
            self.kernel.iter().map(|(pid, ticks)| ticks.saturating_sub(*earlier.kernel.get(pid).unwrap_or(&0))).sum();
        let ours = self.own.saturating_sub(earlier.own) + kernel;
        let others = self.busy.saturating_sub(earlier.busy).saturating_sub(ours) as f64 / TICKS;
        others / self.at.duration_since(earlier.at).as_secs_f64().max(1.0)
    }
}

/// Returns whether the process `pid` is `ancestor` or a descendant of it.
fn descends(tasks: &BTreeMap<u32, Task>, mut pid: u32, ancestor: u32) -> bool {
    // Processes start and end while the list of processes is read, so the parents in the list could
    // form a cycle. The number of steps is therefore bounded.
    for _ in 0..tasks.len() {
        match tasks.get(&pid) {
            _ if pid == ancestor => return true,
            Some(task) => pid = task.parent,
            None => return false,
        }
    }
    false
}

/// Returns the sum of user, nice, system and stolen time in ticks, from the first line of
/// /proc/stat, see proc(5).
fn busy(stat: &str) -> Option<u64> {
    let ticks: Vec<u64> =
        stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace().map_while(|field| field.parse().ok()).collect();
    [0, 1, 2, 7].iter().map(|&field| ticks.get(field)).sum()
}

/// The fields of /proc/PID/stat that this module uses.
struct Task {
    parent: u32,
    kernel: bool,
    ticks: u64,
    ticks_of_waited: u64,
}

impl Task {
    fn read(pid: u32) -> Option<Task> {
        Task::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Parses the text of /proc/PID/stat. The process name in parentheses may contain any text. The
    /// fields are therefore counted from the last parenthesis, after which field number 3 follows.
    fn parse(stat: &str) -> Option<Task> {
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Task {
            parent: field(4)? as u32,
            kernel: field(9)? & KERNEL_THREAD != 0,
            ticks: field(14)? + field(15)?,
            ticks_of_waited: field(16)? + field(17)?,
        })
    }

    /// Returns the ticks of the process, including those of ended children for which it has waited.
    fn whole(&self) -> u64 {
        self.ticks + self.ticks_of_waited
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn fields_of_proc() {
        assert_eq!(busy("cpu  100 20 3 9999 88 77 66 4 0 0\ncpu0 1 1 1 1\n"), Some(127));
        assert_eq!(busy("intr 1 2 3"), None);
        let task = Task::parse("7 (a) b) R 1 7 7 0 -1 2129984 9 9 9 9 5 6 70 80 20 0 1").unwrap();
        assert_eq!((task.parent, task.kernel, task.ticks, task.whole()), (1, true, 11, 161));
        assert!(!Task::parse("7 (x) R 1 7 7 0 -1 4194304 9 9 9 9 5 6 70 80 20").unwrap().kernel);
        assert!(Task::parse("7 (x) R 1").is_none());
    }

    #[test]
    fn descendants_of_a_run_are_not_others() {
        let task = |parent| Task { parent, kernel: false, ticks: 1, ticks_of_waited: 0 };
        let tasks =
            BTreeMap::from([(1, task(0)), (5, task(1)), (9, task(5)), (7, task(9)), (3, task(4)), (4, task(3))]);
        let own = |ancestor| tasks.keys().copied().filter(|pid| descends(&tasks, *pid, ancestor)).collect::<Vec<_>>();
        assert_eq!((own(5), own(3), own(8)), (vec![5, 7, 9], vec![3, 4], vec![]));
        // Tests that a child process of this run is never counted as another process, neither
        // before nor after this process has waited for the child.
        let before = ProcessorSample::take().unwrap();
        let mut child = process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(300));
        let with_child = ProcessorSample::take().unwrap();
        assert!(with_child.own >= before.own + 10, "{before:?} {with_child:?}");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(ProcessorSample::take().unwrap().own >= with_child.own);
    }

    #[test]
    fn only_others_are_counted() {
        let at = Instant::now();
        let before = ProcessorSample { at, busy: 1000, own: 100, kernel: BTreeMap::from([(2, 50), (3, 10)]) };
        let after =
            |seconds, busy, own, kernel| ProcessorSample { at: at + Duration::from_secs(seconds), busy, own, kernel };
        let kernel = BTreeMap::from([(2, 70), (9, 30)]); // 20 more, 30 new, one ended
        // Of the 400 ticks that were busy in 4 s, this run used 150, kernel threads used 50, and
        // other processes used 200.
        assert_eq!(after(4, 1400, 250, kernel.clone()).others_since(&before), 0.5);
        assert_eq!(after(0, 1100, 150, kernel).others_since(&before), 0.0);
    }
}
