//! Sizes in an experiment: a text such as `"64MiB"`, or a whole number of bytes.
use serde::{
    Deserialize, Deserializer,
    de::{Error, Visitor},
};
use std::fmt;
use terrace::parse_size;

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Size, D::Error> {
        struct Bytes;
        impl Visitor<'_> for Bytes {
            type Value = Size;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size such as \"64MiB\", or a whole number of bytes")
            }

            fn visit_i64<E: Error>(self, bytes: i64) -> Result<Size, E> {
                u64::try_from(bytes).map(Size).map_err(|_| E::custom(format!("size {bytes}: must not be negative")))
            }

            fn visit_u64<E: Error>(self, bytes: u64) -> Result<Size, E> {
                Ok(Size(bytes))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Size, E> {
                parse_size(text).map(Size).map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Bytes)
    }
}
