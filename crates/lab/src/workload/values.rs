//! The values that the driver puts. Each value is a part of one buffer of compressible text. The
//! key and the generation (number of changes of the key) determine which part. The driver can
//! therefore check every value without storing it, and can make a value without copying it.
//!
//! The buffer is that of db_bench. It consists of pieces of 100 bytes. Each piece is a random
//! text, repeated until the piece is full; the random numbers are those of LevelDB with seed 301.
//! A value starts at one of 2^20 positions. A value that consists of whole pieces starts at one of
//! 10,485 positions; its pieces are those of db_bench and compress in the same way. The
//! probability that a wrong value equals the right one is one divided by the number of positions,
//! so a store that confuses values is detected soon.
use super::rng::mix;

/// The values of one store. This type makes values and checks them.
#[derive(Debug)]
pub struct Values {
    buffer: Vec<u8>,
    len: usize,
    /// Whether values consist of whole pieces (100 bytes of one repeated text) of the buffer.
    whole_pieces: bool,
    salt: u64,
    form: Form,
    /// Distribution of sizes, if values have different sizes. In this case `len` is the maximum
    /// size.
    sizes: Option<Sizes>,
}

/// Distributions of sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sizes {
    /// The distribution of RocksDB's mixgraph.
    Pareto(Pareto),
    /// Two sizes, the smaller first. The values of each size have half of all bytes.
    HalfOfBytes([u64; 2]),
}

impl Sizes {
    /// Returns the size in bytes for the random number `u` from 0 to 1. The smallest `u` gives the
    /// largest size.
    fn size(&self, u: f64) -> u64 {
        match self {
            Sizes::Pareto(pareto) => pareto.size(u),
            Sizes::HalfOfBytes([small, large]) => {
                if u < *small as f64 / (small + large) as f64 {
                    *large
                } else {
                    *small
                }
            }
        }
    }

    fn most(&self) -> usize {
        let (Sizes::Pareto(Pareto { most, .. }) | Sizes::HalfOfBytes([_, most])) = self;
        *most as usize
    }
}

/// A generalised Pareto distribution of sizes from 0, limited as in RocksDB's db_bench. A size is
/// at least `least`. A size above `most` is reduced modulo `most`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs, reason = "the distribution's own names")]
pub struct Pareto {
    pub k: f64,
    pub sigma: f64,
    pub least: u64,
    pub most: u64,
}

impl Pareto {
    /// Returns the size in bytes for the random number `u` from 0 to 1. The smallest `u` gives the
    /// largest size.
    pub fn size(&self, u: f64) -> u64 {
        let size = if u <= 0.0 { self.sigma } else { self.sigma * (u.powf(-self.k) - 1.0) / self.k };
        let size = size.ceil().max(0.0) as u64;
        let size = if size > self.most { size % self.most } else { size };
        size.max(self.least)
    }
}

/// The part of a value that a put replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The whole value.
    Whole,
    /// One of ten fields. From the second put of a key on, each put replaces the next field in
    /// turn. This is YCSB's update with a merge.
    Fields,
}

/// Number of fields in a YCSB record.
pub const FIELDS: usize = 10;

/// Number of positions in the buffer at which a value, or a walk (see [`WALK`]), can start.
const PLACES: usize = 1 << 20;
/// Size of a piece in bytes. Each piece repeats its own text.
const PIECE: usize = 100;
/// Maximum size in bytes of a value that consists of whole pieces.
const PIECES_MAX: usize = 1000;
/// Number of neighbouring keys in a walk. The values of these keys in one generation are adjacent
/// in the buffer, as db_bench's values are. The driver can then check the entries of a scan
/// without cache misses.
const WALK: u64 = 1 << 10;

impl Values {
    /// Creates values of `len` bytes that compress to `ratio` of their size. The seed determines
    /// the value of each key in each generation.
    pub fn new(len: usize, ratio: f64, seed: u64, form: Form) -> Values {
        let mut random = ParkMiller(301);
        let whole_pieces = len > 0 && len.is_multiple_of(PIECE) && len <= PIECES_MAX;
        let end = PLACES + if whole_pieces { WALK as usize * len } else { len };
        let mut buffer = Vec::with_capacity(end + PIECE);
        while buffer.len() < end {
            piece(&mut random, ratio, &mut buffer);
        }
        Values { buffer, len, whole_pieces, salt: mix(seed), form, sizes: None }
    }

    /// Creates values of several sizes. The key and the generation determine the size.
    pub fn sized(sizes: Sizes, ratio: f64, seed: u64) -> Values {
        Values { sizes: Some(sizes), whole_pieces: false, ..Values::new(sizes.most(), ratio, seed, Form::Whole) }
    }

    /// Returns the distribution of sizes, if sizes differ.
    pub fn sizes(&self) -> Option<Sizes> {
        self.sizes
    }

    /// Returns the size in bytes of the value of a key in a generation. Generations that are equal
    /// modulo 256 have equal sizes.
    #[inline]
    pub fn len_of(&self, number: u64, generation: u32) -> usize {
        let Some(sizes) = &self.sizes else { return self.len };
        let bits = mix(self.salt.wrapping_add(number) ^ u64::from(generation as u8) << 40);
        sizes.size((bits >> 11) as f64 * (1.0 / (1u64 << 53) as f64)) as usize
    }

    /// Returns the maximum size of a value in bytes.
    pub fn size(&self) -> usize {
        self.len
    }

    /// Returns the part of a value that puts replace.
    pub fn form(&self) -> Form {
        self.form
    }

    /// Returns the memory of the values in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.buffer.len() as u64
    }

    /// Returns the text of a key in a generation. If puts replace the whole value, this text is the
    /// value. Generations that are equal modulo 256 have equal texts.
    #[inline]
    pub fn text(&self, number: u64, generation: u32) -> &[u8] {
        let start = mix(self.salt ^ (number / WALK).wrapping_mul(0xD6E8_FEB8_6659_FD93) ^ u64::from(generation as u8));
        let step = number % WALK;
        let place = if self.whole_pieces {
            let first = ((start >> 32) * (PLACES / PIECE) as u64) >> 32;
            first as usize * PIECE + step as usize * self.len
        } else {
            // The stride is odd, so that no two keys of a walk have the same position.
            start.wrapping_add(step.wrapping_mul(self.len as u64 | 1)) as usize % PLACES
        };
        &self.buffer[place..place + self.len_of(number, generation)]
    }

    /// Returns the range of bytes of the value that the put of a generation replaced.
    pub fn replaced(&self, number: u64, generation: u32) -> std::ops::Range<usize> {
        match self.form {
            Form::Fields if generation > 1 => self.field(turn(number, updates(generation)) as usize),
            _ => 0..self.len,
        }
    }

    /// Checks that `answer` is the value of a key in one of the generations `floor ..= newest`.
    #[inline]
    pub fn check(&self, number: u64, (floor, newest): (u32, u32), answer: Option<&[u8]>) -> bool {
        match answer {
            None => floor % 2 == 0 || newest > floor,
            Some(answer) => {
                (answer.len() == self.len || self.sizes.is_some())
                    && (floor..=newest)
                        .rev()
                        .any(|generation| generation % 2 == 1 && self.is(number, generation, answer))
            }
        }
    }

    #[inline]
    fn is(&self, number: u64, generation: u32, answer: &[u8]) -> bool {
        match self.form {
            Form::Whole => answer == self.text(number, generation),
            Form::Fields => (0..FIELDS).all(|field| {
                let range = self.field(field);
                answer[range.clone()] == self.text(number, self.writer(number, generation, field as u64))[range]
            }),
        }
    }

    /// Returns the generation whose put wrote `field` of the value of `generation`. After the first
    /// put of a key, each put replaces one field in turn.
    fn writer(&self, number: u64, generation: u32, field: u64) -> u32 {
        if generation == 1 {
            return 1;
        }
        let newest = updates(generation);
        let back = (turn(number, newest) + FIELDS as u64 - field) % FIELDS as u64;
        newest.checked_sub(back).map_or(1, |update| 3 + 2 * update as u32)
    }

    /// Returns the range of bytes of a field. The last field also has the bytes that remain after
    /// the division by ten.
    fn field(&self, field: usize) -> std::ops::Range<usize> {
        let len = self.len / FIELDS;
        let end = if field + 1 == FIELDS { self.len } else { (field + 1) * len };
        field * len..end
    }
}

/// Returns the number of puts of a key after its first one. The number follows from the
/// generation, because a store with merged fields has no deletes.
fn updates(generation: u32) -> u64 {
    u64::from(generation - 3) / 2
}

/// Returns the field that update number `update` of a key replaces.
fn turn(number: u64, update: u64) -> u64 {
    (mix(number) % FIELDS as u64 + update) % FIELDS as u64
}

/// Appends a piece of 100 bytes to the buffer: a random printable text of 100 × `ratio` bytes, at
/// least one byte, which is repeated until the piece is full.
fn piece(random: &mut ParkMiller, ratio: f64, buffer: &mut Vec<u8>) {
    let raw = ((PIECE as f64 * ratio) as usize).clamp(1, PIECE);
    let start = buffer.len();
    buffer.extend((0..raw).map(|_| b' ' + (random.next() % 95) as u8));
    for i in raw..PIECE {
        buffer.push(buffer[start + i % raw]);
    }
}

/// The minimal standard generator of Park and Miller, which LevelDB uses. The number after x is
/// 16807 x mod 2^31 − 1.
struct ParkMiller(u32);

impl ParkMiller {
    fn next(&mut self) -> u32 {
        self.0 = (u64::from(self.0) * 16807 % 0x7fff_ffff) as u32;
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn park_miller_reaches_its_published_value() {
        let mut random = ParkMiller(1);
        (0..9999).for_each(|_| {
            random.next();
        });
        assert_eq!(random.next(), 1_043_618_065);
    }

    #[test]
    fn the_buffer_is_frozen() {
        let values = Values::new(100, 0.5, 1, Form::Whole);
        assert_eq!(
            String::from_utf8_lossy(&values.buffer[..60]),
            "^{Vhz\"!/%wMZ;'a F/REZJ4Tw@%NXxy2?.ArVCZ2B6[jnUd)4 ^{Vhz\"!/%w"
        );
        assert_eq!(values.buffer[..50], values.buffer[50..100]);
        assert_ne!(values.buffer[..50], values.buffer[100..150]);
        assert!(values.buffer.iter().all(|byte| (32..127).contains(byte)));
    }

    #[test]
    fn keys_of_a_walk_have_distinct_values() {
        for len in [1, 100, 1024, 4096] {
            let values = Values::new(len, 0.5, 1, Form::Whole);
            let places: std::collections::BTreeSet<_> =
                (0..WALK).map(|number| values.text(number, 1).as_ptr() as usize).collect();
            assert_eq!(places.len() as u64, WALK, "{len}");
        }
    }

    #[test]
    fn half_of_the_bytes_are_in_values_of_each_size() {
        let values = Values::sized(Sizes::HalfOfBytes([100, 4096]), 0.5, 1);
        let sizes: Vec<usize> = (0..200_000).map(|number| values.text(number, 1).len()).collect();
        let [small, large] = [100, 4096].map(|size| sizes.iter().filter(|len| **len == size).sum::<usize>());
        assert_eq!(small + large, sizes.iter().sum::<usize>(), "there are two sizes");
        assert!((0.95..1.05).contains(&(small as f64 / large as f64)), "{small} and {large} bytes");
        assert!(values.check(7, (3, 3), Some(values.text(7, 3))) && !values.check(7, (3, 3), Some(&[b'x'; 100])));
    }

    #[test]
    fn values_of_whole_pieces_repeat_themselves() {
        for len in [100, 1000] {
            let values = Values::new(len, 0.5, 1, Form::Whole);
            for number in (0..100_000).step_by(7) {
                for piece in values.text(number, 1).chunks(PIECE) {
                    assert_eq!(piece[..50], piece[50..], "{number}");
                }
            }
        }
    }

    #[test]
    fn a_check_distinguishes_key_generation_and_absence() {
        let values = Values::new(100, 0.5, 1, Form::Whole);
        let value = values.text(7, 3);
        assert!(values.check(7, (3, 3), Some(value)) && values.check(7, (1, 5), Some(value)));
        assert!(!values.check(8, (3, 3), Some(value)) && !values.check(7, (5, 5), Some(value)));
        assert!(!values.check(7, (4, 4), Some(value)), "deleted");
        assert!(!values.check(7, (3, 3), Some(&value[1..])) && !values.check(7, (3, 3), None));
        assert!(values.check(7, (4, 4), None) && values.check(7, (0, 0), None) && values.check(7, (3, 4), None));
    }

    #[test]
    fn merged_fields_follow_the_history() {
        let values = Values::new(1003, 0.5, 1, Form::Fields);
        for number in 0..20 {
            let mut value = values.text(number, 1).to_vec();
            for generation in (1..50).step_by(2) {
                let range = values.replaced(number, generation);
                value[range.clone()].copy_from_slice(&values.text(number, generation)[range]);
                assert!(values.check(number, (generation, generation), Some(&value)), "{number} {generation}");
                assert!(!values.check(number, (generation + 2, generation + 2), Some(&value)));
            }
        }
    }
}
