//! Detects existing data on a device before it is formatted. The module searches for signatures of
//! file systems, volume managers and partition tables, and for any non-zero byte at the start. The
//! offsets of signatures are from util-linux's libblkid and from the documentation of the formats.
use super::{error::io, superblock::find};
use std::{collections::BTreeSet, io::Result};
use terrace_device::BlockDevice;
use terrace_format::raw::PAGE;

const KIB: u64 = 1 << 10;

/// Size in bytes of the region at the start of a device that must be zero. Formatting erases this
/// number of bytes at both ends of the device.
const EDGE: u64 = 1 << 20;

/// The name of a format, the offset of its signature in bytes, and the signature.
type Signature = (&'static str, u64, &'static [u8]);

/// The signatures of known formats. The first one that matches gives the contents their name, so
/// signatures that several formats share are last.
const SIGNATURES: &[Signature] = &[
    ("a store of Terrace's", 0, b"TERRACER"),
    ("a store of Terrace's", 64 * KIB, b"TERRACER"),
    ("a store of Terrace's, begun or lost", 128 * KIB, b"TERRACEJ"),
    ("LUKS encryption", 0, b"LUKS\xba\xbe"),
    ("LUKS encryption", 16 * KIB, LUKS_2),
    ("LUKS encryption", 32 * KIB, LUKS_2),
    ("LUKS encryption", 64 * KIB, LUKS_2),
    ("LUKS encryption", 128 * KIB, LUKS_2),
    ("LUKS encryption", 256 * KIB, LUKS_2),
    ("LUKS encryption", 512 * KIB, LUKS_2),
    ("LUKS encryption", 1024 * KIB, LUKS_2),
    ("LUKS encryption", 2048 * KIB, LUKS_2),
    ("LUKS encryption", 4096 * KIB, LUKS_2),
    ("LVM", 0, b"LABELONE"),
    ("LVM", 512, b"LABELONE"),
    ("LVM", 1024, b"LABELONE"),
    ("LVM", 1536, b"LABELONE"),
    ("a RAID member", 0, RAID),
    ("a RAID member", 4096, RAID),
    ("an ext4 file system", 0x438, b"\x53\xef"),
    ("an XFS file system", 0, b"XFSB"),
    ("a btrfs file system", 0x1_0040, b"_BHRfS_M"),
    ("an f2fs file system", 0x400, b"\x10\x20\xf5\xf2"),
    ("an NTFS file system", 3, b"NTFS    "),
    ("a ReFS file system", 3, b"ReFS"),
    ("BitLocker encryption", 3, b"-FVE-FS-"),
    ("an exFAT file system", 3, b"EXFAT   "),
    ("a FAT file system", 54, b"FAT"),
    ("a FAT file system", 82, b"FAT32"),
    ("a squashfs file system", 0, b"hsqs"),
    ("an erofs file system", 1024, b"\xe2\xe1\xf5\xe0"),
    ("an ISO 9660 file system", 0x8001, b"CD001"),
    ("a UDF file system", 0x8001, b"BEA01"),
    ("an APFS file system", 32, b"NXSB"),
    ("an HFS file system", 0x400, b"H+"),
    ("an HFS file system", 0x400, b"HX"),
    ("a JFS file system", 32 * KIB, b"JFS1"),
    ("a ReiserFS file system", 64 * KIB + 52, b"ReIsEr"),
    ("a ReiserFS file system", 8 * KIB + 52, b"ReIsEr"),
    ("a GFS2 file system", 64 * KIB, b"\x01\x16\x19\x70"),
    ("a UFS file system", 64 * KIB + 1372, b"\x19\x01\x54\x19"),
    ("a UFS file system", 8 * KIB + 1372, b"\x54\x19\x01\x00"),
    ("an OCFS2 file system", 1024, b"OCFSV2"),
    ("an OCFS2 file system", 2048, b"OCFSV2"),
    ("an OCFS2 file system", 4096, b"OCFSV2"),
    ("VMFS", 1024 * KIB, b"\x0d\xd0\x01\xc0"),
    ("VMFS", 2048 * KIB, b"\x5e\xf1\xab\x2f"),
    // In Stratis, a checksum precedes the signature.
    ("Stratis", 516, b"!Stra0tis\x86\xff\x02^\x41rh"),
    ("Stratis", 4096 + 516, b"!Stra0tis\x86\xff\x02^\x41rh"),
    ("VDO", 0, b"dmvdo001"),
    ("an Oracle ASM disk", 32, b"ORCLDISK"),
    ("bcache or bcachefs", 4096 + 24, b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca"),
    ("bcachefs", 4096 + 24, b"\xc6\x85\x73\xf6\x66\xce\x90\xa9"),
    ("Ceph's BlueStore", 0, b"bluestore block device"),
    ("swap space", 4 * KIB - 10, b"SWAPSPACE2"),
    ("swap space", 4 * KIB - 10, b"SWAP-SPACE"),
    ("swap space", 8 * KIB - 10, b"SWAPSPACE2"),
    ("swap space", 16 * KIB - 10, b"SWAPSPACE2"),
    ("swap space", 64 * KIB - 10, b"SWAPSPACE2"),
    ("a partition table (GPT)", 512, GPT),
    ("a partition table (GPT)", 4096, GPT),
    ("a partition table (MBR), or a boot sector", 510, b"\x55\xaa"),
];

/// The signature of the secondary LUKS 2 header. It identifies a LUKS 2 device whose primary
/// header was destroyed.
const LUKS_2: &[u8] = b"SKUL\xba\xbe";
const GPT: &[u8] = b"EFI PART";
const RAID: &[u8] = b"\xfc\x4e\x2b\xa9";

/// Returns the signatures at the end of a device of `bytes` bytes.
fn signatures_at_end(bytes: u64) -> [Signature; 6] {
    let version_1 = (bytes / 512).saturating_sub(16) / 8 * 4096; // in the last 8 to 12 KiB
    let version_0_90 = (bytes & !0xffff).saturating_sub(64 * KIB);
    [
        ("a RAID member", version_1, RAID),
        ("a RAID member", version_0_90, RAID),
        ("a RAID member", bytes.saturating_sub(1024), b"Intel Raid ISM Cfg Sig. "),
        ("a RAID member", bytes.saturating_sub(512), b"\xde\x11\xde\x11"), // DDF
        ("the copy of a partition table (GPT)", bytes.saturating_sub(512), GPT),
        ("the copy of a partition table (GPT)", bytes.saturating_sub(4096), GPT),
    ]
}

/// Describes the contents of the device. Returns `None` if there is no signature and the first
/// mebibyte is zero.
pub fn found(device: &dyn BlockDevice) -> Result<Option<String>> {
    if let Some((name, _)) = signatures(device)?.first() {
        let sizes = find(device).ok().flatten().map(|superblock| superblock.sizes());
        let parts =
            sizes.map(|sizes| format!(", in slots of {} and units of {} bytes", sizes.slot_bytes, sizes.unit_bytes()));
        return Ok(Some(format!("{name}{}", parts.unwrap_or_default())));
    }
    let mut beginning = vec![0; EDGE.min(device.len_bytes()) as usize];
    device.read_at(0, &mut beginning).map_err(io)?;
    let first = beginning.iter().position(|byte| *byte != 0);
    Ok(first.map(|at| format!("bytes of an unknown kind (the first at {at})")))
}

/// Erases all data that could be detected, including a previous store, so that a device whose
/// formatting was interrupted is not recognized. Durable after the next flush.
pub fn forget(device: &dyn BlockDevice) -> Result<()> {
    let signatures = signatures(device)?;
    // The result is ignored: a discard is only a hint, and the drive may not support it.
    let _ = device.discard(0, device.len_bytes());
    let edge = EDGE.min(device.len_bytes());
    let end = device.len_bytes() - edge;
    device.write_zeroes(0, edge).and_then(|()| device.write_zeroes(end, edge)).map_err(io)?;
    let mut between = signatures.iter().map(|(_, at)| at - at % PAGE as u64).filter(|page| (edge..end).contains(page));
    between.try_for_each(|page| device.write_zeroes(page, PAGE as u64)).map_err(io)
}

/// Finds all signatures, with their offsets.
fn signatures(device: &dyn BlockDevice) -> Result<Vec<(&'static str, u64)>> {
    let mut found = Vec::new();
    for (name, offset, bytes) in SIGNATURES.iter().copied().chain(signatures_at_end(device.len_bytes())) {
        if has(device, offset, bytes)? {
            found.push((name, offset));
        }
    }
    found.extend(uberblocks(device)?.map(|at| ("a ZFS pool", at)));
    Ok(found)
}

/// Finds ZFS uberblocks. ZFS has four labels of 256 KiB, two at each end of the device. The second
/// half of each label is a ring of uberblocks.
fn uberblocks(device: &dyn BlockDevice) -> Result<impl Iterator<Item = u64> + use<>> {
    const LABEL: u64 = 256 * KIB;
    let end = device.len_bytes() / LABEL * LABEL;
    let labels = BTreeSet::from([0, LABEL, end.saturating_sub(2 * LABEL), end.saturating_sub(LABEL)]);
    let mut found = Vec::new();
    for ring in labels.into_iter().map(|label| label + LABEL / 2).filter(|ring| ring + LABEL / 2 <= end) {
        let mut blocks = vec![0; (LABEL / 2) as usize];
        device.read_at(ring, &mut blocks).map_err(io)?;
        let is_one = |block: &[u8]| {
            [0x00ba_b10c_u64.to_le_bytes(), 0x00ba_b10c_u64.to_be_bytes()].iter().any(|magic| block.starts_with(magic))
        };
        let blocks = blocks.chunks(KIB as usize).enumerate();
        found.extend(blocks.filter(|(_, block)| is_one(block)).map(|(n, _)| ring + n as u64 * KIB));
    }
    Ok(found.into_iter())
}

/// Returns whether the device has `bytes` at `offset`. The range must not cross a page boundary.
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
    use std::sync::Arc;
    use terrace_device::{Deaf, Memory, Stream};

    const BYTES: u64 = (8 << 20) + 4096;

    fn with(offset: u64, bytes: &[u8]) -> Memory {
        let device = Memory::new(BYTES).unwrap();
        let mut page = vec![0; PAGE];
        let within = (offset % PAGE as u64) as usize;
        page[within..within + bytes.len()].copy_from_slice(bytes);
        device.write_at(offset - within as u64, &page, Stream(0)).unwrap();
        device
    }

    #[test]
    fn signatures_are_recognised_and_erased() {
        assert_eq!(found(&Memory::new(BYTES).unwrap()).unwrap(), None);
        let rings = [128 * KIB, 384 * KIB, BYTES / (256 * KIB) * (256 * KIB) - 128 * KIB].map(|ring| ring + 5 * KIB);
        let zfs = rings.map(|at| ("a ZFS pool", at, &b"\x0c\xb1\xba\x00\x00\x00\x00\x00"[..]));
        for (name, offset, bytes) in SIGNATURES.iter().copied().chain(signatures_at_end(BYTES)).chain(zfs) {
            // A device on which discards have no effect.
            let device = Deaf::new(Arc::new(with(offset, bytes)));
            assert_eq!(found(&device).unwrap().as_deref(), Some(name), "at {offset}");
            forget(&device).unwrap();
            assert_eq!(found(&device).unwrap(), None, "{name} at {offset}");
        }
    }

    #[test]
    fn unknown_data_is_described_by_its_first_byte() {
        for at in [0, 5000, (1 << 20) - 1] {
            let description = found(&with(at, b"?")).unwrap();
            assert_eq!(description, Some(format!("bytes of an unknown kind (the first at {at})")));
        }
        assert_eq!(found(&with(1 << 20, b"?")).unwrap(), None, "later bytes may be old slots");
    }
}
