//! Tests of real block devices, which compare the requests with the kernel's counters. They need
//! root and a loop device.
use std::{fs, path::PathBuf, process::Command};
use terrace_device::{BlockDevice, File, Stream};
use terrace_peers::require;

const BYTES: u64 = 64 << 20;
const MIB: u64 = 1 << 20;

struct Loop {
    node: PathBuf,
    _directory: tempfile::TempDir,
}

impl Loop {
    /// Attaches a loop device with discards enabled. A loop device keeps its /sys settings after it
    /// is detached, so an earlier user may have disabled discards.
    fn new() -> Result<Loop, String> {
        let mut without = Vec::new();
        while without.len() < 8 {
            let on = Loop::attached(BYTES)?;
            if on.attribute("queue/discard_max_bytes").trim() != "0" {
                return Ok(on);
            }
            without.push(on);
        }
        Err("eight loop devices do not discard (queue/discard_max_bytes is 0)".into())
    }

    fn attached(bytes: u64) -> Result<Loop, String> {
        let directory = tempfile::tempdir().map_err(|e| e.to_string())?;
        let image = directory.path().join("image");
        fs::File::create(&image).and_then(|file| file.set_len(bytes)).map_err(|e| e.to_string())?;
        let output = Command::new("losetup").args(["-f", "--show"]).arg(&image).output().map_err(|e| e.to_string())?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        let node = String::from_utf8_lossy(&output.stdout).trim().into();
        Ok(Loop { node, _directory: directory })
    }

    /// Reads an attribute in `/sys`.
    fn attribute(&self, name: &str) -> String {
        fs::read_to_string(PathBuf::from("/sys/class/block").join(self.node.file_name().unwrap()).join(name)).unwrap()
    }

    /// Returns the bytes written so far by the counters in `/sys`.
    fn written(&self) -> u64 {
        let fields = self.attribute("stat");
        fields.split_whitespace().nth(6).unwrap().parse::<u64>().unwrap() * 512
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        // its file is removed with the test's directory
        let _ = Command::new("losetup").arg("-d").arg(&self.node).status();
    }
}

#[test]
fn a_range_flush_writes_its_range_and_a_discard_nothing() {
    let Some(on) = require("loop", Loop::new()) else { return };
    let device = File::open(&on.node).unwrap();
    // The kernel itself writes dirty pages back after half a minute. This can disturb the
    // measurement, so the test makes several attempts.
    let apart = (0..5).any(|_| {
        let before = on.written();
        device.write_at(0, &vec![1; 8 * MIB as usize], Stream(0)).unwrap();
        device.write_at(16 * MIB, &[2; 8192], Stream(0)).unwrap();
        device.write_at(24 * MIB, &[3; 4096], Stream(0)).unwrap();
        device.flush_ranges(&[24 * MIB..24 * MIB + 4096, 16 * MIB..16 * MIB + 8192]).unwrap();
        let part = on.written() - before;
        device.flush().unwrap();
        let all = on.written() - before;
        assert!(part >= 12288 && all >= 8 * MIB + 12288, "{part} B, then {all} B");
        part == 12288
    });
    assert!(apart, "a flush of three blocks writes all that waits");
    let before = on.written();
    device.flush_ranges(&[]).unwrap();
    device.write_at(32 * MIB, &vec![4; 4 * MIB as usize], Stream(0)).unwrap();
    device.discard(32 * MIB, 4 * MIB).unwrap();
    device.discard(0, 8 * MIB).unwrap();
    device.flush().unwrap();
    assert!(on.written() - before <= 4 * MIB, "{} B were written to discard 12 MiB", on.written() - before);
    let mut read = vec![9; 4096];
    device.read_at(16 * MIB, &mut read).unwrap();
    assert!(read.iter().all(|byte| *byte == 2));
    for wrong in [BYTES - 4096..BYTES + 4096, 1..4097] {
        assert!(device.flush_ranges(std::slice::from_ref(&wrong)).is_err(), "{wrong:?}");
    }
}

/// Tests a device that is partitioned in sectors of 512 bytes, so that it ends with a partial
/// block. The partial block must be ignored.
#[test]
fn sectors_after_the_last_whole_block_are_ignored() {
    let Some(on) = require("loop", Loop::attached(BYTES + 7 * 512)) else { return };
    let device = File::open(&on.node).unwrap();
    assert_eq!(device.len_bytes(), BYTES);
    device.write_at(BYTES - 4096, &[1; 4096], Stream(0)).unwrap();
    device.flush().unwrap();
    assert!(device.write_at(BYTES, &[1; 4096], Stream(0)).is_err());
    drop(device);
    assert_eq!(File::open_read_only(&on.node).unwrap().len_bytes(), BYTES);
}
