//! Preconditioning of a virtual SSD: fills the drive and then overwrites it at random until its
//! write amplification is constant.
use super::chance::Chance;
use super::ftl::Ftl;
use super::windows::Windows;
use crate::{Result, Stream};

/// Maximum relative difference between the WA2 (flash bytes for each host byte) of three
/// consecutive windows. A window is an interval in which the host writes half the capacity.
const TOLERANCE: f64 = 0.05;
/// Maximum number of windows. A drive that is not steady by then is assumed never to become
/// steady.
const WINDOWS_MAX: u64 = 200;
/// Pages written between two progress reports.
const PAGES_PER_STEP: u64 = 1 << 16;

/// Progress of preconditioning.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Bytes written so far.
    pub written_bytes: u64,
    /// WA2 of the last complete window.
    pub wa2: Option<f64>,
}

impl Ftl {
    /// Fills the drive sequentially. Then overwrites uniformly random pages until three consecutive
    /// windows differ by less than 5 %, which is the steady state of SNIA's performance test. In a
    /// window the host writes half the capacity. Pages are incompressible. The drive's counters
    /// include these writes. A caller that measures later writes must therefore subtract the
    /// counters at the end of this call.
    ///
    /// Calls `tell` with the progress. Stops early if `tell` returns false, or after 200 windows.
    /// Returns whether the drive is steady.
    ///
    /// # Errors
    /// None for a consistent drive.
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
            // Until the host has written twice the flash capacity, overwrites still consume free
            // space that was never used, so write amplification is too low.
            if written_bytes >= 2 * flash_bytes && windows.are_within(TOLERANCE) {
                return Ok(true);
            }
            if !goes_on || written_bytes / window_bytes >= WINDOWS_MAX {
                return Ok(false);
            }
        }
    }
}
