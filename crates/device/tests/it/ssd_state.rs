//! Tests of saving and restoring the state of used virtual SSDs, and of corrupt saved states.
use proptest::{prelude::*, sample::Index};
use std::{fs, sync::Arc};
use terrace_device::ssd::{Collection, Ftl, GcFrontier, Image, Latency, Profile, Progress};
use terrace_device::{BlockDevice, Error, Stream};

const MIB: u64 = 1 << 20;

fn profiles() -> Vec<Profile> {
    let small = Profile { capacity_bytes: 16 * MIB, pages_per_block: 16, over_provisioning: 0.2, ..Profile::default() };
    let latency = Latency {
        read_us: 50,
        program_us: 500,
        erase_us: 3000,
        channel_bytes_per_s: 400_000_000,
        interface_bytes_per_s: 500_000_000,
        cache_bytes: MIB,
        flush_us: 10,
    };
    vec![
        small.clone(),
        Profile { collection: Collection::Fifo, streams: 3, gc_frontier: GcFrontier::PerStream, ..small.clone() },
        Profile {
            collection: Collection::Choices(3),
            wear_spread_max: Some(4),
            latency: Some(latency),
            ..small.clone()
        },
        Profile { collection: Collection::CostBenefit, compressed_pages: Some(4), ..small },
    ]
}

/// Overwrites, trims and flushes the drive in a fixed pattern.
fn use_it(ftl: &mut Ftl, from: u64, steps: u64) {
    let pages = ftl.pages();
    for step in from..from + steps {
        let page = step * 2654435761 % pages;
        match step % 100 {
            98 => ftl.trim(page..(page + 8).min(pages)).unwrap(),
            99 => ftl.flush(),
            _ => ftl.write(page * page / pages, Stream((step % 3) as u8)).unwrap(),
        }
    }
}

#[test]
fn a_restored_drive_continues_unchanged() {
    for profile in profiles() {
        let mut ftl = Ftl::new(profile).unwrap();
        use_it(&mut ftl, 0, 30_000);
        let saved = ftl.save();
        let mut back = Ftl::restore(&saved).unwrap();
        assert!(back.save() == saved);
        for ftl in [&mut ftl, &mut back] {
            use_it(ftl, 30_000, 30_000);
            ftl.check().unwrap();
        }
        assert_eq!(back.counts(), ftl.counts(), "{:?}", ftl.profile());
        assert!(back.erases().eq(ftl.erases()));
        // The simulated times may differ slightly, because operations in progress are not saved.
        let apart = |a: &Ftl, b: &Ftl| Some(a.simulated_time()?.abs_diff(b.simulated_time()?).as_millis());
        assert!(apart(&ftl, &back).is_none_or(|apart| apart < 200), "{:?}", apart(&ftl, &back));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn damage_is_told_and_never_believed(which in 0usize..4, at in any::<Index>(), xor in 1u8.., cut in any::<bool>()) {
        let mut ftl = Ftl::new(profiles().remove(which)).unwrap();
        use_it(&mut ftl, 0, 5000);
        let mut bytes = ftl.save();
        let at = at.index(bytes.len());
        if cut { bytes.truncate(at) } else { bytes[at] ^= xor }
        prop_assert!(Ftl::restore(&bytes).is_err());
    }

    /// Tests a saved state of which one byte was changed and the checksum recomputed, as a forger
    /// could do. The restore must refuse it, or return a consistent drive.
    #[test]
    fn a_forged_state_is_refused_or_is_a_drive(which in 0usize..4, at in any::<Index>(), byte in any::<u8>(), tail in any::<bool>()) {
        let mut ftl = Ftl::new(profiles().remove(which)).unwrap();
        use_it(&mut ftl, 0, 5000);
        let mut bytes = ftl.save();
        let len = bytes.len() - 4;
        // Half of the changes are in the head and the superblocks, which are small compared with
        // the map.
        let at = if tail { at.index(len) } else { at.index(4000) };
        bytes[at] = byte;
        let crc = crc32c::crc32c(&bytes[..len]);
        bytes[len..].copy_from_slice(&crc.to_le_bytes());
        if let Ok(mut ftl) = Ftl::restore(&bytes) {
            use_it(&mut ftl, 0, 5000);
            ftl.check().map_err(TestCaseError::fail)?;
        }
    }
}

#[test]
fn a_forged_state_with_overflowing_counters_is_rejected() {
    let mut ftl = Ftl::new(profiles().remove(2)).unwrap();
    use_it(&mut ftl, 0, 5000);
    let saved = ftl.save();
    let head_len = u32::from_le_bytes(saved[12..16].try_into().unwrap()) as usize;
    let head = String::from_utf8(saved[16..16 + head_len].to_vec()).unwrap();
    for field in ["host_bytes\":", "now\":", "flushes\":", "secs\":"] {
        let at = head.find(field).unwrap() + field.len();
        let digits = head[at..].find(|c: char| !c.is_ascii_digit()).unwrap();
        let forged = format!("{}{}{}", &head[..at], u64::MAX, &head[at + digits..]);
        let mut bytes = saved[..12].to_vec();
        bytes.extend((forged.len() as u32).to_le_bytes());
        bytes.extend(forged.as_bytes());
        bytes.extend(&saved[16 + head_len..saved.len() - 4]);
        bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
        let refused = Ftl::restore(&bytes).err().unwrap_or_else(|| panic!("{field}"));
        assert!(refused.contains("no drive reaches"), "{field} {refused}");
    }
}

#[test]
fn a_steady_drive_keeps_its_write_amplification() {
    let mut ftl = Ftl::new(Profile { capacity_bytes: 256 * MIB, ..Profile::default() }).unwrap();
    let mut steps = Vec::<Progress>::new();
    let steady = ftl.precondition(|progress| {
        steps.push(progress);
        true
    });
    assert!(steady.unwrap());
    let wa2 = steps.last().unwrap().wa2.unwrap();
    assert!(steps.is_sorted_by_key(|progress| progress.written_bytes));
    let before = ftl.counts().clone();
    let mut x = 1u64;
    for _ in 0..4 * ftl.pages() {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        ftl.write((x >> 33) % ftl.pages(), Stream(0)).unwrap();
    }
    let later = ftl.counts().since(&before).wa2().unwrap();
    assert!((later / wa2 - 1.0).abs() < 0.05, "preconditioned to {wa2}, later {later}");
    assert!(wa2 > 5.0, "{wa2}");
}

#[test]
fn preconditioning_stops_on_request() {
    let mut ftl = Ftl::new(Profile::default()).unwrap();
    assert!(!ftl.precondition(|_| false).unwrap());
    assert_eq!(ftl.counts().host_bytes, 256 * MIB);
}

#[test]
fn a_large_drive_is_saved_and_restored_quickly() {
    let profile = Profile { capacity_bytes: 8 << 30, ..Profile::named("ssd-s").unwrap() };
    let mut ftl = Ftl::new(profile).unwrap();
    (0..ftl.pages()).for_each(|page| ftl.write(page, Stream(0)).unwrap());
    let saved = ftl.save();
    assert!(saved.len() < 16 << 20, "{} bytes", saved.len());
    assert_eq!(Ftl::restore(&saved).unwrap().counts(), ftl.counts());
}

#[test]
fn every_built_in_profile_is_valid() {
    for name in Profile::names() {
        let profile = Profile::named(name).unwrap();
        assert_eq!(profile.name, name);
        profile.validate().unwrap();
        let json = serde_json::to_string(&profile).unwrap();
        assert_eq!(Profile::parse(&json, "json").unwrap(), profile);
    }
    assert_eq!(Profile::named("plain").unwrap(), Profile::default());
    assert_eq!(Profile::named("ssd-x"), None);
}

#[test]
fn malformed_profiles_are_rejected_by_line_and_field() {
    for (text, words) in [
        ("chanels = 4", ["chanels", "channels"]),
        ("channels = \"four\"", ["channels", "string"]),
        ("channels = -1", ["channels", "-1"]),
        ("collection = \"lru\"", ["lru", "greedy"]),
        ("[latency]\nread_us = 5", ["latency", "program_us"]),
        ("{\"streams\": 300}", ["300", "line 1"]),
        ("capacity_bytes =", ["line 1", "capacity_bytes"]),
    ] {
        let error = Profile::parse(text, "mine.toml").unwrap_err().to_string();
        assert!(error.starts_with("mine.toml: ") && words.iter().all(|word| error.contains(word)), "{text}: {error}");
    }
}

#[test]
fn a_power_cut_loses_only_unsaved_counters() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("drive");
    let mut ftl = Ftl::new(Profile { capacity_bytes: 64 * MIB, ..Profile::default() }).unwrap();
    use_it(&mut ftl, 0, 1000);
    Image::create(&place, &ftl).unwrap();
    assert!(matches!(Image::create(&place, &ftl), Err(Error::Io { .. })), "it is there");
    let image = Image::open(&place).unwrap();
    assert!(!image.was_cut());
    let drive = Arc::clone(image.drive());
    assert_eq!(&drive.counts(), ftl.counts());
    drive.write_at(0, &[7; 8192], Stream(0)).unwrap();
    assert!(Image::open(&place).is_err(), "it is in use");
    drop(drive);
    image.close().unwrap();

    let image = Image::open(&place).unwrap();
    assert!(!image.was_cut());
    assert_eq!(image.drive().counts().host_bytes, ftl.counts().host_bytes + 8192);
    image.drive().write_at(8192, &[9; 4096], Stream(0)).unwrap();
    drop(image);

    let image = Image::open(&place).unwrap();
    assert!(image.was_cut());
    assert_eq!(image.drive().counts().host_bytes, ftl.counts().host_bytes + 8192, "the book is the old one");
    let mut read = [0; 12288];
    image.drive().read_at(0, &mut read).unwrap();
    assert!(read[..8192] == [7; 8192] && read[8192..] == [9; 4096], "the data is not");
    image.close().unwrap();

    let state = place.join("state");
    let mut bytes = fs::read(&state).unwrap();
    bytes[100] ^= 1;
    fs::write(&state, bytes).unwrap();
    let refused = Image::open(&place).err().unwrap().to_string();
    assert!(refused.contains("state: checksum mismatch"), "{refused}");
}
