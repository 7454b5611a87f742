//! The file `LOG`: messages for people about an open store, as in LevelDB. Only `terrace advise`
//! reads this file. A message that cannot be written is lost.
use crate::OpenDirectory;
use std::{
    io::{self, Write as _},
    time::SystemTime,
};

const LOG: &str = "LOG";
const OLD: &str = "LOG.old";
/// Size in bytes at which `LOG` is renamed to `LOG.old` and a new `LOG` begins.
const BYTES_MAX: u64 = 16 << 20;

/// The messages of one open store. The file is open only during a write, so it costs no
/// descriptor.
#[derive(Debug)]
pub struct TextLog {
    directory: OpenDirectory,
}

impl TextLog {
    /// Begins an empty `LOG` in the directory. The `LOG` of the previous session becomes `LOG.old`.
    pub fn start(directory: OpenDirectory) -> TextLog {
        let log = TextLog { directory };
        let _ = log.set_old();
        log
    }

    /// Appends a line that consists of the time in UTC and `text`.
    pub fn append(&self, text: &str) {
        let _ = self.try_append(text);
    }

    fn set_old(&self) -> io::Result<()> {
        self.directory.rename(LOG, OLD)
    }

    fn try_append(&self, text: &str) -> io::Result<()> {
        let mut file = self.directory.open_to_append(LOG)?;
        if file.metadata()?.len() >= BYTES_MAX {
            drop(file);
            self.set_old()?;
            file = self.directory.open_to_append(LOG)?;
        }
        let text = text.replace(['\n', '\r'], " ");
        let line = format!("{} {text}\n", humantime::format_rfc3339_micros(SystemTime::now()));
        file.write_all(line.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FileSystem, RealFs};
    use std::fs;

    fn read(folder: &tempfile::TempDir, name: &str) -> String {
        fs::read_to_string(folder.path().join(name)).unwrap_or_default()
    }

    fn start(folder: &tempfile::TempDir) -> TextLog {
        TextLog::start(RealFs::new(folder.path()).directory().expect("it exists"))
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

    #[cfg(unix)]
    #[test]
    fn a_link_is_not_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = start(&folder);
        fs::write(folder.path().join("precious"), "text").expect("written");
        std::os::unix::fs::symlink("precious", folder.path().join(LOG)).expect("a link");
        log.append("a line");
        assert_eq!(read(&folder, "precious"), "text");
    }
}
