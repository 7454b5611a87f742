//! Tests which crash states are possible under each set of file system guarantees ([`Rules`]) and
//! which are excluded. Each test has one small history.
use std::collections::BTreeSet;
use terrace_sim::{CrashFs, Image, Rules};
use terrace_storage::backends::files::fs::{FileSystem, WriteFile};

const SEEDS: u64 = 400;

fn directory(rules: Rules) -> CrashFs {
    let fs = CrashFs::new(rules);
    fs.make_directory().unwrap();
    fs
}

fn write(fs: &CrashFs, name: &str, bytes: &[u8]) -> Box<dyn WriteFile> {
    let mut file = fs.create(name).unwrap();
    file.append(bytes).unwrap();
    file
}

/// Returns all crash states of a power cut after the newest step, over all seeds.
fn cuts(fs: &CrashFs) -> impl Iterator<Item = Image> {
    (0..SEEDS).map(|seed| fs.power_loss(fs.steps(), seed))
}

/// Simulates a power cut with every seed. Returns for each crash state the file names that
/// survive, joined to one string.
fn names_left(fs: &CrashFs) -> BTreeSet<String> {
    cuts(fs).map(|image| image.files().map(|(name, _)| name).collect::<Vec<_>>().join(" ")).collect()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|names| names.to_string()).collect()
}

/// Simulates a power cut with every seed. Returns the different contents with which the file
/// `name` survives; `None` if the file is missing.
fn contents_left(fs: &CrashFs, name: &str) -> BTreeSet<Option<Vec<u8>>> {
    cuts(fs).map(|image| image.read(name)).collect()
}

#[test]
fn synced_bytes_always_survive_and_unsynced_ones_may_not() {
    for rules in [Rules::Ext4, Rules::Posix] {
        let fs = directory(rules);
        let mut file = write(&fs, "log", b"synced ");
        file.sync().unwrap();
        fs.sync_directory().unwrap();
        file.append(b"unsynced").unwrap();
        let left = contents_left(&fs, "log");
        assert!(left.iter().all(|bytes| bytes.as_ref().is_some_and(|bytes| bytes.starts_with(b"synced "))), "{left:?}");
        for possible in [&b"synced "[..], b"synced unsynced", b"synced \0\0\0\0\0\0\0\0"] {
            assert!(left.contains(&Some(possible.to_vec())), "{rules:?} {}", possible.escape_ascii());
        }
        assert_eq!(left.len(), 3, "{left:?}");
    }
}

#[test]
fn a_killed_process_loses_nothing_at_any_step() {
    let fs = CrashFs::new(Rules::Ext4);
    assert!(!fs.state_after(0).file_system().exists().unwrap());
    fs.make_directory().unwrap();
    let mut file = write(&fs, "a", b"one");
    file.append(b"two").unwrap();
    fs.rename("a", "b").unwrap();
    fs.remove("b").unwrap();
    let states: Vec<String> = (0..=fs.steps()).map(|step| format!("{:?}", fs.state_after(step))).collect();
    let want =
        ["(no directory)", "{}", r#"{"a": "0 B"}"#, r#"{"a": "3 B"}"#, r#"{"a": "6 B"}"#, r#"{"b": "6 B"}"#, "{}"];
    assert_eq!(states, want);
}

#[test]
fn a_synced_file_keeps_its_name_on_ext4_but_not_by_posix() {
    for (rules, want) in [(Rules::Ext4, set(&["a"])), (Rules::Posix, set(&["", "a"]))] {
        let fs = directory(rules);
        write(&fs, "a", b"x").sync().unwrap();
        assert_eq!(names_left(&fs), want, "{rules:?}");
        fs.sync_directory().unwrap();
        assert_eq!(names_left(&fs), set(&["a"]), "{rules:?}");
    }
}

#[test]
fn an_unsynced_rename_shows_the_old_file_or_the_new_one() {
    for rules in [Rules::Ext4, Rules::Posix] {
        let fs = directory(rules);
        write(&fs, "CURRENT", b"old").sync().unwrap();
        write(&fs, "tmp", b"new").sync().unwrap();
        fs.sync_directory().unwrap();
        fs.rename("tmp", "CURRENT").unwrap();
        let whole = [Some(b"old".to_vec()), Some(b"new".to_vec())];
        assert_eq!(contents_left(&fs, "CURRENT"), BTreeSet::from(whole.clone()), "{rules:?}");
        assert_eq!(names_left(&fs), set(&["CURRENT", "CURRENT tmp"]), "{rules:?}");
        fs.sync_directory().unwrap();
        assert_eq!(contents_left(&fs, "CURRENT"), BTreeSet::from([whole[1].clone()]), "{rules:?}");
    }
}

#[test]
fn a_rename_of_an_unsynced_file_may_leave_zeros_or_nothing() {
    let fs = directory(Rules::Ext4);
    write(&fs, "CURRENT", b"old").sync().unwrap();
    let _unsynced = write(&fs, "tmp", b"new");
    fs.rename("tmp", "CURRENT").unwrap();
    fs.sync_directory().unwrap();
    let possible = [&b""[..], b"\0\0\0", b"new"].map(|bytes| Some(bytes.to_vec()));
    assert_eq!(contents_left(&fs, "CURRENT"), BTreeSet::from(possible));
}

#[test]
fn a_removed_file_may_reappear_until_the_removal_is_durable() {
    for rules in [Rules::Ext4, Rules::Posix] {
        let fs = directory(rules);
        write(&fs, "a", b"x").sync().unwrap();
        fs.sync_directory().unwrap();
        fs.remove("a").unwrap();
        assert_eq!(contents_left(&fs, "a"), BTreeSet::from([None, Some(b"x".to_vec())]), "{rules:?}");
        write(&fs, "b", b"y").sync().unwrap();
        // The sync of another file commits ext4's journal.
        assert_eq!(contents_left(&fs, "a").len(), if rules == Rules::Ext4 { 1 } else { 2 }, "{rules:?}");
        fs.sync_directory().unwrap();
        assert_eq!(names_left(&fs), set(&["b"]), "{rules:?}");
    }
}

#[test]
fn a_sync_without_new_metadata_commits_nothing() {
    let fs = directory(Rules::Ext4);
    let file = write(&fs, "a", b"x");
    file.sync().unwrap();
    fs.rename("a", "b").unwrap();
    file.sync().unwrap();
    assert_eq!(names_left(&fs), set(&["a", "b"]));
    // The creation of a file is new metadata even if the file is empty.
    fs.create("c").unwrap().sync().unwrap();
    assert_eq!(names_left(&fs), set(&["b c"]));
}

#[test]
fn ext4_keeps_a_prefix_of_the_operations_and_posix_any_of_them() {
    for (rules, want) in [(Rules::Ext4, set(&["", "a", "a b"])), (Rules::Posix, set(&["", "a", "b", "a b"]))] {
        let fs = directory(rules);
        fs.create("a").unwrap();
        fs.create("b").unwrap();
        assert_eq!(names_left(&fs), want, "{rules:?}");
    }
}

#[test]
fn ext4_orders_growth_with_the_names_made_before_it() {
    let fs = directory(Rules::Ext4);
    let mut log = fs.create("log").unwrap();
    fs.sync_directory().unwrap();
    fs.create("later").unwrap();
    log.append(b"x").unwrap();
    let grown = |image: &Image| image.read("log").is_some_and(|bytes| !bytes.is_empty());
    assert!(cuts(&fs).filter(grown).all(|image| image.read("later").is_some()));
    assert!(cuts(&fs).any(|image| grown(&image)));
    assert!(cuts(&fs).any(|image| !grown(&image) && image.read("later").is_some()));
}

#[test]
fn posix_keeps_the_operations_on_one_name_in_order() {
    let fs = directory(Rules::Posix);
    write(&fs, "x", b"first").sync().unwrap();
    fs.rename("x", "y").unwrap();
    write(&fs, "x", b"second").sync().unwrap();
    for image in cuts(&fs) {
        let (x, y) = (image.read("x"), image.read("y"));
        assert!(x.as_deref() != Some(b"second") || y.as_deref() == Some(b"first"), "{image:?}");
        assert!(x.as_deref() != Some(b"first") || y.is_none(), "{image:?}");
    }
    assert_eq!(names_left(&fs), set(&["", "x", "y", "x y"]));
}

#[test]
fn an_unsynced_tail_may_be_cut_torn_or_have_holes_but_is_never_invented() {
    let written: Vec<u8> = (0..5 * 4096 + 700).map(|at| (at / 256 % 250 + 1) as u8).collect();
    let fs = directory(Rules::Ext4);
    let mut file = write(&fs, "log", &written[..1000]);
    file.sync().unwrap();
    for piece in written[1000..].chunks(999) {
        file.append(piece).unwrap();
    }
    let (mut prefix, mut zeros, mut hole, mut torn, mut record_end) = (false, false, false, false, false);
    for left in cuts(&fs).map(|image| image.read("log").unwrap()) {
        assert!((1000..=written.len()).contains(&left.len()) && left[..1000] == written[..1000]);
        assert!(left.iter().zip(&written).all(|(left, written)| left == written || *left == 0));
        let tail = &left[1000..];
        let first_zero = tail.iter().position(|byte| *byte == 0).map(|at| at + 1000);
        let data_after_zeros = first_zero.is_some_and(|at| left[at..].iter().any(|byte| *byte != 0));
        prefix |= first_zero.is_none() && left.len() % 4096 == 0;
        record_end |= left.len() < written.len() && left.len() > 1000 && (left.len() - 1000) % 999 == 0;
        zeros |= left.len() == written.len() && tail.iter().all(|byte| *byte == 0);
        hole |= data_after_zeros;
        torn |= !data_after_zeros && first_zero.is_some_and(|at| at % 512 == 0 && at % 4096 != 0);
    }
    assert!(prefix && zeros && hole && torn && record_end, "{prefix} {zeros} {hole} {torn} {record_end}");
}

#[test]
fn two_names_of_one_file_have_the_same_contents() {
    let fs = directory(Rules::Posix);
    let mut file = write(&fs, "a", &[7; 10_000]);
    fs.link("a", "lost/a").unwrap();
    file.append(&[8; 10_000]).unwrap();
    fs.sync_directory().unwrap();
    assert_eq!(names_left(&fs), set(&["a lost/a"]));
    assert!(cuts(&fs).all(|image| image.read("a") == image.read("lost/a")));
    assert!(contents_left(&fs, "a").len() > 10);
}

#[test]
fn equal_arguments_give_equal_images_even_after_more_steps() {
    let fs = directory(Rules::Ext4);
    let mut file = write(&fs, "a", &[1; 20_000]);
    let step = fs.steps();
    let before: Vec<Image> = cuts(&fs).collect();
    file.append(&[2; 20_000]).unwrap();
    fs.remove("a").unwrap();
    for (seed, before) in before.iter().enumerate() {
        let after = fs.power_loss(step, seed as u64);
        assert_eq!((before.read("a"), format!("{before:?}")), (after.read("a"), format!("{after:?}")));
    }
}

#[test]
fn an_image_can_be_opened_locked_written_and_crashed_again() {
    let fs = directory(Rules::Ext4);
    let _held = fs.lock(true).unwrap();
    assert!(fs.lock(false).is_err());
    write(&fs, "a", b"kept").sync().unwrap();
    let image = fs.power_loss(fs.steps(), 1);
    let (first, second) = (image.file_system(), image.file_system());
    let _own = first.lock(true).unwrap();
    first.create("b").unwrap().append(b"new").unwrap();
    assert_eq!(first.list().unwrap().len(), 3, "LOCK, a and b");
    assert_eq!(second.list().unwrap().len(), 2, "images are independent");

    let again = CrashFs::from_image(&image, Rules::Posix);
    write(&again, "b", b"maybe").sync().unwrap();
    again.remove("a").unwrap();
    assert_eq!(names_left(&again), set(&["LOCK", "LOCK a", "LOCK b", "LOCK a b"]));
}

#[test]
fn failing_calls_are_not_recorded_as_steps() {
    let fs = CrashFs::new(Rules::Ext4);
    assert!(fs.create("a").is_err() && fs.list().is_err() && fs.lock(true).is_err());
    fs.make_directory().unwrap();
    write(&fs, "a", b"x");
    fs.link("a", "b").unwrap();
    let steps = fs.steps();
    assert!(fs.open("c").is_err() && fs.remove("c").is_err() && fs.rename("c", "a").is_err());
    assert_eq!(fs.create("a").err().unwrap().kind(), std::io::ErrorKind::AlreadyExists);
    assert_eq!(fs.link("a", "b").unwrap_err().kind(), std::io::ErrorKind::AlreadyExists);
    // rename(2) has no effect if both names belong to one file.
    fs.rename("a", "b").unwrap();
    assert_eq!(fs.steps(), steps);
}

#[test]
fn each_file_loses_its_own_tail() {
    let fs = directory(Rules::Ext4);
    let _files = [write(&fs, "a", b"x"), write(&fs, "b", b"x")];
    fs.sync_directory().unwrap();
    let whole = |image: &Image, name| image.read(name).unwrap() == b"x";
    let pairs: BTreeSet<_> = cuts(&fs).map(|image| (whole(&image, "a"), whole(&image, "b"))).collect();
    assert_eq!(pairs.len(), 4, "{pairs:?}");
}
