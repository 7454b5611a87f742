//! The contract suite, on each backend.
use std::sync::Arc;
use terrace_storage::backends::files::real::RealFs;
use terrace_storage::{
    Memory, contract,
    durability::{NoTracker, SyncTracker},
};

#[test]
fn memory_passes() {
    contract::run(&|| contract::on_files(Arc::new(Memory::new()), Arc::new(SyncTracker)));
}

#[test]
fn a_directory_passes() {
    let folder = tempfile::tempdir().unwrap();
    let number = std::cell::Cell::new(0);
    contract::run(&|| {
        number.set(number.get() + 1);
        // Two levels that are not there yet, so that making them is part of it.
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
