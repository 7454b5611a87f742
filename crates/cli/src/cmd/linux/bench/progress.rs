//! Shows the progress of a benchmark. On a terminal a bar shows the progress of the whole plan.
//! One line per finished row is always printed.
use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;
use terrace_lab::{
    cell::{self, Row},
    plan::{Cell, Plan, run::Watch},
};

/// Number of steps into which the bar divides the plan.
const STEPS: u64 = 10_000;

/// Interval at which the elapsed time is updated while a cell reports nothing, for example during
/// mkfs.
const TICK: Duration = Duration::from_secs(1);

/// The progress bar, and the data for the estimate of the remaining time.
#[derive(Clone)]
pub struct Progress {
    bar: ProgressBar,
    /// Share of the plan (0 to 1) whose results already existed at the start. The estimate of the
    /// remaining time excludes this share.
    began: Option<f64>,
    rounds: u32,
    name_width: usize,
    workload_width: usize,
}

impl Progress {
    /// Returns a bar at its start. The bar is invisible unless standard error is a terminal.
    pub fn new(plan: &Plan) -> Progress {
        Progress::of(plan.rounds(), plan.engines(), plan.steps())
    }

    /// Like [`new`](Self::new), for cells of the given engines and rows.
    pub fn of(rounds: u32, engines: &[String], rows: &[String]) -> Progress {
        let bar = ProgressBar::new(STEPS);
        let style = "{elapsed_precise} {bar:15} {percent:>3} %  {prefix:10}  {wide_msg}";
        bar.set_style(ProgressStyle::with_template(style).expect("it is well formed"));
        let width = |names: &[String]| names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        bar.enable_steady_tick(TICK);
        Progress { bar, began: None, rounds, name_width: width(engines), workload_width: width(rows) }
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn at(&self, share: f64, cell: Cell<'_>, what: &str) {
        self.bar.set_position((share * STEPS as f64) as u64);
        self.bar.set_prefix(left(self.bar.elapsed(), self.began.unwrap_or(0.0), share));
        self.bar.set_message(format!("round {}/{} {} {what}", cell.round, self.rounds, cell.engine));
    }

    /// Prints a line above the bar.
    pub fn say(&self, line: &str) {
        self.bar.suspend(|| eprintln!("{line}"));
    }
}

impl Watch for Progress {
    fn begin(&mut self, cell: Cell<'_>, share: f64) {
        if self.began.is_none() {
            self.began = Some(share);
            self.bar.reset_elapsed();
        }
        self.at(share, cell, "begins");
    }

    fn progress(&mut self, cell: Cell<'_>, progress: &cell::Progress, share: f64) {
        self.at(share, cell, &doing(progress));
    }

    fn row(&mut self, row: &Row) {
        let told = match (&row.error, row.micros_per_op) {
            (Some(error), _) => format!("failed: {error}"),
            (None, Some(micros)) => {
                let settle =
                    row.settle_seconds.map_or_else(String::new, |seconds| format!(" + {seconds:.1} s to settle"));
                let disturbed = if row.disturbed == Some(true) { "  (disturbed)" } else { "" };
                format!("{micros:>10.3} µs/op  {:>8.2} s{settle}{disturbed}", row.seconds.unwrap_or(0.0))
            }
            (None, None) => "done".into(),
        };
        let (name, workload) = (self.name_width, self.workload_width);
        self.say(&format!("round {}  {:name$}  {:workload$}  {told}", row.round, row.name, row.workload));
    }
}

/// Describes the present activity of a cell (one engine in one round).
fn doing(progress: &cell::Progress) -> String {
    let cell::Progress { workload, phase, done, total } = progress;
    match phase.as_str() {
        "run" => format!("{workload} {} %", done.saturating_mul(100) / total.max(done).max(&1)),
        _ => format!("{workload} {phase}"),
    }
}

/// Estimates the remaining time. `elapsed` is the time in which the finished share grew from
/// `began` to `share`.
fn left(elapsed: Duration, began: f64, share: f64) -> String {
    let done = share - began;
    if done < 0.01 * (1.0 - began) {
        return "estimating".into();
    }
    let seconds = (elapsed.as_secs_f64() * (1.0 - share) / done).round() as u64;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s left"),
        (0, minutes, seconds) => format!("{minutes}:{seconds:02} left"),
        (hours, minutes, seconds) => format!("{hours}:{minutes:02}:{seconds:02} left"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_that_runs_is_told_by_how_much_is_done() {
        let at = |phase: &str, done| {
            doing(&cell::Progress { workload: "readseq".into(), phase: phase.into(), done, total: 10 })
        };
        assert_eq!(at("run", 7), "readseq 70 %");
        assert_eq!(at("run", 12), "readseq 100 %"); // the total was unknown before
        assert_eq!(at("settle", 10), "readseq settle");
    }

    #[test]
    fn the_rest_is_estimated_from_what_is_done() {
        let resumed = |seconds, share| left(Duration::from_secs(seconds), 0.8, share);
        let left = |seconds, share| left(Duration::from_secs(seconds), 0.0, share);
        assert_eq!((resumed(5, 0.801), resumed(30, 0.9)), ("estimating".into(), "30 s left".into()));
        assert_eq!(left(5, 0.0), "estimating");
        assert_eq!(left(30, 0.5), "30 s left");
        assert_eq!(left(100, 0.25), "5:00 left");
        assert_eq!(left(3600, 0.25), "3:00:00 left");
    }
}
