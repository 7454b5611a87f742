//! A drive that has been in use: filled, then overwritten at random until writing costs what it will go on to cost.
use super::chance::Chance;
use super::ftl::Ftl;
use super::windows::Windows;
use crate::{Result, Stream};

/// Three windows in a row must cost the same but for this share.
const TOLERANCE: f64 = 0.05;
/// After so many windows a drive that is not steady never will be.
const WINDOWS_MAX: u64 = 200;
/// Pages that are written between two words to the caller.
const PAGES_PER_STEP: u64 = 1 << 16;

/// How far preconditioning has come.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Bytes written for it.
    pub written_bytes: u64,
    /// WA2 of the last window, once one has ended.
    pub wa2: Option<f64>,
}

impl Ftl {
    /// Fills the drive in order, then overwrites pages drawn uniformly, half a capacity to a window, until three windows in a
    /// row differ by less than 5 %: the state that SNIA's performance test calls steady. Pages do not compress. The counts
    /// go on; who wants to know what came later takes their difference.
    ///
    /// `tell` hears of it now and then, and ends it by saying false; so does a drive that is not steady after 200 windows.
    /// Returns whether it is steady.
    ///
    /// # Errors
    /// None that a whole drive gives.
    pub fn precondition(&mut self, mut tell: impl FnMut(Progress) -> bool) -> Result<bool> {
        let (pages, begin) = (self.pages(), self.counts().host_bytes);
        let mut chance = Chance::new(self.profile().seed);
        let window_bytes = self.profile().capacity_bytes / 2;
        let mut windows = Windows::new(window_bytes, self.counts().clone());
        let flash_bytes = self.profile().superblocks() * self.profile().superblock_bytes();
        let mut in_order = 0..pages;
        loop {
            for _ in 0..PAGES_PER_STEP {
                let page = in_order.next().unwrap_or_else(|| u64::from(chance.below(pages as u32)));
                self.write(page, Stream(0))?;
                windows.note(self.counts());
            }
            let wa2 = windows.ended().next_back().map(|window| window.wa2());
            let written_bytes = self.counts().host_bytes - begin;
            let goes_on = tell(Progress { written_bytes, wa2 });
            // Until all flash was used twice, overwrites find free space that was never used.
            if written_bytes >= 2 * flash_bytes && windows.are_within(TOLERANCE) {
                return Ok(true);
            }
            if !goes_on || written_bytes / window_bytes >= WINDOWS_MAX {
                return Ok(false);
            }
        }
    }
}
