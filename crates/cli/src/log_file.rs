//! Reads the records of a WAL or manifest without opening its store.
use anyhow::{Context, Result};
use std::{fs::File, io, path::Path};
use terrace_format::{
    FileName,
    log_record::{Event, OURS_HEAD_BYTES, RecordDecoder, is_ours},
    value_log::Frames,
};
use terrace_storage::read_exact_at;

/// An open WAL or manifest.
pub struct LogFile {
    file: File,
    form: Form,
    /// Size of the file in bytes when it was opened. Records that are appended later are not read.
    pub bytes: u64,
    /// Whether Terrace created the file (not LevelDB).
    pub ours: bool,
}

/// Returns the original name of a file that an open has moved to `lost/`. If that name was already
/// used there, the open has appended `-2`, `-3` and so on.
fn original(name: &str) -> Option<FileName> {
    FileName::parse(name).or_else(|| FileName::parse(name.rsplit_once('-')?.0))
}

enum Form {
    Records(RecordDecoder),
    /// A value-log segment.
    Segment(Frames),
}

impl LogFile {
    /// Opens a file for reading from its start.
    pub fn open(path: &Path) -> Result<LogFile> {
        let named = || path.display().to_string();
        let file = terrace_storage::open_store_file(path).with_context(named)?;
        let bytes = file.metadata().with_context(named)?.len();
        let name = path.file_name().and_then(|name| name.to_str()).and_then(original);
        let segment = match name {
            Some(FileName::ValueLog(id)) => Some(id.0),
            Some(FileName::Values(id)) => Some(id.0),
            _ => None,
        };
        if let Some(segment) = segment {
            return Ok(LogFile { form: Form::Segment(Frames::new(segment, bytes)), ours: true, bytes, file });
        }
        let mut head = vec![0; OURS_HEAD_BYTES.min(bytes as usize)];
        read_exact_at(&file, &mut head, 0).with_context(named)?;
        Ok(LogFile { form: Form::Records(RecordDecoder::new(bytes).resuming()), ours: is_ours(&head), bytes, file })
    }

    /// Returns the next event. At the end, returns `End` in every call.
    pub fn next(&mut self) -> io::Result<Event> {
        let read = |offset: u64, buf: &mut [u8]| read_exact_at(&self.file, buf, offset);
        match &mut self.form {
            Form::Records(deframer) => deframer.next(read),
            Form::Segment(frames) => frames.next(read),
        }
    }
}
