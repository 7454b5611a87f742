//! The fuzzing corpus. Each fuzz target has one file, `fuzz/corpus/TARGET`. Its inputs reach code
//! that the target's seeds do not reach.
//!
//! ```text
//! length   4 bytes, little-endian
//! input    length bytes
//! …        repeated to the end of the file
//! ```
use std::{fs, io, path::Path};

/// Returns the inputs in `file`, or none if it does not exist.
pub fn read(file: &Path) -> io::Result<Vec<Vec<u8>>> {
    let bytes = match fs::read(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        read => read?,
    };
    let (mut inputs, mut rest) = (Vec::new(), &bytes[..]);
    while let Some((length, behind)) = rest.split_first_chunk() {
        let cut = behind.split_at_checked(u32::from_le_bytes(*length) as usize);
        let (input, behind) = cut.ok_or_else(|| io::Error::other("an input is cut short"))?;
        inputs.push(input.to_vec());
        rest = behind;
    }
    if rest.is_empty() { Ok(inputs) } else { Err(io::Error::other("a length is cut short")) }
}
