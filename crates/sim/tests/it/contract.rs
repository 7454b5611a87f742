//! Tests that the simulated file systems, without faults and power cuts, pass the same contract
//! suite as every storage backend.
use std::sync::Arc;
use terrace_format::{Layout, TableForm, Values};
use terrace_sim::{CrashFs, FaultFs, LateTracker, Plan, Rules, ScrambleFs};
use terrace_storage::{
    Memory,
    backends::files::fs::FileSystem,
    contract,
    durability::{BatchTracker, DurabilityTracker, Evidence, JournalTracker, SyncTracker, Way},
};

fn passes<T: DurabilityTracker + 'static>(fs: impl Fn() -> Arc<dyn FileSystem>, tracker: impl Fn() -> T) {
    contract::run(&|| contract::on_files(fs(), Arc::new(tracker())));
}

#[test]
fn crash_models() {
    passes(|| Arc::new(CrashFs::new(Rules::Ext4)), || SyncTracker);
    passes(|| Arc::new(CrashFs::new(Rules::Posix)), || SyncTracker);
}

#[test]
fn bundles_and_separated_values() {
    let pass = |fs: fn() -> Arc<dyn FileSystem>| {
        let bundled = Layout { tables: TableForm::Bundled, ..Layout::default() };
        for layout in [bundled, Layout { values: Values::Log, ..bundled }] {
            contract::run(&|| contract::on_files_of(layout, fs(), Arc::new(SyncTracker)));
        }
    };
    pass(|| Arc::new(CrashFs::new(Rules::Ext4)));
    pass(|| Arc::new(ScrambleFs::new(Arc::new(Memory::new()))));
    pass(|| Arc::new(FaultFs::new(Arc::new(Memory::new()), Plan::never())));
}

#[test]
fn batches() {
    for files_max in [0, usize::MAX] {
        let batches = |way| move || BatchTracker::new(way, std::time::Duration::ZERO).with_files_max(files_max);
        passes(|| Arc::new(CrashFs::new(Rules::Ext4)), batches(Way::Group));
        passes(|| Arc::new(CrashFs::new(Rules::Posix)), batches(Way::Background));
    }
}

#[test]
fn images() {
    passes(|| CrashFs::new(Rules::Ext4).state_after(0).file_system(), || SyncTracker);
}

#[test]
fn fault_injection_without_faults() {
    passes(|| Arc::new(FaultFs::new(Arc::new(Memory::new()), Plan::never())), || SyncTracker);
}

#[test]
fn scrambled_bytes() {
    passes(|| Arc::new(ScrambleFs::new(Arc::new(Memory::new()))), || SyncTracker);
}

#[test]
fn journals() {
    for evidence in [Evidence::Count, Evidence::Transactions] {
        let tracker = || JournalTracker::new(evidence, std::time::Duration::ZERO, std::time::Duration::MAX / 8);
        passes(|| Arc::new(CrashFs::new(Rules::Ext4)), tracker);
    }
}

#[test]
fn late_durability_handles() {
    for seed in 0..4 {
        passes(|| Arc::new(CrashFs::new(Rules::Ext4)), || LateTracker::new(seed));
    }
}
