//! Tests that read counters from the output of `smartctl` for real drives. Owners of such drives
//! published these attributes and values. The JSON around them follows the schema of `smartctl`
//! and contains only the fields that are read. Values marked as constructed are invented, because
//! no published ones were found.
use serde_json::{Value, json};
use terrace_device::smart::{Reading, Told};

const MIB_32: u64 = 32 << 20;
const GIB: u64 = 1 << 30;

fn ata(model: &str, attributes: &[(u64, &str, u64)]) -> Value {
    let row = |(id, name, raw): &(u64, &str, u64)| json!({ "id": id, "name": name, "value": 100, "raw": { "value": raw, "string": raw.to_string() } });
    json!({
        "device": { "type": "sat", "protocol": "ATA" },
        "model_name": model,
        "logical_block_size": 512,
        "ata_smart_attributes": { "table": attributes.iter().map(row).collect::<Vec<_>>() },
    })
}

fn nvme(model: &str, data_units_written: u64) -> Value {
    let log = json!({ "data_units_read": 1, "data_units_written": data_units_written });
    json!({ "device": { "protocol": "NVMe" }, "model_name": model, "nvme_smart_health_information_log": log })
}

#[track_caller]
fn tells(texts: &[Value], host_bytes: u64, nand_bytes: u64, nand_unit_bytes: u64, wa2: f64) {
    let reading = Reading::of(texts).unwrap();
    let nand = reading.nand.clone().unwrap_or_else(|why| panic!("{}: {why}", reading.model));
    assert_eq!(reading.host.as_ref().map(|told| told.bytes), Some(host_bytes), "{reading:?}");
    assert_eq!((nand.bytes, nand.unit_bytes), (nand_bytes, nand_unit_bytes), "{reading:?}");
    assert!((reading.wa2().unwrap() - wa2).abs() < 0.005, "{reading:?}");
}

#[track_caller]
fn does_not_tell(texts: &[Value], host_bytes: Option<u64>, word: &str) {
    let reading = Reading::of(texts).unwrap();
    let why = reading.nand.clone().expect_err("it does not tell");
    assert!(why.contains(word), "{why}");
    assert_eq!(reading.host.as_ref().map(|told| told.bytes), host_bytes, "{reading:?}");
    assert_eq!(reading.wa2(), None);
}

#[test]
fn intel_counts_gibibytes_or_32_mebibytes_by_family() {
    let drive = ata(
        "Intel 520 60 GB",
        &[
            (225, "Host_Writes_32MiB", 1_367_528),
            (233, "Media_Wearout_Indicator", 0),
            (241, "Host_Writes_32MiB", 1_367_528),
            (249, "NAND_Writes_1GiB", 33_624),
        ],
    );
    tells(&[drive], 1_367_528 * MIB_32, 33_624 * GIB, GIB, 0.787); // SandForce, which compresses
    let drive = ata(
        "Intel DC",
        &[
            (225, "Host_Writes_32MiB", 1_456_731),
            (241, "Host_Writes_32MiB", 1_456_731),
            (243, "NAND_Writes_32MiB", 2_011_255),
        ],
    );
    tells(&[drive], 1_456_731 * MIB_32, 2_011_255 * MIB_32, MIB_32, 1.381);
}

#[test]
fn a_misleading_attribute_name_is_not_read_as_sectors() {
    // The attributes of a Dell S3520. Its attribute 241 is named Total_LBAs_Written and has the
    // same unit as attribute 225.
    let drive = ata(
        "SSDSCKJB240G7R",
        &[
            (225, "Host_Writes_32MiB", 129_493),
            (233, "Total_LBAs_Written", 129_493),
            (241, "Total_LBAs_Written", 129_493),
        ],
    );
    does_not_tell(&[drive], Some(129_493 * MIB_32), "no attribute");
}

#[test]
fn micron_counts_pages_whose_size_cancels() {
    let client = [
        (246, "Total_LBAs_Written", 619_033_175),
        (247, "Host_Program_Page_Count", 19_344_786),
        (248, "FTL_Program_Page_Count", 16_994_048),
    ];
    let nand = (619_033_175u128 * 512 * (19_344_786 + 16_994_048) / 19_344_786) as u64;
    tells(&[ata("Crucial", &client)], 619_033_175 * 512, nand, 16_384, 1.878);
    // Constructed: a data-center drive, once with host writes and once without.
    let server = |host| {
        ata(
            "Micron_5200_MTFDDAK960TDC",
            &[
                (246, "Total_LBAs_Written", 32 * host),
                (247, "Host_Program_Page_Count", host),
                (248, "Bckgnd_Program_Page_Cnt", 500_000),
            ],
        )
    };
    tells(&[server(1_000_000)], 32_000_000 * 512, 48_000_000 * 512, 16_384, 1.5);
    does_not_tell(&[server(0)], Some(0), "no pages of the host");
}

#[test]
fn flash_of_two_kinds_is_added() {
    let drive = ata(
        "WD, TLC with SLC",
        &[
            (233, "NAND_GB_Written_TLC", 44_318),
            (234, "NAND_GB_Written_SLC", 126_409),
            (241, "Host_Writes_GiB", 27_134),
        ],
    );
    tells(&[drive], 27_134 * GIB, (44_318 + 126_409) * GIB, 2 * GIB, 6.292);
    let drive = ata(
        "Silicon Motion",
        &[(241, "Host_Writes_32MiB", 108_044), (242, "Host_Reads_32MiB", 12_857), (245, "TLC_Writes_32MiB", 347_308)],
    );
    tells(&[drive], 108_044 * MIB_32, 347_308 * MIB_32, MIB_32, 3.215);
}

#[test]
fn phison_counts_gibibytes() {
    let drive = ata("KINGSTON", &[(233, "Flash_Writes_GiB", 17_618), (241, "Lifetime_Writes_GiB", 11_520)]);
    tells(&[drive], 11_520 * GIB, 17_618 * GIB, GIB, 1.529);
}

#[test]
fn samsung_reports_host_writes_only() {
    let drive = ata(
        "SAMSUNG MZ7WD240HAFV-00003",
        &[
            (177, "Wear_Leveling_Count", 1661),
            (179, "Used_Rsvd_Blk_Cnt_Tot", 0),
            (241, "Total_LBAs_Written", 216_456_537_880),
        ],
    );
    does_not_tell(&[drive], Some(216_456_537_880 * 512), "erases of blocks");
    does_not_tell(&[nvme("Samsung SSD 980 PRO 1TB", 396_270_860)], Some(396_270_860 * 512_000), "standard NVMe");
    // Constructed.
    let drive = ata("SAMSUNG MZ7L3960HBLT", &[(241, "Total_LBAs_Written", 1000), (251, "NAND_Writes", 77)]);
    does_not_tell(&[drive], Some(512_000), "not published");
}

#[test]
fn nvme_vendor_logs_are_read() {
    // The halves are from a published OCP log; the rest is constructed.
    let smart = nvme("Micron_7450_MTFDKCC3T2TFS", 1_000_000_000);
    let ocp = json!({ "Physical media units written": { "hi": 0, "lo": 527_805_403_860_992u64 } });
    tells(&[smart.clone(), ocp], 512_000_000_000_000, 527_805_403_860_992, 1, 1.031);
    let newer = json!({ "physical_media_units_written": "527805403860992" });
    tells(&[newer, smart.clone()], 512_000_000_000_000, 527_805_403_860_992, 1, 1.031);
    let beyond = json!({ "Physical media units written": { "hi": 1, "lo": 0 } });
    does_not_tell(&[smart.clone(), beyond], Some(512_000_000_000_000), "is no number");
    let stats = json!({ "nand_bytes_written": { "normalized": 100, "raw": 300 }, "host_bytes_written": { "normalized": 100, "raw": 200 } });
    let intel = json!({ "Intel Smart log": "nvme0n1", "Device stats": stats });
    tells(&[smart.clone(), intel], 200 * MIB_32, 300 * MIB_32, MIB_32, 1.5);
    tells(&[smart, json!({ "hbmw": 4000, "mbmw": 5000, "mbe": 0 })], 4000, 5000, 1, 1.25);
}

#[test]
fn an_unknown_drive_yields_no_estimate() {
    let mut drive = ata("New Brand 9000", &[(241, "Total_LBAs_Written", 5), (249, "Unknown_Attribute", 7)]);
    does_not_tell(&[drive.clone()], None, "none of the attributes");
    // Every ATA drive may have device statistics.
    let general = json!({ "number": 1, "table": [{ "offset": 24, "name": "Logical Sectors Written", "value": 4096 }] });
    drive["ata_device_statistics"] = json!({ "pages": [general] });
    does_not_tell(&[drive], Some(4096 * 512), "none of the attributes");
}

#[test]
fn output_without_a_drive_is_an_error() {
    let complaint =
        json!({ "smartctl": { "messages": [{ "string": "Unable to detect device type", "severity": "error" }] } });
    assert_eq!(Reading::of(&[complaint]), Err("smartctl: Unable to detect device type".into()));
    for nothing in [json!({}), json!([1, 2]), json!("text"), Value::Null, json!({ "ata_smart_attributes": 3 })] {
        assert_eq!(Reading::of(&[nothing]), Err("neither ATA attributes nor an NVMe health log".into()));
    }
    assert!(Reading::of(&[]).is_err());
}

#[test]
fn a_virtual_drive_reports_like_a_real_one() {
    use terrace_device::ssd::{Profile, Ssd};
    use terrace_device::{BlockDevice, Memory, Stream};
    let profile = Profile { capacity_bytes: 64 << 20, ..Profile::default() };
    let ssd = Ssd::new(profile, Box::new(Memory::new(64 << 20).unwrap())).unwrap();
    let bytes = vec![1; 1 << 20];
    (0..200).for_each(|at| ssd.write_at((at * 37 % 64) << 20, &bytes, Stream(0)).unwrap());
    let reading = Reading::of(&[ssd.report().json()]).unwrap();
    let told = |count: u64, from: &str| Told {
        bytes: count / MIB_32 * MIB_32,
        unit_bytes: MIB_32,
        from: from.into(),
        is_average: false,
    };
    assert_eq!(reading.host, Some(told(200 << 20, "241 Host_Writes_32MiB")));
    assert_eq!(reading.nand, Ok(told(ssd.counts().nand_bytes(), "243 NAND_Writes_32MiB")));
}
