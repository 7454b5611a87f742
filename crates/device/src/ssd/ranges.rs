//! Translates commands for byte ranges, as a host sends them to a virtual SSD, into commands for
//! pages.
use std::ops::Range;

use super::ftl::{Ftl, PageWrite};
use crate::{Error, Result, Stream};

impl Ftl {
    /// Writes a range of bytes. If the controller compresses, `slots` has the number of slots of
    /// each touched page. Without `slots`, pages are incompressible.
    ///
    /// # Errors
    /// If the range exceeds the drive. The drive does not change then.
    pub fn write_range(&mut self, offset: u64, len: u64, stream: Stream, slots: Option<&[u32]>) -> Result<()> {
        let end = self.end(offset, len)?;
        let page_bytes = u64::from(self.profile().page_bytes);
        for (nth, page) in self.touched(offset, end).enumerate() {
            let begin = offset.max(page * page_bytes);
            let host_bytes = (end.min((page + 1) * page_bytes) - begin) as u32;
            let slots = slots.and_then(|slots| slots.get(nth)).map_or(u32::MAX, |slots| *slots);
            self.write_page(PageWrite { page, stream, host_bytes, slots })?;
        }
        Ok(())
    }

    /// Reads the pages that a range of bytes touches.
    ///
    /// # Errors
    /// If the range exceeds the drive. The drive does not change then.
    pub fn read_range(&mut self, offset: u64, len: u64) -> Result<()> {
        let end = self.end(offset, len)?;
        self.read(self.touched(offset, end)).map(drop)
    }

    /// Unmaps the pages that lie completely within a range of bytes.
    ///
    /// # Errors
    /// If the range exceeds the drive. The drive does not change then.
    pub fn trim_range(&mut self, offset: u64, len: u64) -> Result<()> {
        let end = self.end(offset, len)?;
        let page_bytes = u64::from(self.profile().page_bytes);
        self.trim(offset.div_ceil(page_bytes)..end / page_bytes)
    }

    fn end(&self, offset: u64, len: u64) -> Result<u64> {
        let capacity = self.profile().capacity_bytes;
        let end = offset.checked_add(len).filter(|end| *end <= capacity);
        end.ok_or(Error::BeyondEnd { offset, len, end: capacity })
    }

    fn touched(&self, offset: u64, end: u64) -> Range<u64> {
        let page_bytes = u64::from(self.profile().page_bytes);
        match end > offset {
            true => offset / page_bytes..end.div_ceil(page_bytes),
            false => 0..0,
        }
    }
}
