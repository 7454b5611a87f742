//! `pin`: installs the BPF program that durability mode `journal-bpf` uses.
use anyhow::{Result, bail};
use std::{
    fs,
    io::{ErrorKind, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};
use terrace_storage::bpf;

/// Lets all users of this machine use durability mode `journal-bpf`; requires root.
///
/// Loads a small BPF program into the kernel. For each open file of the process that reads from
/// it, the program reports the ext4 journal commit that the file waits for. The program stays
/// pinned in a bpf file system until it is removed or the machine restarts.
#[derive(clap::Args)]
pub struct Pin {
    /// Path of the pin. Stores search at the default path.
    #[arg(default_value = bpf::DEFAULT_PIN_PATH)]
    path: PathBuf,
    /// Remove the pin instead.
    #[arg(long)]
    remove: bool,
}

impl Pin {
    /// Pins or removes the program. Succeeds if that was already done.
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
            writeln!(out, "{name}: already pinned")?;
        } else if let Err(why) = bpf::pin(&self.path) {
            bail!("{why}\n  a bpf file system must be mounted: `mount -t bpf bpf /sys/fs/bpf`, as root");
        }
        match closed_folder(&self.path) {
            None => writeln!(out, "{name}: all users can use durability=journal-bpf now")?,
            Some(folder) => {
                let folder = folder.display();
                writeln!(
                    out,
                    "{name}: only root can use durability=journal-bpf, because other users cannot enter {folder}"
                )?;
                writeln!(out, "  `chmod o+x {folder}` admits them; or pin it in another bpf file system")?;
            }
        }
        Ok(())
    }
}

/// Returns the first folder on the way to `path` that other users cannot enter.
fn closed_folder(path: &Path) -> Option<PathBuf> {
    let folders = path.canonicalize().ok()?;
    let closed = |folder: &&Path| fs::metadata(folder).is_ok_and(|facts| facts.permissions().mode() & 0o001 == 0);
    folders.ancestors().skip(1).filter(closed).last().map(Path::to_owned)
}
