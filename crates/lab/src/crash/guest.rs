//! A worker that is the first and only process of an emulated machine: it does what a kernel leaves to that one.
use super::emulator::{MODULES, PORT};
use anyhow::{Context, Result, bail};
use nix::{
    errno::Errno,
    kmod::{ModuleInitFlags, finit_module},
    mount::{MsFlags, mount},
    sys::reboot::{RebootMode, reboot},
};
use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// How long the kernel may take to show a device, on a machine that is emulated and busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whether this process is the first of its machine.
pub fn is_one() -> bool {
    std::process::id() == 1
}

/// Carries out the orders that come in at the port, then turns the machine off. What goes wrong before stands on the console.
pub fn run(serve: &mut dyn FnMut(&mut dyn BufRead, &mut dyn Write) -> Result<()>) -> Result<()> {
    let served = prepare().and_then(|port| serve(&mut BufReader::new(&port), &mut &port));
    if let Err(error) = &served {
        eprintln!("the worker ends: {error:#}");
    }
    reboot(RebootMode::RB_POWER_OFF).context("turn the machine off").map(drop)
}

/// Mounts what is the kernel's, loads modules, opens the port.
fn prepare() -> Result<File> {
    for (kind, point) in [("devtmpfs", "/dev"), ("proc", "/proc"), ("sysfs", "/sys")] {
        fs::create_dir_all(point).with_context(|| format!("make {point}"))?;
        mount(None::<&str>, point, Some(kind), MsFlags::empty(), None::<&str>)
            .with_context(|| format!("mount {point}"))?;
    }
    load_modules(Path::new("/").join(MODULES).as_path())?;
    let begin = Instant::now();
    loop {
        match port()? {
            Some(node) => break File::options().read(true).write(true).open(&node).context("open the port"),
            None if begin.elapsed() < PATIENCE => thread::sleep(Duration::from_millis(10)),
            None => bail!("the machine has no port named {PORT}"),
        }
    }
}

/// Some need others, and nothing says which: whatever finds what it needs is loaded, until all are.
fn load_modules(dir: &Path) -> Result<()> {
    let mut left: Vec<PathBuf> =
        fs::read_dir(dir).context("list the modules")?.flatten().map(|entry| entry.path()).collect();
    while !left.is_empty() {
        let before = left.len();
        let mut missing = Vec::new();
        for path in left {
            let file = File::open(&path).with_context(|| format!("open {}", path.display()))?;
            match finit_module(&file, c"", ModuleInitFlags::empty()) {
                Ok(()) | Err(Errno::EEXIST) => {}
                Err(_) => missing.push(path),
            }
        }
        left = missing;
        if left.len() == before {
            bail!("these modules cannot be loaded: {left:?}");
        }
    }
    Ok(())
}

/// The device of the port, once the kernel shows it.
fn port() -> Result<Option<PathBuf>> {
    let Ok(ports) = fs::read_dir("/sys/class/virtio-ports") else { return Ok(None) };
    let is_ours = |path: &PathBuf| fs::read_to_string(path.join("name")).is_ok_and(|name| name.trim() == PORT);
    let found = ports.flatten().map(|port| port.path()).find(is_ours);
    let node = found.and_then(|path| Some(Path::new("/dev").join(path.file_name()?)));
    Ok(node.filter(|node| node.exists()))
}
