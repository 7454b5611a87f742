//! The keys of the benchmarks. In the driver a key is only a number, and this module maps the
//! number to the bytes of the key.
use super::{rng::mix, zipf::fnv64};
use anyhow::{Result, ensure};

/// A mapping from the number of a key to the bytes of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// The keys of db_bench: decimal numbers, padded with zeros to this many bytes.
    Decimal(usize),
    /// The keys of YCSB with `insertorder=hashed` and `zeropadding=1`: `user` and the decimal FNV
    /// hash of the number.
    User,
    /// Keys of 32 bytes, which are distinct for distinct numbers and in random order, like hashes.
    Hash,
}

/// Maximum size of a decimal key in bytes.
const SIZE_MAX: usize = 64 << 10;

impl Keys {
    /// Size of a [`Keys::Hash`] key in bytes.
    pub const HASH_BYTES: usize = 32;

    /// Returns the mapping to decimal keys of `size` bytes, for numbers below `num`. The result is
    /// an error if the numbers need more digits than `size`.
    pub fn decimal(size: usize, num: u64) -> Result<Keys> {
        let digits = num.saturating_sub(1).max(1).ilog10() as usize + 1;
        ensure!(size >= digits, "key size {size} is too small for {num} keys: at least {digits} bytes are needed");
        ensure!(size <= SIZE_MAX, "key size {size} is too large: the maximum is {SIZE_MAX} bytes");
        Ok(Keys::Decimal(size))
    }

    /// Sets `key` to the key of `number`.
    #[inline]
    pub fn write(self, number: u64, key: &mut Vec<u8>) {
        key.clear();
        self.append(number, key);
    }

    /// Appends the key of `number` to `keys`.
    #[inline]
    pub fn append(self, number: u64, keys: &mut Vec<u8>) {
        match self {
            Keys::Decimal(size) => {
                let start = keys.len();
                keys.resize(start + size, b'0');
                digits(number, &mut keys[start..]);
            }
            Keys::User => {
                let hash = fnv64(number);
                let digits_len = hash.max(1).ilog10() as usize + 1;
                keys.extend_from_slice(b"user");
                let start = keys.len();
                keys.resize(start + digits_len, b'0');
                digits(hash, &mut keys[start..]);
            }
            Keys::Hash => {
                // The first word of the hash is already different for every number, because `mix`
                // is a bijection.
                let first = mix(number ^ 0x5851_F42D_4C95_7F2D);
                for word in 0..4u64 {
                    let word = if word == 0 { first } else { mix(first.wrapping_add(word)) };
                    keys.extend_from_slice(&word.to_be_bytes());
                }
            }
        }
    }

    /// Returns the size of the key of `number` in bytes.
    pub fn len_of(self, number: u64) -> usize {
        match self {
            Keys::Decimal(size) => size,
            Keys::Hash => Keys::HASH_BYTES,
            Keys::User => 4 + fnv64(number).max(1).ilog10() as usize + 1,
        }
    }
}

/// The decimal texts of two digits, `00` to `99`.
const DIGIT_PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut n = 0;
    while n < 100 {
        pairs[n] = [b'0' + n as u8 / 10, b'0' + n as u8 % 10];
        n += 1;
    }
    pairs
};

/// Writes the decimal digits of `number` to the end of `field`. The field contains the character
/// zero everywhere, and it is long enough.
#[inline]
fn digits(mut number: u64, field: &mut [u8]) {
    let mut pairs = field.rchunks_exact_mut(2);
    for pair in &mut pairs {
        if number == 0 {
            return;
        }
        pair.copy_from_slice(&DIGIT_PAIRS[(number % 100) as usize]);
        number /= 100;
    }
    if let ([digit], 1..) = (pairs.into_remainder(), number) {
        *digit = b'0' + number as u8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(keys: Keys, number: u64) -> String {
        let mut key = b"rest".to_vec();
        keys.write(number, &mut key);
        assert_eq!(key.len(), keys.len_of(number));
        String::from_utf8(key).unwrap()
    }

    #[test]
    fn bytes_of_keys() {
        assert_eq!(key(Keys::Decimal(16), 0), "0000000000000000");
        assert_eq!(key(Keys::Decimal(16), 987_654), "0000000000987654");
        assert_eq!([7, 42, 999].map(|number| key(Keys::Decimal(3), number)), ["007", "042", "999"]);
        assert_eq!(key(Keys::Decimal(20), u64::MAX), u64::MAX.to_string());
        // The expected key is that of YCSB's record 0: the FNV-64 hash of eight zero octets, made
        // positive.
        assert_eq!(key(Keys::User, 0), "user6284781860667377211");
        assert_eq!(key(Keys::User, 1), "user8517097267634966620");
    }

    #[test]
    fn hashes_are_frozen_and_differ() {
        let hex = |number| {
            let mut key = Vec::new();
            Keys::Hash.write(number, &mut key);
            assert_eq!(key.len(), Keys::Hash.len_of(number));
            key[..8].iter().map(|byte| format!("{byte:02x}")).collect::<String>()
        };
        assert_eq!([hex(0), hex(1)], ["f2ee2134306ff565", "803be1dfac842450"]);
        let all: std::collections::BTreeSet<String> = (0..1000).map(hex).collect();
        assert_eq!(all.len(), 1000);
    }

    #[test]
    fn sizes_are_checked() {
        assert_eq!(Keys::decimal(3, 1000).unwrap(), Keys::Decimal(3));
        assert!(Keys::decimal(3, 1001).unwrap_err().to_string().contains("at least 4 bytes"));
        assert!(Keys::decimal(1 << 20, 10).is_err());
    }
}
