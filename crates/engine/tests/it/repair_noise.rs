//! Tests of the cost of a repair with much unreadable data. Its time must be proportional to the
//! number of bytes, and its memory must not depend on the sizes of files.
use crate::common::alone::in_own_process;
use crate::common::counting;
use nix::sys::{
    resource::{UsageWho, getrusage},
    time::TimeValLike,
};
use std::{
    fs::{self, File},
    io::Write,
    path::Path,
};
use terrace::{Db, Options};
use terrace_sim::Rng;

const TABLE_MIB: usize = 256;
const LOG_MIB: usize = 16;
/// The limit of memory in MiB. A repair searches for blocks in windows that are twice as long as
/// the largest block. In the data of this test, one offset in fifty may be the end of a block.
const MEMORY_MIB_MAX: usize = 220;
/// The limit of processor time in seconds. It is a hundred times the usual time. An algorithm that
/// computed a checksum from every offset took a second for 100 KB.
const SECONDS_MAX: i64 = 300;

fn noise(path: &Path, mib: usize) {
    let (mut file, mut rng) = (File::create(path).unwrap(), Rng::new(mib as u64));
    for _ in 0..mib {
        let piece: Vec<u8> = (0..(1 << 20) / 8).flat_map(|_| rng.next_u64().to_le_bytes()).collect();
        file.write_all(&piece).unwrap();
    }
}

#[test]
fn unreadable_data_costs_little_time_and_memory() {
    in_own_process(|| {
        let folder = tempfile::tempdir().unwrap();
        let (damaged, fresh) = (folder.path().join("damaged"), folder.path().join("fresh"));
        let db = Db::open(&damaged, Options::default()).unwrap();
        db.put("key", "value").unwrap();
        db.flush().unwrap();
        db.close().unwrap();
        noise(&damaged.join("000900.ldb"), TABLE_MIB);
        noise(&damaged.join("000901.log"), LOG_MIB);
        for entry in fs::read_dir(&damaged).unwrap().map(|entry| entry.unwrap()) {
            let name = entry.file_name().into_string().unwrap();
            if name == "CURRENT" || name.starts_with("MANIFEST") {
                fs::remove_file(entry.path()).unwrap(); // every other file is then used
            }
        }

        let before = counting::live_bytes();
        let report = Db::repair(&damaged, &fresh, &Options::default()).unwrap();
        let memory_mib = (counting::peak_bytes() - before) >> 20;
        let seconds = getrusage(UsageWho::RUSAGE_SELF).unwrap().user_time().num_seconds();

        let lost = |name: &str| {
            report.lost.iter().filter(|lost| lost.file.ends_with(name)).map(|lost| lost.bytes).sum::<u64>()
        };
        assert!(lost("000900.ldb") > (TABLE_MIB as u64) << 19 && lost("000901.log") > 0, "{:?}", report.lost);
        assert_eq!(Db::open(&fresh, Options::default()).unwrap().get("key").unwrap().as_deref(), Some(&b"value"[..]));
        assert!(memory_mib < MEMORY_MIB_MAX, "{memory_mib} MiB for noise");
        assert!(seconds < SECONDS_MAX, "{seconds} s of the processor for noise");
    });
}
