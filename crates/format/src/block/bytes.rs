//! Shared, immutable byte slices.
use super::Block;
use std::{fmt, ops::Deref, ops::Range, sync::Arc};

/// Immutable bytes, together with the owner of their memory: an exclusive buffer, a shared buffer,
/// or a block.
#[derive(Clone)]
pub struct Bytes(Keeper);

#[derive(Clone)]
enum Keeper {
    Own(Vec<u8>),
    Part(Arc<Vec<u8>>, Range<usize>), // the range is within the buffer
    Block(Arc<Block>, Range<usize>),  // the range is within the block
}

/// The bytes of a block, owned or borrowed.
pub trait Contents {
    /// Returns the bytes. Every read of a block calls this function.
    fn flat(&self) -> &[u8];
}

impl Contents for &[u8] {
    #[inline(always)]
    fn flat(&self) -> &[u8] {
        self
    }
}

impl Contents for Bytes {
    /// Returns the bytes, or an empty slice if they are a part of a block: blocks do not nest, so
    /// the function need not recurse and can be inlined.
    #[inline(always)]
    fn flat(&self) -> &[u8] {
        match &self.0 {
            Keeper::Own(bytes) => bytes,
            Keeper::Part(buffer, range) => &buffer[range.clone()],
            Keeper::Block(..) => &[],
        }
    }
}

impl Bytes {
    /// Returns the bytes of `buffer` at `range` without a copy, or `None` if the range exceeds the
    /// buffer.
    pub fn shared(buffer: Arc<Vec<u8>>, range: Range<usize>) -> Option<Bytes> {
        buffer.get(range.clone())?;
        Some(Bytes(Keeper::Part(buffer, range)))
    }

    /// Returns the bytes of `block` at `range` without a copy, or `None` if the range exceeds the
    /// block.
    pub fn in_block(block: Arc<Block>, range: Range<usize>) -> Option<Bytes> {
        if let Keeper::Block(..) = block.bytes.0 {
            return block.bytes.part(range); // a range of the outer block: blocks do not nest
        }
        block.bytes.get(range.clone())?;
        Some(Bytes(Keeper::Block(block, range)))
    }

    /// Returns the bytes at `range`, or `None` if the range is out of bounds. The call copies the
    /// bytes only if this value is their only owner; otherwise the result shares the memory.
    pub fn part(&self, range: Range<usize>) -> Option<Bytes> {
        match &self.0 {
            Keeper::Own(bytes) => Some(Bytes::from(bytes.get(range)?.to_vec())),
            _ => self.clone().into_part(range),
        }
    }

    /// Narrows the bytes to `range` without a copy, or returns `None` if the range is out of
    /// bounds.
    pub fn into_part(self, range: Range<usize>) -> Option<Bytes> {
        self.get(range.clone())?;
        let within = |whole: Range<usize>| whole.start + range.start..whole.start + range.end;
        Some(Bytes(match self.0 {
            Keeper::Own(mut own) => {
                own.truncate(range.end);
                own.drain(..range.start);
                Keeper::Own(own)
            }
            Keeper::Part(buffer, whole) => Keeper::Part(buffer, within(whole)),
            Keeper::Block(block, whole) => Keeper::Block(block, within(whole)),
        }))
    }

    /// Returns the bytes as a vector. The call copies them unless this value is their only owner.
    pub fn into_vec(self) -> Vec<u8> {
        match self.0 {
            Keeper::Own(bytes) => bytes,
            _ => self.to_vec(),
        }
    }

    /// Returns the bytes with an owner that clones share.
    pub fn into_shared(self) -> Bytes {
        match self.0 {
            Keeper::Own(bytes) => Bytes::from(Arc::new(bytes)),
            _ => self,
        }
    }

    /// Returns at most the first `bytes` bytes, without a copy.
    pub fn cut(self, bytes: usize) -> Bytes {
        let bytes = bytes.min(self.len());
        self.into_part(0..bytes).expect("so many are there")
    }

    /// Returns a part as [`Bytes::part`] does, for a range of file offsets.
    pub fn part_at(&self, range: &Range<u64>) -> Option<Bytes> {
        self.part(usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?)
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Bytes {
        Bytes(Keeper::Own(bytes))
    }
}

/// Shares the buffer, so that parts of the result are not copied.
impl From<Arc<Vec<u8>>> for Bytes {
    fn from(bytes: Arc<Vec<u8>>) -> Bytes {
        let all = 0..bytes.len();
        Bytes(Keeper::Part(bytes, all))
    }
}

impl Deref for Bytes {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Keeper::Block(block, range) => &block.bytes.flat()[range.clone()],
            _ => self.flat(),
        }
    }
}

impl PartialEq for Bytes {
    fn eq(&self, other: &Bytes) -> bool {
        **self == **other
    }
}

impl Eq for Bytes {}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kept = match &self.0 {
            Keeper::Own(_) => "own",
            Keeper::Part(..) | Keeper::Block(..) => "shared",
        };
        write!(f, "{} {kept} bytes", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_equal_for_every_kind_of_owner() {
        let all = *b"0123456789";
        let shared = Bytes::shared(Arc::new(b"ab0123456789c".to_vec()), 2..12).unwrap();
        let block = Arc::new(Block::new([&b"ab0123456789c"[..], &[0; 3], &[1, 0, 0, 0]].concat()).unwrap());
        let in_block = Bytes::in_block(block.clone(), 2..12).unwrap();
        assert!(Bytes::in_block(block, 18..21).is_none());
        for bytes in [Bytes::from(all.to_vec()), shared, in_block] {
            assert_eq!(*bytes, all);
            let part = bytes.part(2..8).unwrap();
            assert_eq!(&*part, b"234567");
            assert_eq!(bytes.part_at(&(2..8)).as_deref(), Some(&*part));
            assert!(bytes.part_at(&(2..u64::MAX)).is_none());
            assert_eq!(&*part.part(1..3).unwrap(), b"34");
            assert_eq!((&*part.clone().cut(2), &*part.clone().cut(7)), (&b"23"[..], &*part));
            assert_eq!(part.clone().into_part(1..3).as_deref(), Some(&b"34"[..]));
            assert!(part.clone().into_part(5..7).is_none());
            assert!(part.part(5..7).is_none() && bytes.part(3..11).is_none(), "{bytes:?}");
        }
        assert!(Bytes::shared(Arc::new(vec![0; 4]), 3..5).is_none());
    }
}
