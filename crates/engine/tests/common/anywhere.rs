//! Where the suites put a store of which they ask what must hold anywhere: in memory, or where the environment says.
#![allow(dead_code, reason = "each test binary uses a part")]
use std::{env, sync::Arc};
use terrace::{Db, Options};
use terrace_storage::{
    Memory,
    backends::{
        files::fs::FileSystem,
        raw::{self, RawFs, Sizes, split::SplitFs},
    },
    open_files,
    placement::Mode,
};

/// Taken only where it is written to.
const DEVICE_BYTES: u64 = 1 << 30;
/// Small slots, so that small files fill several.
const DEVICE_SIZES: Sizes = Sizes { slot_bytes: 64 << 10, unit_slots: 16 };

/// A directory in memory, or what `TERRACE_TEST_PLACE` says: `device`, one in memory without a file system, or `split`, a directory
/// that goes with such a device.
pub fn anywhere() -> Arc<dyn FileSystem> {
    match env::var("TERRACE_TEST_PLACE").as_deref() {
        Err(_) | Ok("memory") => Arc::new(Memory::new()),
        Ok("device") => device(),
        Ok("split") => Arc::new(SplitFs::new(Arc::new(Memory::new()), device())),
        Ok(other) => panic!("TERRACE_TEST_PLACE is memory, device or split, not {other}"),
    }
}

fn device() -> Arc<RawFs> {
    let device = Arc::new(terrace_device::Memory::new(DEVICE_BYTES).expect("memory is taken where it is written to"));
    raw::format(&*device, DEVICE_SIZES, 1).expect("a device in memory takes what it is given");
    RawFs::new(device, "(device in memory)")
}

/// A store [`anywhere`].
pub fn store(options: Options) -> Db {
    let (fs, setup) = (anywhere(), options.setup());
    let tracker = options.durability.tracker(&*fs, &setup).expect("every place has the tiers that suites ask for");
    let placement = open_files(fs, Mode::Create, tracker, &setup).expect("a fresh place");
    Db::open_on(placement, options).expect("a fresh place")
}
