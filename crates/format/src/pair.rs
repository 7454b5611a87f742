//! The format of directory tables. A directory table is an SSTable that is stored as a directory.
//! Each value is in a separate file or inline in the index file. This module defines the names of
//! the files, the bytes before the value in a file, and the references from the index to the
//! files.
//!
//! ```text
//! name      = key "." sequence "." checksum   sequence in decimal, checksum in 8 hexadecimal digits
//! key       = letters, digits and signs; any other byte as "%" and 2 hexadecimal digits;
//!             "%-" for an empty key
//! cut key   = a prefix of the key and "%+", if the key is too long for the file system
//! file      = value; or, if the name is cut: varint32 key length, key, value
//! reference, which the SSTable stores in place of the value:
//!             0 value                                        the value itself (inline)
//!             1 varint64 value bytes, fixed32 checksum       a value in a file
//!             2 varint64 value bytes, fixed32 checksum,      a value in a file whose name is cut
//!               varint32 bytes of the key in the name
//! ```
//! The checksum is the CRC-32C of internal key and value. Each sequence number is used only once,
//! so names are unique, even on file systems that ignore case. This format is an addition of
//! Terrace; spec: docs/format/directory-table.md.
use crate::{
    Corrupt, Kind, SeqNo,
    coding::{Input, put_fixed32, put_varint32, put_varint64},
    crc,
    key::{self, Parsed},
};
use std::fmt::Write;

/// Name of the index file in a directory table.
pub const META: &str = "META";
/// Key of the meta block with file statistics.
pub const META_NAME: &str = "terrace.pairs";

const CUT: &str = "%+";
const NONE: &str = "%-";
/// Maximum length of sequence number and checksum in a name, with their dots.
const HEADER_BYTES_MAX: usize = 1 + 17 + 1 + 8;
/// Minimum length in bytes of file names that the file system must support. Shorter names have no
/// room for keys.
pub const NAME_BYTES_MIN: usize = HEADER_BYTES_MAX + 16;

/// Returns the checksum of a key-value pair.
pub fn checksum(internal_key: &[u8], value: &[u8]) -> u32 {
    crc::extend(crc::crc32c(internal_key), value)
}

/// The form in which an SSTable stores a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference<'a> {
    /// The value itself.
    Here(&'a [u8]),
    /// A reference to a file.
    File(InFile),
}

/// A reference to a value in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFile {
    /// Size of the value in bytes.
    pub bytes: u64,
    /// The checksum of the pair, see [`checksum`].
    pub checksum: u32,
    /// If the name is cut: the number of bytes of the key that are in the name. The file then
    /// begins with the key.
    pub cut: Option<u32>,
}

impl<'a> Reference<'a> {
    /// Appends the encoded reference.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Reference::Here(value) => {
                out.push(0);
                out.extend_from_slice(value);
            }
            Reference::File(InFile { bytes, checksum, cut }) => {
                out.push(if cut.is_some() { 2 } else { 1 });
                put_varint64(out, *bytes);
                put_fixed32(out, *checksum);
                cut.iter().for_each(|kept| put_varint32(out, *kept));
            }
        }
    }

    /// Decodes a reference.
    pub fn decode(stored: &'a [u8]) -> Result<Reference<'a>, Corrupt> {
        let mut input = Input::new("reference to a pair", stored);
        let form = input.byte()?;
        if form == 0 {
            return Ok(Reference::Here(input.rest()));
        }
        if form > 2 {
            return Err(Corrupt::new("reference to a pair", 0, format!("unknown form {form}")));
        }
        let (bytes, checksum) = (input.varint64()?, input.fixed32()?);
        let cut = if form == 2 { Some(input.varint32()?) } else { None };
        if !input.is_empty() {
            return Err(input.corrupt("bytes after the reference"));
        }
        Ok(Reference::File(InFile { bytes, checksum, cut }))
    }
}

impl InFile {
    /// Returns the reference for a new pair. The file system allows names of `name_bytes_max`
    /// bytes, which must be at least [`NAME_BYTES_MIN`].
    pub fn new(internal_key: &[u8], value: &[u8], name_bytes_max: usize) -> InFile {
        let checksum = checksum(internal_key, value);
        let Parsed { user, seq, .. } = key::apart(internal_key);
        let header = header(seq, checksum).len();
        let room = name_bytes_max.saturating_sub(header);
        let whole = user.iter().try_fold(0, |sum, byte| Some(sum + escaped_bytes(*byte)).filter(|sum| *sum <= room));
        let cut = match whole {
            Some(_) => None,
            None => {
                let mut left = room - CUT.len();
                let fits = |byte: &&u8| {
                    let fits = escaped_bytes(**byte) <= left;
                    left = left.saturating_sub(escaped_bytes(**byte));
                    fits
                };
                Some(user.iter().take_while(fits).count() as u32)
            }
        };
        InFile { bytes: value.len() as u64, checksum, cut }
    }

    /// Returns the file name of the pair with this key.
    pub fn name(&self, internal_key: &[u8]) -> String {
        let Parsed { user, seq, .. } = key::apart(internal_key);
        let kept = self.cut.map_or(user.len(), |kept| user.len().min(kept as usize));
        let mut name = String::with_capacity(kept + HEADER_BYTES_MAX);
        user[..kept].iter().enumerate().for_each(|(at, byte)| escape(&mut name, *byte, at == 0));
        match self.cut {
            Some(_) => name.push_str(CUT),
            None if user.is_empty() => name.push_str(NONE),
            None => {}
        }
        name.push_str(&header(seq, self.checksum));
        name
    }

    /// Returns the bytes that precede the value in the file.
    pub fn head(&self, internal_key: &[u8]) -> Vec<u8> {
        let mut head = Vec::new();
        if self.cut.is_some() {
            let user = key::user_key(internal_key);
            put_varint32(&mut head, user.len() as u32);
            head.extend_from_slice(user);
        }
        head
    }

    /// Returns the size of the file in bytes.
    pub fn file_bytes(&self, internal_key: &[u8]) -> u64 {
        self.bytes.saturating_add(self.head(internal_key).len() as u64)
    }

    /// Returns the offset of the value in `file`, which has all bytes of the file. Verifies the
    /// checksum if `verify` is set.
    pub fn value_at(&self, internal_key: &[u8], file: &[u8], verify: bool) -> Result<usize, Corrupt> {
        let wrong = |offset: usize, detail: String| Err(Corrupt::new("pair", offset as u64, detail));
        let head = self.head(internal_key);
        if !file.starts_with(&head) {
            return wrong(0, "the file begins with another key".into());
        }
        let value = &file[head.len()..];
        if value.len() as u64 != self.bytes {
            return wrong(file.len(), format!("{} bytes of value where the table has {}", value.len(), self.bytes));
        }
        let found = if verify { checksum(internal_key, value) } else { self.checksum };
        if found != self.checksum {
            return wrong(head.len(), format!("checksum {found:08x} where its name has {:08x}", self.checksum));
        }
        Ok(head.len())
    }
}

fn header(seq: SeqNo, checksum: u32) -> String {
    format!(".{seq}.{checksum:08x}")
}

/// Returns whether `byte` is unescaped in file names. A dot at the start of a name is escaped,
/// because it would hide the file.
fn is_plain(byte: u8, first: bool) -> bool {
    byte.is_ascii_graphic() && byte != b'/' && byte != b'%' && !(first && byte == b'.')
}

/// Returns the maximum number of bytes that `byte` needs in a file name.
fn escaped_bytes(byte: u8) -> usize {
    if is_plain(byte, byte == b'.') { 1 } else { 3 }
}

fn escape(name: &mut String, byte: u8, first: bool) {
    if is_plain(byte, first) {
        name.push(char::from(byte));
    } else {
        write!(name, "%{byte:02X}").expect("a string takes all");
    }
}

/// The information in the name of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairName {
    /// The user key, or its first bytes.
    pub user: Vec<u8>,
    /// Whether the name is cut, so that the file begins with the whole key.
    pub cut: bool,
    /// Sequence number of the pair.
    pub seq: SeqNo,
    /// The checksum of the pair, see [`checksum`].
    pub checksum: u32,
}

impl PairName {
    /// Parses a file name. Returns `None` for foreign names.
    pub fn parse(name: &str) -> Option<PairName> {
        let (rest, checksum) = name.rsplit_once('.')?;
        let (key, seq) = rest.rsplit_once('.')?;
        let cut = key.ends_with(CUT);
        let escaped = if cut { &key[..key.len() - CUT.len()] } else { key };
        let user = if escaped == NONE && !cut { Vec::new() } else { unescape(escaped)? };
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let seq = SeqNo(Some(seq).filter(|seq| digits(seq))?.parse().ok()?);
        let checksum = u32::from_str_radix(checksum, 16).ok()?;
        let file = InFile { bytes: 0, checksum, cut: cut.then_some(user.len() as u32) };
        let whole = seq <= SeqNo::MAX && file.name(&key::encode(&user, seq, Kind::Put)) == name;
        whole.then_some(PairName { user, cut, seq, checksum })
    }

    /// Returns the reference to the file with this name and a value of `bytes` bytes.
    pub fn refer(&self, bytes: u64) -> Reference<'static> {
        let cut = self.cut.then_some(self.user.len() as u32);
        Reference::File(InFile { bytes, checksum: self.checksum, cut })
    }

    /// Verifies the contents `file` of a file with this name. Returns the internal key of the pair
    /// and the offset of the value in `file`.
    pub fn open(&self, file: &[u8]) -> Result<(Vec<u8>, usize), Corrupt> {
        let mut input = Input::new("pair", file);
        let user = if self.cut { input.slice()? } else { &self.user };
        if !user.starts_with(&self.user) {
            return Err(Corrupt::new("pair", 0, "the file begins with another key"));
        }
        let internal = key::encode(user, self.seq, Kind::Put);
        let at = file.len() - if self.cut { input.rest().len() } else { file.len() };
        let found = checksum(&internal, &file[at..]);
        if found != self.checksum {
            let detail = format!("checksum {found:08x} where its name has {:08x}", self.checksum);
            return Err(Corrupt::new("pair", at as u64, detail));
        }
        Ok((internal, at))
    }
}

fn unescape(text: &str) -> Option<Vec<u8>> {
    let (mut user, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let [byte, behind @ ..] = rest {
        if *byte == b'%' {
            let digits = std::str::from_utf8(behind.get(..2)?).ok()?;
            user.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &behind[2..];
        } else {
            user.push(*byte);
            rest = behind;
        }
    }
    Some(user)
}

/// Statistics of the files of a directory table. Meta block [`META_NAME`] stores them as three
/// fixed64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PairProperties {
    /// Number of pairs that are in files.
    pub files: u64,
    /// Total size in bytes of the files that contain pairs.
    pub file_bytes: u64,
    /// Total size in bytes of all values, both in files and inline.
    pub value_bytes: u64,
}

impl PairProperties {
    /// Encodes the block's contents, 24 bytes.
    pub fn encode(&self) -> Vec<u8> {
        [self.files, self.file_bytes, self.value_bytes].iter().flat_map(|field| field.to_le_bytes()).collect()
    }

    /// Decodes the block's contents.
    pub fn decode(bytes: &[u8]) -> Result<PairProperties, Corrupt> {
        let mut input = Input::new("pair properties", bytes);
        let facts =
            PairProperties { files: input.fixed64()?, file_bytes: input.fixed64()?, value_bytes: input.fixed64()? };
        if !input.is_empty() {
            return Err(input.corrupt(format!("{} surplus bytes", input.rest().len())));
        }
        Ok(facts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn internal(user: &[u8], seq: u64) -> Vec<u8> {
        key::encode(user, SeqNo(seq), Kind::Put)
    }

    #[test]
    fn names_are_readable() {
        for (user, name) in [
            (&b"user42"[..], "user42.7.858b5628"),
            (b"www.example.com", "www.example.com.7."),
            (b".hidden", "%2Ehidden.7."),
            (b"a/b%c d", "a%2Fb%25c%20d.7."),
            (b"", "%-.7."),
            (b"\0\xff", "%00%FF.7."),
            (b"..", "%2E..7."),
        ] {
            let key = internal(user, 7);
            let found = InFile::new(&key, b"value", 255).name(&key);
            assert!(found.starts_with(name), "{found} for {}", user.escape_ascii());
        }
    }

    #[test]
    fn every_key_round_trips() {
        for bytes in [0, 1, 5, 60, 75, 76, 77, 100, 228, 229, 230, 231, 1000] {
            for byte in [b'a', b'.', b'%', b'/', 0, 0xff] {
                for limit in [NAME_BYTES_MIN, 143, 255] {
                    let (key, value) = (internal(&vec![byte; bytes], 1 << 50), b"some value");
                    let file = InFile::new(&key, value, limit);
                    let name = file.name(&key);
                    assert!(name.len() <= limit && !name.contains('/') && !name.starts_with('.'), "{name}");
                    let contents = [&file.head(&key)[..], value].concat();
                    assert_eq!(file.file_bytes(&key), contents.len() as u64);
                    let at = file.value_at(&key, &contents, true).unwrap();
                    assert_eq!(PairName::parse(&name).unwrap().open(&contents), Ok((key.clone(), at)), "{name}");
                    let mut stored = Vec::new();
                    Reference::File(file).encode(&mut stored);
                    assert_eq!(Reference::decode(&stored), Ok(Reference::File(file)));
                    assert!((0..stored.len()).all(|cut| Reference::decode(&stored[..cut]).is_err()));
                }
            }
        }
    }

    #[test]
    fn damage_is_seen() {
        for user in [&b"key"[..], &[b'k'; 300]] {
            let key = internal(user, 9);
            let file = InFile::new(&key, b"value", 255);
            let good = [&file.head(&key)[..], b"value"].concat();
            let name = PairName::parse(&file.name(&key)).unwrap();
            let bad = |bytes: &[u8]| file.value_at(&key, bytes, true).is_err() && name.open(bytes).is_err();
            assert!(!bad(&good));
            for at in 0..good.len() {
                let mut one = good.clone();
                one[at] ^= 1;
                assert!(bad(&one) && bad(&good[..at]), "byte {at}");
            }
            assert!(bad(&[&good[..], b"\0"].concat()));
            assert!(file.value_at(&internal(user, 8), &good, true).is_err(), "another version's file");
        }
    }

    #[test]
    fn foreign_names_are_rejected() {
        for name in [
            "META",
            "key",
            "key.7",
            "key.7.e15ba2b",
            "key.07.e15ba2b2",
            "k%2fy.7.e15ba2b2",
            "key.7.E15BA2B2",
            "k%6Be.7.e15ba2b2",
            ".7.e15ba2b2",
            "%+.7.e15ba2b",
            "k%.7.e15ba2b2",
            "ü.7.e15ba2b2",
            "key.72057594037927936.e15ba2b2",
        ] {
            assert_eq!(PairName::parse(name), None, "{name}");
        }
    }
}
