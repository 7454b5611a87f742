//! The drive's state as a file, so that a preconditioned drive can be loaded instead of being
//! preconditioned again.
//!
//! ```text
//! offset  size  field
//!      0     8  "terr-ssd"
//!      8     4  version: 1
//!     12     4  length of the head
//!     16     n  head, JSON: profile, counters, clocks, open superblocks
//!            18 per superblock: state (0 free, 1 open, 2 closed) stream[1] written[4] erases[4] changed_at[8]
//!             4 number of queued superblocks; then 4 for each, in queue order
//!             4 per slot: the page that starts there, 2^32 − 2 for a continuation, 2^32 − 1 for none
//!             4 CRC-32C of everything before
//! ```
//! Integers are little-endian.
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::super::chance::Chance;
use super::super::counts::Counts;
use super::super::map::Map;
use super::super::pool::{Pool, State, Superblock};
use super::super::profile::{Geometry, Profile};
use super::super::victims::Victims;
use super::Ftl;

const MAGIC: &[u8; 8] = b"terr-ssd";
const VERSION: u32 = 1;
const SUPERBLOCK_BYTES: usize = 18;

#[derive(Serialize, Deserialize)]
struct Head {
    profile: Profile,
    counts: Counts,
    now: u64,
    chance: u64,
    simulated: Option<Duration>,
    open: Vec<Option<u32>>,
}

/// The reason why the bytes are not a valid saved drive.
pub(crate) type Damage = String;

impl Ftl {
    /// Encodes the state. Equal drives have equal bytes.
    pub fn save(&self) -> Vec<u8> {
        let head = Head {
            profile: self.profile.clone(),
            counts: self.counts.clone(),
            now: self.now,
            chance: self.victims.chance().state(),
            simulated: self.simulated_time(),
            open: self.open.clone(),
        };
        let head = serde_json::to_vec(&head).expect("numbers and names are JSON");
        let queued: Vec<u32> = self.victims.queued().map(|(_, number)| number).collect();
        let mut bytes = Vec::with_capacity(body_bytes(&self.geometry, queued.len()) + 24 + head.len());
        bytes.extend_from_slice(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend((head.len() as u32).to_le_bytes());
        bytes.extend(head);
        for block in self.pool.all() {
            bytes.extend([block.state as u8, block.stream]);
            bytes.extend(block.written.to_le_bytes());
            bytes.extend(block.erases.to_le_bytes());
            bytes.extend(block.changed_at.to_le_bytes());
        }
        bytes.extend((queued.len() as u32).to_le_bytes());
        queued.iter().chain(self.map.slots()).for_each(|number| bytes.extend(number.to_le_bytes()));
        bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
        bytes
    }

    /// Restores a saved drive.
    ///
    /// # Errors
    /// Describes the problem. Every byte is verified, and so is the consistency of the tables.
    pub fn restore(bytes: &[u8]) -> Result<Ftl, Damage> {
        let (rest, crc) = bytes.split_last_chunk().ok_or("shorter than any")?;
        let rest = rest.strip_prefix(MAGIC).ok_or("not the state of a virtual drive")?;
        let (version, rest) = u32_from(rest)?;
        if version != VERSION {
            return Err(format!("version {version}; this program reads version {VERSION}"));
        }
        if crc32c::crc32c(&bytes[..bytes.len() - 4]) != u32::from_le_bytes(*crc) {
            return Err("checksum mismatch".into());
        }
        let (head_bytes, rest) = u32_from(rest)?;
        let (head, rest) = rest.split_at_checked(head_bytes as usize).ok_or("its head ends beyond it")?;
        let head: Head = serde_json::from_slice(head).map_err(|error| format!("its head: {error}"))?;
        Ftl::of(head, rest)
    }

    fn of(head: Head, body: &[u8]) -> Result<Ftl, Damage> {
        let geometry = head.profile.geometry().map_err(|error| error.to_string())?;
        // Check the length before allocating memory for the sizes that the profile claims.
        let (superblocks, rest) = (geometry.superblocks as usize * SUPERBLOCK_BYTES <= body.len())
            .then(|| body.split_at(geometry.superblocks as usize * SUPERBLOCK_BYTES))
            .ok_or("its superblocks end beyond it")?;
        let (queued, rest) = u32_from(rest)?;
        if body.len() != body_bytes(&geometry, queued as usize) {
            return Err("its tables are not of the size of its profile".into());
        }
        let (queued, slots) = rest.split_at(queued as usize * 4);
        let (map, valid) = Map::restore(&geometry, slots.as_chunks().0.iter().map(|slot| u32::from_le_bytes(*slot)))?;
        let blocks = superblocks.as_chunks::<SUPERBLOCK_BYTES>().0.iter().zip(valid);
        let pool = Pool::of(blocks.map(|(bytes, valid)| superblock(bytes, valid)).collect::<Result<_, _>>()?);
        let victims = requeue(&head, &geometry, &pool, queued)?;
        if head.open.len() != geometry.frontiers as usize {
            return Err("its frontiers are not those of its profile".into());
        }
        let mut ftl = Ftl::new(head.profile).map_err(|error| error.to_string())?;
        (ftl.map, ftl.pool, ftl.victims, ftl.open) = (map, pool, victims, head.open);
        (ftl.counts, ftl.now) = (head.counts, head.now);
        if let (Some(timeline), Some(simulated)) = (&mut ftl.timeline, head.simulated) {
            timeline.resume(simulated);
        }
        ftl.check_room_to_grow()?;
        ftl.check()?;
        Ok(ftl)
    }
}

fn requeue(head: &Head, geometry: &Geometry, pool: &Pool, queued: &[u8]) -> Result<Victims, Damage> {
    let mut victims = Victims::new(head.profile.collection, geometry, Chance::new(head.chance));
    let mut is_queued = vec![false; pool.all().len()];
    for number in queued.as_chunks().0.iter().map(|number| u32::from_le_bytes(*number)) {
        // A superblock that is queued twice would make the linked list of the queue circular.
        if is_queued.get_mut(number as usize).is_none_or(|was| std::mem::replace(was, true)) {
            return Err(format!("superblock {number} is not there to be queued"));
        }
        victims.insert(number, pool.get(number).valid);
    }
    Ok(victims)
}

fn superblock(bytes: &[u8; SUPERBLOCK_BYTES], valid: u32) -> Result<Superblock, Damage> {
    let [state, stream, rest @ ..] = bytes;
    let state = match state {
        0 => State::Free,
        1 => State::Open,
        2 => State::Closed,
        other => return Err(format!("a superblock in state {other}")),
    };
    let number = |at: usize| u32::from_le_bytes([rest[at], rest[at + 1], rest[at + 2], rest[at + 3]]);
    let changed_at = u64::from(number(8)) | u64::from(number(12)) << 32;
    Ok(Superblock { state, stream: *stream, written: number(0), valid, erases: number(4), changed_at })
}

/// Returns the size of everything between the head and the checksum.
fn body_bytes(geometry: &Geometry, queued: usize) -> usize {
    let superblocks = geometry.superblocks as usize;
    superblocks * SUPERBLOCK_BYTES + 4 + queued * 4 + superblocks * geometry.slots_per_superblock as usize * 4
}

fn u32_from(bytes: &[u8]) -> Result<(u32, &[u8]), Damage> {
    let (number, rest) = bytes.split_first_chunk().ok_or("it ends too early")?;
    Ok((u32::from_le_bytes(*number), rest))
}
