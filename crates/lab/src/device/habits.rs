//! How a drive of ours is used, and how slow it is: what stands behind its name in `--device`.
use super::parse_size;
use std::fmt;
use terrace_device::serve::limits;

/// In this order, each if at all: `:discard`, `:nojournal`, `:flush=MICROSECONDS`, `:rate=SIZE`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Habits {
    /// Whether it is told what was deleted, as it is deleted.
    pub discards: bool,
    /// Whether the ext4 on it has no journal.
    pub no_journal: bool,
    /// µs that each flush takes longer than it would.
    pub flush_us: u64,
    /// It reads and writes at most so many bytes in a second; each as many, where the kernel sees to that.
    pub bytes_per_s: Option<u64>,
}

/// Behind the name of a device: the ext4 on it is to have no journal.
pub const NO_JOURNAL: &str = ":nojournal";

impl Habits {
    /// Those at the end of `text`, and what stands before them. The error names what is wrong.
    pub fn parse(text: &str) -> Result<(&str, Habits), String> {
        let (text, bytes_per_s) = match text.rsplit_once(":rate=") {
            Some((text, size)) => (text, Some(parse_rate(size)?)),
            None => (text, None),
        };
        let (text, flush_us) = match text.rsplit_once(":flush=") {
            Some((text, micros)) => (text, micros.parse().map_err(|_| format!("flush={micros} is no whole number"))?),
            None => (text, 0),
        };
        let is_there = |text, word| str::strip_suffix(text, word).map_or((text, false), |text| (text, true));
        let (text, no_journal) = is_there(text, NO_JOURNAL);
        let (text, discards) = is_there(text, ":discard");
        Ok((text, Habits { discards, no_journal, flush_us, bytes_per_s }))
    }

    /// In words, behind others.
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

    /// In words, behind others: who sees to the rate of a drive in memory, which decides what that costs and whether reads count with writes.
    pub fn kept_by(&self) -> &'static str {
        match self.bytes_per_s {
            None => "",
            Some(_) if limits::available().is_ok() => " each way by the kernel",
            Some(_) => " in all by its server",
        }
    }
}

impl fmt::Display for Habits {
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

/// Bytes that are moved in a second, as [`parse_size`] reads them; none is no rate.
pub fn parse_rate(text: &str) -> Result<u64, String> {
    parse_size(text).and_then(|bytes| if bytes > 0 { Ok(bytes) } else { Err("at a rate of 0 nothing is moved".into()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn habits_are_read_as_they_are_written() {
        for text in
            ["", ":discard", ":flush=7", ":rate=4096", ":nojournal", ":discard:nojournal:flush=5000:rate=500000000"]
        {
            let text = format!("drive:steady{text}");
            let (name, habits) = Habits::parse(&text).unwrap();
            assert_eq!((name, format!("{name}{habits}")), ("drive:steady", text.clone()));
        }
        assert!(Habits::parse("x:flush=y").unwrap_err().contains("flush=y"));
        assert!(Habits::parse("x:rate=0").unwrap_err().contains("nothing is moved"));
        assert!(Habits::parse("x:rate=fast").unwrap_err().contains("fast"));
    }
}
