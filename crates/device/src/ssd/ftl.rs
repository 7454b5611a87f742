//! The flash translation layer (FTL): it places pages, collects garbage, and counts the bytes of
//! flash that are programmed for host writes and for garbage collection. It is deterministic, and
//! it has no data, no I/O and no clock.

mod check;
mod saved;

use std::ops::Range;
use std::time::Duration;

use super::chance::Chance;
use super::counts::{Cause, Counts};
use super::map::Map;
use super::pool::{Pool, State};
use super::profile::{GcFrontier, Geometry, Profile};
use super::timeline::Timeline;
use super::victims::Victims;
use crate::{Error, Result, Stream};

/// The translation layer of a drive, without the drive's data. Allocates all of its memory when it
/// is created.
#[derive(Clone)]
pub struct Ftl {
    profile: Profile,
    geometry: Geometry,
    map: Map,
    pool: Pool,
    victims: Victims,
    /// The open superblock of each frontier (write position). The frontiers are those of the host's
    /// streams, those of garbage collection, and that of wear levelling.
    open: Vec<Option<u32>>,
    counts: Counts,
    /// Number of host writes so far. The ages of superblocks are measured in this number.
    now: u64,
    timeline: Option<Timeline>,
}

/// A page written by the host.
#[derive(Clone, Copy, Debug)]
pub struct PageWrite {
    /// The number of the logical page.
    pub page: u64,
    /// The host's stream.
    pub stream: Stream,
    /// Bytes of the page that the host sent. The drive reads the rest of the page and programs it
    /// again.
    pub host_bytes: u32,
    /// Slots of 512 bytes that the page occupies if the controller compresses; otherwise the number
    /// of slots of a page.
    pub slots: u32,
}

impl Ftl {
    /// Returns a new drive, unwritten and unworn.
    ///
    /// # Errors
    /// [`Error::Impossible`] names the invalid field of the profile.
    pub fn new(profile: Profile) -> Result<Ftl> {
        let geometry = profile.geometry()?;
        Ok(Ftl {
            map: Map::new(&geometry),
            pool: Pool::new(&geometry),
            victims: Victims::new(profile.collection, &geometry, Chance::new(profile.seed)),
            open: vec![None; geometry.frontiers as usize],
            counts: Counts::default(),
            now: 0,
            timeline: profile.latency.clone().map(|latency| Timeline::new(latency, &geometry)),
            geometry,
            profile,
        })
    }

    /// Returns the profile.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Returns the counters since the drive was new.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Returns the simulated time at which the host's last command completed, if the profile has
    /// latencies.
    pub fn simulated_time(&self) -> Option<Duration> {
        self.timeline.as_ref().map(Timeline::now)
    }

    /// Returns the slot size in bytes (a slot is the allocation unit of flash).
    pub fn slot_bytes(&self) -> u32 {
        self.geometry.slot_bytes
    }

    /// Returns the bytes of mapped pages.
    pub fn mapped_bytes(&self) -> u64 {
        let mapped = (0..self.map.pages()).filter(|page| self.map.slot_of(*page).is_some()).count();
        mapped as u64 * u64::from(self.geometry.page_bytes)
    }

    /// Returns the number of logical pages.
    pub fn pages(&self) -> u64 {
        self.map.pages().into()
    }

    /// Returns the erase count of each superblock.
    pub fn erases(&self) -> impl Iterator<Item = u32> + '_ {
        self.pool.all().iter().map(|block| block.erases)
    }

    /// Returns the number of valid slots of each superblock.
    pub fn valid_slots(&self) -> impl Iterator<Item = u32> + '_ {
        self.pool.all().iter().map(|block| block.valid)
    }

    /// Writes a whole incompressible page.
    ///
    /// # Errors
    /// If the page is beyond the drive's end. The drive does not change then.
    #[inline]
    pub fn write(&mut self, page: u64, stream: Stream) -> Result<()> {
        self.write_page(PageWrite {
            page,
            stream,
            host_bytes: self.geometry.page_bytes,
            slots: self.geometry.slots_per_page,
        })
    }

    /// Writes a page. If `write` states more bytes or slots than a full page has, the numbers of a
    /// full page are used.
    ///
    /// # Errors
    /// If the page is beyond the drive's end. The drive does not change then.
    pub fn write_page(&mut self, write: PageWrite) -> Result<()> {
        let page = self.number(write.page)?;
        let slots = write.slots.clamp(1, self.geometry.slots_per_page);
        let host_bytes = write.host_bytes.min(self.geometry.page_bytes);
        let stream = if write.stream.0 < self.profile.streams { write.stream.0 } else { 0 };
        self.now += 1;
        self.counts.host_bytes += u64::from(host_bytes);
        if let Some(timeline) = &mut self.timeline {
            timeline.interface(host_bytes.into());
        }
        // Invalidate the old copy before garbage collection, which would relocate it otherwise.
        self.invalidate(page);
        let frontier = usize::from(stream);
        self.make_room(frontier, slots);
        self.append(frontier, page, slots, true);
        // The bytes of the page that the host did not send are padding. They are scaled by the
        // page's compression ratio.
        let programmed = u64::from(slots) * u64::from(self.geometry.slot_bytes);
        let host = programmed * u64::from(host_bytes) / u64::from(self.geometry.page_bytes);
        self.counts.program(Cause::Host, host);
        self.counts.program(Cause::Padding, programmed - host);
        Ok(())
    }

    /// Unmaps pages. Their slots become garbage.
    ///
    /// # Errors
    /// If any page is beyond the drive's end. The drive does not change then.
    pub fn trim(&mut self, pages: Range<u64>) -> Result<()> {
        if pages.is_empty() {
            return Ok(());
        }
        self.number(pages.end - 1)?;
        for page in pages.start as u32..pages.end as u32 {
            if self.invalidate(page) {
                self.counts.trimmed_bytes += u64::from(self.geometry.page_bytes);
            }
        }
        Ok(())
    }

    /// Reads pages in parallel and returns how many of them are mapped.
    ///
    /// # Errors
    /// If any page is beyond the drive's end. The drive does not change then.
    pub fn read(&mut self, pages: Range<u64>) -> Result<u64> {
        if pages.is_empty() {
            return Ok(0);
        }
        self.number(pages.end - 1)?;
        let bytes = (pages.end - pages.start) * u64::from(self.geometry.page_bytes);
        self.counts.read_bytes += bytes;
        let (map, unit) = (&self.map, self.geometry.slots_per_program);
        let slots = (pages.start as u32..pages.end as u32).filter_map(|page| map.slot_of(page));
        if let Some(timeline) = &mut self.timeline {
            timeline.host_read(slots.clone().map(|slot| (slot / unit, map.slots_at(slot))));
            timeline.interface(bytes);
        }
        Ok(slots.count() as u64)
    }

    /// Makes host writes durable. Without power-loss protection, incomplete program units are
    /// padded and programmed.
    pub fn flush(&mut self) {
        self.counts.flushes += 1;
        let is_protected = self.profile.power_loss_protection;
        for frontier in (0..usize::from(self.profile.streams)).filter(|_| !is_protected) {
            let Some(number) = self.open[frontier] else { continue };
            let unit = self.geometry.slots_per_program;
            self.pad(frontier, self.pool.get(number).written.next_multiple_of(unit));
        }
        if let Some(timeline) = &mut self.timeline {
            timeline.flush(is_protected);
        }
    }

    fn number(&self, page: u64) -> Result<u32> {
        if page < u64::from(self.map.pages()) {
            return Ok(page as u32);
        }
        let len = u64::from(self.geometry.page_bytes);
        Err(Error::BeyondEnd { offset: page.saturating_mul(len), len, end: self.profile.capacity_bytes })
    }

    /// Invalidates a page's slots. Returns whether it was mapped.
    #[inline]
    fn invalidate(&mut self, page: u32) -> bool {
        let Some((slot, slots)) = self.map.take(page) else { return false };
        let number = slot / self.geometry.slots_per_superblock;
        let block = self.pool.get_mut(number);
        let before = block.valid;
        block.valid -= slots;
        block.changed_at = self.now;
        if block.state == State::Closed {
            self.victims.lost(number, before, before - slots);
        }
        true
    }

    /// Ensures that the frontier (write position) has an open superblock with `slots` free slots.
    /// Collects garbage if necessary. The loop terminates, because a valid profile has enough
    /// flash: when all frontiers have an open superblock and only the reserve is free, the closed
    /// superblocks must contain garbage.
    #[inline]
    fn make_room(&mut self, frontier: usize, slots: u32) {
        loop {
            self.pad_unless_it_fits(frontier, slots);
            match self.open[frontier] {
                Some(_) => return,
                None if self.pool.free() > self.profile.reserved_superblocks => self.open_one(frontier),
                None => self.collect(),
            }
        }
    }

    #[inline]
    fn pad_unless_it_fits(&mut self, frontier: usize, slots: u32) {
        let slots_max = self.geometry.slots_per_superblock;
        if self.open[frontier].is_some_and(|number| slots_max - self.pool.get(number).written < slots) {
            self.pad(frontier, slots_max);
        }
    }

    fn open_one(&mut self, frontier: usize) {
        let stream = frontier % usize::from(self.profile.streams);
        let opened = match self.profile.wear_spread_max {
            Some(_) if frontier + 1 == self.open.len() => self.pool.open_worn(),
            _ => self.pool.open(stream as u8),
        };
        self.open[frontier] = Some(opened.expect("collection leaves a superblock free"));
    }

    /// Places the page in the open superblock of the frontier (write position). This superblock has
    /// room.
    #[inline]
    fn append(&mut self, frontier: usize, page: u32, slots: u32, by_host: bool) {
        let number = self.open[frontier].expect("room was made");
        let block = self.pool.get_mut(number);
        self.map.put(page, number * self.geometry.slots_per_superblock + block.written, slots);
        block.written += slots;
        block.valid += slots;
        block.changed_at = self.now;
        let written = block.written;
        self.program(number, written - slots, written, by_host);
        if written == self.geometry.slots_per_superblock {
            self.close(frontier, number);
        }
    }

    /// Simulates the time to program an open superblock whose number of filled slots grows from
    /// `before` to `written`. Only the program units that are complete at `written` but were not at
    /// `before` are programmed.
    #[inline]
    fn program(&mut self, number: u32, before: u32, written: u32, by_host: bool) {
        if let Some(timeline) = &mut self.timeline {
            let (unit, first) = (self.geometry.slots_per_program, number * self.geometry.units_per_superblock());
            (before / unit..written / unit).for_each(|whole| timeline.program(first + whole, by_host));
        }
    }

    /// Pads the open superblock of the frontier (write position), so that `written` of its slots
    /// are filled.
    fn pad(&mut self, frontier: usize, written: u32) {
        let number = self.open[frontier].expect("what is padded is open");
        let block = self.pool.get_mut(number);
        let before = std::mem::replace(&mut block.written, written);
        self.counts.program(Cause::Padding, u64::from(written - before) * u64::from(self.geometry.slot_bytes));
        self.program(number, before, written, frontier < usize::from(self.profile.streams));
        if written == self.geometry.slots_per_superblock {
            self.close(frontier, number);
        }
    }

    fn close(&mut self, frontier: usize, number: u32) {
        self.open[frontier] = None;
        let block = self.pool.get_mut(number);
        block.state = State::Closed;
        self.victims.insert(number, block.valid);
    }

    /// Collects and erases one superblock. If wear is uneven, collects and erases a second one for
    /// wear levelling.
    fn collect(&mut self) {
        let victim = self
            .victims
            .choose(&self.pool, self.now)
            .expect("a valid profile closes superblocks before free ones are out");
        self.move_out(victim, self.gc_frontier(victim), Cause::Collection);
        self.level_wear();
    }

    /// Wear levelling. If the erase counts differ too much, relocates the data of the least worn
    /// superblock. A superblock needs at most one such relocation while all other superblocks are
    /// erased `spread_max` times. The check is therefore made only at every (`spread_max` / 2)th
    /// erase of the drive.
    fn level_wear(&mut self) {
        let Some(spread_max) = self.profile.wear_spread_max else { return };
        if self.counts.erases.is_multiple_of(u64::from(spread_max / 2).max(1))
            && let Some(number) = self.pool.too_little_worn(spread_max)
        {
            self.move_out(number, self.open.len() - 1, Cause::Wear);
        }
    }

    /// Relocates the valid pages of a closed superblock and erases it. Uses at most one free
    /// superblock: if pages do not fit into the open superblock of the frontier (write position),
    /// they are placed in this free superblock in the same order, and all of them fit into it.
    fn move_out(&mut self, number: u32, frontier: usize, cause: Cause) {
        let block = self.pool.get(number);
        self.victims.remove(number, block.valid);
        let begin = number * self.geometry.slots_per_superblock;
        let (mut slot, mut left) = (begin, block.valid);
        if let Some(timeline) = &mut self.timeline {
            let pages = (begin..begin + block.written).filter(|slot| self.map.page_at(*slot).is_some());
            timeline.collect(pages.map(|slot| (slot / self.geometry.slots_per_program, self.map.slots_at(slot))));
        }
        while left > 0 {
            let Some(page) = self.map.page_at(slot) else {
                slot += 1;
                continue;
            };
            let (_, slots) = self.map.take(page).expect("a page that lies somewhere is mapped");
            self.pad_unless_it_fits(frontier, slots);
            if self.open[frontier].is_none() {
                self.open_one(frontier);
            }
            self.append(frontier, page, slots, false);
            self.counts.program(cause, u64::from(slots) * u64::from(self.geometry.slot_bytes));
            slot += slots;
            left -= slots;
        }
        self.pool.get_mut(number).valid = 0;
        self.pool.erase(number);
        self.counts.erases += 1;
        if let Some(timeline) = &mut self.timeline {
            timeline.erase();
        }
    }

    fn gc_frontier(&self, number: u32) -> usize {
        let streams = usize::from(self.profile.streams);
        let stream = usize::from(self.pool.get(number).stream);
        match self.profile.gc_frontier {
            GcFrontier::Shared => stream,
            GcFrontier::Separate => streams,
            GcFrontier::PerStream => streams + stream,
        }
    }
}
