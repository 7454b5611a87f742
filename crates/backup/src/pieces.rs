//! Reads a stream piece by piece.
use std::io::{self, Read};

/// Number of bytes that are read at once.
const PIECE_BYTES: usize = 1 << 20;

/// Calls `each` with every piece of `content` until its end. `failed` makes the error of a failed
/// read.
pub fn each_piece<E>(
    content: &mut dyn Read,
    failed: impl FnOnce(io::Error) -> E,
    mut each: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        match content.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(count) => each(&piece[..count])?,
            Err(error) => return Err(failed(error)),
        }
    }
}
