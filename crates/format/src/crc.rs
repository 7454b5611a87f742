//! CRC-32C (Castagnoli) and the masking of stored checksums.
//!
//! Checksums are masked before they are stored, because the CRC of a string that contains CRCs is
//! weak. Source: LevelDB's `util/crc32c.h`; spec: docs/format/coding.md.
const MASK_DELTA: u32 = 0xa282_ead8;
/// Castagnoli's polynomial, bit-reversed: the highest bit is the coefficient of x^0.
pub(crate) const POLYNOMIAL: u32 = 0x82f6_3b78;

/// Returns the checksum of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

/// Returns the checksum of one byte. The function can be used in constants.
pub(crate) const fn of_byte(byte: u8) -> u32 {
    let (mut state, mut bit) = (!(byte as u32), 0);
    while bit < 8 {
        state = if state & 1 == 1 { state >> 1 ^ POLYNOMIAL } else { state >> 1 };
        bit += 1;
    }
    !state
}

/// Returns the checksum of two byte strings in sequence. `crc` is the checksum of the first one,
/// and `bytes` is the second one.
pub fn extend(crc: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc, bytes)
}

/// Returns the stored form of `crc`.
pub fn mask(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(MASK_DELTA)
}

/// Returns the checksum whose stored form is `masked`.
pub fn unmask(masked: u32) -> u32 {
    masked.wrapping_sub(MASK_DELTA).rotate_left(15)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests the vectors of RFC 3720, appendix B.4.
    #[test]
    fn standard_vectors() {
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(&std::array::from_fn::<u8, 32, _>(|i| i as u8)), 0x46dd_794e);
        assert_eq!(crc32c(b"hello world"), extend(crc32c(b"hello "), b"world"));
        assert!((0..=u8::MAX).all(|byte| of_byte(byte) == crc32c(&[byte])));
    }

    #[test]
    fn masking_round_trips() {
        let crc = crc32c(b"foo");
        assert_ne!(mask(crc), crc);
        assert_ne!(mask(mask(crc)), crc);
        assert_eq!(unmask(unmask(mask(mask(crc)))), crc);
        assert_eq!(mask(0), 0xa282_ead8);
    }
}
