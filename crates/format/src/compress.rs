//! Block compression.
//!
//! | id | stored contents | remark |
//! |--:|---|---|
//! | 0 | the block, uncompressed | |
//! | 1 | Snappy, raw format | |
//! | 2 | one Zstandard frame (begins with 28 b5 2f fd) | |
//! | 2 | a zlib stream | Mojang's fork, read only |
//! | 4 | a raw Deflate stream | Mojang's fork, read only |
//! | 36 | varint32 length of the block, then one LZ4 block | Terrace only |
//!
//! Source: LevelDB's `options.h`, `port/port_stdcxx.h`; spec: docs/format/table.md.
use crate::Corrupt;
#[cfg(feature = "lz4")]
use crate::coding::{Input, put_varint32};
use std::io::Read;

/// Maximum size in bytes of a block that is compressed. Larger blocks are stored uncompressed.
/// This size is far below the limits of every codec.
const RAW_BYTES_MAX: usize = 1 << 30;
/// Maximum size in bytes of a decompressed stream: the maximum size of a block or value.
const EXPANDED_BYTES_MAX: u64 = u32::MAX as u64;
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const DEFLATE_ID: u8 = 4;

/// The value of [`Corrupt::what`] for a well-formed block whose codec is not compiled into this
/// build.
pub const MISSING_CODEC: &str = "block of a codec that is not compiled in";

/// A compression codec. The numbers are part of the on-disk format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Codec {
    /// No compression.
    None = 0,
    /// Snappy: fast compression. Every version of LevelDB reads it.
    #[default]
    Snappy = 1,
    /// Zstandard: dense compression. Versions of LevelDB after 1.23 read it. Needs the feature
    /// `zstd`.
    Zstd = 2,
    /// LZ4: fast compression. Only Terrace reads it.
    Lz4 = 0x24,
}

impl Codec {
    /// All codecs that can be written.
    pub const ALL: [Codec; 4] = [Codec::None, Codec::Snappy, Codec::Zstd, Codec::Lz4];

    /// Returns the codec's name in options.
    pub fn name(self) -> &'static str {
        match self {
            Codec::None => "none",
            Codec::Snappy => "snappy",
            Codec::Zstd => "zstd",
            Codec::Lz4 => "lz4",
        }
    }

    /// Returns whether the codec is compiled into this build. Features of the crate select the
    /// codecs.
    pub fn is_available(self) -> bool {
        match self {
            Codec::None => true,
            Codec::Snappy => cfg!(feature = "snappy"),
            Codec::Zstd => cfg!(feature = "zstd"),
            Codec::Lz4 => cfg!(feature = "lz4"),
        }
    }

    /// Returns the codec whose name in options is `name`.
    pub fn from_name(name: &str) -> Option<Codec> {
        Codec::ALL.into_iter().find(|codec| codec.name() == name)
    }
}

/// Appends `raw` to `out`, compressed with `codec` if that saves more than an eighth,
/// uncompressed otherwise. Returns the codec of the stored form. `zstd_level` (-131072 ..= 22)
/// applies to Zstandard only.
pub fn compress(codec: Codec, zstd_level: i32, raw: &[u8], out: &mut Vec<u8>) -> Codec {
    let start = out.len();
    if raw.len() <= RAW_BYTES_MAX && squeeze(codec, zstd_level, raw, out) {
        let stored = out.len() - start;
        if stored < raw.len() - raw.len() / 8 {
            return codec;
        }
    }
    out.truncate(start);
    out.extend_from_slice(raw);
    Codec::None
}

/// Appends `raw` to `out` in compressed form. Returns false if the compression fails; the bytes
/// that were appended to `out` are then undefined.
fn squeeze(codec: Codec, zstd_level: i32, raw: &[u8], out: &mut Vec<u8>) -> bool {
    match codec {
        Codec::None => false,
        #[cfg(feature = "snappy")]
        Codec::Snappy => {
            fill(out, snap::raw::max_compress_len(raw.len()), |room| snap::raw::Encoder::new().compress(raw, room).ok())
        }
        #[cfg(feature = "zstd")]
        Codec::Zstd => fill(out, zstd::zstd_safe::compress_bound(raw.len()), |room| {
            zstd::bulk::compress_to_buffer(raw, room, zstd_level).ok()
        }),
        #[cfg(feature = "lz4")]
        Codec::Lz4 => {
            put_varint32(out, raw.len() as u32);
            fill(out, lz4_flex::block::get_maximum_output_size(raw.len()), |room| {
                lz4_flex::block::compress_into(raw, room).ok()
            })
        }
        #[allow(unreachable_patterns, reason = "not if a codec is missing")]
        _ => {
            let _ = (zstd_level, raw, out);
            false
        }
    }
}

/// Extends `out` by `room` bytes and passes these bytes to `write`, which returns how many of them
/// it has filled. Removes the other bytes. Returns false if `write` returns `None`.
#[cfg(any(feature = "snappy", feature = "zstd", feature = "lz4"))]
fn fill(out: &mut Vec<u8>, room: usize, write: impl FnOnce(&mut [u8]) -> Option<usize>) -> bool {
    let start = out.len();
    out.resize(start + room, 0);
    let written = write(&mut out[start..]);
    out.truncate(start + written.unwrap_or(0));
    written.is_some()
}

/// Decompresses `stored`, which was compressed with the codec whose id is `id`. Allocates no more
/// memory than `stored` can expand to.
pub fn decompress(id: u8, stored: &[u8]) -> Result<Vec<u8>, Corrupt> {
    match id {
        0 => Ok(stored.to_vec()),
        #[cfg(feature = "snappy")]
        1 => unsnap(stored),
        #[cfg(feature = "zstd")]
        2 if stored.starts_with(&ZSTD_MAGIC) => unzstd(stored),
        #[cfg(not(feature = "snappy"))]
        1 => Err(missing(Codec::Snappy)),
        #[cfg(not(feature = "zstd"))]
        2 if stored.starts_with(&ZSTD_MAGIC) => Err(missing(Codec::Zstd)),
        2 => inflate("zlib block", flate2::bufread::ZlibDecoder::new(stored), |decoder| decoder.into_inner().len()),
        DEFLATE_ID => {
            inflate("deflate block", flate2::bufread::DeflateDecoder::new(stored), |decoder| decoder.into_inner().len())
        }
        #[cfg(feature = "lz4")]
        0x24 => unlz4(stored),
        #[cfg(not(feature = "lz4"))]
        0x24 => Err(missing(Codec::Lz4)),
        _ => Err(Corrupt::new("block", stored.len() as u64, format!("unknown codec {id}"))),
    }
}

#[cfg(feature = "snappy")]
fn unsnap(stored: &[u8]) -> Result<Vec<u8>, Corrupt> {
    let bad = |detail: String| Corrupt::new("snappy block", 0, detail);
    let claimed = snap::raw::decompress_len(stored).map_err(|error| bad(error.to_string()))?;
    believable("snappy block", claimed, stored.len(), 64)?; // 3 bytes can mean a copy of 64
    snap::raw::Decoder::new().decompress_vec(stored).map_err(|error| bad(error.to_string()))
}

#[cfg(feature = "lz4")]
fn unlz4(stored: &[u8]) -> Result<Vec<u8>, Corrupt> {
    let mut input = Input::new("lz4 block", stored);
    let claimed = input.varint32()? as usize;
    believable("lz4 block", claimed, stored.len(), 255)?; // each further length byte represents 255
    let mut raw = vec![0; claimed];
    match lz4_flex::block::decompress_into(input.rest(), &mut raw) {
        Ok(bytes) if bytes == claimed => Ok(raw),
        Ok(bytes) => Err(input.corrupt(format!("{claimed} bytes announced, {bytes} found"))),
        Err(error) => Err(input.corrupt(error.to_string())),
    }
}

/// The error for a block of a codec that this build does not have.
#[cfg(not(all(feature = "snappy", feature = "zstd", feature = "lz4")))]
fn missing(codec: Codec) -> Corrupt {
    let name = codec.name();
    Corrupt::new(MISSING_CODEC, 0, format!("it is compressed with {name}; build Terrace with its feature `{name}`"))
}

/// Returns an error if `stored` bytes of compressed data cannot expand to `claimed` bytes. With
/// this codec one stored byte expands to at most `factor` bytes.
#[cfg(any(feature = "snappy", feature = "lz4"))]
fn believable(what: &'static str, claimed: usize, stored: usize, factor: usize) -> Result<(), Corrupt> {
    if claimed <= stored.saturating_mul(factor) + 64 {
        return Ok(());
    }
    Err(Corrupt::new(what, 0, format!("{claimed} bytes announced by {stored}")))
}

#[cfg(feature = "zstd")]
fn unzstd(stored: &[u8]) -> Result<Vec<u8>, Corrupt> {
    let open = || -> std::io::Result<_> {
        let mut decoder = zstd::stream::read::Decoder::with_buffer(stored)?.single_frame();
        decoder.window_log_max(window_log2(stored.len()))?;
        Ok(decoder)
    };
    let decoder = open().map_err(|error| Corrupt::new("zstd block", 0, error.to_string()))?;
    inflate("zstd block", decoder, |decoder| decoder.finish().len())
}

/// Returns log2 of the size of the largest window that a Zstandard frame of `stored` bytes may
/// request. The limit is 8 MiB, which every decoder should support, or the size to which the frame
/// can expand (128 KiB for each 4 bytes) if that is larger. Zstandard's own limit is 2 GiB, and
/// 1 GiB on 32-bit systems.
#[cfg(feature = "zstd")]
fn window_log2(stored: usize) -> u32 {
    const MAX: u32 = if usize::BITS < 64 { 30 } else { 31 };
    let expanded = stored.saturating_mul(1 << 15).max(2);
    (expanded - 1).ilog2().saturating_add(1).clamp(23, MAX)
}

/// Decompresses a whole stream. The output buffer grows while data are decompressed. `left`
/// returns the number of input bytes that the decompressor did not use.
fn inflate<R: Read>(what: &'static str, mut stream: R, left: impl FnOnce(R) -> usize) -> Result<Vec<u8>, Corrupt> {
    let mut raw = Vec::new();
    let bad = |detail: String| Corrupt::new(what, 0, detail);
    stream.by_ref().take(EXPANDED_BYTES_MAX + 1).read_to_end(&mut raw).map_err(|error| bad(error.to_string()))?;
    if raw.len() as u64 > EXPANDED_BYTES_MAX {
        return Err(bad("expands to more than 4 GiB".into()));
    }
    match left(stream) {
        0 => Ok(raw),
        left => Err(bad(format!("{left} bytes after its end"))),
    }
}

#[cfg(all(test, not(any(feature = "snappy", feature = "zstd", feature = "lz4"))))]
mod tests_without_codecs {
    use super::*;

    #[test]
    fn a_missing_codec_is_named_and_no_corruption() {
        for (id, stored, name) in [(1, &b"x"[..], "snappy"), (2, &ZSTD_MAGIC, "zstd"), (0x24, b"x", "lz4")] {
            let error = decompress(id, stored).expect_err("not compiled in");
            assert_eq!(error.what, MISSING_CODEC);
            assert!(error.detail.contains(name), "{error}");
        }
        let mut out = Vec::new();
        assert_eq!(compress(Codec::Zstd, 1, &[7; 1000], &mut out), Codec::None);
        assert_eq!(out, [7; 1000]);
    }
}

#[cfg(all(test, feature = "snappy", feature = "zstd", feature = "lz4"))]
mod tests {
    use super::*;
    use std::io::Write;

    fn text() -> Vec<u8> {
        b"the quick brown fox jumps over the lazy dog; ".repeat(200)
    }

    #[test]
    fn every_codec_round_trips() {
        for codec in Codec::ALL {
            for raw in [text(), vec![0; 3 << 20], b"".to_vec(), b"short".to_vec()] {
                let mut out = b"before".to_vec();
                let stored = compress(codec, 1, &raw, &mut out);
                assert_eq!(decompress(stored as u8, &out[6..]), Ok(raw.clone()), "{codec:?}");
                assert_eq!(stored == codec, codec == Codec::None || raw.len() > 5, "{codec:?}");
            }
            assert_eq!(Codec::from_name(codec.name()), Some(codec));
        }
        assert_eq!(Codec::from_name("lzma"), None);
    }

    #[test]
    fn incompressible_blocks_are_stored_uncompressed() {
        let mut noise: Vec<u8> =
            (0..4096_u32).map(|i| (i.wrapping_mul(i).wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        noise.truncate(4000);
        for codec in Codec::ALL {
            let mut out = Vec::new();
            assert_eq!(compress(codec, 3, &noise, &mut out), Codec::None);
            assert_eq!(out, noise);
        }
    }

    #[test]
    fn codecs_of_mojangs_fork_are_read() {
        let raw = text();
        let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        zlib.write_all(&raw).unwrap();
        let zlib = zlib.finish().unwrap();
        assert_eq!(decompress(2, &zlib), Ok(raw.clone()));
        let deflate = &zlib[2..zlib.len() - 4]; // without header and checksum
        assert_eq!(decompress(4, deflate), Ok(raw));
        assert!(decompress(4, &[deflate, b"x"].concat()).is_err());
        assert!(decompress(2, &zlib[..zlib.len() - 1]).is_err());
    }

    #[test]
    fn lz4_is_a_length_and_a_block() {
        let mut out = Vec::new();
        assert_eq!(compress(Codec::Lz4, 0, &[b'a'; 300], &mut out), Codec::Lz4);
        assert_eq!(out[..2], [0xac, 0x02]);
        assert_eq!(decompress(0x24, b"\x03\x30abc"), Ok(b"abc".to_vec()));
        assert!(decompress(0x24, b"\x04\x30abc").is_err());
        assert!(decompress(0x24, b"\x02\x30abc").is_err());
    }

    #[test]
    fn impossible_lengths_allocate_nothing() {
        for (id, stored) in [
            (1, &b"\xff\xff\xff\xff\x0f"[..]),
            (0x24, b"\xff\xff\xff\xff\x0f"),
            (1, b""),
            (2, b""),
            (4, b""),
            (0x24, b""),
            (2, b"\x28\xb5\x2f\xfd"),
            (2, b"\x28\xb5\x2f\xfd\xe0\0\0\0\0\x02\0\0\0\x01\0\0"), // a frame of 8 GiB
            (2, b"\x28\xb5\x2f\xfd\0\xa8\x01\0\0"),                 // a window of 2 GiB
            (3, b"x"),
        ] {
            assert!(decompress(id, stored).is_err(), "{id} {stored:?}");
        }
    }

    #[test]
    fn trailing_bytes_are_corruption() {
        let mut out = Vec::new();
        compress(Codec::Zstd, 1, &text(), &mut out);
        out.push(0);
        assert!(decompress(2, &out).is_err());
    }
}
