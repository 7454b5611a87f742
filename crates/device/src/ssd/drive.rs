//! A virtual SSD as a block device. It stores the data at the same offsets of another device, and
//! keeps the flash translation layer (page locations and counters) separately in memory.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::compress::Compressor;
use super::counts::Counts;
use super::ftl::Ftl;
use super::profile::Profile;
use super::report::Report;
use super::windows::Windows;
use crate::error::check_range;
use crate::serve::Desk;
use crate::{BlockDevice, Error, Result, Stream};

/// A virtual SSD. Reads use only the device below, never the translation layer.
pub struct Ssd {
    below: Box<dyn BlockDevice>,
    /// The translation layer, and the statistics of recent write amplification (windows). This
    /// mutex is never locked during I/O.
    book: Mutex<Book>,
    /// Compresses written pages. Lock order: this lock before `book`.
    compressor: Option<Mutex<Compressor>>,
    page_bytes: u64,
    len: u64,
}

struct Book {
    ftl: Ftl,
    windows: Windows,
}

impl Ssd {
    /// Returns a new drive that stores its data in `below`. `below` must be at least as long as the
    /// profile's capacity.
    ///
    /// # Errors
    /// [`Error::Impossible`] names the invalid field of the profile. If `below` is too short, the
    /// error names the capacity.
    pub fn new(profile: Profile, below: Box<dyn BlockDevice>) -> Result<Ssd> {
        Ssd::with(Ftl::new(profile)?, below)
    }

    /// Returns a drive that continues with an existing translation layer, such as a preconditioned
    /// one. The drive keeps statistics for windows (intervals of its life). The first window starts
    /// now, and each window ends after host writes of an eighth of the capacity.
    ///
    /// # Errors
    /// If `below` is shorter than the profile's capacity.
    pub fn with(ftl: Ftl, below: Box<dyn BlockDevice>) -> Result<Ssd> {
        let (len, there) = (ftl.profile().capacity_bytes, below.len_bytes());
        if there < len {
            let why = format!("{len} are more than the {there} bytes of the device below");
            return Err(Error::Impossible { field: "capacity_bytes", why });
        }
        let (page_bytes, slot_bytes) = (ftl.profile().page_bytes, ftl.slot_bytes());
        let compressed_pages = ftl.profile().compressed_pages;
        let compressor = compressed_pages.map(|pages| Mutex::new(Compressor::new(pages, page_bytes, slot_bytes)));
        let windows = Windows::new(len / 8, ftl.counts().clone());
        Ok(Ssd { below, book: Mutex::new(Book { ftl, windows }), compressor, page_bytes: page_bytes.into(), len })
    }

    /// Returns the counters since the drive was new.
    pub fn counts(&self) -> Counts {
        self.book().ftl.counts().clone()
    }

    /// Returns the drive's report.
    pub fn report(&self) -> Report {
        let book = self.book();
        Report::new(&book.ftl, &book.windows)
    }

    /// Returns a copy of the translation layer.
    pub fn ftl(&self) -> Ftl {
        self.book().ftl.clone()
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self, offset: u64, len: u64) -> Result<()> {
        check_range(offset, len, self.below.block_bytes(), self.len)
    }

    /// Returns the number of slots of each page that a write touches, or `None` if the controller
    /// does not compress. A partially written page is read from the device below and compressed as
    /// a whole.
    fn slots(&self, offset: u64, bytes: &[u8]) -> Result<Option<Vec<u32>>> {
        let Some(compressor) = &self.compressor else { return Ok(None) };
        let begin = offset - offset % self.page_bytes;
        let end = (offset + bytes.len() as u64).next_multiple_of(self.page_bytes);
        let mut whole = Vec::new();
        let mut pages = bytes;
        if end - begin != bytes.len() as u64 {
            whole.resize((end - begin) as usize, 0);
            self.below.read_at(begin, &mut whole)?;
            pages = &whole;
        }
        let mut slots = Vec::with_capacity(((end - begin) / self.page_bytes) as usize);
        let mut compressor = compressor.lock().unwrap_or_else(PoisonError::into_inner);
        compressor.shares(pages, |share| slots.push(share));
        Ok(Some(slots))
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
        self.book().ftl.read_range(offset, into.len() as u64)
    }

    fn write_at(&self, offset: u64, bytes: &[u8], stream: Stream) -> Result<()> {
        self.check(offset, bytes.len() as u64)?;
        self.below.write_at(offset, bytes, stream)?;
        let slots = self.slots(offset, bytes)?;
        let mut book = self.book();
        let Book { ftl, windows } = &mut *book;
        ftl.write_range(offset, bytes.len() as u64, stream, slots.as_deref())?;
        windows.note(ftl.counts());
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        self.below.flush()?;
        self.book().ftl.flush();
        Ok(())
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.check(offset, len)?;
        self.below.discard(offset, len)?;
        self.book().ftl.trim_range(offset, len)
    }

    /// Handles a zeroed range as a discard, because the drive stores nothing for pages that are
    /// known to be zero. Pages that are zeroed in part stay mapped.
    fn write_zeroes(&self, offset: u64, len: u64) -> Result<()> {
        self.check(offset, len)?;
        self.below.write_zeroes(offset, len)?;
        self.book().ftl.trim_range(offset, len)
    }
}

impl Desk for Ssd {
    fn stats(&self) -> String {
        self.report().json().to_string()
    }
}
