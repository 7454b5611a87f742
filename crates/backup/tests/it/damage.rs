//! Damaged and missing files of backups.
use crate::kit::{backups_in, checkpoints, pairs_in, restored};
use std::sync::Arc;
use terrace_backup::{Backups, Error};
use terrace_storage::Memory;
use terrace_vfs::FileSystem;

fn place(count: u64) -> (Arc<dyn FileSystem>, Backups) {
    let fs: Arc<dyn FileSystem> = Arc::new(Memory::new());
    let backups = backups_in(&fs).unwrap();
    for made in checkpoints(count) {
        backups.create_from(&made.source(), made.sequence).unwrap();
    }
    (fs, backups)
}

fn names(fs: &Arc<dyn FileSystem>, end: &str) -> Vec<String> {
    let mut names: Vec<_> = fs.list().unwrap().into_iter().map(|file| file.name).collect();
    names.retain(|name| name.ends_with(end));
    names.sort();
    names
}

/// Flips a bit in the middle of the file `name`.
fn damage(fs: &Arc<dyn FileSystem>, name: &str) {
    let file = fs.open(name).unwrap();
    let mut content = file.read_at(0, file.bytes().unwrap() as usize).unwrap();
    let middle = content.len() / 2;
    content[middle] ^= 4;
    fs.remove(name).unwrap();
    fs.create(name).unwrap().append(&content).unwrap();
}

/// Tests damage in each object, and the loss of each object: a verification finds it, and a restore
/// returns an error and leaves nothing.
#[test]
fn a_damaged_or_missing_object_is_found_and_not_restored() {
    let (fs, _) = place(1);
    let objects = names(&fs, ".object");
    assert!(objects.len() >= 4, "{objects:?}");
    for object in &objects {
        for missing in [false, true] {
            let (fs, backups) = place(1);
            if missing {
                fs.remove(object).unwrap()
            } else {
                damage(&fs, object)
            }
            let verified = backups.verify(None).unwrap();
            assert!(!verified.problems.is_empty(), "{object}");
            assert!(verified.problems.iter().all(|problem| problem.detail.contains(object)), "{verified:?}");
            let to: Arc<dyn FileSystem> = Arc::new(Memory::new());
            let error = backups.restore_into(1, &*to, |_| ()).unwrap_err();
            assert!(matches!(&error, Error::Damaged { object: named, .. } if named.ends_with(object)), "{error}");
            assert_eq!(to.list().unwrap(), []);
            assert!(pairs_in(&to).is_err());
        }
    }
}

/// Tests a damaged record. The other backups stay usable. Objects are not removed as long as it is
/// unknown which of them the damaged record names.
#[test]
fn a_damaged_record_prevents_the_removal_of_objects() {
    let (fs, backups) = place(4);
    let objects = names(&fs, ".object");
    damage(&fs, &names(&fs, ".backup")[2]);
    let states: Vec<bool> = backups.list().unwrap().iter().map(Result::is_ok).collect();
    assert_eq!(states, [true, true, false, true]);
    let problems = backups.verify(None).unwrap().problems;
    assert!(problems.len() == 1 && problems[0].id == 3 && problems[0].file.is_none(), "{problems:?}");
    let refused = backups.purge(2).unwrap_err();
    assert!(matches!(&refused, Error::Damaged { .. }), "{refused}");
    assert_eq!((names(&fs, ".object"), names(&fs, ".backup").len()), (objects, 4), "nothing was removed");
    let history = checkpoints(5);
    let next = backups.create_from(&history[4].source(), history[4].sequence).unwrap().id;
    assert_eq!(next, 5, "the number of the damaged backup is not used again");
    assert_eq!(backups.remove(3).unwrap().removed, [3]);
    assert_eq!(backups.purge(2).unwrap().removed, [1, 2]);
    assert!(restored(&backups, 4) == history[3].pairs && restored(&backups, 5) == history[4].pairs);
}

/// Tests that each of two damaged records can be removed.
#[test]
fn several_damaged_records_can_be_removed() {
    let (fs, backups) = place(3);
    let objects = names(&fs, ".object").len();
    names(&fs, ".backup")[..2].iter().for_each(|name| damage(&fs, name));
    assert_eq!(backups.remove(1).unwrap().objects, 0, "it is unknown which objects record 2 names");
    assert_eq!(names(&fs, ".object").len(), objects);
    assert!(backups.remove(2).unwrap().objects > 0);
    assert!(restored(&backups, 3) == checkpoints(3)[2].pairs);
}

/// Tests two records with the same number, as after a copy of one backup directory into another.
/// No object of either may be removed.
#[test]
fn two_records_with_one_number_are_an_error() {
    let (fs, backups) = place(2);
    let other: Arc<dyn FileSystem> = Arc::new(Memory::new());
    let history = checkpoints(3);
    backups_in(&other).unwrap().create_from(&history[2].source(), history[2].sequence).unwrap();
    for name in names(&other, ".object").iter().chain(&names(&other, ".backup")) {
        let _ = fs.take(&*other, name, name); // some objects are the same
    }
    let before = names(&fs, ".object");
    for refused in [backups.list().err(), backups.purge(0).err(), backups.remove(1).err(), backups.verify(None).err()] {
        let error = refused.expect("an error").to_string();
        assert!(error.contains("another record has number 1, too"), "{error}");
    }
    assert_eq!(names(&fs, ".object"), before);
}

/// Tests that the next backup replaces damaged objects after they were removed.
#[test]
fn a_removed_object_is_written_again() {
    let (fs, backups) = place(1);
    let object = names(&fs, ".object").remove(0);
    damage(&fs, &object);
    assert!(!backups.remove_damaged().unwrap().problems.is_empty());
    assert!(!names(&fs, ".object").contains(&object));
    let history = checkpoints(1);
    backups.create_from(&history[0].source(), history[0].sequence).unwrap();
    assert_eq!(backups.verify(None).unwrap().problems, []);
    assert!(restored(&backups, 1) == history[0].pairs);
}
