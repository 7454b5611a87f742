//! Recomputes the checksums of damaged files. Otherwise the checksum checks would reject every
//! damaged input, and fuzzing would not reach the code after them.
use std::sync::Arc;
use terrace_format::{
    block::{Block, BlockCursor},
    crc,
    footer::{BLOCK_TRAILER_BYTES, FOOTER_BYTES, Footer, Handle},
    log_record::{BLOCK_BYTES, HEADER_BYTES},
};

/// Recomputes the checksums of a WAL or manifest.
pub fn log(file: &[u8]) -> Vec<u8> {
    let mut file = file.to_vec();
    for block in file.chunks_mut(BLOCK_BYTES) {
        let mut at = 0;
        while let Some([_, _, _, _, low, high, kind]) = block.get(at..at + HEADER_BYTES) {
            let end = at + HEADER_BYTES + usize::from(u16::from_le_bytes([*low, *high]));
            if (*low, *high, *kind) == (0, 0, 0) {
                break; // padding
            }
            let Some(covered) = block.get(at + HEADER_BYTES - 1..end) else { break };
            let masked = crc::mask(crc::crc32c(covered)).to_le_bytes();
            block[at..at + 4].copy_from_slice(&masked);
            at = end;
        }
    }
    file
}

/// Recomputes the checksums of an SSTable: of its index, its metaindex, and the blocks that they
/// refer to.
pub fn table(file: &[u8]) -> Vec<u8> {
    let mut file = file.to_vec();
    let Some(footer_at) = file.len().checked_sub(FOOTER_BYTES) else { return file };
    let Ok(footer) = Footer::decode(&file[footer_at..]) else { return file };
    for listing in [footer.index, footer.metaindex] {
        let Some(contents) = seal(&mut file, listing) else { continue };
        for handle in handles(contents) {
            seal(&mut file, handle);
        }
    }
    file
}

/// Recomputes the checksum of the block at `handle`. Returns its contents if they are not
/// compressed.
fn seal(file: &mut [u8], handle: Handle) -> Option<Vec<u8>> {
    let (from, end) = (usize::try_from(handle.offset).ok()?, usize::try_from(handle.end()?).ok()?);
    let sealed = file.get_mut(from..end)?;
    let (covered, crc_bytes) = sealed.split_at_mut(sealed.len() - 4);
    crc_bytes.copy_from_slice(&crc::mask(crc::crc32c(covered)).to_le_bytes());
    let bytes = sealed.len() - BLOCK_TRAILER_BYTES;
    (sealed[bytes] == 0).then(|| sealed[..bytes].to_vec())
}

fn handles(contents: Vec<u8>) -> Vec<Handle> {
    let mut found = Vec::new();
    let Ok(block) = Block::new(contents) else { return found };
    let mut cursor = BlockCursor::new(Arc::new(block));
    let mut moved = cursor.seek_first();
    while moved.is_ok() && cursor.valid() {
        found.extend(Handle::decode(cursor.value()));
        moved = cursor.next();
    }
    found
}
