//! Tests the virtual SSD as a block device.
use terrace_device::ssd::{Cause, Profile, Ssd};
use terrace_device::{BlockDevice, Error, Memory, Stream};

const MIB: usize = 1 << 20;

fn drive(profile: Profile) -> Ssd {
    let below = Memory::new(profile.capacity_bytes).unwrap();
    Ssd::new(profile, Box::new(below)).unwrap()
}

fn small() -> Profile {
    Profile { capacity_bytes: 64 << 20, ..Profile::default() }
}

#[test]
fn data_round_trip_and_discarded_ranges_are_zero() {
    let ssd = drive(small());
    let bytes: Vec<u8> = (0..MIB).map(|at| (at / 7) as u8 | 1).collect();
    ssd.write_at(4096, &bytes, Stream(0)).unwrap();
    ssd.flush().unwrap();
    let mut read = vec![0; MIB];
    ssd.read_at(4096, &mut read).unwrap();
    assert!(read == bytes);
    ssd.discard(4096, 4096).unwrap();
    ssd.write_zeroes(3 * 4096, 4096).unwrap();
    ssd.read_at(4096, &mut read).unwrap();
    assert!(read[..4096].iter().chain(&read[2 * 4096..3 * 4096]).all(|byte| *byte == 0));
    assert!(read[3 * 4096..] == bytes[3 * 4096..]);
    let counts = ssd.counts();
    assert_eq!(counts.host_bytes, MIB as u64);
    assert_eq!(counts.read_bytes, 2 * MIB as u64);
    assert_eq!((counts.trimmed_bytes, counts.flushes), (2 * 4096, 1));
}

#[test]
fn a_partial_write_programs_the_whole_page() {
    let ssd = drive(Profile { page_bytes: 16384, pages_per_block: 16, ..small() });
    ssd.write_at(4096, &[1; 4 * 4096], Stream(0)).unwrap();
    let counts = ssd.counts();
    assert_eq!((counts.host_bytes, counts.nand_bytes()), (4 * 4096, 2 * 16384));
    assert_eq!((counts.nand(Cause::Host), counts.nand(Cause::Padding)), (4 * 4096, 4 * 4096));
    ssd.discard(0, 16384 + 4096).unwrap();
    assert_eq!(ssd.counts().trimmed_bytes, 16384, "a page that is discarded in part stays");
}

#[test]
fn a_flush_programs_whole_units_unless_the_cache_survives() {
    for (power_loss_protection, padding) in [(false, 3 * 4096), (true, 0)] {
        let ssd = drive(Profile { pages_per_program: 4, power_loss_protection, ..small() });
        ssd.write_at(0, &[1; 4096], Stream(0)).unwrap();
        ssd.flush().unwrap();
        ssd.flush().unwrap();
        assert_eq!(ssd.counts().nand(Cause::Padding), padding);
    }
}

/// Returns `len` bytes that LZ4 compresses to about 1/`ratio` of their size.
fn compressible(len: usize, ratio: usize) -> Vec<u8> {
    let mut x = 1u64;
    let mut noise = move || {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (x >> 56) as u8
    };
    (0..len).map(|at| if at % 1024 < 1024 / ratio { noise() } else { 0 }).collect()
}

#[test]
fn a_controller_that_compresses_programs_less_than_the_host_writes() {
    let ssd = drive(Profile { compressed_pages: Some(4), ..small() });
    let bytes = compressible(MIB, 2);
    for _ in 0..3 {
        (0..64).for_each(|at| ssd.write_at(at * MIB as u64, &bytes, Stream(0)).unwrap());
    }
    let report = ssd.report();
    let wa2 = report.counts.wa2().unwrap();
    assert!((0.5..0.65).contains(&wa2), "{wa2}");
    assert_eq!(report.counts.nand_bytes(), Cause::ALL.map(|cause| report.counts.nand(cause)).iter().sum::<u64>());
    assert_eq!(report.mapped_bytes, 64 << 20);
    assert!(report.windows.iter().all(|window| (0.5..0.65).contains(&window.wa2())) && report.windows.len() == 24);
    ssd.ftl().check().unwrap();

    let plain = drive(small());
    plain.write_at(0, &bytes, Stream(0)).unwrap();
    assert_eq!(plain.counts().nand_bytes(), MIB as u64, "others program all of it");
}

#[test]
fn a_partially_written_page_is_compressed_whole() {
    let ssd = drive(Profile { compressed_pages: Some(1), page_bytes: 16384, pages_per_block: 16, ..small() });
    ssd.write_at(0, &compressible(16384, 1), Stream(0)).unwrap();
    let before = ssd.counts();
    ssd.write_at(4096, &[0; 8192], Stream(0)).unwrap();
    let added = ssd.counts().since(&before);
    assert_eq!(added.host_bytes, 8192);
    assert!((8192..9216).contains(&added.nand_bytes()), "what is left of the noise: {}", added.nand_bytes());
    ssd.ftl().check().unwrap();
}

#[test]
fn the_report_is_exact_and_in_smartctls_form() {
    let ssd = drive(small());
    let bytes = vec![1; MIB];
    (0..64).for_each(|at| ssd.write_at(at * MIB as u64, &bytes, Stream(0)).unwrap());
    ssd.read_at(0, &mut vec![0; 33 * MIB]).unwrap();
    let json = ssd.report().json();
    let raw = |id: u64| {
        let table = json["ata_smart_attributes"]["table"].as_array().unwrap();
        table.iter().find(|attribute| attribute["id"] == id).unwrap()["raw"]["value"].as_u64().unwrap()
    };
    assert_eq!([raw(241), raw(242), raw(243)], [2, 1, 2]);
    assert_eq!(json["user_capacity"]["bytes"], 64 << 20);
    assert_eq!(json["terrace"]["nand_bytes"], 64 << 20);
    assert_eq!(json["terrace"]["nand_bytes_by_cause"]["host"], 64 << 20);
    assert_eq!(json["terrace"]["wa2"], 1.0);
    assert_eq!(json["terrace"]["windows"].as_array().unwrap().len(), 8);
    assert_eq!(json["terrace"]["simulated_seconds"], serde_json::Value::Null);
}

#[test]
fn invalid_profiles_are_rejected_by_field() {
    let plain = small();
    for (field, profile) in [
        ("capacity_bytes", Profile { capacity_bytes: 0, ..plain.clone() }),
        ("capacity_bytes", Profile { capacity_bytes: 4097, ..plain.clone() }),
        ("capacity_bytes", Profile { capacity_bytes: 1 << 60, ..plain.clone() }),
        (
            "capacity_bytes",
            Profile { capacity_bytes: 1 << 63, pages_per_block: 1 << 16, channels: 1024, ..plain.clone() },
        ),
        ("page_bytes", Profile { page_bytes: 512, ..plain.clone() }),
        ("page_bytes", Profile { page_bytes: 12288, ..plain.clone() }),
        ("pages_per_block", Profile { pages_per_block: 0, ..plain.clone() }),
        ("pages_per_program", Profile { pages_per_program: 0, ..plain.clone() }),
        ("pages_per_program", Profile { pages_per_program: 3, ..plain.clone() }),
        ("channels", Profile { channels: 0, ..plain.clone() }),
        ("over_provisioning", Profile { over_provisioning: 0.0, ..plain.clone() }),
        ("over_provisioning", Profile { over_provisioning: -0.07, ..plain.clone() }),
        ("over_provisioning", Profile { over_provisioning: f64::NAN, ..plain.clone() }),
        ("over_provisioning", Profile { over_provisioning: 7.0, ..plain.clone() }),
        ("over_provisioning", Profile { over_provisioning: 0.01, ..plain.clone() }),
        ("reserved_superblocks", Profile { reserved_superblocks: 0, ..plain.clone() }),
        ("streams", Profile { streams: 0, ..plain.clone() }),
        ("streams", Profile { streams: 65, ..plain.clone() }),
        ("compressed_pages", Profile { compressed_pages: Some(0), ..plain.clone() }),
    ] {
        match profile.validate() {
            Err(Error::Impossible { field: named, .. }) if named == field => {}
            other => panic!("{field}: {other:?} for {profile:?}"),
        }
    }
    let short = Memory::new(4096).unwrap();
    let refused = Ssd::new(plain, Box::new(short)).err().unwrap();
    assert!(refused.to_string().contains("capacity_bytes: 67108864 are more than the 4096 bytes"), "{refused}");
}

#[test]
fn requests_beyond_the_end_change_nothing() {
    let ssd = drive(small());
    let end = ssd.len_bytes();
    assert!(matches!(ssd.write_at(end, &[1; 4096], Stream(0)), Err(Error::BeyondEnd { .. })));
    assert!(matches!(ssd.write_at(end - 4096, &[1; 8192], Stream(0)), Err(Error::BeyondEnd { .. })));
    assert!(matches!(ssd.read_at(end, &mut [0; 4096]), Err(Error::BeyondEnd { .. })));
    assert!(matches!(ssd.discard(0, end + 4096), Err(Error::BeyondEnd { .. })));
    assert!(matches!(ssd.write_zeroes(512, 4096), Err(Error::Unaligned { .. })));
    assert_eq!(ssd.counts(), Default::default());
}
