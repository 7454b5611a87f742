//! An emulated machine that boots the kernel of a Linux distribution and runs one program, the
//! worker process of a crash-test campaign. The emulator is QEMU without hardware acceleration, so
//! any host can run it, including a virtual machine. The emulated machine contains only the worker
//! and its libraries, no distribution.
//!
//! `make machine` downloads the kernel into the directory that [`Emulator::find`] searches:
//! `$TERRACE_MACHINE`, by default `~/.cache/terrace/machine`. The directory contains `kernel` and
//! `modules/*.ko`.
use super::archive::Archive;
use anyhow::{Context, Result, bail};
use std::{
    env,
    ffi::OsStr,
    fs::{self, File},
    io::{BufWriter, Read, Seek, SeekFrom},
    os::{fd::AsRawFd, unix::fs::OpenOptionsExt},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

const PROGRAM: &str = "qemu-system-x86_64";
/// Directory of kernel modules in the emulated machine.
pub(super) const MODULES: &str = "modules";
/// Name of the virtual serial port on which the worker receives requests.
pub(super) const PORT: &str = "orders";
/// File name of the worker's program in the emulated machine.
const WORKER: &str = "worker";
/// Mount point of the store's file system in the emulated machine.
pub(super) const MOUNT_POINT: &str = "/mnt";
/// Device node of the disk in the emulated machine.
pub(super) const DISK: &str = "/dev/vda";
/// Memory of the emulated machine in MiB. It is enough for twice the size of a program with debug
/// information.
const MEMORY_MIB: &str = "1024";

/// The files from which an emulated machine is built.
pub struct Emulator {
    kernel: PathBuf,
    modules: Vec<PathBuf>,
}

/// A worker, packed as the initial RAM file system of an emulated machine.
pub struct GuestImage {
    /// The initial RAM file system. Its file has no name, so the kernel removes it when this
    /// process ends.
    archive: File,
    /// The kernel command line, with the worker's environment and arguments.
    line: String,
}

impl Emulator {
    /// Finds the emulator and its files. The error names a missing file and explains how to get it.
    pub fn find() -> Result<Emulator, String> {
        if Command::new(PROGRAM).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
            return Err(format!(
                "{PROGRAM} is missing (Debian: apt-get install --no-install-recommends qemu-system-x86)"
            ));
        }
        let home = || env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
        let cache = || env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home);
        let place = env::var_os("TERRACE_MACHINE").map(PathBuf::from);
        let place = place.or_else(|| Some(cache()?.join("terrace/machine"))).ok_or("HOME is not set")?;
        let kernel = place.join("kernel");
        let modules = fs::read_dir(place.join(MODULES));
        let modules = modules.map(|entries| entries.flatten().map(|entry| entry.path()).collect());
        match modules {
            Ok(modules) if kernel.exists() => Ok(Emulator { kernel, modules }),
            _ => Err(format!("no kernel in {}: `make machine` fetches one", place.display())),
        }
    }

    /// Packs the program of `worker`, the libraries that the program is linked with, and the kernel
    /// modules.
    pub fn pack(&self, worker: &Command, work: &Path) -> Result<GuestImage> {
        let program = Path::new(worker.get_program());
        let mut file = unnamed_file(work)?;
        let mut archive = Archive::new(BufWriter::new(&file));
        let read = |path: &Path| fs::read(path).with_context(|| format!("read {}", path.display()));
        for name in ["dev", "mnt", "tmp", MODULES] {
            archive.directory(name)?;
        }
        archive.device("dev/console", (5, 1))?;
        archive.device("dev/null", (1, 3))?;
        archive.file(WORKER, &read(program)?)?;
        let mut made = Vec::new();
        for library in libraries(program)? {
            for above in
                library.ancestors().skip(1).collect::<Vec<_>>().into_iter().rev().filter(|path| *path != Path::new("/"))
            {
                if !made.contains(&above.to_owned()) {
                    archive.directory(archive_name(above)?)?;
                    made.push(above.to_owned());
                }
            }
            archive.file(archive_name(&library)?, &read(&library)?)?;
        }
        for module in &self.modules {
            let name = module.file_name().and_then(OsStr::to_str).context("a module's name is not UTF-8")?;
            archive.file(&format!("{MODULES}/{name}"), &read(module)?)?;
        }
        archive.finish()?;
        file.seek(SeekFrom::Start(0))?;
        Ok(GuestImage { archive: file, line: line(worker)? })
    }

    /// Returns the command that starts an emulated machine. The file or device `disk` is the
    /// machine's disk. The disk has a volatile write cache, so a flush by the machine syncs `disk`.
    /// Kernel messages are written to `console`. Standard input and output of the command are
    /// connected to the worker.
    pub fn command(&self, packed: &GuestImage, disk: &Path, console: &File) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(["-nodefaults", "-no-reboot", "-display", "none", "-accel", "tcg", "-m", MEMORY_MIB]);
        command
            .arg("-kernel")
            .arg(&self.kernel)
            .arg("-initrd")
            .arg(path_of(&packed.archive))
            .args(["-append", &packed.line]);
        command.arg("-serial").arg(format!("file:{}", path_of(console)));
        let drive = format!("file={},format=raw,if=none,id=disk,cache=none,aio=threads,discard=unmap", disk.display());
        command.args(["-drive", &drive, "-device"]);
        command.arg("virtio-blk-pci,drive=disk,logical_block_size=4096,physical_block_size=4096");
        command.args(["-device", "virtio-serial-pci", "-chardev", "stdio,id=orders,signal=off", "-device"]);
        command.arg(format!("virtserialport,chardev=orders,name={PORT}"));
        command
    }
}

/// Returns the last lines of the emulated machine's console output.
pub(super) fn last_console_lines(console: &File) -> String {
    let mut console = console;
    let mut text = Vec::new();
    let _ = console.seek(SeekFrom::Start(0)).and_then(|_| console.read_to_end(&mut text));
    let text = String::from_utf8_lossy(&text).into_owned();
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(5)..].join(" | ")
}

/// Creates an unnamed file in `work`.
pub(super) fn unnamed_file(work: &Path) -> Result<File> {
    fs::create_dir_all(work).with_context(|| format!("make {}", work.display()))?;
    let flags = nix::fcntl::OFlag::O_TMPFILE.bits();
    let file = File::options().read(true).write(true).custom_flags(flags).open(work);
    file.with_context(|| format!("make an unnamed file in {}", work.display()))
}

/// Returns a path under which other processes can open an unnamed file while this process runs.
fn path_of(file: &File) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd())
}

/// Returns the kernel command line with the environment and the arguments of `worker`. The kernel
/// passes to its first process every `NAME=VALUE` that the kernel does not know, and everything
/// after `--`.
fn line(worker: &Command) -> Result<String> {
    let mut line = format!("console=ttyS0 loglevel=4 panic=-1 rdinit=/{WORKER}");
    let text = |text: &OsStr| match text.to_str() {
        Some(text) if !text.contains([' ', '"']) => Ok(text.to_owned()),
        _ => bail!("{}: cannot be passed on a kernel command line", text.display()),
    };
    for (name, value) in worker.get_envs() {
        line += &format!(" {}={}", text(name)?, text(value.unwrap_or_default())?);
    }
    line += " --";
    for argument in worker.get_args() {
        line += &format!(" {}", text(argument)?);
    }
    Ok(line)
}

/// Returns the name that the host's file `path` has in the archive.
fn archive_name(path: &Path) -> Result<&str> {
    path.strip_prefix("/")?.to_str().with_context(|| format!("{}: is not UTF-8", path.display()))
}

/// Returns the libraries that `ldd` lists for the program; none if it is linked statically.
fn libraries(program: &Path) -> Result<Vec<PathBuf>> {
    let output = Command::new("ldd").arg(program).output().context("run ldd")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let path = |line: &str| line.split_whitespace().find(|word| word.starts_with('/')).map(PathBuf::from);
    Ok(text.lines().filter_map(path).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_s_arguments_and_environment_reach_it_through_the_kernel() {
        let mut worker = Command::new("/bin/worker");
        worker.args(["crash-worker", "--level=3"]).env("ROLE", "1");
        let command_line = line(&worker).unwrap();
        assert!(command_line.contains(" rdinit=/worker ROLE=1 -- crash-worker --level=3"), "{command_line}");
        assert!(line(Command::new("x").arg("two words")).is_err());
    }

    #[test]
    fn a_program_s_libraries_are_found() {
        let found = libraries(&env::current_exe().unwrap()).unwrap();
        assert!(found.iter().all(|path| path.exists()), "{found:?}");
        assert!(found.iter().any(|path| path.to_str().is_some_and(|path| path.contains("libc.so"))), "{found:?}");
    }
}
