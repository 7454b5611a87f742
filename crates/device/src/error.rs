//! What can go wrong on a block device.

/// The result of an operation on a block device.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation on a block device failed. After an error, what the operation should have changed is unknown; nothing else
/// changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A range that does not lie on blocks.
    #[error("{len} bytes at {offset}: the device is read and written in blocks of {block} bytes")]
    Unaligned {
        /// Where the range begins.
        offset: u64,
        /// Its length.
        len: u64,
        /// The device's block.
        block: u32,
    },
    /// A range that does not lie within the device.
    #[error("{len} bytes at {offset}: the device ends at {end}")]
    BeyondEnd {
        /// Where the range begins.
        offset: u64,
        /// Its length.
        len: u64,
        /// The device's length.
        end: u64,
    },
    /// A length, a profile or an option that no device can have.
    #[error("{field}: {why}")]
    Impossible {
        /// Which field it is.
        field: &'static str,
        /// What is wrong with its value.
        why: String,
    },
    /// A file of ours is not as it was written. Nothing of it is used.
    #[error("{file} is damaged at byte {offset}: {why}")]
    Damaged {
        /// The file.
        file: String,
        /// Where in it the damage was found.
        offset: u64,
        /// What is wrong.
        why: String,
    },
    /// A text or a file that is not what it should be. Nothing of it is used.
    #[error("{what}: {why}")]
    Malformed {
        /// The text or the file.
        what: String,
        /// What is wrong with it.
        why: String,
    },
    /// The system below refused.
    #[error("{what}: {source}")]
    Io {
        /// What was tried, and on what.
        what: String,
        /// What the system said.
        source: std::io::Error,
    },
}

/// Refuses a range that is not made of whole blocks of a device that ends at `end`.
pub(crate) fn check_range(offset: u64, len: u64, block: u32, end: u64) -> Result<()> {
    if !offset.is_multiple_of(block.into()) || !len.is_multiple_of(block.into()) {
        return Err(Error::Unaligned { offset, len, block });
    }
    match offset.checked_add(len) {
        Some(last) if last <= end => Ok(()),
        _ => Err(Error::BeyondEnd { offset, len, end }),
    }
}
