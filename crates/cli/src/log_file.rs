//! A log or manifest file read record by record without opening its store.
use anyhow::{Context, Result};
use std::{fs::File, io, os::unix::fs::FileExt, path::Path};
use terrace_format::log_record::{Deframer, Event, OURS_HEAD_BYTES, is_ours};

/// An open log or manifest.
pub struct LogFile {
    file: File,
    deframer: Deframer,
    /// Size of the file in bytes when it was opened; what is appended later is not read.
    pub bytes: u64,
    /// Whether Terrace began it, rather than LevelDB.
    pub ours: bool,
}

impl LogFile {
    /// Opens a file to read from its start.
    pub fn open(path: &Path) -> Result<LogFile> {
        let named = || path.display().to_string();
        let file = File::open(path).with_context(named)?;
        let bytes = file.metadata().with_context(named)?.len();
        let mut head = vec![0; OURS_HEAD_BYTES.min(bytes as usize)];
        file.read_exact_at(&mut head, 0).with_context(named)?;
        Ok(LogFile { deframer: Deframer::new(bytes), ours: is_ours(&head), bytes, file })
    }

    /// The next record, or what is in its place; `End` again and again at the end.
    pub fn next(&mut self) -> io::Result<Event> {
        self.deframer.next(|offset, buf| self.file.read_exact_at(buf, offset))
    }
}
