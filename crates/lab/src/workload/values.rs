//! Values: pieces of one buffer of compressible text, chosen by key and generation, so that every value can be checked
//! without being kept and costs no copy to make.
//!
//! The buffer is db_bench's: pieces of 100 bytes, each a random text repeated until the piece is full, from LevelDB's
//! random numbers with seed 301. A value begins at one of 2^20 places, or, if it is made of whole pieces, at one of 10,485: its
//! pieces are db_bench's then, and compress as those do. A wrong one passes for the right one that seldom, so a store that mixes
//! up values does not get far.
use super::rng::mix;

/// Makes and checks the values of one store.
#[derive(Debug)]
pub struct Values {
    buffer: Vec<u8>,
    len: usize,
    /// Whether a value is some of the pieces, from the beginning of one to the end of one.
    whole_pieces: bool,
    salt: u64,
    form: Form,
    /// Of values that differ in size; `len` is then the most.
    sizes: Option<Sizes>,
}

/// How sizes are spread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sizes {
    /// As RocksDB's mixgraph has them.
    Pareto(Pareto),
    /// Two sizes, the smaller first, and as many bytes in values of one as of the other.
    HalfOfBytes([u64; 2]),
}

impl Sizes {
    /// The size at `u` of 0 to 1, the smallest `u` the largest.
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

/// Generalised Pareto sizes that begin at 0, as RocksDB's db_bench cuts them: at least `least`; beyond `most`, the rest of a
/// division by it.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the distribution has them")]
pub struct Pareto {
    pub k: f64,
    pub sigma: f64,
    pub least: u64,
    pub most: u64,
}

impl Pareto {
    /// The size at `u` of 0 to 1, the smallest `u` the largest.
    pub fn size(&self, u: f64) -> u64 {
        let size = if u <= 0.0 { self.sigma } else { self.sigma * (u.powf(-self.k) - 1.0) / self.k };
        let size = size.ceil().max(0.0) as u64;
        let size = if size > self.most { size % self.most } else { size };
        size.max(self.least)
    }
}

/// What a put replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The whole value.
    Whole,
    /// One of ten fields in turn, from the key's second put on: YCSB's update that merges.
    Fields,
}

/// Fields of a YCSB record.
pub const FIELDS: usize = 10;

/// Places in the buffer at which values begin, or the walks of whole pieces.
const PLACES: usize = 1 << 20;
/// Bytes of a piece: each repeats its own text.
const PIECE: usize = 100;
/// Longest value that is made of whole pieces.
const PIECES_MAX: usize = 1000;
/// So many neighbouring keys of one generation walk through the buffer, as db_bench's values do: checking what a scan
/// returns then costs no cache misses of its own.
const WALK: u64 = 1 << 10;

impl Values {
    /// Values of `len` bytes that compress to `ratio` of their size. The seed says which value a key gets.
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

    /// Values of sizes that follow from key and generation.
    pub fn sized(sizes: Sizes, ratio: f64, seed: u64) -> Values {
        Values { sizes: Some(sizes), whole_pieces: false, ..Values::new(sizes.most(), ratio, seed, Form::Whole) }
    }

    /// How they differ in size, if they do.
    pub fn sizes(&self) -> Option<Sizes> {
        self.sizes
    }

    /// Bytes of the value that a generation has; the same for generations that are equal modulo 256.
    #[inline]
    pub fn len_of(&self, number: u64, generation: u32) -> usize {
        let Some(sizes) = &self.sizes else { return self.len };
        let bits = mix(self.salt.wrapping_add(number) ^ u64::from(generation as u8) << 40);
        sizes.size((bits >> 11) as f64 * (1.0 / (1u64 << 53) as f64)) as usize
    }

    /// Bytes of a value, at most.
    pub fn size(&self) -> usize {
        self.len
    }

    /// How puts change a value.
    pub fn form(&self) -> Form {
        self.form
    }

    /// Bytes of memory.
    pub fn memory_bytes(&self) -> u64 {
        self.buffer.len() as u64
    }

    /// The text of a generation: its value, if puts replace the whole value. Generations that are equal modulo 256 have one.
    #[inline]
    pub fn text(&self, number: u64, generation: u32) -> &[u8] {
        let start = mix(self.salt ^ (number / WALK).wrapping_mul(0xD6E8_FEB8_6659_FD93) ^ u64::from(generation as u8));
        let step = number % WALK;
        let place = if self.whole_pieces {
            let first = ((start >> 32) * (PLACES / PIECE) as u64) >> 32;
            first as usize * PIECE + step as usize * self.len
        } else {
            // An odd stride, so that no two keys of a walk have the same place.
            start.wrapping_add(step.wrapping_mul(self.len as u64 | 1)) as usize % PLACES
        };
        &self.buffer[place..place + self.len_of(number, generation)]
    }

    /// The range of bytes that a generation replaced.
    pub fn replaced(&self, number: u64, generation: u32) -> std::ops::Range<usize> {
        match self.form {
            Form::Fields if generation > 1 => self.field(turn(number, updates(generation)) as usize),
            _ => 0..self.len,
        }
    }

    /// Whether `answer` is what a key in one of the generations `floor ..= newest` holds.
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

    /// The generation that wrote `field` of what `generation` holds. Puts after the first take the fields in turn.
    fn writer(&self, number: u64, generation: u32, field: u64) -> u32 {
        if generation == 1 {
            return 1;
        }
        let newest = updates(generation);
        let back = (turn(number, newest) + FIELDS as u64 - field) % FIELDS as u64;
        newest.checked_sub(back).map_or(1, |update| 3 + 2 * update as u32)
    }

    /// The last field takes what the others leave.
    fn field(&self, field: usize) -> std::ops::Range<usize> {
        let len = self.len / FIELDS;
        let end = if field + 1 == FIELDS { self.len } else { (field + 1) * len };
        field * len..end
    }
}

/// The put of `generation` is that many puts behind the key's second; nothing is deleted where fields are merged.
fn updates(generation: u32) -> u64 {
    u64::from(generation - 3) / 2
}

/// The field that a key's update replaces.
fn turn(number: u64, update: u64) -> u64 {
    (mix(number) % FIELDS as u64 + update) % FIELDS as u64
}

/// Appends 100 bytes: random printable text of 100 × `ratio` bytes, at least one, over and over.
fn piece(random: &mut ParkMiller, ratio: f64, buffer: &mut Vec<u8>) {
    let raw = ((PIECE as f64 * ratio) as usize).clamp(1, PIECE);
    let start = buffer.len();
    buffer.extend((0..raw).map(|_| b' ' + (random.next() % 95) as u8));
    for i in raw..PIECE {
        buffer.push(buffer[start + i % raw]);
    }
}

/// The minimal standard generator of Park and Miller, which LevelDB uses: x ← 16807 x mod 2^31 − 1.
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
    fn park_miller_comes_to_its_published_value() {
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
    fn keys_of_a_walk_have_values_of_their_own() {
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
    fn a_check_knows_key_generation_and_absence() {
        let values = Values::new(100, 0.5, 1, Form::Whole);
        let value = values.text(7, 3);
        assert!(values.check(7, (3, 3), Some(value)) && values.check(7, (1, 5), Some(value)));
        assert!(!values.check(8, (3, 3), Some(value)) && !values.check(7, (5, 5), Some(value)));
        assert!(!values.check(7, (4, 4), Some(value)), "deleted");
        assert!(!values.check(7, (3, 3), Some(&value[1..])) && !values.check(7, (3, 3), None));
        assert!(values.check(7, (4, 4), None) && values.check(7, (0, 0), None) && values.check(7, (3, 4), None));
    }

    #[test]
    fn merged_fields_are_those_of_the_history() {
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
