//! `pin`: what tier `journal-bpf` asks the kernel through, for everybody.
use anyhow::{Result, bail};
use std::{fs, io::ErrorKind, io::Write, path::PathBuf};
use terrace_storage::bpf;

/// Lets everybody on this machine use tier `journal-bpf`; takes root.
///
/// Loads a small program that tells, of the reader's own open files, which commit of ext4's journal they wait for. It stays,
/// under a name in a bpf file system, until it is removed or the machine restarts.
#[derive(clap::Args)]
pub struct Pin {
    /// The name; stores look for the default one.
    #[arg(default_value = bpf::PINNED)]
    path: PathBuf,
    /// Remove it instead.
    #[arg(long)]
    remove: bool,
}

impl Pin {
    /// Pins or removes. Fine if that was done before.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        let name = self.path.display();
        if self.remove {
            match fs::remove_file(&self.path) {
                Err(error) if error.kind() == ErrorKind::NotFound => writeln!(out, "{name}: nothing was pinned")?,
                Err(error) => bail!("{name}: {error}"),
                Ok(()) => writeln!(out, "{name}: removed")?,
            }
            return Ok(());
        }
        if self.path.exists() && bpf::CommitIterator::open(&self.path).is_ok() {
            writeln!(out, "{name}: is there already")?;
            return Ok(());
        }
        match bpf::pin(&self.path) {
            Ok(()) => writeln!(out, "{name}: everybody can use tier journal-bpf now")?,
            Err(why) => bail!("{why}\n  a bpf file system must be there: `mount -t bpf bpf /sys/fs/bpf`, as root"),
        }
        Ok(())
    }
}
