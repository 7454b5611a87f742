//! Tests of checkpoints. A checkpoint must be an independent store whose contents are those of the
//! original store at one sequence number. Once the call has returned, the checkpoint must survive
//! any power cut. Before that, its directory must not be a valid store.
use crate::common::{history, kit};
use history::{Tracker, tight_options};
use kit::{Model, options, prefix, states};
use std::{
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread,
};
use terrace::{Checkpoint, Db, Error, Options, TableForm, check, check_on};
use terrace_sim::{CrashFs, Folder, Medium, Recorder, Remains, Rules};
use terrace_storage::{
    backends::files::fs::FileSystem,
    durability::SyncTracker,
    open_files,
    placement::{OpenMode, Storage},
};

const SEED: u64 = 0xc0;

fn layout() -> Options {
    options(kit::TIGHT)
}

fn contents(path: &Path, options: &Options) -> Model {
    assert_eq!(check(path, options, true).unwrap().problems, Vec::<String>::new());
    kit::contents(&Db::open_read_only(path, options.clone()).unwrap()).unwrap().into_iter().collect()
}

fn files(path: &Path) -> Vec<String> {
    fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_checkpoint_is_an_independent_store_that_shares_tables() {
    let folder = tempfile::tempdir().unwrap();
    let [store, first, second] = ["store", "first", "deep/er/second"].map(|name| folder.path().join(name));
    let layout = || kit::in_files(kit::TIGHT);
    let (db, states) = (Db::open(&store, layout()).unwrap(), states(SEED, 400));
    let write = |from: usize, to: usize| {
        for number in from..=to {
            kit::write(&db, &kit::batch(SEED, number), false).unwrap();
        }
    };
    write(1, 250);
    let made = db.checkpoint(&first).unwrap();
    assert_eq!((made.sequence, made.copied), (db.last_sequence(), 0), "{made:?}");
    assert!(made.linked > 0 && made.bytes > 10_000, "{made:?}");
    let is_table = |name: &String| name.ends_with(".ldb") || name.ends_with(".bundle");
    let tables: Vec<_> = files(&first).into_iter().filter(is_table).collect();
    assert_eq!(tables.len() as u64, made.linked);
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        assert!(tables.iter().all(|name| fs::metadata(first.join(name)).unwrap().nlink() == 2));
    }
    write(251, 400);
    db.compact_range(None, None).unwrap();
    assert!(contents(&first, &layout()) == states[250]);

    // Changes to the checkpoint and to the store must not affect each other.
    let copy = Db::open(&first, layout()).unwrap();
    copy.put("only", "here").unwrap();
    copy.compact_range(None, None).unwrap();
    let again = copy.checkpoint(&second).unwrap();
    copy.close().unwrap();
    assert_eq!(db.get("only").unwrap(), None);
    db.close().unwrap();
    Db::destroy(&first).unwrap();
    assert!(!first.exists());
    assert!(contents(&store, &layout()) == states[400]);
    Db::destroy(&store).unwrap();
    let mut wanted = states[250].clone();
    wanted.insert(b"only".to_vec(), b"here".to_vec());
    assert!(contents(&second, &layout()) == wanted);
    assert!(again.sequence > made.sequence);
}

#[test]
fn checkpoints_during_writes_are_consistent() {
    let folder = tempfile::tempdir().unwrap();
    for (durability_mode, batches) in [("sync", 3000), ("background", 3000), ("none", 3000)] {
        let options = options(&[kit::TIGHT, &[("durability", durability_mode)]].concat());
        let (db, states) =
            (Db::open(folder.path().join(durability_mode), options.clone()).unwrap(), states(SEED, batches));
        let (begun, acknowledged) = (AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            scope.spawn(|| {
                for number in 1..=batches {
                    begun.store(number, SeqCst);
                    kit::write(&db, &kit::batch(SEED, number), false).unwrap();
                    acknowledged.store(number, SeqCst);
                }
            });
            for number in 0.. {
                let (path, least) =
                    (folder.path().join(format!("{durability_mode}-{number}")), acknowledged.load(SeqCst));
                db.checkpoint(&path).unwrap();
                let most = begun.load(SeqCst);
                let copy = Db::open_read_only(&path, options.clone()).unwrap();
                let count = prefix(kit::contents(&copy).unwrap(), &states).unwrap();
                assert!((least..=most).contains(&count), "{durability_mode}: {count} batches, of {least} to {most}");
                if least == batches {
                    assert!(number > 0, "{durability_mode}: no checkpoint was made while there were writers");
                    break;
                }
            }
        });
    }
}

#[cfg(target_os = "linux")]
#[test]
fn tables_are_copied_to_another_file_system() {
    use std::os::unix::fs::MetadataExt;
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir_in("/dev/shm").unwrap());
    let device = |path: &Path| fs::metadata(path).unwrap().dev();
    if device(here.path()) == device(there.path()) {
        println!("skipped: temporary files are in /dev/shm");
        return;
    }
    let db = Db::open(here.path().join("store"), layout()).unwrap();
    for number in 1..=100 {
        kit::write(&db, &kit::batch(SEED, number), false).unwrap();
    }
    let Checkpoint { linked, copied, .. } = db.checkpoint(there.path().join("copy")).unwrap();
    assert!(linked == 0 && copied > 0, "{linked} linked, {copied} copied");
    assert!(contents(&there.path().join("copy"), &layout()) == states(SEED, 100)[100]);
}

/// Tests that tables can be copied from a directory to a device, from there to another device, and
/// back.
#[test]
fn tables_are_copied_to_and_from_devices() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second, back] = ["first", "second", "back"].map(|name| folder.path().join(name));
    [&first, &second].iter().for_each(|path| kit::device_file(path, 32 << 20));
    let layout = || kit::plain(kit::TIGHT);
    let store = folder.path().join("store");
    let db = Db::open(&store, layout()).unwrap();
    for number in 1..=100 {
        kit::write(&db, &kit::batch(SEED, number), false).unwrap();
    }
    db.close().unwrap();
    let wanted = &states(SEED, 100)[100];
    for (from, to) in [(&store, &first), (&first, &second), (&second, &back)] {
        let db = Db::open(from, layout()).unwrap();
        let Checkpoint { linked, copied, .. } = db.checkpoint(to).unwrap();
        assert!(linked == 0 && copied > 0, "{}: {linked} linked, {copied} copied", to.display());
        assert!(to == &back || matches!(db.checkpoint(to), Err(Error::Invalid(_))), "over another store");
        assert!(contents(to, &layout()) == *wanted, "{}", to.display());
    }
    assert!(back.is_dir());
    [&first, &second].iter().for_each(|path| assert_eq!(kit::problems_of_device(path), Vec::<String>::new()));
}

#[test]
fn the_format_file_is_copied() {
    let folder = tempfile::tempdir().unwrap();
    let with_format_file = options(&[("compression", "lz4")]);
    let db = Db::open(folder.path().join("store"), with_format_file.clone()).unwrap();
    db.put("k", "v".repeat(1000)).unwrap();
    db.checkpoint(folder.path().join("copy")).unwrap();
    let copy = Db::open(folder.path().join("copy"), with_format_file).unwrap();
    assert_eq!(copy.get("k").unwrap().map(|value| value.len()), Some(1000));
    assert!(folder.path().join("copy/TERRACE").exists());
}

#[test]
fn impossible_targets_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let [store, copy] = ["store", "copy"].map(|name| folder.path().join(name));
    let db = Db::open(&store, layout()).unwrap();
    db.put("k", "v").unwrap();
    assert!(matches!(db.checkpoint(&store), Err(Error::InUse { .. })));
    db.checkpoint(&copy).unwrap();
    assert!(matches!(db.checkpoint(&copy), Err(Error::Invalid(_))));
    db.close().unwrap();
    let reader = Db::open_read_only(&store, layout()).unwrap();
    assert!(matches!(reader.checkpoint(folder.path().join("new")), Err(Error::ReadOnly)));
    assert!(!folder.path().join("new").exists());
}

/// Cuts the power after every storage step of a checkpoint. Before the call has returned, the
/// target must be either no store or the complete checkpoint. Afterwards it must be the complete
/// checkpoint. The target is on the medium `to`; if that is `None`, the target is a directory next
/// to the store.
fn campaign(tracker: Tracker, from: Medium, to: Option<Medium>, tables: TableForm) {
    let mut options = tight_options();
    options.tables = Some(tables);
    let source = from.recorder();
    let target = to.map_or(source.clone(), Medium::recorder);
    let copy_in = |fs: &CrashFs| -> Arc<dyn FileSystem> { Arc::new(Folder::new(fs.clone(), "copy")) };
    let target_fs = match (&source, to) {
        (Recorder::Directory(disk), None) => copy_in(disk),
        _ => target.file_system(),
    };
    let place = |fs: &Arc<dyn FileSystem>, mode| -> Box<dyn Storage> {
        open_files(fs.clone(), mode, Arc::new(SyncTracker), &options.setup()).unwrap()
    };
    let storage = history::storage(&source.file_system(), tracker.make(7), &options).unwrap();
    let db = Db::open_manual(storage, options.clone()).unwrap();
    for number in 1..=60 {
        kit::write(&db, &kit::batch(SEED, number), false).unwrap();
        if number % 9 == 0 {
            db.flush().unwrap();
        }
    }
    let begin = target.steps();
    db.checkpoint_on(&*place(&target_fs, OpenMode::Create)).unwrap();
    let made = target.steps();
    let wanted = &states(SEED, 60)[60];
    let (mut early, mut refused) = (0, 0);
    for step in begin..=made {
        for seed in 0..40 {
            let left = match (target.power_loss(step, seed), from, to) {
                (Remains::Directory(image), Medium::Directory(rules), None) => {
                    copy_in(&CrashFs::from_image(&image, rules))
                }
                (remains, ..) => remains.file_system(),
            };
            let what = format!("{tracker:?} {from:?} to {to:?} step {step} of {begin} to {made}, seed {seed}");
            let opened = open_files(left.clone(), OpenMode::Write, Arc::new(SyncTracker), &options.setup());
            let opened = opened.map_err(Error::from).and_then(|place| Db::open_manual(place, options.clone()));
            match opened {
                Ok(db) => {
                    let pairs = kit::contents(&db).unwrap_or_else(|e| panic!("{what}: TORN: {e}"));
                    assert!(pairs.into_iter().collect::<Model>() == *wanted, "{what}: TORN: other contents");
                    drop(db);
                    let report = check_on(&*place(&left, OpenMode::ReadOnly), &options, true).unwrap();
                    assert!(report.problems.is_empty(), "{what}: {:?}", report.problems);
                    early += usize::from(step < made);
                }
                Err(error) => {
                    assert!(step < made, "{what}: TORN: made, but {error}");
                    refused += 1;
                }
            }
        }
    }
    assert!(early > 0 && refused > 0, "{tracker:?} {from:?} to {to:?}: {early} opened early, {refused} refused");
}

#[test]
fn a_power_cut_leaves_a_whole_checkpoint_or_none() {
    let [ext4, posix] = [Rules::Ext4, Rules::Posix].map(Medium::Directory);
    for tracker in Tracker::without_failures().chain([Tracker::Never]) {
        campaign(tracker, ext4, None, TableForm::Block);
        campaign(tracker, ext4, Some(ext4), TableForm::Block);
    }
    for tracker in [Tracker::Sync, Tracker::Group, Tracker::Never] {
        campaign(tracker, ext4, None, TableForm::Bundled);
    }
    campaign(Tracker::Sync, posix, Some(posix), TableForm::Bundled);
    for tracker in Tracker::without_failures() {
        campaign(tracker, ext4, None, TableForm::Directory);
    }
    campaign(Tracker::Background, posix, Some(posix), TableForm::Directory);
}

#[test]
fn a_power_cut_leaves_a_whole_checkpoint_or_none_on_devices() {
    let ext4 = Medium::Directory(Rules::Ext4);
    for tracker in [Tracker::Sync, Tracker::Group, Tracker::Never] {
        campaign(tracker, Medium::Device, Some(Medium::Device), TableForm::Block);
        campaign(tracker, Medium::Device, Some(ext4), TableForm::Block);
        campaign(tracker, ext4, Some(Medium::Device), TableForm::Bundled);
    }
    campaign(Tracker::Sync, ext4, Some(Medium::Split(Rules::Ext4)), TableForm::Block);
    campaign(Tracker::Sync, Medium::Split(Rules::Ext4), Some(ext4), TableForm::Block);
}
