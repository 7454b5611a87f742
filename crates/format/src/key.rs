//! Internal keys: the keys that SSTables and memtables sort.
//!
//! ```text
//! internal key = user key (n bytes) ++ fixed64 little-endian ( sequence number << 8 | kind )
//! order        = user key ascending, then sequence number descending, then kind descending
//! ```
//! Versions of a user key sort newest first. The first entry at or after `lookup(user, seq)` is
//! therefore the version that a reader at `seq` sees. Source: LevelDB's `dbformat.h`; spec:
//! docs/format/internal-key.md.
use crate::{Corrupt, SeqNo};
use std::{cmp::Ordering, fmt, sync::Arc};

/// Size of the trailer after the user key, in bytes.
pub const TRAILER_BYTES: usize = 8;

/// The kind of an entry. The numbers are part of the on-disk format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// A tombstone.
    Delete = 0,
    /// A value.
    Put = 1,
}

impl Kind {
    /// Returns the kind with this number, or `None`.
    pub fn from_byte(byte: u8) -> Option<Kind> {
        match byte {
            0 => Some(Kind::Delete),
            1 => Some(Kind::Put),
            _ => None,
        }
    }
}

/// The parts of an internal key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parsed<'a> {
    /// The user key.
    pub user: &'a [u8],
    /// The sequence number.
    pub seq: SeqNo,
    /// Put or tombstone.
    pub kind: Kind,
}

/// Parses an internal key. Returns an error if the key is too short or its kind is unknown.
pub fn parse(internal: &[u8]) -> Result<Parsed<'_>, Corrupt> {
    let Some(split) = internal.len().checked_sub(TRAILER_BYTES) else {
        return Err(Corrupt::new("internal key", 0, format!("{} bytes, shorter than its trailer", internal.len())));
    };
    let word = trailer(internal);
    Ok(Parsed { user: &internal[..split], seq: SeqNo(word >> 8), kind: kind_of(word)? })
}

/// Returns the kind stored in a trailer.
pub(crate) fn kind_of(trailer: u64) -> Result<Kind, Corrupt> {
    let byte = trailer as u8;
    Kind::from_byte(byte).ok_or_else(|| Corrupt::new("internal key", 0, format!("unknown kind {byte}")))
}

/// Splits an internal key into user key, sequence number and kind. The key must be valid, as keys
/// from a cursor are.
#[inline]
pub fn apart(internal: &[u8]) -> Parsed<'_> {
    let word = trailer(internal);
    let kind = if word as u8 == Kind::Delete as u8 { Kind::Delete } else { Kind::Put };
    Parsed { user: user_key(internal), seq: SeqNo(word >> 8), kind }
}

/// Returns the user key of an internal key that is known to be valid.
#[inline]
pub fn user_key(internal: &[u8]) -> &[u8] {
    &internal[..internal.len() - TRAILER_BYTES]
}

/// Returns the trailer, which has the sequence number and the kind. Of two versions of one key,
/// the version with the greater trailer is newer.
#[inline]
pub(crate) fn trailer(internal: &[u8]) -> u64 {
    let at = internal.len() - TRAILER_BYTES;
    u64::from_le_bytes(internal[at..].try_into().expect("eight bytes"))
}

/// Returns the trailer of (`seq`, `kind`).
pub fn trailer_of(seq: SeqNo, kind: Kind) -> u64 {
    seq.0 << 8 | kind as u64
}

/// Returns the internal key of (`user`, `seq`, `kind`).
pub fn encode(user: &[u8], seq: SeqNo, kind: Kind) -> Vec<u8> {
    let mut out = Vec::with_capacity(user.len() + TRAILER_BYTES);
    out.extend_from_slice(user);
    out.extend_from_slice(&trailer_of(seq, kind).to_le_bytes());
    out
}

/// Returns the smallest internal key that a reader of `user` at `seq` may see. A seek to it finds
/// the entry that the reader sees.
pub fn lookup(user: &[u8], seq: SeqNo) -> Vec<u8> {
    encode(user, seq, Kind::Put)
}

/// A lookup key: the smallest internal key that a reader may see, as [`lookup`] returns it. A
/// lookup key of usual length needs no allocation.
#[derive(Clone, Debug)]
pub struct Lookup(Place);

#[derive(Clone, Debug)]
enum Place {
    Here([u8; LOOKUP_BYTES], usize),
    Heap(Vec<u8>),
}

/// Maximum size in bytes of a lookup key without allocation. Longer lookup keys are allocated on
/// the heap.
const LOOKUP_BYTES: usize = 72;

impl Lookup {
    /// Makes the smallest internal key that a reader of `user` at `seq` may see.
    pub fn new(user: &[u8], seq: SeqNo) -> Lookup {
        let bytes = user.len() + TRAILER_BYTES;
        if bytes > LOOKUP_BYTES {
            return Lookup(Place::Heap(lookup(user, seq)));
        }
        let mut here = [0; LOOKUP_BYTES];
        here[..user.len()].copy_from_slice(user);
        here[user.len()..bytes].copy_from_slice(&(seq.0 << 8 | Kind::Put as u64).to_le_bytes());
        Lookup(Place::Here(here, bytes))
    }
}

impl std::ops::Deref for Lookup {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Place::Here(here, bytes) => &here[..*bytes],
            Place::Heap(bytes) => bytes,
        }
    }
}

/// A custom order of user keys. The manifest records the name of the order, and the name is
/// checked when the store is opened.
///
/// `compare` must be a total order that never changes for a given name.
pub trait Comparator: Send + Sync {
    /// Returns the name of the order. Names that start with `leveldb.` are reserved.
    fn name(&self) -> &str;
    /// Compares two user keys.
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering;
    /// May replace `start` by a shorter key in `[start, limit)`, to keep index blocks small.
    fn shorten_between(&self, _start: &mut Vec<u8>, _limit: &[u8]) {}
    /// May replace `key` by a shorter key at or after it.
    fn shorten_above(&self, _key: &mut Vec<u8>) {}
}

/// The order of user keys. The order of internal keys is derived from it.
#[derive(Clone, Default)]
pub enum KeyOrder {
    /// `memcmp` order, LevelDB's default.
    #[default]
    Bytewise,
    /// A custom order.
    Custom(Arc<dyn Comparator>),
}

impl fmt::Debug for KeyOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Compares two keys bytewise, as `a.cmp(b)` does. If the first bytes decide, which is the common
/// case, the function avoids the call to `memcmp`.
#[inline]
fn bytewise(a: &[u8], b: &[u8]) -> Ordering {
    match (a.first_chunk(), b.first_chunk()) {
        (Some(a), Some(b)) if a != b => u128::from_be_bytes(*a).cmp(&u128::from_be_bytes(*b)),
        _ => a.cmp(b),
    }
}

impl KeyOrder {
    /// Returns the name recorded in the manifest.
    pub fn name(&self) -> &str {
        match self {
            KeyOrder::Bytewise => "leveldb.BytewiseComparator",
            KeyOrder::Custom(c) => c.name(),
        }
    }

    /// Returns whether different bytes always mean different user keys.
    #[inline]
    pub fn is_bytewise(&self) -> bool {
        matches!(self, KeyOrder::Bytewise)
    }

    /// Compares user keys.
    #[inline]
    pub fn user(&self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            KeyOrder::Bytewise => bytewise(a, b),
            KeyOrder::Custom(c) => c.compare(a, b),
        }
    }

    /// Compares internal keys, which must be at least [`TRAILER_BYTES`] long.
    #[inline]
    pub fn internal(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.user(user_key(a), user_key(b)).then_with(|| trailer(b).cmp(&trailer(a)))
    }

    /// Compares internal keys as [`KeyOrder::internal`] does, but faster: `common` is the length in
    /// bytes of the longest common prefix of the two keys, which need not be compared.
    #[inline]
    pub fn internal_past(&self, a: &[u8], b: &[u8], common: usize) -> Ordering {
        match (self, user_key(a).get(common), user_key(b).get(common)) {
            (KeyOrder::Bytewise, Some(a), Some(b)) => a.cmp(b),
            _ => self.internal(a, b),
        }
    }

    /// Shortens the internal key `start` to a key in `[start, limit)`, for an index entry between
    /// two blocks.
    pub fn shorten_between(&self, start: &mut Vec<u8>, limit: &[u8]) {
        let mut user = user_key(start).to_vec();
        match self {
            KeyOrder::Bytewise => bytewise_between(&mut user, user_key(limit)),
            KeyOrder::Custom(c) => c.shorten_between(&mut user, user_key(limit)),
        }
        self.adopt_shorter(start, user);
    }

    /// Shortens the internal key `key` to a key at or after it, for the last index entry of an
    /// SSTable.
    pub fn shorten_above(&self, key: &mut Vec<u8>) {
        let mut user = user_key(key).to_vec();
        match self {
            KeyOrder::Bytewise => bytewise_above(&mut user),
            KeyOrder::Custom(c) => c.shorten_above(&mut user),
        }
        self.adopt_shorter(key, user);
    }

    /// Replaces the internal key `key` by one with the user key `user`, which is shorter. The new
    /// key has the largest sequence number, so it precedes every entry of `user`.
    fn adopt_shorter(&self, key: &mut Vec<u8>, user: Vec<u8>) {
        let old = user_key(key);
        if user.len() < old.len() && self.user(old, &user) == Ordering::Less {
            *key = encode(&user, SeqNo::MAX, Kind::Put);
        }
    }
}

fn bytewise_between(start: &mut Vec<u8>, limit: &[u8]) {
    let shared = start.iter().zip(limit).take_while(|(a, b)| a == b).count();
    if shared >= start.len().min(limit.len()) {
        return; // one key is a prefix of the other: no shorter key is between them
    }
    let byte = start[shared];
    if byte < 0xff && byte + 1 < limit[shared] {
        start[shared] += 1;
        start.truncate(shared + 1);
    }
}

fn bytewise_above(key: &mut Vec<u8>) {
    if let Some(at) = key.iter().position(|&b| b != 0xff) {
        key[at] += 1;
        key.truncate(at + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_version_of_a_key_sorts_first() {
        let order = KeyOrder::Bytewise;
        let (new, old) = (encode(b"k", SeqNo(9), Kind::Put), encode(b"k", SeqNo(3), Kind::Put));
        assert_eq!(order.internal(&new, &old), Ordering::Less);
        assert_eq!(order.internal(&lookup(b"k", SeqNo(5)), &old), Ordering::Less);
        assert_eq!(order.internal(&lookup(b"k", SeqNo(5)), &new), Ordering::Greater);
        assert_eq!(order.internal(&encode(b"j", SeqNo(1), Kind::Put), &new), Ordering::Less);
    }

    #[test]
    fn keys_of_any_length_sort_bytewise() {
        let keys = [0, 1, 15, 16, 17, 40].map(|bytes| {
            let changed = [0, 14, 15, 16, 39].into_iter().filter(move |at| *at < bytes);
            let change = move |at: usize, to| {
                let mut key = vec![0x80; bytes];
                key[at] = to;
                key
            };
            let changed = changed.flat_map(move |at| [0x7f, 0x81, 0xff].map(|to| change(at, to)));
            changed.chain([vec![0x80; bytes]]).collect::<Vec<_>>()
        });
        let keys = keys.concat();
        for (a, b) in keys.iter().flat_map(|a| keys.iter().map(move |b| (a, b))) {
            assert_eq!(KeyOrder::Bytewise.user(a, b), a.cmp(b), "{a:?} {b:?}");
        }
    }

    #[test]
    fn inline_and_heap_lookup_keys_are_equal() {
        for bytes in [0, 1, 63, 64, 65, 300] {
            let user = vec![7; bytes];
            assert_eq!(*Lookup::new(&user, SeqNo(300)), *lookup(&user, SeqNo(300)), "{bytes}");
        }
    }

    #[test]
    fn short_or_unknown_keys_are_rejected() {
        assert!(parse(b"1234567").is_err());
        assert!(parse(&[2, 0, 0, 0, 0, 0, 0, 0]).is_err());
        let parsed = parse(&[1, 7, 0, 0, 0, 0, 0, 0]).unwrap();
        assert_eq!((parsed.user, parsed.seq, parsed.kind), (&b""[..], SeqNo(7), Kind::Put));
    }

    #[test]
    fn shortened_keys_stay_between_their_neighbours() {
        let order = KeyOrder::Bytewise;
        for (start, limit, want) in [
            ("foo", "hello", "g"),
            ("foo", "foo1", "foo"),
            ("foo", "fop", "foo"),
            ("abc1", "abd", "abc1"),
            ("ab", "a", "ab"),
            ("\u{7f}x", "\u{7f}z", "\u{7f}x"),
            ("axx", "azz", "ay"),
        ] {
            let mut key = encode(start.as_bytes(), SeqNo(5), Kind::Put);
            order.shorten_between(&mut key, &encode(limit.as_bytes(), SeqNo(5), Kind::Put));
            assert_eq!(user_key(&key), want.as_bytes(), "{start} {limit}");
        }
        let mut key = encode(&[0xff, 0xff, 4, 9], SeqNo(5), Kind::Put);
        order.shorten_above(&mut key);
        assert_eq!(user_key(&key), [0xff, 0xff, 5]);
        let mut key = encode(&[0xff, 0xff], SeqNo(5), Kind::Put);
        order.shorten_above(&mut key);
        assert_eq!(user_key(&key), [0xff, 0xff]);
    }
}
