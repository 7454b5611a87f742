//! Encodes batches as frames.
use super::{CRC_BYTES, DELETE, DELETE_RANGE, HEADER_BYTES, Header, PUT, PUT_COMPRESSED, begin_crc, entry_crc};
use crate::{Batch, Codec, Op, SeqNo, coding::put_slice, compress::compress, crc};
use std::ops::Range;

/// Encodes the frames of one segment.
#[derive(Clone, Debug)]
pub struct Framer {
    segment: u64,
    codec: Codec,
    zstd_level: i32,
    /// Minimum size in bytes of a value that is compressed.
    compress_from: usize,
    /// The codec id and the compressed bytes of a value.
    scratch: Vec<u8>,
}

impl Framer {
    /// Makes a framer for segment number `segment`. A value of at least `compress_from` bytes is
    /// compressed with `codec` if that saves more than an eighth of its size.
    pub fn new(segment: u64, codec: Codec, zstd_level: i32, compress_from: usize) -> Framer {
        Framer { segment, codec, zstd_level, compress_from, scratch: Vec::new() }
    }

    /// Appends the frame of `batch` to `out`. Calls `place` for each operation, with the operation
    /// and the range of its entry in `out`.
    pub fn frame(&mut self, batch: &Batch, out: &mut Vec<u8>, mut place: impl FnMut(Op<'_>, Range<usize>)) {
        let begin = out.len();
        out.reserve(HEADER_BYTES + batch.byte_len() + 8 * batch.len() as usize);
        out.resize(begin + HEADER_BYTES, 0);
        let (mut seq, mut crc) = (batch.sequence(), begin_crc(self.segment));
        for op in batch.ops() {
            let entry = self.entry(op, seq, out);
            crc = crc::extend(crc, &out[entry.start..entry.start + CRC_BYTES]);
            place(op, entry);
            seq = seq.plus(1);
        }
        let entry_bytes = (out.len() - begin - HEADER_BYTES) as u64;
        let header = Header { masked_crc: 0, count: batch.len(), first: batch.sequence().0, entry_bytes }.sealed(crc);
        out[begin..begin + HEADER_BYTES].copy_from_slice(&header.encode());
    }

    /// Appends a put at `seq`, in its own frame. Returns the range of the entry in `out`.
    pub fn frame_put(&mut self, key: &[u8], seq: SeqNo, value: &[u8], out: &mut Vec<u8>) -> Range<usize> {
        let mut batch = Batch::new();
        batch.put(key, value);
        batch.set_sequence(seq);
        let mut at = 0..0;
        self.frame(&batch, out, |_, entry| at = entry);
        at
    }

    fn entry(&mut self, op: Op<'_>, seq: SeqNo, out: &mut Vec<u8>) -> Range<usize> {
        let at = out.len();
        out.extend_from_slice(&[0; CRC_BYTES]);
        let (kind, key, rest) = match op {
            Op::Put(key, value) if self.squeezed(value) => (PUT_COMPRESSED, key, Some(&self.scratch[..])),
            Op::Put(key, value) => (PUT, key, Some(value)),
            Op::Delete(key) => (DELETE, key, None),
            Op::DeleteRange(from, to) => (DELETE_RANGE, from, Some(to)),
            Op::FamilyPut(..) | Op::FamilyDelete(..) | Op::FamilyDeleteRange(..) => {
                unreachable!("the engine creates no column families in a store with a value log")
            }
        };
        out.push(kind);
        put_slice(out, key);
        rest.into_iter().for_each(|rest| put_slice(out, rest));
        let crc = entry_crc(seq, &out[at + CRC_BYTES..]);
        out[at..at + CRC_BYTES].copy_from_slice(&crc.to_le_bytes());
        at..out.len()
    }

    /// Returns whether compressing `value` saves more than an eighth. If so, `scratch` has the
    /// compressed form.
    fn squeezed(&mut self, value: &[u8]) -> bool {
        if self.codec == Codec::None || value.len() < self.compress_from.max(1) {
            return false;
        }
        self.scratch.clear();
        self.scratch.push(self.codec as u8);
        compress(self.codec, self.zstd_level, value, &mut self.scratch) != Codec::None
    }
}
