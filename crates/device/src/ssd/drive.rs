//! A block device that is a virtual solid-state drive: the data lies in another device, at the same offsets; the flash
//! translation layer keeps its book beside it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::counts::Counts;
use super::ftl::{Ftl, PageWrite};
use super::profile::Profile;
use crate::error::check_range;
use crate::{BlockDevice, Error, Result, Stream};

/// A virtual drive. What a host reads depends on the device below alone, never on the translation layer.
pub struct Ssd {
    below: Box<dyn BlockDevice>,
    ftl: Mutex<Ftl>,
    page_bytes: u64,
    len: u64,
}

impl Ssd {
    /// A new drive whose data goes to `below`, which must be at least as long as the profile's capacity.
    ///
    /// # Errors
    /// [`Error::Impossible`] names the field of a profile that cannot be, or that `below` is too short for.
    pub fn new(profile: Profile, below: Box<dyn BlockDevice>) -> Result<Ssd> {
        let (len, there) = (profile.capacity_bytes, below.len_bytes());
        if there < len {
            return Err(Error::Impossible {
                field: "capacity_bytes",
                why: format!("{len} are more than the {there} bytes of the device below"),
            });
        }
        let page_bytes = profile.page_bytes.into();
        Ok(Ssd { below, ftl: Mutex::new(Ftl::new(profile)?), page_bytes, len })
    }

    /// What it counted since it was new.
    pub fn counts(&self) -> Counts {
        self.ftl().counts().clone()
    }

    /// The lock guards the book alone and is never held during I/O.
    fn ftl(&self) -> MutexGuard<'_, Ftl> {
        self.ftl.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self, offset: u64, len: u64) -> Result<()> {
        check_range(offset, len, self.below.block_bytes(), self.len)
    }

    /// The pages that a range touches, each with the bytes of it that lie in the range.
    fn pages(&self, offset: u64, len: u64) -> impl Iterator<Item = (u64, u32)> + use<> {
        let (page_bytes, end) = (self.page_bytes, offset + len);
        let touched = offset / page_bytes..end.div_ceil(page_bytes);
        touched.filter(move |_| len > 0).map(move |page| {
            let begin = offset.max(page * page_bytes);
            let end = end.min((page + 1) * page_bytes);
            (page, (end - begin) as u32)
        })
    }

    /// Pages that lie wholly in the range are forgotten.
    fn forget(&self, offset: u64, len: u64) -> Result<()> {
        let whole = offset.div_ceil(self.page_bytes)..(offset + len) / self.page_bytes;
        self.ftl().trim(whole)
    }
}

impl BlockDevice for Ssd {
    fn len_bytes(&self) -> u64 {
        self.len
    }

    fn block_bytes(&self) -> u32 {
        self.below.block_bytes()
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.check(offset, into.len() as u64)?;
        self.below.read_at(offset, into)?;
        let mut ftl = self.ftl();
        self.pages(offset, into.len() as u64).try_for_each(|(page, _)| ftl.read(page).map(drop))
    }

    fn write_at(&self, offset: u64, bytes: &[u8], stream: Stream) -> Result<()> {
        self.check(offset, bytes.len() as u64)?;
        self.below.write_at(offset, bytes, stream)?;
        let mut ftl = self.ftl();
        let write = |(page, host_bytes)| ftl.write_page(PageWrite { page, stream, host_bytes, slots: u32::MAX });
        self.pages(offset, bytes.len() as u64).try_for_each(write)
    }

    fn flush(&self) -> Result<()> {
        self.below.flush()?;
        self.ftl().flush();
        Ok(())
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.check(offset, len)?;
        self.below.discard(offset, len)?;
        self.forget(offset, len)
    }

    /// As a discard: a drive that knows that a page is zero keeps no flash for it. Pages that are zeroed in part stay.
    fn write_zeroes(&self, offset: u64, len: u64) -> Result<()> {
        self.check(offset, len)?;
        self.below.write_zeroes(offset, len)?;
        self.forget(offset, len)
    }
}
