//! The file `LOG`: messages for people about an open store, as in LevelDB. Only `terrace advise`
//! reads this file. A message that cannot be written is lost.
use nix::{
    errno::Errno,
    fcntl::{OFlag, openat, renameat},
    sys::stat::{Mode, SFlag, fstat},
};
use std::{fs::File, io::Write as _, sync::Arc, time::SystemTime};

const LOG: &str = "LOG";
const OLD: &str = "LOG.old";
/// Size in bytes at which `LOG` is renamed to `LOG.old` and a new `LOG` begins.
const BYTES_MAX: i64 = 16 << 20;

/// The messages of one open store. The file is open only during a write, so it costs no
/// descriptor.
#[derive(Debug)]
pub struct TextLog {
    directory: Arc<File>,
}

impl TextLog {
    /// Begins an empty `LOG` in the directory. The `LOG` of the previous session becomes `LOG.old`.
    pub fn start(directory: Arc<File>) -> TextLog {
        let log = TextLog { directory };
        let _ = log.set_old();
        log
    }

    /// Appends a line that consists of the time in UTC and `text`.
    pub fn append(&self, text: &str) {
        let _ = self.try_append(text);
    }

    fn set_old(&self) -> nix::Result<()> {
        renameat(&*self.directory, LOG, &*self.directory, OLD)
    }

    fn try_append(&self, text: &str) -> std::io::Result<()> {
        let mut file = self.open()?;
        if fstat(&file)?.st_size >= BYTES_MAX {
            self.set_old()?;
            file = self.open()?;
        }
        let text = text.replace(['\n', '\r'], " ");
        let line = format!("{} {text}\n", humantime::format_rfc3339_micros(SystemTime::now()));
        file.write_all(line.as_bytes())
    }

    /// Opens the file, if it is a regular one or does not exist.
    fn open(&self) -> nix::Result<File> {
        let how = OFlag::O_WRONLY
            | OFlag::O_APPEND
            | OFlag::O_CREAT
            | OFlag::O_NOFOLLOW
            | OFlag::O_NONBLOCK
            | OFlag::O_CLOEXEC;
        let file = File::from(openat(&*self.directory, LOG, how, Mode::from_bits_truncate(0o666))?);
        let found = fstat(&file)?;
        let kind = SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT;
        // A `LOG` that has a second hard link may be another program's file under its other name,
        // so nothing is written to it.
        if kind == SFlag::S_IFREG && found.st_nlink == 1 { Ok(file) } else { Err(Errno::EINVAL) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::symlink};

    fn read(folder: &tempfile::TempDir, name: &str) -> String {
        fs::read_to_string(folder.path().join(name)).unwrap_or_default()
    }

    fn start(folder: &tempfile::TempDir) -> TextLog {
        TextLog::start(Arc::new(File::open(folder.path()).expect("it exists")))
    }

    #[test]
    fn each_session_begins_a_file_and_keeps_that_of_the_last_one() {
        let folder = tempfile::tempdir().expect("a folder");
        for session in 1..4 {
            let log = start(&folder);
            log.append(&format!("opened {session}"));
            log.append("closed");
        }
        let texts = |name| read(&folder, name).lines().map(|line| line[28..].to_owned()).collect::<Vec<_>>();
        assert_eq!(
            (texts(LOG), texts(OLD)),
            (vec!["opened 3".into(), "closed".into()], vec!["opened 2".to_string(), "closed".into()])
        );
    }

    #[test]
    fn a_link_is_not_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = start(&folder);
        fs::write(folder.path().join("precious"), "text").expect("written");
        symlink("precious", folder.path().join(LOG)).expect("a link");
        log.append("a line");
        assert_eq!(read(&folder, "precious"), "text");
    }
}
