//! Reports the features of the machine that do not depend on a directory: kernel, processors, BPF,
//! FUSE, loop devices, io_uring.
use super::{Finding, kernel_line};
use std::{fs::File, path::Path};
use terrace_storage::bpf::{CommitIterator, DEFAULT_PIN_PATH};

/// Reports kernel, processors, BPF, FUSE, loop devices, io_uring.
pub fn findings() -> Vec<Finding> {
    vec![kernel(), processors(), bpf(), fuse(), loop_devices(), io_uring()]
}

fn kernel() -> Finding {
    let release = kernel_line("/proc/sys/kernel/osrelease").unwrap_or_else(|_| "unknown".into());
    Finding::new("kernel", format!("{} {release} {}", std::env::consts::OS, std::env::consts::ARCH))
}

fn processors() -> Finding {
    let count = std::thread::available_parallelism().map_or("unknown".into(), |count| count.to_string());
    Finding::new("processors", count)
}

/// Reports whether a BPF program can read from the kernel which ext4 journal commit a file waits
/// for.
fn bpf() -> Finding {
    match CommitIterator::open(Path::new(DEFAULT_PIN_PATH)) {
        Ok(_) => Finding::new("bpf", "available: durability=journal-bpf works on ext4"),
        Err(why) => Finding::new("bpf", format!("not available: {why}"))
            .advise("only durability=journal-bpf needs it; run `terrace pin` as root after each boot"),
    }
}

fn fuse() -> Finding {
    match File::options().read(true).write(true).open("/dev/fuse") {
        Ok(_) => Finding::new("fuse", "available"),
        Err(error) => Finding::new("fuse", format!("/dev/fuse: {error}"))
            .advise("`modprobe fuse` as root; only `terrace ssd serve` needs it"),
    }
}

fn loop_devices() -> Finding {
    match File::options().read(true).write(true).open("/dev/loop-control") {
        Ok(_) => Finding::new("loop", "available"),
        Err(error) => Finding::new("loop", format!("/dev/loop-control: {error}")).advise(
            "run as root, after `modprobe loop` where it is absent; only `bench --device`, `crash` and `ssd serve` need it",
        ),
    }
}

/// Reports whether the kernel allows io_uring. Kernels before Linux 6.6 do not report this.
fn io_uring() -> Finding {
    let value = match kernel_line("/proc/sys/kernel/io_uring_disabled").as_deref() {
        Ok("0") => "available",
        Ok("1") => "for privileged users only",
        Ok("2") => "switched off",
        Ok(_) | Err(_) => "unknown: the kernel does not report it",
    };
    Finding::new("io_uring", value).advise("nothing in this version needs it")
}
