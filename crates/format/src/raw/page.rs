//! A page of a log: as many of its bytes as fit, and then whose they are.
//!
//! ```text
//! offset  size  field
//!      0  4080  bytes of the log, and zeros behind them
//!   4080     8  number of the file
//!   4088     2  how many bytes
//!   4090     2  0
//!   4092     4  crc32c of bytes 4080..4092, masked
//! ```
//! A log's length is recorded nowhere else, so that a sync is one write. It ends within the first page that is not full, or before
//! the first that is not its own. A page that is written again begins with the same bytes, and the trailer lies within one sector:
//! if the page is torn, either length is there, and nothing that was durable is lost. Whether the bytes are what was written is for
//! the log's own records to tell.
use super::PAGE;
use crate::crc;

/// Bytes of a log in a full page.
pub const PAYLOAD: usize = PAGE - 16;

/// Completes a page whose first `used` bytes are there.
pub fn seal(page: &mut [u8; PAGE], file: u64, used: usize) {
    page[used..PAYLOAD].fill(0);
    let trailer = &mut page[PAYLOAD..];
    trailer[..8].copy_from_slice(&file.to_le_bytes());
    trailer[8..12].copy_from_slice(&(used as u32).to_le_bytes()); // at most `PAYLOAD`, so the upper half is zero
    let sum = crc::mask(crc::crc32c(&trailer[..12]));
    trailer[12..].copy_from_slice(&sum.to_le_bytes());
}

/// How many bytes of log `file` the page holds; `None` if it is not one of its pages.
pub fn used(page: &[u8; PAGE], file: u64) -> Option<usize> {
    let trailer = &page[PAYLOAD..];
    let (fields, sum) = trailer.split_at(12);
    let used = u32::from_le_bytes(fields[8..].try_into().ok()?) as usize;
    let right = crc::mask(crc::crc32c(fields)).to_le_bytes();
    (sum == right && fields[..8] == file.to_le_bytes() && used <= PAYLOAD).then_some(used)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_knows_whose_it_is_and_how_full() {
        let mut page = [7; PAGE];
        assert_eq!(used(&page, 3), None);
        for full in [0, 1, 100, PAYLOAD] {
            seal(&mut page, 3, full);
            assert_eq!((used(&page, 3), used(&page, 4)), (Some(full), None));
        }
        for at in PAYLOAD..PAGE {
            let mut bad = page;
            bad[at] ^= 1;
            assert_eq!(used(&bad, 3), None, "byte {at}");
        }
    }
}
