//! Outside of Loom's models nobody has to watch.

/// Stands for bytes that are written before others may see them. Takes no room.
#[derive(Debug)]
pub struct Witness;

impl Witness {
    /// The bytes are being written.
    pub fn new() -> Witness {
        Witness
    }

    /// The bytes are being read.
    #[inline]
    pub fn read(&self) {}
}
