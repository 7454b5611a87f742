//! `ssd trace`: computes the cost of a block trace on a virtual SSD.
use super::{drive::Drive, report};
use anyhow::{Context, Result};
use serde_json::json;
use std::{
    fs::File,
    io::{BufReader, Read, Write},
    path::PathBuf,
};
use terrace_device::{
    Memory,
    record::Past,
    ssd::{Counts, Ftl, Report, Ssd, Windows},
};

/// First bytes of every recording.
const RECORDED: &[u8] = b"TERRACEB";

/// Replays a trace on a virtual SSD, and prints the bytes programmed into flash. The drive keeps
/// no contents, only the state of its pages and blocks.
///
/// A trace is a text: `W OFFSET LEN [STREAM]` writes, `R OFFSET LEN` reads, `D OFFSET LEN`
/// discards, `Z OFFSET LEN` zeroes, `F` flushes. Numbers are in bytes, and `#` starts a comment. A
/// trace may also be a recording made by `terrace ssd serve --record`. A recording contains the
/// written data, from which a drive with compression computes the compressed sizes. The counters
/// do not include the writes that precondition the drive.
#[derive(clap::Args)]
pub struct Trace {
    /// The trace. - reads standard input, which must be text.
    file: PathBuf,
    #[command(flatten)]
    drive: Drive,
    /// Replay the trace this many times.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Trace {
    /// Replays the trace and prints the counters.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        let source = self.source()?; // report a missing trace before creating a drive
        let ftl = self.drive.make()?;
        let before = ftl.counts().clone();
        let told = source.replay(ftl, self.repeat)?;
        self.print(&told, &told.counts.since(&before), out)
    }

    fn source(&self) -> Result<Source> {
        let what = self.file.display().to_string();
        let mut text = Vec::new();
        if what == "-" {
            std::io::stdin().lock().read_to_end(&mut text).context("read stdin")?;
            return Ok(Source::Text { text, what: "stdin".into() });
        }
        let mut file = BufReader::new(File::open(&self.file).with_context(|| format!("open {what}"))?);
        file.by_ref().take(RECORDED.len() as u64).read_to_end(&mut text).with_context(|| format!("read {what}"))?;
        if text == RECORDED {
            return Ok(Source::Recorded(Past::open(&self.file)?));
        }
        file.read_to_end(&mut text).with_context(|| format!("read {what}"))?;
        Ok(Source::Text { text, what })
    }

    fn print(&self, told: &Report, counts: &Counts, out: &mut dyn Write) -> Result<()> {
        if !self.json {
            writeln!(out, "drive {}, {}\n", told.profile.name, self.drive.state())?;
            report::write_cascade(counts, out)?;
            let wa2: Vec<String> = told.windows.iter().map(|window| format!("{:.3}", window.wa2())).collect();
            if !wa2.is_empty() {
                writeln!(out, "\nWA2 by windows of an eighth of the capacity: {}", wa2.join(" "))?;
            }
            return Ok(());
        }
        let trace = Report { counts: counts.clone(), ..told.clone() }.json();
        writeln!(out, "{}", json!({ "state": self.drive.state(), "repeat": self.repeat, "trace": trace["terrace"] }))?;
        Ok(())
    }
}

enum Source {
    Text { text: Vec<u8>, what: String },
    Recorded(Past),
}

impl Source {
    fn replay(&self, mut ftl: Ftl, times: u32) -> Result<Report> {
        match self {
            Source::Text { text, what } => {
                let mut windows = Windows::new(ftl.profile().capacity_bytes / 8, ftl.counts().clone());
                for _ in 0..times {
                    ftl.replay(&text[..], what, |ftl| windows.note(ftl.counts()))?;
                }
                Ok(Report::new(&ftl, &windows))
            }
            Source::Recorded(past) => {
                let below = Memory::new(ftl.profile().capacity_bytes)?;
                let ssd = Ssd::with(ftl, Box::new(below))?;
                for _ in 0..times {
                    past.replay(&ssd, past.events().len())?;
                }
                Ok(ssd.report())
            }
        }
    }
}
