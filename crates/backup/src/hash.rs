//! Names of objects: the SHA-256 of their content.
use crate::pieces::each_piece;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::{
    fmt,
    io::{self, Read},
};

/// The SHA-256 of a content, in hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Hash(String);

impl Hash {
    /// Returns the hash of `content`.
    pub fn of(content: &[u8]) -> Hash {
        let mut hasher = Hasher::default();
        hasher.add(content);
        hasher.finish()
    }

    /// Returns the hash and the length of everything that `content` still has.
    pub fn of_all(content: &mut dyn Read) -> io::Result<(Hash, u64)> {
        let (mut hasher, mut bytes) = (Hasher::default(), 0);
        each_piece(
            content,
            |error| error,
            |piece| {
                hasher.add(piece);
                bytes += piece.len() as u64;
                Ok(())
            },
        )?;
        Ok((hasher.finish(), bytes))
    }

    /// Returns the digits.
    pub fn digits(&self) -> &str {
        &self.0
    }

    /// Returns whether this is a SHA-256 in hexadecimal digits, as the names of objects must be.
    pub fn is_valid(&self) -> bool {
        is_hash(&self.0)
    }
}

/// Returns whether `digits` is a SHA-256 in hexadecimal digits.
pub fn is_hash(digits: &str) -> bool {
    digits.len() == 64 && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Computes the hash of a content that is not in memory as a whole.
#[derive(Default)]
pub struct Hasher(Sha256);

impl Hasher {
    /// Appends `bytes` to the content.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the hash of the content.
    pub fn finish(self) -> Hash {
        Hash(self.0.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

/// Forwards the data of a reader and compares their hash with the expected hash. Returns
/// `InvalidData` at the end of data with another hash.
pub struct Checked<R> {
    content: R,
    hasher: Option<Hasher>,
    expected: Hash,
}

impl<R: Read> Checked<R> {
    /// Forwards `content`, whose hash must be `expected`.
    pub fn new(content: R, expected: Hash) -> Checked<R> {
        Checked { content, hasher: Some(Hasher::default()), expected }
    }
}

impl<R: Read> Read for Checked<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let count = self.content.read(buf)?;
        if count > 0 || buf.is_empty() {
            self.hasher.iter_mut().for_each(|hasher| hasher.add(&buf[..count]));
            return Ok(count);
        }
        match self.hasher.take().map(Hasher::finish) {
            Some(found) if found != self.expected => {
                Err(io::Error::new(io::ErrorKind::InvalidData, format!("its SHA-256 is {found}")))
            }
            _ => Ok(0),
        }
    }
}
