//! Tests of the command `convert`: it converts every preset into every other, and continues an
//! interrupted conversion. The source must stay unchanged.
use crate::common;
use common::{command, fresh, terrace, terrace_with};
use std::{fs, path::Path, thread::sleep, time::Duration};

/// Writes many pairs, some of them overwritten and deleted, and a part of them only to a WAL.
fn fill(store: &str, pairs: u32) {
    let value = "0123456789abcdef".repeat(40);
    let lines: String = (0..pairs).map(|n| format!("key{:07}\t{n}{value}\n", n * 7919 % pairs)).collect();
    terrace_with(["load", store, "-"], lines.as_bytes()).ok();
    terrace_with(["load", store, "-", "--deletes"], b"key0000003\nkey0000004\tnew\n\tempty\n").ok();
}

fn bytes_of(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let file = |entry: std::io::Result<fs::DirEntry>| {
        let entry = entry.unwrap();
        (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())
    };
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(file).collect();
    files.sort();
    files
}

#[test]
fn every_preset_becomes_every_other_and_back() {
    let (folder, store) = fresh();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fill(store.to_str().unwrap(), 3000);
    let wanted = terrace(["dump", store.to_str().unwrap()]).ok();
    let before = bytes_of(&store);
    let mut from = store.to_str().unwrap().to_owned();
    for (number, (preset, _)) in
        terrace::PRESETS.iter().chain(terrace::PAPER_PRESETS).chain(&terrace::PRESETS[..1]).enumerate()
    {
        let to = at(&format!("{number}"));
        let options = terrace::Options::preset(preset).unwrap();
        if options.device {
            terrace(["raw", "format", &to, "--size", "64MiB"]).ok();
        } else if options.split {
            terrace(["raw", "format", &at("data"), "--size", "64MiB", "--meta", &to]).ok();
        }
        // Use a durability mode that every file system supports.
        let anywhere = ["--option", "durability=background"];
        let said = terrace(["convert", &from, &to, "--preset", preset].iter().chain(&anywhere)).ok();
        let said = String::from_utf8(said).unwrap();
        assert!(said.starts_with("copied 3000 pairs"), "{preset}: {said}");
        assert!(terrace(["dump", &to]).ok() == wanted, "{preset}");
        terrace(["check", &to, "--deep"]).ok();
        from = to;
    }
    assert!(bytes_of(&store) == before, "the source was changed");
    terrace(["convert", store.to_str().unwrap(), &at("lz4"), "--option", "compression=lz4"]).ok();
    terrace(["convert", &at("lz4"), &at("back")]).ok();
    assert!(terrace(["dump", &at("back")]).ok() == wanted);
}

#[test]
fn a_conversion_that_was_killed_goes_on() {
    let (folder, store) = fresh();
    let (store, to) = (store.to_str().unwrap(), folder.path().join("to").to_str().unwrap().to_owned());
    fill(store, 60_000);
    let mut kills = 0;
    for wait in (20..).step_by(20) {
        let mut child = command(["convert", store, &to, "--option", "write_buffer_size=64KiB"]).spawn().unwrap();
        sleep(Duration::from_millis(wait));
        child.kill().unwrap();
        child.wait().unwrap();
        if Path::new(&to).exists() {
            break;
        }
        kills += 1;
        if kills == 6 {
            terrace(["convert", store, &to, "--json"]).ok();
            break;
        }
    }
    assert!(kills > 0, "it was never cut short");
    assert!(terrace(["dump", &to]).ok() == terrace(["dump", store]).ok());
    assert!(!Path::new(&format!("{to}.converting")).exists() && !Path::new(&to).join("CONVERTING").exists());
}

#[test]
fn what_will_not_do_is_refused() {
    let (folder, store) = fresh();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let store = store.to_str().unwrap();
    fill(store, 10);
    fs::create_dir(at("full")).unwrap();
    fill(&at("full"), 10);
    let full = terrace(["convert", store, &at("full")]).fails(1);
    assert!(full.contains("not empty"), "{full}");
    let missing = terrace(["convert", &at("absent"), &at("to")]).fails(1);
    assert!(missing.contains("absent"), "{missing}");
    assert!(terrace(["convert", store, &at("to"), "--preset", "fast"]).fails(2).contains("fast"));
    assert!(!Path::new(&at("to")).exists() && !Path::new(&at("to.converting")).exists());

    let within = terrace(["convert", store, &format!("{store}/sub")]).fails(1);
    assert!(within.contains("name a directory outside the store"), "{within}");
    let same = terrace(["convert", store, &format!("{store}/../store")]).fails(1);
    assert!(same.contains("is the source store itself"), "{same}");

    // The directory looks like an interrupted conversion of an earlier state of the source.
    fs::create_dir(at("to.converting")).unwrap();
    fs::write(at("to.converting/CONVERTING"), r#"{"source":"elsewhere","last_sequence":1}"#).unwrap();
    let other = terrace(["convert", store, &at("to")]).fails(1);
    assert!(other.contains("remove it to start again"), "{other}");
    fs::remove_file(at("to.converting/CONVERTING")).unwrap();
    fs::write(at("to.converting/notes"), "mine").unwrap();
    let foreign = terrace(["convert", store, &at("to")]).fails(1);
    assert!(foreign.contains("to.converting is not empty"), "{foreign}");
}

/// Returns the record of a conversion of `store` into the default layout.
fn record(store: &Path) -> String {
    let last = terrace::Db::open_read_only(store, terrace::Options::default()).unwrap().last_sequence();
    let source = store.canonicalize().unwrap();
    format!(
        r#"{{"source":"{}","last_sequence":{last},"tables":"block","values":"table","range_tombstones":false,"lz4":false}}"#,
        source.display()
    )
}

/// Tests a conversion that was killed after it had copied everything. The next run must complete
/// it. The first process is killed in one case before the rename of the directory, in another case
/// after the rename and before the removal of the record.
#[test]
fn one_that_was_killed_near_its_end_ends() {
    let (folder, store) = fresh();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fill(store.to_str().unwrap(), 300);
    for left in ["to.converting", "to"] {
        terrace(["convert", store.to_str().unwrap(), &at("whole")]).ok();
        fs::write(at("whole/CONVERTING"), record(&store)).unwrap();
        fs::rename(at("whole"), at(left)).unwrap();
        let said = terrace(["convert", store.to_str().unwrap(), &at("to")]).ok();
        assert!(String::from_utf8_lossy(&said).contains("continued an interrupted conversion"));
        assert!(terrace(["dump", &at("to")]).ok() == terrace(["dump", store.to_str().unwrap()]).ok());
        assert!(!Path::new(&at("to/CONVERTING")).exists() && !Path::new(&at("to.converting")).exists());
        fs::remove_dir_all(at("to")).unwrap();
    }
}

/// Tests that a conversion into another layout does not continue an existing conversion. An
/// earlier version continued it, and reported that everything was copied.
#[test]
fn what_was_begun_as_something_else_is_not_taken_up() {
    let (folder, store) = fresh();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fill(store.to_str().unwrap(), 10);
    fs::create_dir(at("to.converting")).unwrap();
    fs::write(at("to.converting/CONVERTING"), record(&store)).unwrap();
    let refused = terrace(["convert", store.to_str().unwrap(), &at("to"), "--preset", "bolt"]).fails(1);
    assert!(refused.contains("begun with tables=block, not tables=bundled"), "{refused}");
    terrace(["convert", store.to_str().unwrap(), &at("to")]).ok();
}

/// Tests a conversion to a device that already has a store which differs from the source. This
/// store must stay unchanged, because a device has no record of a conversion's source. An earlier
/// version treated any store as a partial copy if its last pair was also in the source.
#[test]
fn a_device_with_pairs_of_its_own_stays_as_it_is() {
    let (folder, store) = fresh();
    let (store, device) = (store.to_str().unwrap(), folder.path().join("device"));
    let device = device.to_str().unwrap();
    terrace(["raw", "format", device, "--size", "64MiB"]).ok();
    fill(store, 100);
    terrace(["convert", store, device]).ok();
    let before = terrace(["dump", device]).ok();
    fill(store, 300); // the source now has other pairs, but still has the last pair of the device
    let refused = terrace(["convert", store, device]).fails(1);
    assert!(refused.contains("nothing was changed"), "{refused}");
    assert!(terrace(["dump", device]).ok() == before, "MIXED");
}

/// Tests that all column families are converted, and that a target that cannot have families
/// refuses the conversion.
#[test]
fn column_families_are_converted() {
    let (folder, store) = fresh();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let store = store.to_str().unwrap();
    terrace_with(["load", store, "-"], b"a\t1\nb\t2\n").ok();
    terrace_with(["load", store, "--cf", "users", "-"], b"a\tann\n").ok();
    let said = terrace(["convert", store, &at("to"), "--preset", "bundled"]).ok();
    assert!(String::from_utf8(said).unwrap().starts_with("copied 3 pairs"));
    assert_eq!(terrace(["dump", &at("to"), "--cf", "users"]).ok(), b"a\tann\n");
    assert_eq!(terrace(["dump", &at("to"), "--cf", "default"]).ok(), b"a\t1\nb\t2\n");
    let refused = terrace(["convert", store, &at("log"), "--preset", "wisckey"]).fails(1);
    assert!(refused.contains("values=log"), "{refused}");
}
