//! What the machine can give, whatever the directory.
use super::{Finding, kernel_line};
use std::{fs::File, path::Path};
use terrace_storage::bpf::{CommitIterator, PINNED};

/// Kernel, processors, BPF, FUSE.
pub fn findings() -> Vec<Finding> {
    vec![kernel(), processors(), bpf(), fuse()]
}

fn kernel() -> Finding {
    let release = kernel_line("/proc/sys/kernel/osrelease").unwrap_or_else(|_| "unknown".into());
    Finding::new("kernel", format!("{} {release} {}", std::env::consts::OS, std::env::consts::ARCH))
}

fn processors() -> Finding {
    let count = std::thread::available_parallelism().map_or("unknown".into(), |count| count.to_string());
    Finding::new("processors", count)
}

/// Whether the kernel tells which commit of ext4's journal a file waits for.
fn bpf() -> Finding {
    match CommitIterator::open(Path::new(PINNED)) {
        Ok(_) => Finding::new("bpf", "available: tier journal-bpf can be had on ext4"),
        Err(why) => Finding::new("bpf", format!("not available: {why}"))
            .advise("only tier journal-bpf needs it; run `terrace pin` as root, once after each start of the machine"),
    }
}

fn fuse() -> Finding {
    match File::options().read(true).write(true).open("/dev/fuse") {
        Ok(_) => Finding::new("fuse", "available"),
        Err(error) => Finding::new("fuse", format!("/dev/fuse: {error}"))
            .advise("`modprobe fuse` as root; nothing in this version needs it"),
    }
}
