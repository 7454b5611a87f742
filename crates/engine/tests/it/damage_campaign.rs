//! A campaign that applies every kind of damage to every file of small stores, in each table form.
//! After the damage, an open, a scan, a check or a repair must report each difference from the
//! written data. A difference that none of these operations reports is called *silent*. The tests
//! require that there is no silent difference.
//!
//! By default a sample of the offsets of each file is damaged. `TERRACE_DAMAGES` sets the count of
//! offsets for each file, and `TERRACE_SEED` selects the sample.
use crate::common::{corrupt_entries, kit};
use kit::Model;
use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
};
use tempfile::TempDir;
use terrace::{Db, GcMode, Options, ReadOptions, WriteOptions, check};
use terrace_sim::Rng;

fn number(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

fn options(form: &[(&str, &str)]) -> Options {
    let mut options = corrupt_entries::options(&[form, &[("range_tombstones", "on"), ("bloom_bits", "10")]].concat());
    (
        options.level0_file_num_compaction_trigger,
        options.level0_slowdown_writes_trigger,
        options.level0_stop_writes_trigger,
    ) = (100, 100, 100);
    options.value_log_gc = GcMode::Off;
    options
}

/// Makes a store with tables in several levels and empty WALs. Returns its directory, its pairs
/// and its deleted keys.
fn store(form: &[(&str, &str)]) -> (TempDir, Model, BTreeSet<Vec<u8>>) {
    let (folder, mut model, mut ever) = (tempfile::tempdir().unwrap(), Model::new(), BTreeSet::new());
    let path = folder.path().join("store");
    let db = Db::open(&path, options(form)).unwrap();
    for round in 0..4_usize {
        for at in (round..120).step_by(round + 1) {
            let key = format!("key{at:03}").into_bytes();
            let bytes = if at % 17 == 0 { 3000 } else { 30 };
            let value = format!("{round} of {at} ").into_bytes().repeat(bytes / 8);
            db.put(&key, &value).unwrap();
            ever.insert(key.clone());
            model.insert(key, value);
        }
        for at in (0..120).skip(round).step_by(13) {
            let key = format!("key{at:03}").into_bytes();
            db.delete(&key).unwrap();
            model.remove(&key);
        }
        let (from, to) = (format!("key{:03}", 20 * round + 5), format!("key{:03}", 20 * round + 12));
        db.delete_range(&from, &to, WriteOptions::default()).unwrap();
        model.retain(|key, _| **key < *from.as_bytes() || **key >= *to.as_bytes());
        db.flush().unwrap();
        if round == 1 {
            db.compact_range(None, None).unwrap();
        }
    }
    db.close().unwrap();
    // After this open, WALs are empty and the manifest is a single edit.
    Db::open(&path, options(form)).unwrap().close().unwrap();
    (folder, model, ever)
}

/// A way to damage a file, at an offset.
type Damage = fn(&mut Vec<u8>, usize);

const DAMAGES: &[(&str, Damage)] = &[
    ("a bit flipped", |bytes, at| bytes[at] ^= 1 << (at % 8)),
    ("cut", |bytes, at| bytes.truncate(at)),
    ("zeros to the end", |bytes, at| bytes[at..].fill(0)),
    ("a sector of zeros", |bytes, at| {
        let end = bytes.len().min(at / 512 * 512 + 512);
        bytes[at / 512 * 512..end].fill(0);
    }),
    ("noise", |bytes, at| {
        let end = bytes.len().min(at + 64);
        bytes[at..end].iter_mut().enumerate().for_each(|(n, byte)| *byte = (n * 37 + at) as u8);
    }),
];

/// The kinds of damage that concern the whole file instead of an offset.
const WHOLE: &[(&str, Damage)] = &[
    ("emptied", |bytes, _| bytes.clear()),
    ("with trailing zeros", |bytes, _| bytes.extend([0; 4096])),
    ("twice in one file", |bytes, _| bytes.extend_from_within(..)),
];

/// A damaged store to be judged, and its expected contents.
struct Case<'a> {
    name: String,
    path: PathBuf,
    options: &'a Options,
    model: &'a Model,
    ever: &'a BTreeSet<Vec<u8>>,
}

impl Case<'_> {
    /// Returns the silent differences of this store, those that no operation reports, each as a
    /// text.
    fn silent(&self) -> Vec<String> {
        let mut silent = Vec::new();
        let check = check(&self.path, self.options, true);
        let reported = check.as_ref().map_or(true, |found| !found.problems.is_empty() || !found.torn_wals.is_empty());
        if let Ok(db) = Db::open_read_only(&self.path, self.options.clone()) {
            for how in ["forward", "backward", "gets"] {
                match self.read(&db, how) {
                    Ok(same) if !same && !reported => {
                        silent.push(format!("{}: {how} differs, check is content", self.name))
                    }
                    Err(error) if !reported => silent.push(format!("{}: {how}: {error}; check is content", self.name)),
                    _ => {}
                }
            }
            for how in ["forward", "backward"] {
                if let Ok(false) = self.read(&db, how) {
                    silent.push(format!("{}: {how} is another store's, without an error", self.name));
                }
            }
        }
        let to = tempfile::tempdir().unwrap();
        match Db::repair(&self.path, to.path().join("new"), self.options) {
            Err(error) => silent.push(format!("{}: repair: {error}", self.name)),
            Ok(report) => {
                let left: Model = kit::contents(&Db::open(to.path().join("new"), self.options.clone()).unwrap())
                    .unwrap()
                    .into_iter()
                    .collect();
                if left != *self.model && report.lost.is_empty() {
                    let differ = left.iter().filter(|(key, value)| self.model.get(*key) != Some(value)).count();
                    let (is, was) = (left.len(), self.model.len());
                    silent
                        .push(format!("{}: repair has {is} of {was} pairs, {differ} differ, nothing lost", self.name));
                }
            }
        }
        silent
    }

    /// Reads the store in the way `how`. Returns whether the read returns exactly the pairs that
    /// were written.
    fn read(&self, db: &Db, how: &str) -> terrace::Result<bool> {
        let options = || ReadOptions::new().verify_checksums(true);
        let collected: terrace::Result<Model> = match how {
            "forward" => db.scan(options()).collect(),
            "backward" => db.scan_reverse(options()).collect(),
            _ => {
                let all = self.ever.iter().map(|key| Ok((key.clone(), db.get_with(key, &options())?)));
                let found: terrace::Result<Vec<_>> = all.collect();
                return Ok(found?.into_iter().all(|(key, value)| self.model.get(&key) == value.as_ref()));
            }
        };
        Ok(collected? == *self.model)
    }
}

fn is_data(path: &Path) -> bool {
    let name = path.file_name().unwrap().to_string_lossy();
    !["LOCK", "LOG", "LOG.old", "RESERVE"].contains(&&*name)
}

fn campaign(form: usize) {
    let (name, chosen) = corrupt_entries::FORMS[form];
    let (intact, model, ever) = store(chosen);
    let (intact, options) = (intact.path().join("store"), options(chosen));
    let files: Vec<PathBuf> =
        kit::names_below(&intact).into_iter().map(|path| path.strip_prefix(&intact).unwrap().to_path_buf()).collect();
    let files: Vec<PathBuf> = files.into_iter().filter(|file| is_data(file)).collect();
    let judge = |what: String, change: &dyn Fn(&Path)| {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("store");
        corrupt_entries::copy(&intact, &path);
        change(&path);
        Case { name: format!("{name}: {what}"), path, options: &options, model: &model, ever: &ever }.silent()
    };
    let mut silent = judge("no damage".into(), &|_| ());
    let mut rng = Rng::of(number("TERRACE_SEED", 1), form as u64);
    let mut cases = 1;
    // A directory table has many similar files, so only a sample of them is damaged.
    let sample: Vec<&PathBuf> = files
        .iter()
        .filter(|file| file.components().count() < 3 || file.ends_with("META") || rng.chance(1, 100))
        .collect();
    for file in sample {
        let bytes = fs::read(intact.join(file)).unwrap();
        let write = |damage: Damage, at: usize| {
            let mut bytes = bytes.clone();
            damage(&mut bytes, at);
            move |store: &Path| fs::write(store.join(file), &bytes).unwrap()
        };
        for (what, damage) in DAMAGES {
            for _ in 0..if bytes.is_empty() { 0 } else { number("TERRACE_DAMAGES", 1) } {
                let at = rng.below(bytes.len());
                silent.extend(judge(format!("{}, {what} at {at}", file.display()), &write(*damage, at)));
                cases += 1;
            }
        }
        for (what, damage) in WHOLE {
            silent.extend(judge(format!("{}, {what}", file.display()), &write(*damage, 0)));
            cases += 1;
        }
        silent
            .extend(judge(format!("{} removed", file.display()), &|store| fs::remove_file(store.join(file)).unwrap()));
        let alike = |other: &&PathBuf| *other != file && other.extension() == file.extension();
        for other in files.iter().filter(alike).filter(|other| other.extension().is_some()) {
            let swap = |store: &Path| {
                let [a, b] = [file, other].map(|name| fs::read(store.join(name)).unwrap());
                fs::write(store.join(file), b).unwrap();
                fs::write(store.join(other), a).unwrap();
            };
            silent.extend(judge(format!("{} and {} exchanged", file.display(), other.display()), &swap));
            cases += 1;
        }
    }
    println!("{name}: {cases} damaged stores");
    assert!(silent.is_empty(), "{} silent of {cases}:\n{}", silent.len(), silent.join("\n"));
}

#[test]
fn nothing_is_silent_in_files() {
    campaign(0);
}

#[test]
fn nothing_is_silent_in_bundles() {
    campaign(1);
}

#[test]
fn nothing_is_silent_in_directories() {
    campaign(2);
}

#[test]
fn nothing_is_silent_with_separated_values() {
    campaign(3);
}
