//! The superblock: identity and geometry of a raw device (a block device that contains a store
//! without a file system). Formatting the device writes two copies of the superblock, which never
//! change afterwards.
//!
//! ```text
//! offset  size  field
//!      0     8  "TERRACER"
//!      8     4  format version: 1
//!     12     4  bytes per slot, a multiple of 4096
//!     16     4  slots per unit
//!     20     4  number of slots
//!     24     8  size of the device when it was formatted, in bytes
//!     32     8  bytes per journal half, a multiple of 4096
//!     40     8  format id, repeated in the journal halves
//!     48    12  0
//!     60     4  crc32c of bytes 0..60, masked
//! ```
use super::PAGE;
use crate::{
    Corrupt,
    coding::{Input, put_fixed32, put_fixed64},
    crc,
};

const WHAT: &str = "superblock";
const MAGIC: &[u8; 8] = b"TERRACER";
const FORMAT: u32 = 1;
const BYTES: usize = 64;

/// Offsets of the two superblocks. A program that overwrites the start of a device rarely
/// overwrites the second one.
pub const PLACES: [u64; 2] = [0, 64 << 10];
/// Offset of the journal.
pub const JOURNAL_AT: u64 = 128 << 10;
/// Minimum size of a journal half in bytes.
pub const JOURNAL_BYTES_MIN: u64 = 16 << 10;
/// Maximum size of a journal half in bytes. A half is read into memory as a whole.
pub const JOURNAL_BYTES_MAX: u64 = 1 << 30;
/// Maximum size of a slot in bytes.
pub const SLOT_BYTES_MAX: u32 = 1 << 30;
/// Minimum number of slots.
pub const SLOTS_MIN: u32 = 16;

/// The geometry of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Bytes per slot, a multiple of 4096.
    pub slot_bytes: u32,
    /// Slots per unit, at least 1.
    pub unit_slots: u32,
}

impl Sizes {
    /// Returns the default geometry for a device whose erase unit is unknown. A slot has 1/8192 of
    /// the size of the device, rounded up to a power of two, but at least 64 KiB and at most 1 MiB.
    /// If this gives more than 262,144 slots, a slot instead has 1/262,144 of the size of the
    /// device, again rounded up to a power of two. A unit (a group of slots that is erased
    /// together) has sixteen slots.
    pub fn of(device_bytes: u64) -> Sizes {
        let few = (device_bytes >> 18).next_power_of_two().min(SLOT_BYTES_MAX.into());
        let slot = (device_bytes >> 13).next_power_of_two().clamp(64 << 10, 1 << 20).max(few);
        Sizes { slot_bytes: slot as u32, unit_slots: 16 }
    }

    /// Returns the bytes per unit.
    pub fn unit_bytes(self) -> u64 {
        u64::from(self.slot_bytes) * u64::from(self.unit_slots)
    }
}

/// The decoded and verified contents of a superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Superblock {
    sizes: Sizes,
    slots: u32,
    device_bytes: u64,
    journal_bytes: u64,
    id: u64,
}

impl Superblock {
    /// Returns the superblock of a new device. `id` distinguishes this formatting from others. The
    /// error is the reason why a geometry is invalid.
    pub fn new(device_bytes: u64, sizes: Sizes, id: u64) -> Result<Superblock, String> {
        let Sizes { slot_bytes, unit_slots } = sizes;
        if slot_bytes == 0 || slot_bytes > SLOT_BYTES_MAX || !slot_bytes.is_multiple_of(PAGE as u32) {
            return Err(format!(
                "slots of {slot_bytes} bytes: the size must be a multiple of {PAGE}, at most {SLOT_BYTES_MAX}"
            ));
        }
        if unit_slots == 0 || unit_slots > 1 << 20 {
            return Err(format!("units of {unit_slots} slots: a unit has 1 to {}", 1 << 20));
        }
        // A half of the journal has 256 bytes for each slot. They are enough for the checkpoint,
        // even with several files for each slot, and for the entries until the next checkpoint.
        let journal_bytes =
            (device_bytes / u64::from(slot_bytes) * 256 + JOURNAL_BYTES_MIN).next_multiple_of(PAGE as u64);
        let mut made = Superblock { sizes, slots: 0, device_bytes, journal_bytes, id };
        let slots = device_bytes.saturating_sub(made.data_at()) / u64::from(slot_bytes);
        if slots < u64::from(SLOTS_MIN) || journal_bytes > JOURNAL_BYTES_MAX {
            return Err(format!(
                "a device of {device_bytes} bytes has no room for {SLOTS_MIN} slots of {slot_bytes} bytes"
            ));
        }
        made.slots = u32::try_from(slots).map_err(|_| format!("{slots} slots are too many; choose larger slots"))?;
        Ok(made)
    }

    /// Encodes the superblock as a whole page.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        for number in [FORMAT, self.sizes.slot_bytes, self.sizes.unit_slots, self.slots] {
            put_fixed32(&mut out, number);
        }
        for number in [self.device_bytes, self.journal_bytes, self.id] {
            put_fixed64(&mut out, number);
        }
        out.resize(BYTES - 4, 0);
        let sum = crc::mask(crc::crc32c(&out));
        put_fixed32(&mut out, sum);
        out.resize(PAGE, 0);
        out
    }

    /// Returns whether the page begins with the magic bytes of a superblock, even if the rest is
    /// not valid.
    pub fn is_claimed(page: &[u8]) -> bool {
        page.starts_with(MAGIC)
    }

    /// Decodes a page. An invalid geometry is an error even if the checksum is right.
    pub fn decode(page: &[u8]) -> Result<Superblock, Corrupt> {
        let mut input = Input::new(WHAT, page);
        if input.take(MAGIC.len())? != MAGIC {
            return Err(Corrupt::new(WHAT, 0, "not a superblock"));
        }
        let body = page.get(..BYTES).ok_or_else(|| Corrupt::new(WHAT, page.len() as u64, "cut off"))?;
        let sum = Input::new(WHAT, &body[BYTES - 4..]).fixed32()?;
        if crc::unmask(sum) != crc::crc32c(&body[..BYTES - 4]) {
            return Err(Corrupt::new(WHAT, BYTES as u64 - 4, "checksum mismatch"));
        }
        let format = input.fixed32()?;
        if format != FORMAT {
            return Err(Corrupt::new(WHAT, 8, format!("format {format}; this version of Terrace knows {FORMAT}")));
        }
        let sizes = Sizes { slot_bytes: input.fixed32()?, unit_slots: input.fixed32()? };
        let slots = input.fixed32()?;
        let [device_bytes, journal_bytes, id] = [input.fixed64()?, input.fixed64()?, input.fixed64()?];
        let made = Superblock::new(device_bytes, sizes, id).map_err(|why| Corrupt::new(WHAT, 12, why))?;
        if (made.slots, made.journal_bytes) != (slots, journal_bytes) {
            return Err(Corrupt::new(
                WHAT,
                20,
                format!("{slots} slots and a journal of {journal_bytes} bytes do not fit the device"),
            ));
        }
        Ok(made)
    }

    /// Returns the geometry.
    pub fn sizes(&self) -> Sizes {
        self.sizes
    }

    /// Returns the number of slots, numbered from 0.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// Returns the size of the device when it was formatted, in bytes.
    pub fn device_bytes(&self) -> u64 {
        self.device_bytes
    }

    /// Returns the size of a journal half in bytes.
    pub fn journal_bytes(&self) -> u64 {
        self.journal_bytes
    }

    /// Returns the offset of journal half 0 or 1.
    pub fn half_at(&self, half: usize) -> u64 {
        JOURNAL_AT + half as u64 * self.journal_bytes
    }

    /// Returns the format id.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns the offset of a slot on the device.
    pub fn slot_at(&self, slot: u32) -> u64 {
        self.data_at() + u64::from(slot) * u64::from(self.sizes.slot_bytes)
    }

    fn data_at(&self) -> u64 {
        (JOURNAL_AT + 2 * self.journal_bytes).next_multiple_of(self.sizes.unit_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_round_trips() {
        for bytes in [4 << 20, 64 << 20, (1 << 32) + 4096, 1 << 43] {
            let made = Superblock::new(bytes, Sizes::of(bytes), 7).unwrap();
            assert_eq!(Superblock::decode(&made.encode()), Ok(made));
            let end = made.slot_at(made.slots());
            assert!(end <= bytes && bytes - end < u64::from(made.sizes().slot_bytes), "{made:?}");
            assert_eq!(made.slot_at(0) % made.sizes().unit_bytes(), 0);
            assert!(made.slot_at(0) >= made.half_at(1) + made.journal_bytes());
        }
    }

    #[test]
    fn invalid_input_is_rejected() {
        let sizes = |slot_bytes, unit_slots| Sizes { slot_bytes, unit_slots };
        for (bytes, sizes) in [
            (1 << 20, sizes(64 << 10, 16)),
            (64 << 20, sizes(5000, 16)),
            (64 << 20, sizes(0, 16)),
            (64 << 20, sizes(4096, 0)),
            (64 << 20, sizes(4 << 20, 16)),
            (1 << 50, sizes(4096, 1)),
        ] {
            assert!(Superblock::new(bytes, sizes, 0).is_err(), "{bytes} {sizes:?}");
        }
        let good = Superblock::new(64 << 20, Sizes::of(64 << 20), 3).unwrap().encode();
        for at in 0..BYTES {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            assert!(Superblock::decode(&bad).is_err(), "byte {at}");
        }
        assert!(Superblock::decode(&good[..20]).is_err());
    }
}
