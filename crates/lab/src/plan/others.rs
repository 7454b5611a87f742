//! What everyone else did meanwhile: processor time that neither this run nor the kernel for it used.
//!
//! The kernel's own threads are not others: they write back, commit and serve loop devices for the cell. Interrupts are
//! left out for the same reason. Time that a hypervisor took away is counted: it is missing just the same.
use std::{collections::BTreeMap, fs, process, time::Instant};

/// Ticks a second in which Linux tells processor times to programs, on every architecture.
const TICKS: f64 = 100.0;
/// The flag of a kernel thread in field 9 of /proc/PID/stat.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// Processor times at one moment, in ticks.
#[derive(Clone, Debug)]
pub struct Sample {
    at: Instant,
    busy: u64,
    own: u64,
    kernel: BTreeMap<u32, u64>,
}

impl Sample {
    /// Takes one. `child` has not been waited for. `None` where the kernel does not tell.
    pub fn take(child: u32) -> Option<Sample> {
        let busy = busy(&fs::read_to_string("/proc/stat").ok()?)?;
        let own = Task::read(process::id())?;
        let child = Task::read(child).map_or(0, |task| task.ticks);
        let names = fs::read_dir("/proc").ok()?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let kernel = names.filter_map(|pid| Some((pid, Task::read(pid).filter(|task| task.kernel)?.ticks))).collect();
        Some(Sample { at: Instant::now(), busy, own: own.ticks + own.ticks_of_waited + child, kernel })
    }

    /// Processors that others kept busy on average since `earlier`. Less than a second counts as one, since times come
    /// in ticks.
    pub fn others_since(&self, earlier: &Sample) -> f64 {
        let kernel: u64 =
            self.kernel.iter().map(|(pid, ticks)| ticks.saturating_sub(*earlier.kernel.get(pid).unwrap_or(&0))).sum();
        let ours = self.own.saturating_sub(earlier.own) + kernel;
        let others = self.busy.saturating_sub(earlier.busy).saturating_sub(ours) as f64 / TICKS;
        others / self.at.duration_since(earlier.at).as_secs_f64().max(1.0)
    }
}

/// Ticks of user, nice, system and stolen time in the first line of /proc/stat, proc(5).
fn busy(stat: &str) -> Option<u64> {
    let ticks: Vec<u64> =
        stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace().map_while(|field| field.parse().ok()).collect();
    [0, 1, 2, 7].iter().map(|&field| ticks.get(field)).sum()
}

/// What /proc/PID/stat says.
struct Task {
    kernel: bool,
    ticks: u64,
    ticks_of_waited: u64,
}

impl Task {
    fn read(pid: u32) -> Option<Task> {
        Task::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// The name in brackets may hold anything, so fields are counted from the last bracket; the first there is field 3.
    fn parse(stat: &str) -> Option<Task> {
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Task {
            kernel: field(9)? & KERNEL_THREAD != 0,
            ticks: field(14)? + field(15)?,
            ticks_of_waited: field(16)? + field(17)?,
        })
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
        assert_eq!((task.kernel, task.ticks, task.ticks_of_waited), (true, 11, 150));
        assert!(!Task::parse("7 (x) R 1 7 7 0 -1 4194304 9 9 9 9 5 6 70 80 20").unwrap().kernel);
        assert!(Task::parse("7 (x) R 1").is_none());
    }

    #[test]
    fn only_others_are_counted() {
        let at = Instant::now();
        let before = Sample { at, busy: 1000, own: 100, kernel: BTreeMap::from([(2, 50), (3, 10)]) };
        let after = |seconds, busy, own, kernel| Sample { at: at + Duration::from_secs(seconds), busy, own, kernel };
        let kernel = BTreeMap::from([(2, 70), (9, 30)]); // 20 more, 30 new, one gone
        // 400 ticks busy: 150 ours, 50 the kernel's, 200 of others in 4 s.
        assert_eq!(after(4, 1400, 250, kernel.clone()).others_since(&before), 0.5);
        assert_eq!(after(0, 1100, 150, kernel).others_since(&before), 0.0);
    }
}
