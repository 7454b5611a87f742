//! What writing cost lately: WA2 since the drive was new hides what it is now.
use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::counts::Counts;

/// Windows that are kept.
const WINDOWS_MAX: usize = 64;

/// Bytes that the host wrote and that were programmed, by windows of so many host bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Windows {
    window_bytes: u64,
    begin: Counts,
    ended: VecDeque<Window>,
}

/// What happened while the host wrote about as many bytes as a window has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// What the host wrote, up to one command more than the window.
    pub host_bytes: u64,
    /// What was programmed.
    pub nand_bytes: u64,
}

impl Window {
    /// Bytes programmed for each byte that the host wrote.
    pub fn wa2(&self) -> f64 {
        self.nand_bytes as f64 / self.host_bytes as f64
    }
}

impl Windows {
    /// Windows of `window_bytes`, at least one byte, from `begin` on.
    pub fn new(window_bytes: u64, begin: Counts) -> Windows {
        Windows { window_bytes: window_bytes.max(1), begin, ended: VecDeque::with_capacity(WINDOWS_MAX) }
    }

    /// Takes note of what the drive has counted by now.
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

    /// The last ones that ended, oldest first.
    pub fn ended(&self) -> impl DoubleEndedIterator<Item = Window> + '_ {
        self.ended.iter().copied()
    }

    /// Whether the last three windows differ by less than `share` of the last one.
    pub fn are_within(&self, share: f64) -> bool {
        let last: Vec<f64> = self.ended().rev().take(3).map(|window| window.wa2()).collect();
        let [last, others @ ..] = &last[..] else { return false };
        others.len() == 2 && others.iter().all(|wa2| (wa2 / last - 1.0).abs() < share)
    }
}
