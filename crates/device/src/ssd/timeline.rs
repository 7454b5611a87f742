//! Simulated time: the completion times of flash operations and of host commands.
//!
//! The model has one host, which issues commands back to back. A channel performs one operation at
//! a time: it reads, programs, erases or transfers. Host writes wait in the drive's cache until
//! they are programmed. While the cache has room, a write takes only interface time. A flush waits
//! until the cache is empty. The pages of one read are read in parallel. Garbage collection uses
//! the channels in the order of its requests and delays the host only by occupying them.
use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::profile::Geometry;

/// Latencies and bandwidths of a virtual SSD. The header of `ssd/timeline.rs` describes how the
/// model uses them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// Reading a program unit from the cells, in microseconds.
    pub read_us: u32,
    /// Programming a unit ([`pages_per_program`](super::Profile::pages_per_program)), in
    /// microseconds.
    pub program_us: u32,
    /// Erasing a block, in microseconds; the channels erase the blocks of a superblock in
    /// parallel.
    pub erase_us: u32,
    /// Bandwidth between the controller and the chips of one channel, in bytes per second.
    pub channel_bytes_per_s: u64,
    /// Bandwidth between host and drive, in bytes per second.
    pub interface_bytes_per_s: u64,
    /// Size of the write cache in bytes. The cache holds host writes that are not programmed yet,
    /// and has room for at least one program unit.
    pub cache_bytes: u64,
    /// Duration of a flush that has nothing to wait for, in microseconds. With power-loss
    /// protection every flush takes this time.
    pub flush_us: u32,
}

/// Completion times in nanoseconds since the drive was new.
#[derive(Clone)]
pub(super) struct Timeline {
    latency: Latency,
    geometry: Geometry,
    /// Completion time of the host's last command.
    now: u64,
    /// Completion time of each channel's last operation.
    channels: Vec<u64>,
    /// Time at which each unit in the write cache will be programmed, oldest first.
    cached: VecDeque<u64>,
    cached_max: usize,
    /// Time at which all units will be programmed.
    all_programmed: u64,
    /// Completion time of the last read by garbage collection.
    collected: u64,
}

impl Timeline {
    pub fn new(latency: Latency, geometry: &Geometry) -> Timeline {
        let unit_bytes = u64::from(geometry.slots_per_program) * u64::from(geometry.slot_bytes);
        let cached_max = (latency.cache_bytes / unit_bytes) as usize;
        Timeline {
            channels: vec![0; geometry.channels as usize],
            cached: VecDeque::with_capacity(cached_max),
            cached_max,
            latency,
            geometry: *geometry,
            now: 0,
            all_programmed: 0,
            collected: 0,
        }
    }

    /// Returns the time from the drive's first use to the completion of the host's last command.
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.now)
    }

    /// Sets the simulated time to `now`, with no operation in progress.
    pub fn resume(&mut self, now: Duration) {
        self.now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
    }

    /// Transfers bytes between host and drive.
    pub fn interface(&mut self, bytes: u64) {
        self.now += nanoseconds(bytes, self.latency.interface_bytes_per_s);
    }

    /// Programs a complete unit, for the host or for garbage collection.
    pub fn program(&mut self, unit: u32, by_host: bool) {
        if by_host {
            self.wait_for_cache();
        }
        let begin = if by_host { self.now } else { self.now.max(self.collected) };
        let bytes = u64::from(self.geometry.slots_per_program) * u64::from(self.geometry.slot_bytes);
        let takes = microseconds(self.latency.program_us) + nanoseconds(bytes, self.latency.channel_bytes_per_s);
        let done = self.occupy(unit % self.geometry.channels, begin, takes);
        if by_host {
            self.cached.push_back(done);
            self.all_programmed = self.all_programmed.max(done);
        }
    }

    fn wait_for_cache(&mut self) {
        if self.cached.len() == self.cached_max {
            self.now = self.now.max(self.cached[0]);
        }
        while self.cached.front().is_some_and(|done| *done <= self.now) {
            self.cached.pop_front();
        }
    }

    /// Simulates that garbage collection reads pages in parallel. Each item is a program unit and a
    /// number of slots in it.
    pub fn collect(&mut self, pages: impl Iterator<Item = (u32, u32)>) {
        self.collected = self.read_all(pages);
    }

    /// Erases the blocks of a superblock after their valid pages are read.
    pub fn erase(&mut self) {
        for channel in 0..self.geometry.channels {
            self.occupy(channel, self.now.max(self.collected), microseconds(self.latency.erase_us));
        }
    }

    /// Simulates that the host reads pages in parallel. Each item is a program unit and a number of
    /// slots in it.
    pub fn host_read(&mut self, pages: impl Iterator<Item = (u32, u32)>) {
        self.now = self.read_all(pages);
    }

    /// Returns the completion time of all reads. For consecutive pages in one unit, the cells of
    /// the unit are read only once.
    fn read_all(&mut self, pages: impl Iterator<Item = (u32, u32)>) -> u64 {
        let (mut done, mut last) = (self.now, None);
        for (unit, slots) in pages {
            let cells = if last.replace(unit) == Some(unit) { 0 } else { microseconds(self.latency.read_us) };
            let bytes = u64::from(slots) * u64::from(self.geometry.slot_bytes);
            let takes = cells + nanoseconds(bytes, self.latency.channel_bytes_per_s);
            done = done.max(self.occupy(unit % self.geometry.channels, self.now, takes));
        }
        done
    }

    /// Simulates a flush: the host waits until its writes are programmed. With power-loss
    /// protection the host does not wait for them.
    pub fn flush(&mut self, is_protected: bool) {
        if !is_protected {
            self.now = self.now.max(self.all_programmed);
        }
        self.now += microseconds(self.latency.flush_us);
    }

    fn occupy(&mut self, channel: u32, begin: u64, takes: u64) -> u64 {
        let channel = &mut self.channels[channel as usize];
        *channel = begin.max(*channel) + takes;
        *channel
    }
}

fn microseconds(us: u32) -> u64 {
    u64::from(us) * 1000
}

fn nanoseconds(bytes: u64, bytes_per_s: u64) -> u64 {
    bytes * 1_000_000_000 / bytes_per_s
}
