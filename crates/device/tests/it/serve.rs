//! Tests that a served device works with real file systems, and that it is always removed from the
//! machine, even if its server is killed. They need root, FUSE and loop devices. The server is a
//! separate process, because a process that waits for its own device could not be killed.
use std::{
    env,
    fs::{self, File},
    io::{BufRead, BufReader, Read},
    num::NonZeroU64,
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;
use terrace_device::{
    BlockDevice, Error, Memory, Pace, Result, Slow, Stream,
    serve::{FrontEnd, FuseLoop, NoDesk, cleanup, limits, ready_process},
};
use terrace_peers::require;

/// XFS requires at least 300 MiB.
const DEVICE_BYTES: u64 = 384 << 20;
/// Rate of a limited device in bytes per second.
const RATE: u64 = 16 << 20;
const ROLE: &str = "TERRACE_TEST_SERVE";

/// Takes a lock that serializes these tests across processes. Otherwise mkfs.btrfs would sometimes
/// fail: it probes every loop device of the machine, and fails if the server of one of them has
/// just ended.
fn alone() -> File {
    let path = env::temp_dir().join("terrace-test-loop-devices");
    let file = File::create(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    file.lock().expect("locked");
    file
}

/// A server in a separate process, with its mount points.
struct Server {
    process: Child,
    /// The server's standard output. It is kept open because the server prints more later.
    _stdout: BufReader<ChildStdout>,
    node: PathBuf,
    stats: PathBuf,
    work: TempDir,
}

impl Server {
    /// Starts a server. Returns `None` if the machine does not support serving.
    fn start(device: &str) -> Option<Server> {
        let owner = fs::metadata("/proc/self").expect("/proc").uid();
        require("root", if owner == 0 { Ok(()) } else { Err("serving a block device takes root") })?;
        let work = TempDir::new().expect("a directory");
        require("loop", FuseLoop { work: work.path().into(), attached: true }.available())?;
        let mut process = Command::new(env::current_exe().expect("this test"));
        process.args(["--exact", "serve::role_of_a_server", "--nocapture", "--test-threads=1"]);
        process.env(ROLE, device).env("TERRACE_TEST_WORK", work.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = process.spawn().expect("start the server");
        let mut stdout = BufReader::new(process.stdout.take().expect("piped"));
        let mut next_path = || loop {
            let mut line = String::new();
            assert!(stdout.read_line(&mut line).expect("text") > 0, "the server ended");
            if let Some(path) = line.strip_prefix("served ") {
                return PathBuf::from(path.trim_end());
            }
        };
        let (node, stats) = (next_path(), next_path());
        let server = Server { process, _stdout: stdout, node, stats, work };
        fs::create_dir(server.mount_point()).expect("made");
        Some(server)
    }

    fn mount_point(&self) -> PathBuf {
        self.work.path().join("mnt")
    }

    fn mount(&self, options: &str) {
        run(Command::new("mount").args(["-o", options]).arg(&self.node).arg(self.mount_point()));
    }

    fn unmount(&self) {
        run(Command::new("umount").arg(self.mount_point()));
    }

    /// Returns two counts: the requests of a kind, and the bytes of these requests.
    fn count(&self, kind: &str) -> (u64, u64) {
        let text = fs::read_to_string(&self.stats).expect("stats");
        let kind = text.split_once(&format!("\"{kind}\":{{\"requests\":")).expect("a kind").1;
        let mut numbers = kind.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok());
        (numbers.next().expect("requests"), numbers.next().expect("bytes"))
    }

    /// If the kernel can access the backing file directly, asserts that it did so: the server must
    /// have seen no reads or writes.
    fn passed_nothing(&self) {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").expect("a kernel");
        let version: Vec<u32> = release.split(['.', '-']).map_while(|number| number.parse().ok()).take(2).collect();
        if version >= vec![6, 9] {
            assert_eq!((self.count("reads").0, self.count("writes").0), (0, 0), "by way of the server");
        }
    }

    /// Returns the server's entries in the kernel's tables of mounts and loop devices.
    fn traces(&self) -> Vec<String> {
        let mounts = fs::read_to_string("/proc/self/mounts").expect("mounts");
        let loops = run(Command::new("losetup").args(["--noheadings", "--output", "BACK-FILE"]));
        let work = self.work.path().to_str().expect("text");
        mounts.lines().chain(loops.lines()).filter(|line| line.contains(work)).map(String::from).collect()
    }

    /// Stops the server in the regular way and checks its exit status.
    fn stop(mut self) {
        drop(self.process.stdin.take());
        assert!(self.process.wait().expect("waited for").success());
        // The kernel removes a loop device only when its last user closes it. Such a user may be a
        // program that probes all devices (udev, mkfs.btrfs).
        let begin = Instant::now();
        while !self.traces().is_empty() && begin.elapsed() < Duration::from_secs(10) {
            thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(self.traces(), [""; 0], "left behind");
        fs::remove_dir(self.mount_point()).expect("it is empty");
        assert_eq!(fs::read_dir(self.work.path()).expect("there").count(), 0, "left behind");
    }
}

impl Drop for Server {
    /// Removes everything from the machine, even if the test failed.
    fn drop(&mut self) {
        let _ = self.process.kill();
        // A process that waits for its own device can end only after the device is removed.
        let begin = Instant::now();
        while self.process.try_wait().is_ok_and(|ended| ended.is_none()) && begin.elapsed() < Duration::from_secs(5) {
            thread::sleep(Duration::from_millis(10));
        }
        let cleaned = cleanup(Some(self.work.path()));
        if let Ok(cleaned) = cleaned.as_ref().map(|cleaned| &cleaned.failed) {
            cleaned.iter().for_each(|failed| eprintln!("{failed}"));
        }
    }
}

/// Not a test: the server process. It serves a device until its standard input is closed.
#[test]
fn role_of_a_server() {
    let Ok(device) = env::var(ROLE) else { return };
    let memory = Memory::new(DEVICE_BYTES).expect("a device");
    let work = PathBuf::from(env::var_os("TERRACE_TEST_WORK").expect("given"));
    let (is_broken, is_paced) = (device == "broken", device == "paced");
    let device: Arc<dyn BlockDevice> = match device.as_str() {
        "memory" => Arc::new(memory),
        "file" => Arc::new(terrace_device::File::create(&work.join("image"), DEVICE_BYTES).expect("a device")),
        "paced" => Arc::new(terrace_device::File::in_memory(DEVICE_BYTES).expect("a device")),
        "slow" => {
            let pace = Pace { flush: Duration::from_millis(100), bytes_per_s: None };
            Arc::new(Slow::new(Arc::new(terrace_device::File::in_memory(DEVICE_BYTES).expect("a device")), pace))
        }
        "unwritable" => Arc::new(Limited { below: memory, end: 0x10_0000, panics: false }),
        "broken" => Arc::new(Limited { below: memory, end: 0x10_0000, panics: true }),
        other => panic!("no device {other}"),
    };
    let _ = ready_process(); // as a real server does; refusals are ignored
    let mut served = FuseLoop { work, attached: true }.serve(device, Arc::new(NoDesk)).expect("served");
    if is_paced {
        served.limit(NonZeroU64::new(RATE).expect("a rate")).expect("limited");
    }
    println!("\nserved {}\nserved {}", served.node().display(), served.stats().display());
    std::io::stdin().read_to_end(&mut Vec::new()).expect("read");
    // The kernel reports the error before the panicked thread has finished unwinding.
    let begin = Instant::now();
    while is_broken && served.is_served() && begin.elapsed() < Duration::from_secs(10) {
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(served.is_served(), !is_broken);
    let stopped = served.stop();
    match is_broken {
        true => assert!(stopped.expect_err("it was not served").to_string().contains("panicked")),
        false => stopped.expect("taken down"),
    }
    served.stop().expect("it is down");
}

/// A device that accepts writes only to its first part.
struct Limited {
    below: Memory,
    end: u64,
    /// Whether a write beyond that part panics instead of failing.
    panics: bool,
}

impl BlockDevice for Limited {
    fn len_bytes(&self) -> u64 {
        self.below.len_bytes()
    }
    fn block_bytes(&self) -> u32 {
        self.below.block_bytes()
    }
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.below.read_at(offset, into)
    }
    fn write_at(&self, offset: u64, bytes: &[u8], stream: Stream) -> Result<()> {
        match offset + bytes.len() as u64 {
            end if end <= self.end => self.below.write_at(offset, bytes, stream),
            end if self.panics => panic!("a write that ends at {end}"),
            end => Err(Error::BeyondEnd { offset, len: bytes.len() as u64, end }),
        }
    }
    fn flush(&self) -> Result<()> {
        self.below.flush()
    }
    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.below.discard(offset, len)
    }
    fn write_zeroes(&self, offset: u64, len: u64) -> Result<()> {
        self.below.write_zeroes(offset, len)
    }
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Checks whether a tool is installed, as [`require`] expects.
fn tool(name: &str) -> std::result::Result<(), String> {
    let found = Command::new(name).arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status();
    found.map(drop).map_err(|error| format!("{name}: {error}"))
}

/// A byte pattern unique to each file.
fn pattern(file: u64, len: usize) -> Vec<u8> {
    let mut state = file.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..len.div_ceil(8)).flat_map(|_| next()).take(len).collect()
}

/// Creates a file system. Retries mkfs.btrfs, which probes every loop device of the machine, and
/// fails if the server of one of them has just ended.
fn make(mkfs: &[&str], node: &Path) {
    let begin = Instant::now();
    loop {
        let output = Command::new(mkfs[0]).args(&mkfs[1..]).arg(node).output().expect("it is installed");
        let said = String::from_utf8_lossy(&output.stderr);
        let is_others = said.contains("cannot check mount status") && begin.elapsed() < Duration::from_secs(60);
        assert!(output.status.success() || is_others, "{mkfs:?}: {said}");
        if output.status.success() {
            return;
        }
        thread::sleep(Duration::from_millis(100));
    }
}

/// Creates a file system, fills it, unmounts it, mounts it again and reads it.
fn carries(mkfs: &[&str]) {
    let Some(()) = require("mkfs", tool(mkfs[0])) else { return };
    let Some(server) = Server::start("memory") else { return };
    make(mkfs, &server.node);
    server.mount("noatime");
    let files: Vec<(PathBuf, Vec<u8>)> = (0..40)
        .map(|n| (server.mount_point().join(format!("file{n}")), pattern(n, 1 + (n as usize * 37_813) % 3_000_000)))
        .collect();
    let before = server.count("flushes").0;
    for (path, bytes) in &files {
        fs::write(path, bytes).expect("written");
        File::open(path).and_then(|file| file.sync_all()).expect("synced");
    }
    assert!(server.count("flushes").0 >= before + files.len() as u64, "a sync without a flush");
    server.unmount();
    server.mount("noatime");
    for (path, bytes) in &files {
        assert!(fs::read(path).expect("read") == *bytes, "{} differs", path.display());
        fs::remove_file(path).expect("removed");
    }
    let before = server.count("discards").1;
    run(Command::new("fstrim").arg(server.mount_point()));
    assert!(server.count("discards").1 > before + (10 << 20), "trims did not arrive");
    server.unmount();
    server.stop();
}

#[test]
fn ext4_lives_on_it() {
    carries(&["mkfs.ext4", "-q"]);
}

#[test]
fn xfs_works_on_it() {
    carries(&["mkfs.xfs", "-q"]);
}

#[test]
fn btrfs_works_on_it() {
    let _alone = alone();
    carries(&["mkfs.btrfs", "-q"]);
}

#[test]
fn fio_verifies_it() {
    let Some(()) = require("fio", tool("fio")) else { return };
    let Some(server) = Server::start("memory") else { return };
    let mut fio = Command::new("fio");
    fio.args(["--name=verify", "--rw=randwrite", "--bsrange=4k-256k", "--blockalign=4k", "--size=96m", "--direct=1"]);
    fio.args([
        "--ioengine=libaio",
        "--iodepth=16",
        "--verify=crc32c",
        "--verify_fatal=1",
        "--verify_state_save=0",
        "--randseed=1",
    ]);
    run(fio.arg(format!("--filename={}", server.node.display())));
    assert!(server.count("reads").1 >= 60 << 20, "fio did not read back");
    server.stop();
}

/// Tests that requests arrive at the server without being merged, split or delayed. Otherwise a
/// recording would differ from the requests of the file system. (Direct writes of more than 512
/// KiB are an exception: the block layer itself splits them, because a loop device accepts at most
/// 128 non-contiguous pages.)
#[test]
fn requests_arrive_one_for_one() {
    let Some(server) = Server::start("memory") else { return };
    let before = (server.count("writes"), server.count("flushes").0);
    let dd = ["oflag=direct", "bs=512K", "count=32", "if=/dev/urandom", "conv=notrunc,fdatasync", "status=none"];
    run(Command::new("dd").args(dd).arg(format!("of={}", server.node.display())));
    let after = (server.count("writes"), server.count("flushes").0);
    assert_eq!((after.0.0 - before.0.0, after.0.1 - before.0.1), (32, 16 << 20), "writes");
    assert_eq!(after.1 - before.1, 1, "one flush");
    let (file, mut block) = (File::options().read(true).write(true).open(&server.node).expect("opened"), [7; 4096]);
    for n in 1..=10 {
        file.write_all_at(&block, 4096 * n).and_then(|()| file.sync_data()).expect("written");
        assert_eq!(server.count("flushes").0, after.1 + n);
    }
    run(Command::new("blkdiscard").args(["--offset=4096", "--length=4096"]).arg(&server.node));
    run(Command::new("blkdiscard").args(["--zeroout", "--offset=8192", "--length=4096"]).arg(&server.node));
    drop(file);
    let file = File::open(&server.node).expect("opened");
    for (at, byte) in [(1, 0), (2, 0), (3, 7)] {
        file.read_exact_at(&mut block, 4096 * at).expect("read");
        assert_eq!(block, [byte; 4096], "block {at}");
    }
    drop(file);
    server.stop();
}

/// Tests that the kernel accesses a backing file directly where it can. All other requests must
/// arrive at the server.
#[test]
fn a_backing_file_is_written_without_the_server() {
    let Some(server) = Server::start("slow") else { return };
    let dd = ["bs=1M", "count=16", "if=/dev/zero", "conv=notrunc,fdatasync", "status=none"];
    let begin = Instant::now();
    run(Command::new("dd").args(dd).arg(format!("of={}", server.node.display())));
    assert!(begin.elapsed() >= Duration::from_millis(100), "a flush that did not wait");
    let (file, mut block) = (File::options().read(true).write(true).open(&server.node).expect("opened"), [7; 4096]);
    let before = server.count("flushes").0;
    for n in 1..=3 {
        file.write_all_at(&block, 4096 * n).and_then(|()| file.sync_data()).expect("written");
    }
    assert_eq!(server.count("flushes").0, before + 3);
    run(Command::new("blkdiscard").args(["--offset=8192", "--length=4096"]).arg(&server.node));
    assert_eq!(server.count("discards").1, 4096);
    drop(file);
    let file = File::open(&server.node).expect("opened");
    for (at, byte) in [(0, 0), (1, 7), (2, 0), (3, 7)] {
        file.read_exact_at(&mut block, 4096 * at).expect("read");
        assert_eq!(block, [byte; 4096], "block {at}");
    }
    drop(file);
    server.passed_nothing();
    server.stop();
}

/// Tests that the kernel enforces the rate limit, and that the limit is removed together with the
/// device, both when the server removes the device and when the server was killed.
#[test]
fn a_kernel_rate_limit_is_removed_with_the_device() {
    let _alone = alone();
    let Some(()) = require("blkio", limits::available()) else { return };
    for is_killed in [false, true] {
        let Some(mut server) = Server::start("paced") else { return };
        let node = server.node.file_name().expect("a name").display();
        let number = fs::read_to_string(format!("/sys/class/block/{node}/dev")).expect("a block device");
        let limit = format!("{} {RATE}", number.trim());
        let is_set = |way: &str| {
            let list = fs::read_to_string(format!("/sys/fs/cgroup/blkio/blkio.throttle.{way}_bps_device"));
            list.expect("a list").lines().any(|line| line == limit)
        };
        assert!(is_set("read") && is_set("write"), "{limit}");
        for [from, to, this] in [["if=/dev/zero", "oflag=direct", "of"], ["of=/dev/null", "iflag=direct", "if"]] {
            let begin = Instant::now();
            let dd = [from, to, "bs=1M", "count=24", "status=none"];
            run(Command::new("dd").args(dd).arg(format!("{this}={}", server.node.display())));
            assert!(begin.elapsed() >= Duration::from_secs(1), "{:?} for 24 MiB, {to}", begin.elapsed());
        }
        server.passed_nothing();
        if is_killed {
            server.process.kill().and_then(|()| server.process.wait()).expect("killed");
            assert_eq!(cleanup(Some(server.work.path())).expect("lists").failed, [""; 0]);
        } else {
            server.stop();
        }
        assert!(!is_set("read") && !is_set("write"), "{limit} is still there, killed: {is_killed}");
    }
}

#[test]
fn an_error_of_the_device_is_an_error_of_the_write() {
    let Some(server) = Server::start("unwritable") else { return };
    assert!(write_block(&server, 1));
    assert!(!write_block(&server, 1000), "a failed write was taken for a good one");
    server.stop();
}

/// Writes one block with direct I/O.
fn write_block(server: &Server, seek: u64) -> bool {
    let mut dd = Command::new("dd");
    dd.args(["if=/dev/urandom", "bs=4096", "count=1", "oflag=direct", &format!("seek={seek}")]);
    let output = dd.arg(format!("of={}", server.node.display())).output().expect("dd");
    if !output.status.success() {
        eprintln!("block {seek}: {}", String::from_utf8_lossy(&output.stderr));
    }
    output.status.success()
}

/// Tests a panic of the thread that serves a device. The server's owner must be able to see that
/// the device is not served any more, and no call may block.
#[test]
fn a_panicking_server_is_reported() {
    let _alone = alone();
    let Some(server) = Server::start("broken") else { return };
    assert!(write_block(&server, 1));
    assert!(!write_block(&server, 1000), "a write that was never answered was taken for a good one");
    server.stop(); // asserts the exit status of a server whose thread panicked
}

/// Tests that the statistics form one consistent text even if they are read in small parts with
/// requests in between.
#[test]
fn statistics_are_never_torn() {
    let Some(server) = Server::start("memory") else { return };
    let (file, mut text) = (File::open(&server.stats).expect("opened"), Vec::new());
    let opened_at = server.count("writes").0;
    for block in 0.. {
        let mut part = [0; 9];
        match file.read_at(&mut part, text.len() as u64).expect("read") {
            0 => break,
            bytes => text.extend_from_slice(&part[..bytes]),
        }
        assert!(write_block(&server, block));
    }
    let told: serde_json::Value = serde_json::from_slice(&text).expect("one text, as when it was opened");
    assert_eq!(told["requests"]["writes"]["requests"], opened_at, "one text, as when it was opened");
    assert!(server.count("writes").0 > opened_at + 9, "and it went on");
    drop(file);
    server.stop();
}

/// Tests that the removal of a device finds mounts whose device number differs from the device's
/// own: a btrfs mount has a number that btrfs chooses, and each partition has its own number.
#[test]
fn file_systems_with_other_device_numbers_are_unmounted() {
    let _alone = alone();
    for kind in ["btrfs", "partition"] {
        let Some(()) = require("mkfs", tool("mkfs.btrfs")) else { return };
        let Some(mut server) = Server::start("memory") else { return };
        let mut node = server.node.clone();
        if kind == "partition" {
            run(Command::new("addpart").arg(&node).args(["1", "2048", "409600"])); // in sectors
            node = PathBuf::from(format!("{}p1", node.display()));
        }
        let mkfs = if kind == "btrfs" { "mkfs.btrfs" } else { "mkfs.ext4" };
        make(&[mkfs, "-q"], &node);
        run(Command::new("mount").arg(&node).arg(server.mount_point()));
        fs::write(server.mount_point().join("file"), pattern(1, 100_000)).expect("written");
        server.process.kill().expect("killed");
        server.process.wait().expect("waited for");
        let cleaned = cleanup(Some(server.work.path())).expect("the machine's lists can be read");
        assert_eq!(cleaned.failed, [""; 0], "{kind}");
        assert_eq!(server.traces(), [""; 0], "{kind}");
    }
}

/// A cgroup with a memory limit, page cache included.
struct MemoryGroup(PathBuf);

impl MemoryGroup {
    fn new(name: &str, bytes: u64) -> std::result::Result<MemoryGroup, String> {
        let (old, new) = (PathBuf::from("/sys/fs/cgroup/memory"), PathBuf::from("/sys/fs/cgroup"));
        let is_old = old.join("memory.limit_in_bytes").exists();
        let group = if is_old { old } else { new }.join(format!("terrace-test-{name}-{}", std::process::id()));
        fs::create_dir(&group).map_err(|error| format!("{}: {error}", group.display()))?;
        let group = MemoryGroup(group);
        let limit = group.0.join(if is_old { "memory.limit_in_bytes" } else { "memory.max" });
        fs::write(&limit, bytes.to_string()).map_err(|error| format!("{}: {error}", limit.display()))?;
        Ok(group)
    }

    fn take(&self, process: u32) {
        fs::write(self.0.join("cgroup.procs"), process.to_string()).expect("taken into the group");
    }

    /// Returns how often the group hit its limit.
    fn hits(&self) -> u64 {
        let old = fs::read_to_string(self.0.join("memory.failcnt"));
        let new = || fs::read_to_string(self.0.join("memory.events")).expect("counts");
        let line = |text: String| text.lines().find_map(|line| Some(line.strip_prefix("max ")?.to_owned()));
        old.unwrap_or_else(|_| line(new()).expect("a count of hits")).trim().parse().expect("a number")
    }
}

impl Drop for MemoryGroup {
    /// Moves the group's processes back to the root group.
    fn drop(&mut self) {
        let processes = fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default();
        processes.lines().for_each(|process| drop(fs::write(self.0.with_file_name("cgroup.procs"), process)));
        if let Err(error) = fs::remove_dir(&self.0) {
            eprintln!("left behind: {}: {error}", self.0.display());
        }
    }
}

/// Tests a server under a memory limit. The kernel gives the writer and the server no more memory
/// until dirty pages are written, so the server must accept those writes without more memory. (One
/// case is not tested: if the drive's data are in a file, and the server is in one memory group
/// with the writers, the server may wait for itself, see docs/ssd.md.)
#[test]
fn memory_pressure_causes_no_deadlock() {
    let Some(mut server) = Server::start("file") else { return };
    run(Command::new("mkfs.ext4").arg("-q").arg(&server.node));
    server.mount("noatime");
    let groups = ["writer", "server"].map(|name| require("memcg", MemoryGroup::new(name, 48 << 20)));
    let [Some(of_writer), Some(of_server)] = groups else {
        server.unmount();
        return;
    };
    of_server.take(server.process.id());
    let script = "echo $$ > \"$GROUP/cgroup.procs\"; cd \"$AT\" || exit 1
        for n in 1 2 3 4; do dd if=/dev/zero of=big$n bs=1M count=50 status=none || exit 1; done
        for n in $(seq 500); do echo $n > small$n; done
        sync -f . && cat big* | cmp -n 209715200 - /dev/zero";
    let mut writer = Command::new("sh");
    let mut writer =
        writer.args(["-c", script]).env("GROUP", &of_writer.0).env("AT", server.mount_point()).spawn().expect("sh");
    let begin = Instant::now();
    let written = loop {
        match writer.try_wait().expect("waited for") {
            None if begin.elapsed() < Duration::from_secs(120) => thread::sleep(Duration::from_millis(50)),
            None => {
                let _ = server.process.kill();
                panic!("dead-locked: not done after {:?}", begin.elapsed());
            }
            Some(status) => break status.success(),
        }
    };
    let hits = [&of_writer, &of_server].map(MemoryGroup::hits);
    println!("done in {:?}, the limits were met {hits:?} times", begin.elapsed());
    assert!(written, "the writer failed");
    assert!(hits.iter().all(|hits| *hits > 20), "memory was never short: {hits:?}");
    server.unmount();
    fs::remove_file(server.work.path().join("image")).expect("removed"); // still open in the server
    server.stop();
}

/// Tests a server that is killed. Users of its device must get errors, no call may block, and
/// cleanup must remove all mounts and devices that the server left.
#[test]
fn cleanup_removes_everything_a_killed_server_leaves() {
    let _alone = alone();
    let Some(mut server) = Server::start("memory") else { return };
    run(Command::new("mkfs.ext4").arg("-q").arg(&server.node));
    server.mount("noatime");
    let cleaned = cleanup(Some(server.work.path())).expect("the machine's lists can be read");
    assert!(cleaned.removed.is_empty() && cleaned.failed.is_empty(), "it lives: {cleaned:?}");
    let mut writer = Command::new("dd");
    writer.args(["if=/dev/zero", "bs=1M", "count=300", "conv=fsync"]).stderr(Stdio::null());
    let mut writer = writer.arg(format!("of={}", server.mount_point().join("file").display())).spawn().expect("dd");
    thread::sleep(Duration::from_millis(100));
    server.process.kill().expect("killed");
    server.process.wait().expect("waited for");
    assert!(!writer.wait().expect("waited for").success(), "written to nowhere");
    assert_eq!(server.traces().len(), 3, "{:?}", server.traces());
    let cleaned = cleanup(Some(server.work.path())).expect("the machine's lists can be read");
    assert!(cleaned.removed.iter().any(|dir| dir.starts_with(server.work.path())), "{cleaned:?}");
    assert_eq!(server.traces(), [""; 0]);
}

#[test]
fn an_invalid_directory_is_named() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let front_end = FuseLoop { work: file.path().into(), attached: true };
    let device = Arc::new(Memory::new(4096).expect("a device"));
    let refused = front_end.serve(device, Arc::new(NoDesk)).expect_err("it is a file");
    assert!(refused.to_string().contains(file.path().to_str().expect("text")), "{refused}");
}
