//! Single files of a store, for tools.
use crate::open_store_file;
use std::{
    io::{self, ErrorKind, Read},
    path::Path,
};

/// The largest size of a small file of a store, such as `CURRENT` or the format file.
pub const SMALL_FILE_BYTES_MAX: u64 = 64 << 10;

/// Reads the whole small file at `path`, which it opens as [`open_store_file`] does. If the file
/// is longer than [`SMALL_FILE_BYTES_MAX`], returns an error without reading it.
pub fn read_small_file(path: &Path) -> io::Result<Vec<u8>> {
    let file = open_store_file(path)?;
    let bytes = file.metadata()?.len();
    if bytes > SMALL_FILE_BYTES_MAX {
        let name = path.file_name().unwrap_or_default().display();
        let message =
            format!("{name} has {bytes} bytes, but a small file of a store has at most {SMALL_FILE_BYTES_MAX}");
        return Err(io::Error::new(ErrorKind::InvalidData, message));
    }
    let mut all = Vec::with_capacity(bytes as usize);
    file.take(SMALL_FILE_BYTES_MAX).read_to_end(&mut all)?;
    Ok(all)
}
