//! Errors of block devices.

/// The result of a block-device operation.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a block-device operation. After a failed operation, the contents of its range are
/// unknown. Nothing outside the range has changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An unaligned range.
    #[error("{len} bytes at {offset}: the device is read and written in blocks of {block} bytes")]
    Unaligned {
        /// Start of the range.
        offset: u64,
        /// Length of the range.
        len: u64,
        /// Block size of the device.
        block: u32,
    },
    /// A range that exceeds the device.
    #[error("{len} bytes at {offset}: the device ends at {end}")]
    BeyondEnd {
        /// Start of the range.
        offset: u64,
        /// Length of the range.
        len: u64,
        /// Size of the device.
        end: u64,
    },
    /// An invalid length, profile or option.
    #[error("{field}: {why}")]
    Impossible {
        /// Name of the invalid field.
        field: &'static str,
        /// The reason why the value of the field is invalid.
        why: String,
    },
    /// A corrupt file of the simulated drive. Nothing from the file is used.
    #[error("{file} is damaged at byte {offset}: {why}")]
    Damaged {
        /// Name of the corrupt file.
        file: String,
        /// Offset of the corruption.
        offset: u64,
        /// Description of the corruption.
        why: String,
    },
    /// A malformed text or file. Nothing from it is used.
    #[error("{what}: {why}")]
    Malformed {
        /// Name of the malformed text or file.
        what: String,
        /// The reason why the text or file is malformed.
        why: String,
    },
    /// An error of the operating system.
    #[error("{what}: {source}")]
    Io {
        /// The failed operation and the file or device that it concerns.
        what: String,
        /// The operating system's error.
        source: std::io::Error,
    },
}

/// Rejects a range that is unaligned or exceeds a device of `end` bytes.
pub(crate) fn check_range(offset: u64, len: u64, block: u32, end: u64) -> Result<()> {
    if !offset.is_multiple_of(block.into()) || !len.is_multiple_of(block.into()) {
        return Err(Error::Unaligned { offset, len, block });
    }
    match offset.checked_add(len) {
        Some(last) if last <= end => Ok(()),
        _ => Err(Error::BeyondEnd { offset, len, end }),
    }
}
