//! Runs the contract suite, which every storage backend must pass, on each backend.
use std::{sync::Arc, time::Duration};
use terrace_format::{Layout, TableForm, Values, raw::Sizes};
use terrace_storage::backends::{
    files::real::RealFs,
    raw::{self, RawFs, split::SplitFs},
};
use terrace_storage::{
    DurabilityMode, Memory, StorageConfig, WalWriteMode, contract,
    durability::{BatchTracker, NoTracker, SyncTracker, Way},
    open_files,
};

fn bundled() -> Layout {
    Layout { tables: TableForm::Bundled, ..Layout::default() }
}

#[test]
fn memory_passes() {
    contract::run(&|| contract::on_files(Arc::new(Memory::new()), Arc::new(SyncTracker)));
}

#[test]
fn bundles_pass() {
    let folder = tempfile::tempdir().unwrap();
    let number = std::cell::Cell::new(0);
    contract::run(&|| contract::on_files_of(bundled(), Arc::new(Memory::new()), Arc::new(SyncTracker)));
    contract::run(&|| {
        number.set(number.get() + 1);
        let fs = Arc::new(RealFs::new(folder.path().join(number.get().to_string())));
        contract::on_files_of(bundled(), fs, Arc::new(SyncTracker))
    });
}

#[test]
fn a_directory_passes() {
    let folder = tempfile::tempdir().unwrap();
    let number = std::cell::Cell::new(0);
    contract::run(&|| {
        number.set(number.get() + 1);
        // Two directory levels that do not exist yet, so that the suite also tests creating them.
        let path = folder.path().join(format!("{}/store", number.get()));
        contract::on_files(Arc::new(RealFs::new(path)), Arc::new(SyncTracker))
    });
}

#[test]
fn a_directory_that_is_never_synced_passes() {
    let folder = tempfile::tempdir().unwrap();
    let number = std::cell::Cell::new(0);
    contract::run(&|| {
        number.set(number.get() + 1);
        let path = folder.path().join(number.get().to_string());
        contract::on_files(Arc::new(RealFs::new(path)), Arc::new(NoTracker))
    });
}

#[test]
fn batches_pass() {
    for way in [Way::Group, Way::Background] {
        let tracker = || Arc::new(BatchTracker::new(way, Duration::from_secs(3600)));
        contract::run(&|| contract::on_files(Arc::new(Memory::new()), tracker()));
    }
}

/// Tests directories of the real file system with mapped WALs and batch syncs (durability mode
/// `auto`). They must pass the contract suite.
#[test]
fn a_directory_passes_with_mapped_wals_and_batches() {
    let folder = tempfile::tempdir().unwrap();
    let number = std::cell::Cell::new(0);
    contract::run(&|| {
        number.set(number.get() + 1);
        let fs = Arc::new(RealFs::new(folder.path().join(number.get().to_string())));
        Box::new(move |mode, setup| {
            let setup = StorageConfig { wal_write_mode: WalWriteMode::Map, ..setup.clone() };
            open_files(fs.clone(), mode, DurabilityMode::Auto.tracker(&*fs, &setup)?, &setup)
        })
    });
}

fn in_directories(setup: &StorageConfig) -> StorageConfig {
    StorageConfig { layout: Layout { tables: TableForm::Directory, ..Layout::default() }, ..setup.clone() }
}

#[test]
fn directory_tables_pass() {
    let folder = tempfile::tempdir().unwrap();
    let number = std::cell::Cell::new(0);
    contract::run(&|| {
        number.set(number.get() + 1);
        let fs = Arc::new(RealFs::new(folder.path().join(number.get().to_string())));
        Box::new(move |mode, setup| {
            let setup = StorageConfig { min_value_file_size: 100, ..in_directories(setup) };
            open_files(fs.clone(), mode, Arc::new(NoTracker), &setup)
        })
    });
}

#[test]
fn directory_tables_in_memory_pass() {
    contract::run(&|| {
        let fs = Arc::new(Memory::new());
        Box::new(move |mode, setup| open_files(fs.clone(), mode, Arc::new(SyncTracker), &in_directories(setup)))
    });
}

/// A raw device in memory, formatted for a store.
fn a_device() -> Arc<RawFs> {
    let device = Arc::new(terrace_device::Memory::new(16 << 20).unwrap());
    raw::format(&*device, Sizes { slot_bytes: 64 << 10, unit_slots: 4 }, 7).unwrap();
    RawFs::new(device, "device")
}

#[test]
fn a_device_passes() {
    contract::run(&|| contract::on_files(a_device(), Arc::new(SyncTracker)));
    contract::run(&|| contract::on_files(a_device(), Arc::new(NoTracker)));
    let batches = || Arc::new(BatchTracker::new(Way::Group, Duration::from_secs(3600)));
    contract::run(&|| contract::on_files(a_device(), batches()));
}

#[test]
fn a_directory_with_a_device_passes() {
    let split = || Arc::new(SplitFs::new(Arc::new(Memory::new()), a_device()));
    contract::run(&|| contract::on_files(split(), Arc::new(SyncTracker)));
    contract::run(&|| contract::on_files_of(bundled(), split(), Arc::new(NoTracker)));
}

/// Tests a raw device without padding: the device writes parts of pages, and reads return exactly
/// the bytes that were written. It must pass the contract suite.
#[test]
fn a_device_passes_without_padding() {
    let unpadded = || {
        let device = Arc::new(terrace_device::Memory::new(16 << 20).unwrap());
        raw::format(&*device, Sizes { slot_bytes: 64 << 10, unit_slots: 4 }, 7).unwrap();
        RawFs::writing(device, "device", false)
    };
    contract::run(&|| contract::on_files(unpadded(), Arc::new(SyncTracker)));
}

/// Tests stores with key-value separation, in directories and on devices, with several durability
/// modes. They must pass the contract suite.
#[test]
fn key_value_separation_passes() {
    let folder = tempfile::tempdir().unwrap();
    let number = std::cell::Cell::new(0);
    let real = || {
        number.set(number.get() + 1);
        Arc::new(RealFs::new(folder.path().join(number.get().to_string())))
    };
    let batches = || Arc::new(BatchTracker::new(Way::Group, Duration::from_secs(3600)));
    for layout in [Layout::default(), bundled()].map(|layout| Layout { values: Values::Log, ..layout }) {
        contract::run(&|| contract::on_files_of(layout, Arc::new(Memory::new()), Arc::new(SyncTracker)));
        contract::run(&|| contract::on_files_of(layout, real(), Arc::new(NoTracker)));
        contract::run(&|| contract::on_files_of(layout, a_device(), batches()));
    }
}
