//! Simulated time: when flash would be done with what it was told, and when the host would hear of it.
//!
//! One host gives one command after the other and never rests. A channel does one thing at a time: it reads, programs, erases, or
//! moves data. What the host writes waits in the drive's cache until it is
//! programmed, so a write takes only the time of the interface while the cache has room; a flush waits until it is empty. All
//! pages of one read are asked for at once. Collection takes the channels as it comes and holds the host up through them alone.
use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::profile::Geometry;

/// How long flash takes. See `ssd/timeline.rs` for what is made of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// To read a programmed unit out of the cells, in microseconds.
    pub read_us: u32,
    /// To program a unit ([`pages_per_program`](super::Profile::pages_per_program)), in microseconds.
    pub program_us: u32,
    /// To erase a block, in microseconds; all channels erase theirs of a superblock side by side.
    pub erase_us: u32,
    /// Between the controller and the chips of one channel, in bytes per second.
    pub channel_bytes_per_s: u64,
    /// Between host and drive, in bytes per second.
    pub interface_bytes_per_s: u64,
    /// What the host may have written that is not programmed yet, in bytes: at least one unit.
    pub cache_bytes: u64,
    /// What a flush takes when there is nothing to wait for, in microseconds. With power-loss protection it is all it takes.
    pub flush_us: u32,
}

/// When everything is done, in nanoseconds since the drive was new.
#[derive(Clone)]
pub(super) struct Timeline {
    latency: Latency,
    geometry: Geometry,
    /// The host's last command is answered.
    now: u64,
    /// Each channel has done all it was told.
    channels: Vec<u64>,
    /// The host's units in the cache are programmed, oldest first.
    cached: VecDeque<u64>,
    cached_max: usize,
    /// All of them are.
    all_programmed: u64,
    /// What collection read last is read.
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

    /// Since the drive was new until the host's last command was answered.
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.now)
    }

    /// Takes up the time where another drive like this one left it, with nothing under way.
    pub fn resume(&mut self, now: Duration) {
        self.now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
    }

    /// The host sends or gets bytes.
    pub fn interface(&mut self, bytes: u64) {
        self.now += nanoseconds(bytes, self.latency.interface_bytes_per_s);
    }

    /// The unit is full and is programmed, for the host or for collection.
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

    /// Collection reads pages, each a unit and slots of it, all at once.
    pub fn collect(&mut self, pages: impl Iterator<Item = (u32, u32)>) {
        self.collected = self.read_all(pages);
    }

    /// The blocks of a superblock are erased, once what they held is read.
    pub fn erase(&mut self) {
        for channel in 0..self.geometry.channels {
            self.occupy(channel, self.now.max(self.collected), microseconds(self.latency.erase_us));
        }
    }

    /// The host reads pages, each a unit and slots of it, all at once.
    pub fn host_read(&mut self, pages: impl Iterator<Item = (u32, u32)>) {
        self.now = self.read_all(pages);
    }

    /// When all of them are read. The cells of a unit are read once for all of its pages that come one after the other.
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

    /// The host waits until all it wrote is programmed, unless it would be anyway.
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
