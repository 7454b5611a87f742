//! Options of an emulated drive. They determine how the drive is used and how fast it is. On the
//! command line, they are suffixes of the drive's name in `--device`.
use std::fmt;
use terrace::parse_size;
use terrace_device::serve::limits;

/// The options. In text they are optional suffixes in this order: `:discard`, `:nojournal`,
/// `:flush=MICROSECONDS`, `:rate=SIZE`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriveOptions {
    /// Whether the file system discards deleted blocks immediately.
    pub discards: bool,
    /// Whether the ext4 on the drive has no journal.
    pub no_journal: bool,
    /// Time in µs by which each cache flush is delayed.
    pub flush_us: u64,
    /// Maximum rate in bytes per second. If the kernel enforces the rate, reads and writes each
    /// have this maximum. If the server of the drive enforces it, their sum has this maximum.
    pub bytes_per_s: Option<u64>,
}

/// Suffix in a device name for an ext4 without a journal.
pub const NO_JOURNAL: &str = ":nojournal";

impl DriveOptions {
    /// Parses the options at the end of `text`. Returns the text before the options, and the
    /// options.
    pub fn parse(text: &str) -> Result<(&str, DriveOptions), String> {
        let (text, bytes_per_s) = match text.rsplit_once(":rate=") {
            Some((text, size)) => (text, Some(parse_rate(size)?)),
            None => (text, None),
        };
        let (text, flush_us) = match text.rsplit_once(":flush=") {
            Some((text, micros)) => {
                (text, micros.parse().map_err(|_| format!("flush={micros} is not a whole number"))?)
            }
            None => (text, 0),
        };
        let is_there = |text, word| str::strip_suffix(text, word).map_or((text, false), |text| (text, true));
        let (text, no_journal) = is_there(text, NO_JOURNAL);
        let (text, discards) = is_there(text, ":discard");
        Ok((text, DriveOptions { discards, no_journal, flush_us, bytes_per_s }))
    }

    /// Returns the options in words, to be appended to the description of a drive.
    pub fn describe(&self) -> String {
        let mut words = String::new();
        if self.discards {
            words += ", with discards";
        }
        if self.no_journal {
            words += ", without a journal";
        }
        if self.flush_us > 0 {
            words += &format!(", flushes in {} µs", self.flush_us);
        }
        if let Some(bytes) = self.bytes_per_s {
            words += &format!(", {} MB/s", bytes / 1_000_000);
        }
        words
    }

    /// Returns text for the description of a drive in memory: whether the kernel or the drive's
    /// server enforces the rate. In the kernel, reads and writes have separate limits. In the
    /// server, they share one limit. The two ways also differ in their cost.
    pub fn rate_limiter(&self) -> &'static str {
        match self.bytes_per_s {
            None => "",
            Some(_) if limits::available().is_ok() => " each way by the kernel",
            Some(_) => " in all by its server",
        }
    }
}

impl fmt::Display for DriveOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.discards {
            f.write_str(":discard")?;
        }
        if self.no_journal {
            f.write_str(NO_JOURNAL)?;
        }
        if self.flush_us > 0 {
            write!(f, ":flush={}", self.flush_us)?;
        }
        self.bytes_per_s.map_or(Ok(()), |bytes| write!(f, ":rate={bytes}"))
    }
}

/// Parses a number of bytes per second as [`parse_size`] does. A rate of 0 is an error.
pub fn parse_rate(text: &str) -> Result<u64, String> {
    parse_size(text).and_then(|bytes| if bytes > 0 { Ok(bytes) } else { Err("the rate must be above 0".into()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drive_options_round_trip_as_text() {
        for text in
            ["", ":discard", ":flush=7", ":rate=4096", ":nojournal", ":discard:nojournal:flush=5000:rate=500000000"]
        {
            let text = format!("drive:steady{text}");
            let (name, drive_options) = DriveOptions::parse(&text).unwrap();
            assert_eq!((name, format!("{name}{drive_options}")), ("drive:steady", text.clone()));
        }
        assert!(DriveOptions::parse("x:flush=y").unwrap_err().contains("flush=y"));
        assert!(DriveOptions::parse("x:rate=0").unwrap_err().contains("must be above 0"));
        assert!(DriveOptions::parse("x:rate=fast").unwrap_err().contains("fast"));
    }
}
