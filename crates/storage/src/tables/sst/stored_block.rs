//! Reads blocks as they are stored: with a trailer, and possibly compressed.
use super::ByteSource;
use crate::{Error, Result};
use std::ops::Range;
use terrace_format::{
    Codec, Corrupt,
    block::Bytes,
    compress::decompress,
    footer::{BLOCK_TRAILER_BYTES, Handle, open_block},
};

/// Reads and decompresses the block at `handle`.
pub(super) fn read_contents(source: &dyn ByteSource, handle: Handle, verify: bool) -> Result<Bytes> {
    let sealed = source.read(sealed_range(source, handle)?)?;
    open_sealed(source, handle, sealed, verify)
}

/// Returns the range of the block at `handle` with its trailer. Returns an error if the range
/// extends beyond the end of the file, which may have been truncated.
pub(super) fn sealed_range(source: &dyn ByteSource, handle: Handle) -> Result<Range<u64>> {
    match handle.end().filter(|end| *end <= source.bytes()) {
        Some(end) => Ok(handle.offset..end),
        None => {
            let detail = format!("{} bytes extend past the end of the table ({} bytes)", handle.bytes, source.bytes());
            Err(Error::corrupt(source.name(), handle.offset, Corrupt::new("block handle", 0, detail)))
        }
    }
}

/// Decodes `sealed`, the block at `handle` with its trailer. An uncompressed block is not copied.
pub(super) fn open_sealed(source: &dyn ByteSource, handle: Handle, sealed: Bytes, verify: bool) -> Result<Bytes> {
    let corrupt = |found| Error::corrupt(source.name(), handle.offset, found);
    let (codec, stored) = open_block(&sealed, verify).map_err(corrupt)?;
    if codec != 0 {
        return decompress(codec, stored).map(Bytes::from).map_err(corrupt);
    }
    let bytes = stored.len();
    Ok(sealed.cut(bytes))
}

/// Returns whether the block in `sealed`, which ends with the block's trailer, is stored
/// uncompressed.
pub(super) fn is_stored_raw(sealed: &[u8]) -> bool {
    sealed.len().checked_sub(BLOCK_TRAILER_BYTES).is_some_and(|codec_at| sealed[codec_at] == Codec::None as u8)
}
