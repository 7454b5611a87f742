//! What a device holds that somebody may still want: told by the marks that file systems and their kin leave.
use super::io;
use std::io::Result;
use terrace_device::BlockDevice;
use terrace_format::raw::PAGE;

/// A name, and bytes at an offset that give it away.
type Mark = (&'static str, u64, &'static [u8]);

const MARKS: &[Mark] = &[
    ("a store of Terrace's", 0, b"TERRACER"),
    ("a store of Terrace's", 64 << 10, b"TERRACER"),
    ("LUKS encryption", 0, b"LUKS\xba\xbe"),
    ("LVM", 512, b"LABELONE"),
    ("LVM", 0, b"LABELONE"),
    ("a RAID member", 0, b"\xfc\x4e\x2b\xa9"),
    ("a RAID member", 4096, b"\xfc\x4e\x2b\xa9"),
    ("an ext4 file system", 0x438, b"\x53\xef"),
    ("an XFS file system", 0, b"XFSB"),
    ("a btrfs file system", 0x1_0040, b"_BHRfS_M"),
    ("an f2fs file system", 0x400, b"\x10\x20\xf5\xf2"),
    ("a ZFS pool", 0x2_0000, b"\x0c\xb1\xba\x00"),
    ("an NTFS file system", 3, b"NTFS    "),
    ("an exFAT file system", 3, b"EXFAT   "),
    ("a FAT file system", 54, b"FAT"),
    ("a FAT file system", 82, b"FAT32"),
    ("a squashfs file system", 0, b"hsqs"),
    ("an erofs file system", 1024, b"\xe2\xe1\xf5\xe0"),
    ("an ISO 9660 file system", 0x8001, b"CD001"),
    ("an APFS file system", 32, b"NXSB"),
    ("bcache", 4096 + 24, b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca"),
    ("Ceph's BlueStore", 0, b"bluestore block device"),
    ("swap space", 4096 - 10, b"SWAPSPACE2"),
    ("swap space", 4096 - 10, b"SWAP-SPACE"),
    ("a partition table (GPT)", 512, b"EFI PART"),
    ("a partition table (GPT)", 4096, b"EFI PART"),
    ("a partition table (MBR), or a boot sector", 510, b"\x55\xaa"),
];

/// RAID with its mark at the end: version 1.0 in the last 8 to 12 KiB, version 0.90 in the last 64 to 128 KiB.
const RAID: &[u8] = b"\xfc\x4e\x2b\xa9";

/// What is on the device, in words; `None` if it begins with nothing but zeros and bears no mark.
pub fn found(device: &dyn BlockDevice) -> Result<Option<String>> {
    for (name, offset, bytes) in MARKS {
        if has(device, *offset, bytes)? {
            return Ok(Some((*name).into()));
        }
    }
    let sectors = device.len_bytes() / 512;
    let ends = [(sectors.saturating_sub(16) & !7) * 512, (device.len_bytes() & !0xffff).saturating_sub(0x1_0000)];
    for end in ends {
        if has(device, end, RAID)? {
            return Ok(Some("a RAID member".into()));
        }
    }
    let mut first = vec![0; PAGE.min(device.len_bytes() as usize)];
    device.read_at(0, &mut first).map_err(io)?;
    Ok(first.iter().any(|byte| *byte != 0).then(|| "bytes of an unknown kind".into()))
}

/// Whether `bytes`, which do not cross a page, stand at `offset`.
fn has(device: &dyn BlockDevice, offset: u64, bytes: &[u8]) -> Result<bool> {
    let at = offset - offset % PAGE as u64;
    if at + PAGE as u64 > device.len_bytes() {
        return Ok(false);
    }
    let mut page = vec![0; PAGE];
    device.read_at(at, &mut page).map_err(io)?;
    Ok(page[(offset - at) as usize..].starts_with(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use terrace_device::{Memory, Stream};

    #[test]
    fn marks_are_recognised() {
        for (name, offset, bytes) in MARKS {
            let device = Memory::new(1 << 20).unwrap();
            assert_eq!(found(&device).unwrap(), None);
            let mut page = vec![0; PAGE];
            let within = (*offset % PAGE as u64) as usize;
            page[within..within + bytes.len()].copy_from_slice(bytes);
            device.write_at(*offset - within as u64, &page, Stream(0)).unwrap();
            assert_eq!(found(&device).unwrap().as_deref(), Some(*name));
        }
        let device = Memory::new((1 << 20) + 4096).unwrap();
        let page = [RAID, &[0; PAGE - 4]].concat();
        device.write_at((1 << 20) - 4096, &page, Stream(0)).unwrap();
        assert_eq!(found(&device).unwrap().as_deref(), Some("a RAID member"));
    }
}
