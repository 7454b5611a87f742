//! CRC-32C (Castagnoli), and the mask under which it is stored.
//!
//! A stored checksum is masked, so that bytes which themselves hold checksums do not verify by accident.
//! Source: LevelDB's `util/crc32c.h`; spec: docs/format/coding.md.
const MASK_DELTA: u32 = 0xa282_ead8;
/// Castagnoli's, reversed: the highest bit is that of x^0.
pub(crate) const POLYNOMIAL: u32 = 0x82f6_3b78;

/// Checksum of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

/// Checksum of one byte, while compiling.
pub(crate) const fn of_byte(byte: u8) -> u32 {
    let (mut state, mut bit) = (!(byte as u32), 0);
    while bit < 8 {
        state = if state & 1 == 1 { state >> 1 ^ POLYNOMIAL } else { state >> 1 };
        bit += 1;
    }
    !state
}

/// Checksum of the bytes that gave `crc`, followed by `bytes`.
pub fn extend(crc: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc, bytes)
}

/// What is stored for `crc`.
pub fn mask(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(MASK_DELTA)
}

/// The checksum for which `masked` was stored.
pub fn unmask(masked: u32) -> u32 {
    masked.wrapping_sub(MASK_DELTA).rotate_left(15)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Vectors of RFC 3720, appendix B.4.
    #[test]
    fn standard_vectors() {
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(&std::array::from_fn::<u8, 32, _>(|i| i as u8)), 0x46dd_794e);
        assert_eq!(crc32c(b"hello world"), extend(crc32c(b"hello "), b"world"));
        assert!((0..=u8::MAX).all(|byte| of_byte(byte) == crc32c(&[byte])));
    }

    #[test]
    fn the_mask_hides_and_comes_off() {
        let crc = crc32c(b"foo");
        assert_ne!(mask(crc), crc);
        assert_ne!(mask(mask(crc)), crc);
        assert_eq!(unmask(unmask(mask(mask(crc)))), crc);
        assert_eq!(mask(0), 0xa282_ead8);
    }
}
