//! Pages of a WAL on a raw device: payload and a trailer.
//!
//! ```text
//! offset  size  field
//!      0  4080  bytes of the WAL, zero-padded
//!   4080     8  file number
//!   4088     2  payload length
//!   4090     2  0
//!   4092     4  crc32c of bytes 4080..4092, masked
//! ```
//! The length of a WAL is recorded only in its pages, so that a sync is a single write. The WAL
//! ends within the first page that is not full, or before the first page of another file. When a
//! page is written again, it repeats its earlier payload, and its trailer is within one sector. A
//! torn page therefore has either the old or the new length and loses nothing durable. The
//! checksum covers only the trailer; the payload is verified by the checksums of WAL records.
use super::PAGE;
use crate::crc;

/// Payload of a full page in bytes.
pub const PAYLOAD: usize = PAGE - 16;

/// Writes the trailer of a page whose first `used` bytes are payload.
pub fn seal(page: &mut [u8; PAGE], file: u64, used: usize) {
    page[used..PAYLOAD].fill(0);
    let trailer = &mut page[PAYLOAD..];
    trailer[..8].copy_from_slice(&file.to_le_bytes());
    // The number of payload bytes, `used`, is at most `PAYLOAD`, which fits into two bytes. The
    // upper two of the four bytes that store `used` are therefore zero.
    trailer[8..12].copy_from_slice(&(used as u32).to_le_bytes());
    let sum = crc::mask(crc::crc32c(&trailer[..12]));
    trailer[12..].copy_from_slice(&sum.to_le_bytes());
}

/// Returns the payload length of the page, or `None` if the page does not belong to `file`.
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
    fn a_page_states_its_file_and_fill() {
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
