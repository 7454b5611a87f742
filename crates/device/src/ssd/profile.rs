//! Profiles of virtual SSDs, and their validation. A profile is a set of parameters, such as
//! capacity, page size and victim selection.

use serde::{Deserialize, Serialize};

use super::timeline::Latency;
use crate::{Error, Result};

/// Maximum number of superblocks, slots and pages. Each is identified by a number of 32 bits, and
/// the largest values are reserved.
const SLOTS_MAX: u64 = u32::MAX as u64 - 2;
/// Size in bytes of a slot (allocation unit of flash) if the controller compresses.
const COMPRESSED_SLOT_BYTES: u32 = 512;

/// A drive profile. [`Ftl::new`](super::Ftl::new) rejects an impossible profile and names the
/// invalid field.
///
/// In TOML or JSON, missing fields have the values of [`Profile::default`], and unknown fields
/// are rejected.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Profile {
    /// Name used in reports.
    pub name: String,
    /// Capacity visible to the host in bytes: a multiple of the page size.
    pub capacity_bytes: u64,
    /// Mapping unit in bytes: a power of two from 4096 to 65536. A partial write programs the
    /// whole page.
    pub page_bytes: u32,
    /// Pages per erase block.
    pub pages_per_block: u32,
    /// Pages that a channel programs in one operation (a program unit). A flush pads an incomplete
    /// unit, unless the drive has [`power_loss_protection`](Self::power_loss_protection).
    pub pages_per_program: u32,
    /// Channels that work in parallel. A superblock is one erase block of each.
    pub channels: u32,
    /// Flash beyond the capacity, as a fraction of the capacity: 0.07 is 7 %. Rounding to whole
    /// superblocks may lose a part of this flash.
    pub over_provisioning: f64,
    /// Free superblocks reserved for garbage collection, at least 1. Garbage collection starts when
    /// a write position needs a new superblock and only the reserved ones are free.
    pub reserved_superblocks: u32,
    /// The method by which garbage collection selects victims (superblocks to collect).
    pub collection: Collection,
    /// The write position of pages that garbage collection relocates.
    pub gc_frontier: GcFrontier,
    /// Number of streams, 1 to 64. Writes to other streams use stream 0.
    pub streams: u8,
    /// Wear levelling starts when the most worn superblock has this many more erases than the least
    /// worn one. It moves the data of the least worn superblock to the most worn free one. `None`
    /// disables wear levelling. Other writes always use the least worn free superblock.
    pub wear_spread_max: Option<u32>,
    /// Whether cached writes survive a power cut, so that a flush pads nothing.
    pub power_loss_protection: bool,
    /// Pages that the controller compresses together, 1 to 256; `None` without compression.
    pub compressed_pages: Option<u32>,
    /// Latencies and bandwidths; `None` simulates no time.
    pub latency: Option<Latency>,
    /// Seed of the random choices. Equal seeds and equal writes give equal drives.
    pub seed: u64,
}

/// Victim selection of garbage collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Collection {
    /// The superblock with the fewest valid slots. Among superblocks with the same number, the one
    /// that has had this number for the longest time.
    Greedy,
    /// The superblock with the largest (1 − u) / 2u × age, where u is its valid fraction and age
    /// the time since its valid pages last changed.
    CostBenefit,
    /// The superblock with the fewest valid slots in a random sample of this size, 1 to 255.
    Choices(u8),
    /// The superblock that was closed first.
    Fifo,
}

/// Destination of relocated pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GcFrontier {
    /// The frontier (write position) of the host's writes of the same stream.
    Shared,
    /// One frontier for all relocated pages, because they are colder than host writes.
    Separate,
    /// One frontier per stream for relocated pages, so that streams stay separate.
    PerStream,
}

/// Sizes and counts of pages, slots, superblocks and channels that follow from a profile.
#[derive(Clone, Copy, Debug)]
pub(super) struct Geometry {
    pub pages: u32,
    pub page_bytes: u32,
    pub slot_bytes: u32,
    pub slots_per_page: u32,
    pub slots_per_program: u32,
    pub slots_per_superblock: u32,
    pub superblocks: u32,
    pub channels: u32,
    pub frontiers: u32,
}

impl Geometry {
    pub fn units_per_superblock(&self) -> u32 {
        self.slots_per_superblock / self.slots_per_program
    }
}

impl Default for Profile {
    /// 1 GiB of 4 KiB pages in superblocks of 1 MiB, with 7 % over-provisioning, greedy victim
    /// selection, and one separate frontier for relocated pages.
    fn default() -> Self {
        Self {
            name: "plain".into(),
            capacity_bytes: 1 << 30,
            page_bytes: 4096,
            pages_per_block: 64,
            pages_per_program: 1,
            channels: 4,
            over_provisioning: 0.07,
            reserved_superblocks: 1,
            collection: Collection::Greedy,
            gc_frontier: GcFrontier::Separate,
            streams: 1,
            wear_spread_max: None,
            power_loss_protection: false,
            compressed_pages: None,
            latency: None,
            seed: 0,
        }
    }
}

impl Profile {
    /// Returns the size of a superblock in bytes.
    pub fn superblock_bytes(&self) -> u64 {
        u64::from(self.page_bytes) * u64::from(self.pages_per_block) * u64::from(self.channels)
    }

    /// Returns the number of superblocks, over-provisioning included.
    pub fn superblocks(&self) -> u64 {
        let flash = self.capacity_bytes as f64 * (1.0 + self.over_provisioning);
        // Half a byte is added so that rounding errors do not lose a superblock: 1.07 times an
        // integer is rarely an integer in floating point.
        ((flash + 0.5) / self.superblock_bytes() as f64) as u64
    }

    /// Returns the bytes of flash that can hold valid pages, for each byte of capacity. This is the
    /// α of u = e^(−α(1−u)), where u is the fraction of valid pages in a victim superblock. Open
    /// and reserved superblocks are not included.
    pub fn alpha(&self) -> f64 {
        let usable =
            self.superblocks().saturating_sub(u64::from(self.reserved_superblocks) + u64::from(self.frontiers()));
        (usable * self.superblock_bytes()) as f64 / self.capacity_bytes as f64
    }

    fn frontiers(&self) -> u32 {
        let streams = u32::from(self.streams);
        let of_wear = u32::from(self.wear_spread_max.is_some());
        of_wear
            + match self.gc_frontier {
                GcFrontier::Shared => streams,
                GcFrontier::Separate => streams + 1,
                GcFrontier::PerStream => 2 * streams,
            }
    }

    /// Checks whether a drive with this profile can exist.
    ///
    /// # Errors
    /// [`Error::Impossible`] names the first invalid field.
    pub fn validate(&self) -> Result<()> {
        self.geometry().map(drop)
    }

    pub(super) fn geometry(&self) -> Result<Geometry> {
        self.check_sizes()?;
        self.check_policies()?;
        let slot_bytes = if self.compressed_pages.is_some() { COMPRESSED_SLOT_BYTES } else { self.page_bytes };
        let slots_per_page = self.page_bytes / slot_bytes;
        let slots_per_superblock = self.superblock_bytes() / u64::from(slot_bytes);
        let superblocks = self.superblocks();
        if slots_per_superblock.saturating_mul(superblocks) > SLOTS_MAX {
            return impossible(
                "capacity_bytes",
                format!("its flash has more than {SLOTS_MAX} slots of {slot_bytes} bytes"),
            );
        }
        let geometry = Geometry {
            pages: (self.capacity_bytes / u64::from(self.page_bytes)) as u32,
            page_bytes: self.page_bytes,
            slot_bytes,
            slots_per_page,
            slots_per_program: slots_per_page * self.pages_per_program,
            slots_per_superblock: slots_per_superblock as u32,
            superblocks: superblocks as u32,
            channels: self.channels,
            frontiers: self.frontiers(),
        };
        self.check_spare(&geometry)?;
        Ok(geometry)
    }

    fn check_sizes(&self) -> Result<()> {
        let page = self.page_bytes;
        if !page.is_power_of_two() || !(4096..=65536).contains(&page) {
            return impossible("page_bytes", format!("{page} is not 4096, 8192, 16384, 32768 or 65536"));
        }
        if self.capacity_bytes == 0 || !self.capacity_bytes.is_multiple_of(page.into()) {
            let capacity = self.capacity_bytes;
            return impossible("capacity_bytes", format!("{capacity} is not a positive multiple of {page}"));
        }
        within("pages_per_block", self.pages_per_block, 1..=1 << 16)?;
        within("pages_per_program", self.pages_per_program, 1..=self.pages_per_block)?;
        within("channels", self.channels, 1..=1024)?;
        if !self.pages_per_block.is_multiple_of(self.pages_per_program) {
            let (program, block) = (self.pages_per_program, self.pages_per_block);
            return impossible(
                "pages_per_program",
                format!("{program} do not divide the {block} pages of an erase block"),
            );
        }
        let share = self.over_provisioning;
        if !(share > 0.0 && share <= 4.0) {
            return impossible("over_provisioning", format!("{share} is not a share above 0 and up to 4; 0.07 is 7 %"));
        }
        Ok(())
    }

    fn check_policies(&self) -> Result<()> {
        within("reserved_superblocks", self.reserved_superblocks, 1..=1 << 20)?;
        within("streams", self.streams.into(), 1..=64)?;
        if let Collection::Choices(0) = self.collection {
            return impossible("collection", "the sample size must be at least 1".into());
        }
        if let Some(pages) = self.compressed_pages {
            within("compressed_pages", pages, 1..=256)?;
        }
        self.latency.as_ref().map_or(Ok(()), |latency| self.check_latency(latency))
    }

    fn check_latency(&self, latency: &Latency) -> Result<()> {
        let unit_bytes = u64::from(self.page_bytes) * u64::from(self.pages_per_program);
        let rates = [
            ("latency.channel_bytes_per_s", latency.channel_bytes_per_s),
            ("latency.interface_bytes_per_s", latency.interface_bytes_per_s),
        ];
        for (field, rate) in rates {
            if rate < 1000 {
                return impossible(field, format!("{rate} is too slow to be meant; at least 1000"));
            }
        }
        if !(unit_bytes..=1 << 34).contains(&latency.cache_bytes) {
            let cache = latency.cache_bytes;
            let why = format!("{cache} is not in {unit_bytes}, which are programmed at once, to {}", 1u64 << 34);
            return impossible("latency.cache_bytes", why);
        }
        Ok(())
    }

    /// Checks that garbage collection always gains space. Consider the moment when all frontiers
    /// (write positions) have an open superblock and only the reserve is free. All valid pages must
    /// then fit into the other superblocks. Each superblock may waste less than one page at its
    /// end, where the next compressed page does not fit.
    fn check_spare(&self, geometry: &Geometry) -> Result<()> {
        let usable = u64::from(geometry.slots_per_superblock - (geometry.slots_per_page - 1));
        let valid = u64::from(geometry.pages) * u64::from(geometry.slots_per_page);
        let needed = valid.div_ceil(usable) + u64::from(self.reserved_superblocks) + u64::from(geometry.frontiers);
        let there = u64::from(geometry.superblocks);
        if there < needed {
            return impossible(
                "over_provisioning",
                format!(
                    "makes {there} superblocks of {} bytes, but {needed} are needed: the capacity, {} reserved ones, {} open ones; \
                 give it more, or make superblocks smaller (pages_per_block, channels)",
                    self.superblock_bytes(),
                    self.reserved_superblocks,
                    geometry.frontiers
                ),
            );
        }
        Ok(())
    }
}

fn within(field: &'static str, value: u32, range: std::ops::RangeInclusive<u32>) -> Result<()> {
    if range.contains(&value) {
        return Ok(());
    }
    impossible(field, format!("{value} is not in {} to {}", range.start(), range.end()))
}

fn impossible<T>(field: &'static str, why: String) -> Result<T> {
    Err(Error::Impossible { field, why })
}
