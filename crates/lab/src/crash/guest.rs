//! The worker process of a crash test as the first and only process of an emulated machine. The
//! worker therefore has the duties of an init process: it mounts file systems, loads modules, and
//! powers the machine off.
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

/// Maximum time that the worker waits until the kernel shows a device. The emulated machine may be
/// slow and busy.
const DEVICE_TIMEOUT: Duration = Duration::from_secs(60);

/// Returns whether this process is the init process of an emulated machine.
pub fn is_guest_init() -> bool {
    std::process::id() == 1
}

/// Serves the requests that arrive on the serial port, then powers the machine off. If an error
/// occurs before that, it is printed on the console.
pub fn run(serve: &mut dyn FnMut(&mut dyn BufRead, &mut dyn Write) -> Result<()>) -> Result<()> {
    let served = prepare().and_then(|port| serve(&mut BufReader::new(&port), &mut &port));
    if let Err(error) = &served {
        eprintln!("the worker failed: {error:#}");
    }
    reboot(RebootMode::RB_POWER_OFF).context("power the machine off").map(drop)
}

/// Mounts the kernel's file systems, loads the modules, and opens the serial port.
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
            None if begin.elapsed() < DEVICE_TIMEOUT => thread::sleep(Duration::from_millis(10)),
            None => bail!("the machine has no port named {PORT}"),
        }
    }
}

/// Loads all kernel modules in `dir`. The dependencies between modules are not recorded. The
/// function therefore makes several passes, and each pass loads the modules whose dependencies are
/// already loaded.
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

/// Returns the device node of the serial port, or `None` if the kernel does not show it yet.
fn port() -> Result<Option<PathBuf>> {
    let Ok(ports) = fs::read_dir("/sys/class/virtio-ports") else { return Ok(None) };
    let is_ours = |path: &PathBuf| fs::read_to_string(path.join("name")).is_ok_and(|name| name.trim() == PORT);
    let found = ports.flatten().map(|port| port.path()).find(is_ours);
    let node = found.and_then(|path| Some(Path::new("/dev").join(path.file_name()?)));
    Ok(node.filter(|node| node.exists()))
}
