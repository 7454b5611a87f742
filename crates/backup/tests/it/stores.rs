//! Backups of stores in directories, of every form.
use crate::kit::{self, Pairs};
use std::{fs, path::Path};
use terrace::{Db, Options};
use terrace_backup::{Backups, CreateOptions, Error};
use terrace_sim::Rng;

fn form(name: &str) -> Options {
    let mut options = if name == "directory" { Options::preset("delsm") } else { Options::preset("default") }.unwrap();
    match name {
        "bundled" => options.set("tables", "bundled").unwrap(),
        "log" => options.set("values", "log").unwrap(),
        _ => {}
    }
    options.set("write_buffer_size", "64KiB").unwrap();
    options
}

fn directory_bytes(path: &Path) -> u64 {
    let sizes = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len());
    sizes.sum()
}

/// Tests a random history of each form of store: writes, compactions, reopens, backups and purges.
/// Every backup that remains must restore the pairs of its moment.
#[test]
fn every_backup_restores_the_pairs_of_its_moment() {
    for name in ["default", "bundled", "log", "directory"] {
        let place = tempfile::tempdir().unwrap();
        let [store, directory] = ["store", "backups"].map(|name| place.path().join(name));
        let options = form(name);
        let mut db = Db::open(&store, options.clone()).unwrap();
        let backups = Backups::open(&directory).unwrap();
        let mut rng = Rng::new(11);
        let (mut pairs, mut moments): (Pairs, Vec<(u64, Pairs)>) = Default::default();
        for _ in 0..60 {
            match rng.below(10) {
                0..6 => (0..30).for_each(|_| {
                    let (key, value) = (rng.below(300).to_string().into_bytes(), rng.next_u64().to_string().repeat(30));
                    db.put(&key, &value).unwrap();
                    pairs.insert(key, value.into_bytes());
                }),
                6 => db.compact_range(None, None).unwrap(),
                7 => {
                    db.close().unwrap();
                    db = Db::open(&store, options.clone()).unwrap();
                }
                8 if rng.chance(1, 2) => {
                    let keep = rng.below(4);
                    backups.purge(keep).unwrap();
                    moments.drain(..moments.len().saturating_sub(keep));
                }
                _ => {
                    let backup = backups.create(&db, &CreateOptions::default()).unwrap();
                    assert_eq!(backup.sequence, db.last_sequence());
                    moments.push((backup.id, pairs.clone()));
                }
            }
        }
        assert!(moments.len() > 1, "{name}: too few backups for a test");
        let listed: Vec<_> = backups.list().unwrap().into_iter().map(|backup| backup.unwrap().id).collect();
        assert_eq!(listed, moments.iter().map(|(id, _)| *id).collect::<Vec<_>>());
        assert_eq!(backups.verify(None).unwrap().problems, []);
        for (id, pairs) in &moments {
            let to = place.path().join(format!("restored-{id}"));
            backups.restore(*id, &to).unwrap();
            let restored = Db::open(&to, options.clone()).unwrap();
            assert!(kit::pairs_of(&restored).unwrap() == *pairs, "{name}: backup {id} has other pairs");
        }
        assert!(!store.join("backup.tmp").exists());
    }
}

#[test]
fn a_backup_has_all_column_families() {
    let place = tempfile::tempdir().unwrap();
    let [store, directory, to] = ["store", "backups", "to"].map(|name| place.path().join(name));
    let db = Db::open(&store, Options::default()).unwrap();
    db.create_cf("more").unwrap().put("key", "value").unwrap();
    let backups = Backups::open(&directory).unwrap();
    let id = backups.create(&db, &CreateOptions::default()).unwrap().id;
    backups.restore(id, &to).unwrap();
    let restored = Db::open(&to, Options::default()).unwrap();
    assert_eq!(restored.cf("more").unwrap().get("key").unwrap(), Some(b"value".to_vec()));
}

#[test]
fn a_further_backup_copies_only_new_files() {
    let place = tempfile::tempdir().unwrap();
    let [store, directory, restored] = ["store", "backups", "restored"].map(|name| place.path().join(name));
    let db = Db::open(&store, Options::default()).unwrap();
    (0..2000u64).for_each(|n| db.put(n.to_be_bytes(), kit::noise(n, 800)).unwrap());
    db.flush().unwrap();
    let backups = Backups::open(&directory).unwrap();
    let first = backups.create(&db, &CreateOptions::default()).unwrap();
    assert!(first.added_bytes == first.bytes && first.bytes > 1_000_000, "{first:?}");
    db.put("one", "more").unwrap();
    let second = backups.create(&db, &CreateOptions::default()).unwrap();
    assert!(second.added_bytes < 5000 && second.bytes >= first.bytes, "{second:?}");
    // The files of a restored store have other inodes, and are recognized by their content.
    backups.restore(second.id, &restored).unwrap();
    let db = Db::open(&restored, Options::default()).unwrap();
    let third = backups.create(&db, &CreateOptions::default()).unwrap();
    assert!(third.added_bytes < 5000, "{third:?}");
    assert!(directory_bytes(&directory) < first.bytes + 20_000);
    let purged = backups.purge(1).unwrap();
    assert_eq!(purged.removed, [first.id, second.id]);
    assert_eq!(kit::pairs_of(&db).unwrap().len(), 2001);
    backups.restore(third.id, place.path().join("again")).unwrap();
}

#[test]
fn a_file_with_the_same_name_and_size_but_other_content_is_copied() {
    let place = tempfile::tempdir().unwrap();
    let backups = Backups::open(place.path().join("backups")).unwrap();
    for value in ["a", "b"] {
        let store = place.path().join(value);
        let db = Db::open(&store, Options::default()).unwrap();
        db.put("key", value).unwrap();
        let backup = backups.create(&db, &CreateOptions::default()).unwrap();
        let to = place.path().join(format!("restored-{value}"));
        backups.restore(backup.id, &to).unwrap();
        assert_eq!(Db::open(&to, Options::default()).unwrap().get("key").unwrap(), Some(value.into()));
    }
}

/// Tests the leftovers of a killed process: its checkpoint within the store.
#[test]
fn the_checkpoint_of_a_killed_backup_is_replaced() {
    let place = tempfile::tempdir().unwrap();
    let [store, directory] = ["store", "backups"].map(|name| place.path().join(name));
    let db = Db::open(&store, Options::default()).unwrap();
    db.put("key", "value").unwrap();
    fs::create_dir(store.join("backup.tmp")).unwrap();
    fs::write(store.join("backup.tmp/TERRACE_BACKUP"), "").unwrap();
    db.checkpoint(store.join("backup.tmp/checkpoint")).unwrap();
    fs::create_dir(&directory).unwrap();
    fs::write(directory.join("BACKUPS"), "terrace backups, format 1\n").unwrap();
    let partial = directory.join(format!("{}.object.partial", "0".repeat(64)));
    fs::write(&partial, "half").unwrap();
    let backups = Backups::open(&directory).unwrap();
    backups.create(&db, &CreateOptions::default()).unwrap();
    assert!(!partial.exists() && !store.join("backup.tmp").exists());
}

#[test]
fn wrong_places_are_refused_and_nothing_changes() {
    let place = tempfile::tempdir().unwrap();
    let [store, directory] = ["store", "backups"].map(|name| place.path().join(name));
    let db = Db::open(&store, Options::default()).unwrap();
    db.put("key", "value").unwrap();
    let text = |error: Error| error.to_string();
    let a_store = text(Backups::open(&store).err().unwrap());
    assert!(
        a_store.ends_with("has files but no file BACKUPS; name an empty directory, or one with backups"),
        "{a_store}"
    );
    let backups = Backups::open(&directory).unwrap();
    assert!(backups.list().unwrap().is_empty() && !directory.exists(), "a list creates nothing");
    let missing = text(backups.restore(1, place.path().join("to")).unwrap_err());
    assert!(missing.ends_with("has no backup 1; it has no backups"), "{missing}");
    let id = backups.create(&db, &CreateOptions::default()).unwrap().id;
    let missing = text(backups.verify(Some(9)).unwrap_err());
    assert!(missing.ends_with("has no backup 9; it has only backup 1"), "{missing}");
    let not_empty = text(backups.restore(id, &store).unwrap_err());
    assert!(not_empty.ends_with("is not empty; restore into an absent or empty directory"), "{not_empty}");
    assert_eq!(db.get("key").unwrap(), Some(b"value".to_vec()));

    let memory = Db::open_in_memory(Options::default()).unwrap();
    memory.put("key", "value").unwrap();
    let refused = text(backups.create(&memory, &CreateOptions::default()).unwrap_err());
    assert!(refused.contains("has no directory of its own"), "{refused}");
    let scratch = place.path().join("scratch");
    backups.create(&memory, &CreateOptions::default().scratch(&scratch)).unwrap();
    assert!(!scratch.exists());
}

/// Tests that a backup removes no directory but its own: not an existing directory that is named as
/// `scratch`, and no files of others at the place.
#[test]
fn a_backup_removes_nothing_of_others() {
    let place = tempfile::tempdir().unwrap();
    let [store, directory, mine] = ["store", "backups", "mine"].map(|name| place.path().join(name));
    let db = Db::open(&store, Options::default()).unwrap();
    db.put("key", "value").unwrap();
    fs::create_dir(&mine).unwrap();
    fs::write(mine.join("thesis.txt"), "years").unwrap();
    let backups = Backups::open(&directory).unwrap();
    for scratch in [&mine, &store, &directory] {
        fs::create_dir_all(scratch).unwrap();
        let error = backups.create(&db, &CreateOptions::default().scratch(scratch)).unwrap_err().to_string();
        assert!(error.ends_with("the directory for the checkpoint must be new"), "{error}");
    }
    assert!(mine.join("thesis.txt").exists() && store.join("CURRENT").exists());
    fs::write(directory.join("film.partial"), "half").unwrap();
    assert!(backups.create(&db, &CreateOptions::default()).is_err(), "the directory has files of others");
    assert!(directory.join("film.partial").exists());
    fs::remove_file(directory.join("film.partial")).unwrap();
    backups.create(&db, &CreateOptions::default()).unwrap();
    for name in ["film.partial", "notes.object"] {
        fs::write(directory.join(name), "mine").unwrap();
    }
    backups.create(&db, &CreateOptions::default()).unwrap();
    backups.purge(0).unwrap();
    assert!(directory.join("film.partial").exists() && directory.join("notes.object").exists());
    let within = Backups::open(store.join("backups")).unwrap();
    let refused = within.create(&db, &CreateOptions::default()).unwrap_err().to_string();
    assert!(refused.ends_with("lies within the store; name a directory outside of it"), "{refused}");
    assert!(!store.join("backups").exists());
}

#[test]
fn a_store_is_backed_up_by_one_call_at_a_time() {
    let place = tempfile::tempdir().unwrap();
    let db = Db::open(place.path().join("store"), Options::default()).unwrap();
    db.put("key", "value").unwrap();
    let [one, other] = ["one", "other"].map(|name| Backups::open(place.path().join(name)).unwrap());
    one.create_with(&db, &CreateOptions::default(), |_| {
        assert!(matches!(other.create(&db, &CreateOptions::default()), Err(Error::InUse(_))));
    })
    .unwrap();
    other.create(&db, &CreateOptions::default()).unwrap();
}

/// Tests the checkpoint that a killed backup leaves: a destroy removes it, but not a directory
/// of the same name that no backup has made.
#[test]
fn a_destroy_removes_the_checkpoint_of_a_killed_backup() {
    for is_marked in [true, false] {
        let place = tempfile::tempdir().unwrap();
        let store = place.path().join("store");
        let db = Db::open(&store, Options::default()).unwrap();
        db.put("key", "value").unwrap();
        fs::create_dir(store.join("backup.tmp")).unwrap();
        fs::write(store.join("backup.tmp/mine.txt"), "years").unwrap();
        if is_marked {
            fs::write(store.join("backup.tmp/TERRACE_BACKUP"), "").unwrap();
        } else {
            let backups = Backups::open(place.path().join("backups")).unwrap();
            let refused = backups.create(&db, &CreateOptions::default()).unwrap_err().to_string();
            assert!(refused.ends_with("the directory for the checkpoint must be new"), "{refused}");
        }
        drop(db);
        Db::destroy(&store).unwrap();
        assert_eq!(store.join("backup.tmp/mine.txt").exists(), !is_marked);
        assert!(!store.join("CURRENT").exists());
    }
}

/// Tests that a killed restore leaves no directory that an open would take for a new store.
#[test]
fn a_restore_appears_at_once() {
    let place = tempfile::tempdir().unwrap();
    let [store, to, restoring] = ["store", "to", "to.restoring"].map(|name| place.path().join(name));
    let db = Db::open(&store, Options::default()).unwrap();
    db.put("key", "value").unwrap();
    let backups = Backups::open(place.path().join("backups")).unwrap();
    let id = backups.create(&db, &CreateOptions::default()).unwrap().id;
    let mut seen = 0;
    backups
        .restore_with(id, &to, |_| {
            assert!(restoring.is_dir() && !to.exists());
            seen += 1;
        })
        .unwrap();
    assert!(seen > 3 && to.join("CURRENT").exists() && !restoring.exists());
    fs::remove_dir_all(&to).unwrap();
    fs::create_dir(&restoring).unwrap();
    let error = backups.restore(id, &to).unwrap_err().to_string();
    assert!(error.ends_with("remove it, then try again") && restoring.exists(), "{error}");
    fs::remove_dir(&restoring).unwrap();
    backups.restore(id, format!("{}/", to.display())).unwrap();
    fs::remove_dir_all(&to).unwrap();
    fs::create_dir(&to).unwrap();
    let empty = if cfg!(unix) { place.path().join("link") } else { to.clone() };
    #[cfg(unix)] // on Windows, links need a privilege
    std::os::unix::fs::symlink(&to, &empty).unwrap();
    backups.restore(id, &empty).unwrap();
    assert_eq!(Db::open(&to, Options::default()).unwrap().get("key").unwrap(), Some(b"value".to_vec()));
}

#[test]
fn two_processes_do_not_change_the_backups_at_once() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("backups");
    let db = Db::open(place.path().join("store"), Options::default()).unwrap();
    db.put("key", "value").unwrap();
    let backups = Backups::open(&directory).unwrap();
    let slow = CreateOptions::default();
    backups
        .create_with(&db, &slow, |_| {
            let other = Backups::open(&directory).unwrap();
            assert!(matches!(other.purge(0), Err(Error::InUse(_))));
            assert!(matches!(other.remove(1), Err(Error::InUse(_))));
        })
        .unwrap();
    assert_eq!(backups.purge(0).unwrap().removed, [1]);
    let left: Vec<_> = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "the lock and the marker: {left:?}");
}

#[test]
fn a_rate_limit_slows_a_backup() {
    let place = tempfile::tempdir().unwrap();
    let db = Db::open(place.path().join("store"), Options::default()).unwrap();
    db.put("key", vec![7; 50_000]).unwrap();
    let backups = Backups::open(place.path().join("backups")).unwrap();
    let started = std::time::Instant::now();
    let made = backups.create(&db, &CreateOptions::default().bytes_per_second(200_000)).unwrap();
    // Each new file is read twice: for its hash, and for the copy.
    let least = 2.0 * made.bytes as f64 / 200_000.0;
    assert!(started.elapsed().as_secs_f64() >= least * 0.95, "{:?}, {least} s expected", started.elapsed());
}
