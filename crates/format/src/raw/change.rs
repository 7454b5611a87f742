//! What changes in the list of files on a device. A list is the changes that made it; a checkpoint is the shortest such history.
//!
//! ```text
//! tag (1 byte), then varints and a length-prefixed name
//! 1  a file begins      number, form (0 plain, 1 log), stream
//! 2  it gets slots      number, first slot, how many
//! 3  it has so long     number, bytes
//! 4  it has a name      number, name; whoever had that name loses it
//! 5  a name goes        name; a file goes with its last name, and its slots are free
//! 6  numbers go on      number: smaller ones have been used
//! 7  a flush is over    where in this half everything before was written by then
//! ```
use crate::{
    Corrupt,
    coding::{Input, put_slice, put_varint32, put_varint64},
};

const WHAT: &str = "slot journal";

/// How the bytes of a file stand in its slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One after the other. How many there are is a [`Change::Bytes`].
    Plain,
    /// In pages that tell themselves whose they are and how full; see [`page`](super::page).
    Log,
}

/// One change. Numbers of files begin at 1 and are never used again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A new file, empty, without a name yet.
    File {
        /// Its number.
        file: u64,
        /// How its bytes stand.
        form: Form,
        /// The kind of lifetime that it is placed by.
        stream: u8,
    },
    /// More slots for a file, behind those that it has.
    Slots {
        /// Whose.
        file: u64,
        /// The first of them.
        first: u32,
        /// How many, one behind the other.
        count: u32,
    },
    /// A plain file's length.
    Bytes {
        /// Whose.
        file: u64,
        /// How long.
        bytes: u64,
    },
    /// A name for a file.
    Name {
        /// Whose.
        file: u64,
        /// The name.
        name: String,
    },
    /// A name that goes.
    Unname {
        /// The name.
        name: String,
    },
    /// What stands before this byte of the half was written when a flush of the device began that is over: no power cut takes it.
    Flushed {
        /// Where the next entry stood then.
        end: u64,
    },
    /// Numbers below this one have been used.
    Next {
        /// The number.
        file: u64,
    },
}

impl Change {
    /// Appends it to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut start = |tag: u8, file: u64| {
            out.push(tag);
            put_varint64(out, file);
        };
        match self {
            Change::File { file, form, stream } => {
                start(1, *file);
                out.extend([u8::from(*form == Form::Log), *stream]);
            }
            Change::Slots { file, first, count } => {
                start(2, *file);
                put_varint32(out, *first);
                put_varint32(out, *count);
            }
            Change::Bytes { file, bytes } => {
                start(3, *file);
                put_varint64(out, *bytes);
            }
            Change::Name { file, name } => {
                start(4, *file);
                put_slice(out, name.as_bytes());
            }
            Change::Unname { name } => {
                out.push(5);
                put_slice(out, name.as_bytes());
            }
            Change::Next { file } => start(6, *file),
            Change::Flushed { end } => start(7, *end),
        }
    }

    /// All that `bytes` hold.
    pub fn decode_all(bytes: &[u8]) -> Result<Vec<Change>, Corrupt> {
        let (mut input, mut found) = (Input::new(WHAT, bytes), Vec::new());
        while !input.is_empty() {
            found.push(Change::decode(&mut input)?);
        }
        Ok(found)
    }

    fn decode(input: &mut Input<'_>) -> Result<Change, Corrupt> {
        let tag = input.byte()?;
        if tag == 5 {
            return Ok(Change::Unname { name: name(input)? });
        }
        let file = input.varint64()?;
        Ok(match tag {
            1 => {
                let form = match input.byte()? {
                    0 => Form::Plain,
                    1 => Form::Log,
                    other => return Err(input.corrupt(format!("form {other} is not known"))),
                };
                Change::File { file, form, stream: input.byte()? }
            }
            2 => Change::Slots { file, first: input.varint32()?, count: input.varint32()? },
            3 => Change::Bytes { file, bytes: input.varint64()? },
            4 => Change::Name { file, name: name(input)? },
            6 => Change::Next { file },
            7 => Change::Flushed { end: file },
            other => return Err(input.corrupt(format!("change {other} is not known"))),
        })
    }
}

fn name(input: &mut Input<'_>) -> Result<String, Corrupt> {
    let bytes = input.slice()?;
    String::from_utf8(bytes.to_vec()).map_err(|_| input.corrupt("a name is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_go_there_and_back() {
        let all = vec![
            Change::File { file: 1, form: Form::Plain, stream: 3 },
            Change::File { file: u64::MAX, form: Form::Log, stream: 0 },
            Change::Slots { file: 300, first: u32::MAX, count: 1 },
            Change::Bytes { file: 1, bytes: 1 << 40 },
            Change::Name { file: 1, name: "000005.ldb".into() },
            Change::Unname { name: "lost/000005.ldb".into() },
            Change::Next { file: 7 },
            Change::Flushed { end: 8192 },
        ];
        let mut bytes = Vec::new();
        all.iter().for_each(|change| change.encode(&mut bytes));
        assert_eq!(Change::decode_all(&bytes), Ok(all));
        for end in 1..bytes.len() {
            let _ = Change::decode_all(&bytes[..end]); // no panic
        }
        for bad in [&[8, 1][..], &[1, 1, 2, 0], &[4, 1, 1, 0xff], &[0, 0]] {
            assert!(Change::decode_all(bad).is_err(), "{bad:?}");
        }
    }
}
