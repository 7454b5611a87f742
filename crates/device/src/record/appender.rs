//! A writer that appends to a file with direct I/O, for a server that records requests. The server
//! must not use the page cache, because the processes that wait for the server may need the
//! memory. Also, it should not spend processor time on cached pages that are never read. The
//! writer collects bytes in two buffers: a thread writes one buffer while the caller fills the
//! other.
use nix::fcntl::OFlag;
use std::{
    fs::{File, OpenOptions},
    io, mem,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::Path,
    sync::{
        Arc,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
};

const PIECE: usize = 1 << 20;
/// Maximum alignment that direct I/O requires of memory, offsets and lengths.
const ALIGNED: usize = 4096;

/// A writer that appends to a file. Dropping it writes the remaining bytes and ignores errors.
pub(super) struct Appender {
    file: Arc<File>,
    filling: Piece,
    /// File offset of the buffer being filled.
    at: u64,
    /// The second buffer, or `None` while the thread writes it.
    empty: Option<Piece>,
    /// The channel that passes full buffers and their file offsets to the thread. `None` means that
    /// the thread has ended, and that nothing can be appended any more.
    full: Option<SyncSender<(Piece, u64)>>,
    written: Receiver<(Piece, io::Result<()>)>,
    thread: Option<JoinHandle<()>>,
}

impl Appender {
    /// Creates a file.
    pub fn create(path: &Path) -> io::Result<Appender> {
        let create = |flags: OFlag| {
            OpenOptions::new().write(true).create(true).truncate(true).custom_flags(flags.bits()).open(path)
        };
        let file = match create(OFlag::O_DIRECT) {
            // The file system does not support direct I/O.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => create(OFlag::empty()),
            done => done,
        };
        let file = Arc::new(file?);
        let (full, pieces) = sync_channel::<(Piece, u64)>(1);
        let (done, written) = sync_channel(1);
        let of_thread = file.clone();
        let write = move || {
            for (piece, at) in pieces {
                let result = of_thread.write_all_at(piece.bytes(), at);
                if done.send((piece, result)).is_err() {
                    return; // the receiver is closed
                }
            }
        };
        let thread = Some(thread::Builder::new().name("record".into()).spawn(write)?);
        let (filling, empty) = (Piece::new(), Some(Piece::new()));
        Ok(Appender { file, filling, at: 0, empty, full: Some(full), written, thread })
    }

    /// Appends bytes. A returned error may concern earlier bytes. After an error every later call
    /// fails as well.
    pub fn append(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            bytes = self.filling.take(bytes);
            if self.filling.len == PIECE {
                let empty = self.other()?;
                let full = mem::replace(&mut self.filling, empty);
                let thread = self.full.as_ref().ok_or_else(gone)?;
                thread.send((full, self.at)).map_err(|_| gone())?;
                self.at += PIECE as u64;
            }
        }
        Ok(())
    }

    /// Passes all bytes to the operating system. The last block of direct I/O is padded with zeros.
    /// It is rewritten when more bytes follow.
    pub fn flush(&mut self) -> io::Result<()> {
        self.empty = Some(self.other()?);
        self.filling.pad();
        self.file.write_all_at(self.filling.bytes(), self.at)?;
        self.file.set_len(self.at + self.filling.len as u64)
    }

    /// Waits until the thread has written the other buffer, and returns this buffer.
    fn other(&mut self) -> io::Result<Piece> {
        if let Some(piece) = self.empty.take() {
            return Ok(piece);
        }
        let (mut piece, result) = self.written.recv().map_err(|_| gone())?;
        if result.is_err() {
            self.full = None;
        }
        piece.len = 0;
        result.map(|()| piece)
    }
}

impl Drop for Appender {
    fn drop(&mut self) {
        if self.full.is_some() {
            let _ = self.flush();
        }
        self.full = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn gone() -> io::Error {
    io::Error::other("what came before could not be written")
}

/// A buffer for direct I/O.
struct Piece {
    memory: Vec<u8>,
    /// Offset of the aligned part.
    start: usize,
    /// Filled length.
    len: usize,
}

impl Piece {
    fn new() -> Piece {
        let memory = vec![0; PIECE + ALIGNED];
        let start = memory.as_ptr().align_offset(ALIGNED);
        Piece { memory, start, len: 0 }
    }

    /// Copies as many bytes as fit and returns the rest.
    fn take<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let (taken, rest) = bytes.split_at(bytes.len().min(PIECE - self.len));
        let from = self.start + self.len;
        self.memory[from..from + taken.len()].copy_from_slice(taken);
        self.len += taken.len();
        rest
    }

    /// Pads the last block of direct I/O with zeros.
    fn pad(&mut self) {
        let end = self.start + self.len;
        self.memory[end..self.start + self.len.next_multiple_of(ALIGNED)].fill(0);
    }

    fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.len.next_multiple_of(ALIGNED)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Tests that the file equals the appended bytes after each flush and at the end, however the
    /// bytes are split into `append` calls.
    #[test]
    fn the_file_equals_the_appended_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let mut appender = Appender::create(&path).unwrap();
        let mut naive = Vec::new();
        for (nth, len) in
            [0, 1, 4095, 4096, PIECE - 8192, 1, PIECE, 3 * PIECE + 5, 100, PIECE - 105, 0].iter().enumerate()
        {
            let bytes: Vec<u8> = (0..*len).map(|at| (at * 31 / 7 + nth) as u8).collect();
            appender.append(&bytes).unwrap();
            naive.extend(bytes);
            if nth % 2 == 0 {
                appender.flush().unwrap();
                assert!(fs::read(&path).unwrap() == naive, "after {nth}");
            }
        }
        appender.append(b"the end").unwrap();
        naive.extend(b"the end");
        drop(appender);
        assert!(fs::read(&path).unwrap() == naive);
    }

    /// Tests that a failed write of the thread is reported by the current `append` call or a later
    /// one, and that every call after that fails too.
    #[test]
    fn a_full_disk_is_reported_by_every_later_call() {
        let Ok(mut appender) = Appender::create(Path::new("/dev/full")) else { return };
        let mut failed = (0..4).filter_map(|_| appender.append(&[7; PIECE]).err());
        assert_eq!(failed.next().map(|error| error.kind()), Some(io::ErrorKind::StorageFull));
        drop(failed);
        assert!(appender.append(&[7; PIECE]).is_err() && appender.flush().is_err());
    }
}
