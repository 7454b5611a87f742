//! Recent write amplification of a drive, for the last intervals (windows) of its life. The
//! average of WA2 (flash bytes programmed for each host byte) over the whole life would hide the
//! present value of WA2.
use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::counts::Counts;

/// Number of windows kept.
const WINDOWS_MAX: usize = 64;

/// Bytes written by the host and bytes programmed, in windows. In each window the host writes the
/// same number of bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Windows {
    window_bytes: u64,
    begin: Counts,
    ended: VecDeque<Window>,
}

/// Counters of one window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Bytes written by the host: at least the window size, and more by up to one command.
    pub host_bytes: u64,
    /// Bytes programmed.
    pub nand_bytes: u64,
}

impl Window {
    /// Returns the bytes programmed per host byte.
    pub fn wa2(&self) -> f64 {
        self.nand_bytes as f64 / self.host_bytes as f64
    }
}

impl Windows {
    /// Starts windows at counters `begin`. A window is an interval with host writes of
    /// `window_bytes` bytes, at least one byte.
    pub fn new(window_bytes: u64, begin: Counts) -> Windows {
        Windows { window_bytes: window_bytes.max(1), begin, ended: VecDeque::with_capacity(WINDOWS_MAX) }
    }

    /// Records the drive's current counters.
    #[inline]
    pub fn note(&mut self, counts: &Counts) {
        if counts.host_bytes - self.begin.host_bytes < self.window_bytes {
            return;
        }
        let window = counts.since(&self.begin);
        if self.ended.len() == WINDOWS_MAX {
            self.ended.pop_front();
        }
        self.ended.push_back(Window { host_bytes: window.host_bytes, nand_bytes: window.nand_bytes() });
        self.begin = counts.clone();
    }

    /// Returns the last complete windows, oldest first.
    pub fn ended(&self) -> impl DoubleEndedIterator<Item = Window> + '_ {
        self.ended.iter().copied()
    }

    /// Returns whether the last three windows differ by less than `share` of the last one.
    pub fn are_within(&self, share: f64) -> bool {
        let last: Vec<f64> = self.ended().rev().take(3).map(|window| window.wa2()).collect();
        let [last, others @ ..] = &last[..] else { return false };
        others.len() == 2 && others.iter().all(|wa2| (wa2 / last - 1.0).abs() < share)
    }
}
