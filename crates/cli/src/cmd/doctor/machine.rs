//! What the machine can give, whatever the directory.
use super::{Finding, kernel_line};
use std::{fs::File, os::unix::fs::MetadataExt, path::Path};

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

/// Whether a BPF iterator could read the journal's state: type information and the privilege to load one.
fn bpf() -> Finding {
    let types = Path::new("/sys/kernel/btf/vmlinux").exists();
    let root = std::fs::metadata("/proc/self").is_ok_and(|about| about.uid() == 0);
    match (types, root) {
        (true, true) => Finding::new("bpf", "available: type information is there, and this user may load programs"),
        (true, false) => Finding::new("bpf", "type information is there; this user may not load programs")
            .advise("grant CAP_BPF and CAP_PERFMON, or run as root; no tier of this version needs it"),
        (false, _) => Finding::new("bpf", "no type information (/sys/kernel/btf/vmlinux)")
            .advise("needs a kernel with CONFIG_DEBUG_INFO_BTF; no tier of this version needs it"),
    }
}

fn fuse() -> Finding {
    match File::options().read(true).write(true).open("/dev/fuse") {
        Ok(_) => Finding::new("fuse", "available"),
        Err(error) => Finding::new("fuse", format!("/dev/fuse: {error}"))
            .advise("`modprobe fuse` as root; nothing in this version needs it"),
    }
}
