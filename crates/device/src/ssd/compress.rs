//! The compression of a virtual SSD's controller. The controller compresses up to a given count of
//! adjacent pages of one command together, and assigns each page a share of the resulting slots
//! (allocation units of 512 bytes). A page keeps its count of slots when garbage collection
//! relocates it.
use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};

/// A compressing controller. Allocates nothing after the first call.
pub(super) struct Compressor {
    group_bytes: usize,
    page_bytes: usize,
    slot_bytes: usize,
    table: CompressTable,
    out: Vec<u8>,
}

impl Compressor {
    /// Compresses up to `pages` pages together.
    pub fn new(pages: u32, page_bytes: u32, slot_bytes: u32) -> Compressor {
        let group_bytes = pages as usize * page_bytes as usize;
        Compressor {
            group_bytes,
            page_bytes: page_bytes as usize,
            slot_bytes: slot_bytes as usize,
            table: CompressTable::default(),
            out: vec![0; get_maximum_output_size(group_bytes)],
        }
    }

    /// Calls `take` once for each page of `bytes`, with the page's number of slots: at least one,
    /// at most the slots of an uncompressed page. `bytes` must consist of whole pages.
    pub fn shares(&mut self, bytes: &[u8], mut take: impl FnMut(u32)) {
        for group in bytes.chunks(self.group_bytes) {
            let pages = group.len() / self.page_bytes;
            // The output buffer is always large enough, so compression cannot fail. If it failed,
            // the group of pages would be treated as incompressible.
            let len = compress_into_with_table(group, &mut self.out, &mut self.table).unwrap_or(group.len());
            let slots = len.div_ceil(self.slot_bytes).clamp(pages, group.len() / self.slot_bytes);
            (0..pages).for_each(|page| take((slots / pages + usize::from(page < slots % pages)) as u32));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(bytes: &[u8]) -> Vec<u32> {
        let mut shares = Vec::new();
        Compressor::new(4, 4096, 512).shares(bytes, |slots| shares.push(slots));
        shares
    }

    #[test]
    fn a_group_is_compressed_together_and_shared_evenly() {
        assert_eq!(shares(&[0; 6 * 4096]), [1; 6], "a page takes a slot at least");
        let mut x = 1u64;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (x >> 56) as u8
        })
        .take(6 * 4096)
        .collect();
        assert_eq!(shares(&noise), [8; 6], "a page takes no more than all of it");
        // The compressor gives each page a share of the compressed slots. Three copies of a random
        // page compress to slightly more than one page. The three shares are nearly equal, and the
        // first share is the largest.
        let copies: Vec<u8> = [&noise[..4096]; 3].concat();
        assert_eq!(shares(&copies), [3, 3, 3]);
        let half: Vec<u8> = noise[..2048].iter().copied().chain([0; 2048]).collect();
        assert_eq!(shares(&half), [5]);
    }
}
