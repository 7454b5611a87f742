//! Changes of the file table of a raw device. The file table records the files with their names,
//! lengths and slots (allocation units). The slot journal stores it as a sequence of changes. A
//! checkpoint is the shortest sequence that gives the same file table.
//! ```text
//! tag (1 byte), then varints and a length-prefixed name
//! 1  create file      file number, form (0 plain, 1 WAL), stream
//! 2  add slots        file number, first slot, count
//! 3  set length       file number, bytes
//! 4  add name         file number, name; another file with this name loses it
//! 5  remove name      name; removing the last name removes the file and frees its slots
//! 6  reserve numbers  number; all smaller file numbers are used up
//! 7  flush completed  offset in this half; all entries before it are durable
//! ```
use crate::{
    Corrupt,
    coding::{Input, put_slice, put_varint32, put_varint64},
};

const WHAT: &str = "slot journal";

/// The form in which a file's bytes are stored in its slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The bytes are contiguous. A [`Change::Bytes`] records the length.
    Plain,
    /// The file consists of pages. Each page records its file and its number of payload bytes; see
    /// [`page`](super::page).
    Log,
}

/// A change of the file table. File numbers start at 1 and are never reused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Creates an empty file without a name.
    File {
        /// The number of the new file.
        file: u64,
        /// The form of the new file.
        form: Form,
        /// The stream: the lifetime class of the file. Files of one stream are allocated in the
        /// same units (groups of slots).
        stream: u8,
    },
    /// Appends slots to a file.
    Slots {
        /// The file.
        file: u64,
        /// The first slot.
        first: u32,
        /// The number of consecutive slots.
        count: u32,
    },
    /// Sets the length of a plain file.
    Bytes {
        /// The file.
        file: u64,
        /// The length in bytes.
        bytes: u64,
    },
    /// Names a file.
    Name {
        /// The file.
        file: u64,
        /// The name.
        name: String,
    },
    /// Removes a name of a file.
    Unname {
        /// The name.
        name: String,
    },
    /// Records that a flush of the device has completed. All entries of the slot journal before
    /// `end` were written before the flush began, so they are durable.
    Flushed {
        /// The offset, in this half of the slot journal, of the next entry at the time when the
        /// flush began.
        end: u64,
    },
    /// Reserves the file numbers below `file`.
    Next {
        /// The smallest number that is not reserved.
        file: u64,
    },
}

impl Change {
    /// Appends the encoded change to `out`.
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

    /// Decodes all changes in `bytes`.
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
    fn changes_round_trip() {
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
            let _ = Change::decode_all(&bytes[..end]); // must not panic
        }
        for bad in [&[8, 1][..], &[1, 1, 2, 0], &[4, 1, 1, 0xff], &[0, 0]] {
            assert!(Change::decode_all(bad).is_err(), "{bad:?}");
        }
    }
}
