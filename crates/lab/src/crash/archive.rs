//! Writes the initial RAM file system of a Linux kernel as a cpio archive in `newc` format, which
//! the kernel's Documentation/driver-api/early-userspace/buffer-format.rst describes. The only I/O
//! of this module is the write of the result.
//!
//! ```text
//! "070701"  13 numbers of 8 hexadecimal digits  name, 0  padding to 4  content  padding to 4
//! …
//! "TRAILER!!!"
//! ```
use std::io::{self, Write};

const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const CHARACTER_DEVICE: u32 = 0o020_600;

/// Writes an archive with the initial RAM file system of a kernel.
pub struct Archive<W> {
    to: W,
    /// Number of entries that were written so far. Entry number n has inode number n, starting with
    /// 1.
    entries: u32,
}

impl<W: Write> Archive<W> {
    /// Starts an archive.
    pub fn new(to: W) -> Archive<W> {
        Archive { to, entries: 0 }
    }

    /// Appends a directory. Its parents must precede it.
    pub fn directory(&mut self, name: &str) -> io::Result<()> {
        self.entry(name, DIRECTORY, (0, 0), &[])
    }

    /// Appends an executable file.
    pub fn file(&mut self, name: &str, content: &[u8]) -> io::Result<()> {
        self.entry(name, PROGRAM, (0, 0), content)
    }

    /// Appends a character device with a major and a minor number.
    pub fn device(&mut self, name: &str, numbers: (u32, u32)) -> io::Result<()> {
        self.entry(name, CHARACTER_DEVICE, numbers, &[])
    }

    /// Writes the trailer.
    pub fn finish(mut self) -> io::Result<()> {
        self.entry("TRAILER!!!", 0, (0, 0), &[])?;
        self.to.flush()
    }

    fn entry(&mut self, name: &str, mode: u32, device: (u32, u32), content: &[u8]) -> io::Result<()> {
        let too_long = |_| io::Error::other(format!("{name} has 4 GiB or more"));
        let bytes = u32::try_from(content.len()).map_err(too_long)?;
        self.entries += 1;
        let name_bytes = name.len() as u32 + 1;
        let fields = [self.entries, mode, 0, 0, 1, 0, bytes, 0, 0, device.0, device.1, name_bytes, 0];
        let head: String = fields.iter().map(|field| format!("{field:08x}")).collect();
        write!(self.to, "070701{head}{name}\0")?;
        self.pad(6 + head.len() + name.len() + 1)?;
        self.to.write_all(content)?;
        self.pad(content.len())
    }

    fn pad(&mut self, bytes: usize) -> io::Result<()> {
        self.to.write_all(&[0; 3][..bytes.next_multiple_of(4) - bytes])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_has_the_kernels_format() {
        let mut bytes = Vec::new();
        let mut archive = Archive::new(&mut bytes);
        archive.directory("d").unwrap();
        archive.device("d/console", (5, 1)).unwrap();
        archive.file("d/five", b"12345").unwrap();
        archive.finish().unwrap();
        assert_eq!(bytes.len() % 4, 0);
        let text = String::from_utf8(bytes).unwrap();
        let entry = |fields: [u32; 13], name: &str| {
            let fields: String = fields.iter().map(|field| format!("{field:08x}")).collect();
            format!("070701{fields}{name}\0")
        };
        let directory = entry([1, 0o040755, 0, 0, 1, 0, 0, 0, 0, 0, 0, 2, 0], "d");
        let device = entry([2, 0o020600, 0, 0, 1, 0, 0, 0, 0, 5, 1, 10, 0], "d/console");
        assert!(directory.len().is_multiple_of(4) && device.len().is_multiple_of(4));
        assert!(text.starts_with(&(directory + &device)), "{text:?}");
        assert!(text.contains("d/five\0\0\0\x0012345\0\0\x00070701"), "{text:?}");
        assert!(text.trim_end_matches('\0').ends_with("TRAILER!!!"));
    }
}
