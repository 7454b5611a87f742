//! Block traces as text, one host command per line.
//!
//! ```text
//! W OFFSET LEN [STREAM]   write, to a stream (default 0)
//! R OFFSET LEN            read
//! D OFFSET LEN            discard
//! Z OFFSET LEN            zero, counted as a discard
//! F                       flush
//! # …                     comment, as is an empty line
//! ```
//! Numbers are decimal, in bytes.
use super::ftl::Ftl;
use crate::{Error, Result, Stream};

/// A command of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Writes `len` bytes at `offset`.
    Write {
        /// Offset.
        offset: u64,
        /// Length in bytes.
        len: u64,
        /// Stream.
        stream: Stream,
    },
    /// Reads `len` bytes at `offset`.
    Read {
        /// Offset.
        offset: u64,
        /// Length in bytes.
        len: u64,
    },
    /// Discards or zeroes `len` bytes at `offset`.
    Discard {
        /// Offset.
        offset: u64,
        /// Length in bytes.
        len: u64,
    },
    /// Makes earlier writes durable.
    Flush,
}

impl Command {
    /// Parses a line; `None` for a line without a command.
    ///
    /// # Errors
    /// The problem with the line.
    pub fn parse(line: &str) -> std::result::Result<Option<Command>, String> {
        let mut words = line.split_whitespace();
        let Some(verb) = words.next().filter(|verb| !verb.starts_with('#')) else { return Ok(None) };
        let mut number = |name: &str| {
            let word = words.next().ok_or_else(|| format!("{verb}: {name} is missing"))?;
            word.parse::<u64>().map_err(|_| format!("{verb}: {name} '{word}' is no number of bytes"))
        };
        let command = match verb {
            "W" => {
                let (offset, len) = (number("OFFSET")?, number("LEN")?);
                let stream = words.next().map_or(Ok(0), str::parse).map_err(|_| "W: STREAM is no number up to 255")?;
                Command::Write { offset, len, stream: Stream(stream) }
            }
            "R" => Command::Read { offset: number("OFFSET")?, len: number("LEN")? },
            "D" | "Z" => Command::Discard { offset: number("OFFSET")?, len: number("LEN")? },
            "F" => Command::Flush,
            other => return Err(format!("unknown command '{other}'; known are W, R, D, Z and F")),
        };
        match words.next() {
            Some(more) => Err(format!("{verb}: unexpected '{more}'")),
            None => Ok(Some(command)),
        }
    }
}

impl Ftl {
    /// Executes a command. The data of a trace's writes are unknown and treated as incompressible.
    ///
    /// # Errors
    /// If the range exceeds the drive. The drive does not change then.
    pub fn take(&mut self, command: Command) -> Result<()> {
        match command {
            Command::Write { offset, len, stream } => self.write_range(offset, len, stream, None),
            Command::Read { offset, len } => self.read_range(offset, len),
            Command::Discard { offset, len } => self.trim_range(offset, len),
            Command::Flush => {
                self.flush();
                Ok(())
            }
        }
    }

    /// Replays a trace and calls `each` after each command.
    ///
    /// # Errors
    /// [`Error::Malformed`] names the line that is malformed or exceeds this drive.
    pub fn replay(&mut self, text: impl std::io::BufRead, what: &str, mut each: impl FnMut(&Ftl)) -> Result<()> {
        for (at, line) in (1..).zip(text.lines()) {
            let line = line.map_err(|source| Error::Io { what: format!("read {what}"), source })?;
            let malformed = |why| Error::Malformed { what: format!("{what} line {at}"), why };
            if let Some(command) = Command::parse(&line).map_err(malformed)? {
                self.take(command).map_err(|error| malformed(error.to_string()))?;
                each(self);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ssd::Profile;

    #[test]
    fn malformed_lines_are_rejected() {
        let stream = Stream(2);
        assert_eq!(Command::parse("W 4096 8192 2"), Ok(Some(Command::Write { offset: 4096, len: 8192, stream })));
        assert_eq!(Command::parse(" R 0 1 "), Ok(Some(Command::Read { offset: 0, len: 1 })));
        assert_eq!(Command::parse("Z 1 2"), Ok(Some(Command::Discard { offset: 1, len: 2 })));
        assert_eq!(Command::parse("F"), Ok(Some(Command::Flush)));
        assert_eq!((Command::parse(""), Command::parse("# W 1")), (Ok(None), Ok(None)));
        for (line, words) in [
            ("W 1", "W: LEN is missing"),
            ("W 1 0x2", "LEN '0x2' is no number"),
            ("W 1 2 256", "STREAM"),
            ("W -1 2", "OFFSET '-1'"),
            ("F 1", "unexpected '1'"),
            ("write 1 2", "unknown command 'write'"),
        ] {
            let error = Command::parse(line).unwrap_err();
            assert!(error.contains(words), "{line}: {error}");
        }
    }

    #[test]
    fn trace_errors_name_their_line() {
        let profile = || Profile { capacity_bytes: 64 << 20, ..Profile::default() };
        let mut ftl = Ftl::new(profile()).unwrap();
        let trace = "# a file\nW 0 10000\nW 512 512\nD 0 8192\nR 0 4096\nF\n";
        let mut commands = 0;
        ftl.replay(trace.as_bytes(), "t", |_| commands += 1).unwrap();
        let counts = ftl.counts();
        assert_eq!((commands, counts.host_bytes, counts.nand_bytes()), (5, 10_512, 4 * 4096));
        assert_eq!((counts.trimmed_bytes, counts.read_bytes, counts.flushes), (8192, 4096, 1));
        for (trace, words) in [("F\nW 67108864 1", "t line 2: 1 bytes at 67108864"), ("F\n\nX", "t line 3: unknown")] {
            let error = Ftl::new(profile()).unwrap().replay(trace.as_bytes(), "t", |_| ()).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        assert!(Ftl::new(profile()).unwrap().replay(&b"W 18446744073709551615 2"[..], "t", |_| ()).is_err());
    }
}
