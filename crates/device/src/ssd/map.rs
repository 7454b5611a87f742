//! Maps logical pages to slots (allocation units of flash) and slots to pages. The two tables use
//! 4 bytes per page and 4 bytes per slot, which is most of the memory of a simulated drive.

use super::profile::Geometry;

/// Table entry for "no page" or "no slot".
const NONE: u32 = u32::MAX;
/// Table entry of a slot that continues the page in the slot before it.
const REST: u32 = u32::MAX - 1;

/// Maps logical pages to slots and slots to pages. A page occupies `1 ..= slots_per_page`
/// contiguous slots of one superblock. All memory is allocated and touched at creation.
#[derive(Clone)]
pub(super) struct Map {
    slot_of: Vec<u32>,
    page_at: Vec<u32>,
    slots_per_page: u32,
}

impl Map {
    /// Returns an empty mapping.
    pub fn new(geometry: &Geometry) -> Map {
        Map {
            slot_of: vec![NONE; geometry.pages as usize],
            page_at: vec![NONE; geometry.superblocks as usize * geometry.slots_per_superblock as usize],
            slots_per_page: geometry.slots_per_page,
        }
    }

    /// Returns the content of every slot: the page that starts there, a continuation, or
    /// nothing.
    pub fn slots(&self) -> &[u32] {
        &self.page_at
    }

    /// Builds the mapping from the content of all slots, and counts the valid slots of each
    /// superblock.
    pub fn restore(geometry: &Geometry, slots: impl Iterator<Item = u32>) -> Result<(Map, Vec<u32>), String> {
        let mut map = Map::new(geometry);
        let mut valid = vec![0; geometry.superblocks as usize];
        let mut goes_on = 0;
        for (at, page) in (0..).zip(slots.take(map.page_at.len())) {
            let in_superblock = at % geometry.slots_per_superblock;
            match page {
                NONE => goes_on = 0,
                REST if goes_on > 0 && in_superblock > 0 => goes_on -= 1,
                page => {
                    let slot = map.slot_of.get_mut(page as usize).filter(|slot| **slot == NONE);
                    *slot.ok_or_else(|| {
                        format!("slot {at} holds page {page}, which does not exist or is mapped twice")
                    })? = at;
                    goes_on = geometry.slots_per_page - 1;
                }
            }
            valid[(at / geometry.slots_per_superblock) as usize] += u32::from(page != NONE);
            map.page_at[at as usize] = page;
        }
        Ok((map, valid))
    }

    /// Returns the number of pages.
    pub fn pages(&self) -> u32 {
        self.slot_of.len() as u32
    }

    /// Returns the first slot of a page, if it is mapped.
    pub fn slot_of(&self, page: u32) -> Option<u32> {
        Some(self.slot_of[page as usize]).filter(|slot| *slot != NONE)
    }

    /// Returns the page that starts at a slot, if any.
    pub fn page_at(&self, slot: u32) -> Option<u32> {
        Some(self.page_at[slot as usize]).filter(|page| *page < REST)
    }

    /// Returns the number of slots of the page that starts at `slot`.
    #[inline]
    pub fn slots_at(&self, slot: u32) -> u32 {
        match self.slots_per_page {
            1 => 1,
            most => {
                1 + (1..most).take_while(|rest| self.page_at.get((slot + rest) as usize) == Some(&REST)).count() as u32
            }
        }
    }

    /// Maps `page` to `slots` free slots from `slot` on.
    #[inline]
    pub fn put(&mut self, page: u32, slot: u32, slots: u32) {
        self.slot_of[page as usize] = slot;
        self.page_at[slot as usize] = page;
        for rest in 1..slots {
            self.page_at[(slot + rest) as usize] = REST;
        }
    }

    /// Unmaps a page. Returns its first slot and number of slots.
    #[inline]
    pub fn take(&mut self, page: u32) -> Option<(u32, u32)> {
        let slot = self.slot_of(page)?;
        let slots = self.slots_at(slot);
        self.slot_of[page as usize] = NONE;
        self.page_at[slot as usize..(slot + slots) as usize].fill(NONE);
        Some((slot, slots))
    }
}
