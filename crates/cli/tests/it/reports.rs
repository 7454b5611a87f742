//! Tests the reports of `stats`, `compact`, `check`, `inspect` and `doctor`, as text and as JSON.
use crate::common;
use common::{fresh, json, terrace, terrace_with, text};
use serde_json::Value;
use std::{fs, path::Path};

/// Creates a store with an SSTable, an overwritten key, a deleted key, and a WAL that is not
/// flushed.
fn make(store: &str) {
    let lines: String = (0..1000).map(|n| format!("key{n:05}\told {n}\n")).collect();
    terrace_with(["load", store, "-"], lines.as_bytes()).ok();
    terrace(["compact", store]).ok();
    terrace(["put", store, "key00007", "new"]).ok();
    terrace(["delete", store, "key00008"]).ok();
}

fn file(store: &str, wanted: impl Fn(&str) -> bool) -> String {
    let names = fs::read_dir(store).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let name = names.into_iter().find(|name| wanted(name)).expect("the store has such a file");
    Path::new(store).join(name).to_str().unwrap().to_owned()
}

#[test]
fn stats_count() {
    let (_directory, store) = fresh();
    let store = store.to_str().unwrap();
    make(store);
    let stats = json(["stats", store, "--json"]);
    assert_eq!(stats["last_sequence"], 1002);
    assert!(["group", "background"].contains(&stats["durability"].as_str().unwrap()), "{stats}");
    assert_eq!(stats["levels"].as_array().unwrap().len(), 7);
    let tables: u64 = stats["levels"].as_array().unwrap().iter().map(|level| level["tables"].as_u64().unwrap()).sum();
    assert!(tables >= 1);
    assert!(text(terrace(["stats", store]).ok()).contains("last sequence  1002"));
    let volatile = text(terrace(["stats", store, "--preset", "volatile"]).ok());
    assert!(volatile.contains("none (no durability across a power cut)"), "{volatile}");
}

#[test]
fn bundles_are_shown() {
    let (_directory, store) = fresh();
    let store = store.to_str().unwrap();
    // Two flushes of the same keys, which are then compacted into several small SSTables.
    for value in ["a", "b"] {
        let lines: String = (0..500).map(|n| format!("{n:05}\t{}\n", value.repeat(500))).collect();
        let small = ["--option", "target_file_size=64KiB", "--option", "compression=none"];
        terrace_with([&["load", store, "-", "--preset", "bolt"][..], &small].concat(), lines.as_bytes()).ok();
        terrace([&["compact", store][..], &small].concat()).ok();
    }
    assert_eq!(json(["stats", store, "--json"])["made_of"]["table_format"], "bundled");
    assert!(text(terrace(["stats", store]).ok()).contains("directory, bundled tables, values in table"));
    assert!(text(terrace(["check", store]).ok()).contains("bundled tables"));
    assert!(text(terrace(["inspect", store]).ok()).contains("features bundled-tables"));
    let bundle = file(store, |name| name.ends_with(".bundle"));
    let tables = json(["inspect", &bundle, "--json"])["tables"].as_array().unwrap().clone();
    assert!(tables.len() > 2, "{tables:?}");
    let entries = tables.iter().map(|table| table["table"]["facts"]["entries"].as_u64().unwrap()).sum::<u64>();
    assert_eq!(entries, 500);
    let shown = text(terrace(["inspect", &bundle, "--entries"]).ok());
    assert!(shown.contains("there") && shown.contains("00499"), "{shown}");
    fs::write(&bundle, "short").unwrap();
    assert!(terrace(["inspect", &bundle]).fails(1).contains("too short for a bundle"));
    let checked = terrace(["check", store]);
    assert!(
        checked.status == 1 && text(checked.out).contains(".bundle has 5 bytes"),
        "the store opens, and check lists it"
    );
    let refused = terrace(["put", store, "k", "v", "--option", "tables=block"]).fails(1);
    assert!(refused.contains("tables=block") && refused.contains("terrace convert"), "{refused}");
}

#[test]
fn compact_drops_what_is_gone() {
    let (_directory, store) = fresh();
    let store = store.to_str().unwrap();
    make(store);
    let lines: String = (0..1000).map(|n| format!("key{n:05}\n")).collect();
    // This preset has no tombstone compactions, which would compact before the command does.
    let numbers = ["--preset", "leveldb"];
    terrace_with(["load", store, "-", "--deletes"].iter().chain(&numbers), lines.as_bytes()).ok();
    let report = json(["compact", store, "--json"].iter().chain(&numbers));
    let bytes =
        |levels: &Value| levels.as_array().unwrap().iter().map(|level| level["bytes"].as_u64().unwrap()).sum::<u64>();
    assert!(bytes(&report["before"]) > 0);
    assert_eq!(bytes(&report["after"]), 0, "every key was deleted: {report}");
    assert!(text(terrace(["compact", store, "--from", "a", "--to", "b"]).ok()).contains("tables after"));
}

#[test]
fn check_finds_a_good_store_good() {
    let (_directory, store) = fresh();
    let store = store.to_str().unwrap();
    make(store);
    let said = text(terrace(["check", store]).ok());
    assert!(said.contains("no problems"), "{said}");
    let report = json(["check", store, "--json"]);
    assert_eq!(report["ok"], true);
    assert_eq!(report["last_sequence"], 1002);
    assert!(report["entries"].as_u64().unwrap() >= 1000);
    assert_eq!(json(["check", store, "--quick", "--json"])["entries"], Value::Null);
}

#[test]
fn inspect_shows_a_store_and_each_of_its_files() {
    let (_directory, store) = fresh();
    let store = store.to_str().unwrap();
    make(store);
    let said = text(terrace(["inspect", store]).ok());
    for word in ["leveldb.BytewiseComparator", "SSTables in key order", "MANIFEST-", "edits", "written by", "Terrace"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    let whole = json(["inspect", store, "--json"]);
    assert_eq!((&whole["marker"]["in_batches"], &whole["marker"]["features"]), (&true.into(), &Value::Array(vec![])));
    assert_eq!(whole["levels"].as_array().unwrap().len(), 7);
    assert!(!whole["logs"].as_array().unwrap().is_empty());

    assert_eq!((&whole["unnamed"]["tables"], said.contains("not in the manifest")), (&0.into(), false));

    let table = file(store, |name| name.ends_with(".ldb"));
    let shown = json(["inspect", &table, "--entries", "--json"]);
    let count = shown["entries"].as_array().unwrap().len() as u64;
    assert_eq!(shown["facts"]["entries"], count);
    assert!(text(terrace(["inspect", &table]).ok()).contains("codec snappy"));

    let manifest = file(store, |name| name.starts_with("MANIFEST-"));
    let edits = text(terrace(["inspect", &manifest, "--json"]).ok());
    let edits: Vec<Value> = edits.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(edits[0]["comparator"], "leveldb.BytewiseComparator");
    assert_eq!(edits.last().unwrap()["end"], true);
    assert!(text(terrace(["inspect", &manifest]).ok()).contains("written by Terrace"));

    let log = file(store, |name| name.ends_with(".log"));
    assert!(text(terrace(["inspect", &log, "--entries"]).ok()).contains("head of the WAL or durable mark"));
    let current = file(store, |name| name == "CURRENT");
    assert!(text(terrace(["inspect", &current]).ok()).contains("MANIFEST-"));
    let lock = file(store, |name| name == "LOCK");
    assert!(text(terrace(["inspect", &lock]).ok()).contains("0 bytes: locked while the store is open"));
    for (name, words) in
        [("UNSYNCED", "durability=none"), ("RESERVE", "disk is full"), ("000009.dbtmp", "a temporary version")]
    {
        let sign = Path::new(store).join(name);
        fs::write(&sign, "").unwrap();
        assert!(json(["inspect", sign.to_str().unwrap(), "--json"])["meaning"].as_str().unwrap().contains(words));
    }
    let other = Path::new(store).join("notes.txt");
    fs::write(&other, "").unwrap();
    assert!(terrace(["inspect", other.to_str().unwrap()]).fails(1).contains("not a file name of a store"));
}

#[test]
fn inspect_counts_tables_that_the_manifest_does_not_name() {
    let directory = tempfile::tempdir().unwrap();
    for (preset, file) in [("default", "000999.ldb"), ("bolt", "000999.bundle"), ("delsm", "L1/000999/META")] {
        let path = directory.path().join(preset);
        let store = path.to_str().unwrap();
        terrace(["put", store, "k", "value", "--preset", preset]).ok();
        terrace(["put", store, "l", "value"]).ok();
        terrace(["compact", store]).ok();
        assert_eq!(json(["inspect", store, "--json"])["unnamed"], serde_json::json!({ "tables": 0, "bytes": 0 }));
        let file = path.join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, [0; 77]).unwrap();
        assert_eq!(json(["inspect", store, "--json"])["unnamed"], serde_json::json!({ "tables": 1, "bytes": 77 }));
        assert!(text(terrace(["inspect", store]).ok()).contains("1 more, 77 B, not in the manifest"));
    }
}

#[test]
fn inspect_shows_a_torn_log_as_it_is() {
    let (directory, store) = fresh();
    let store = store.to_str().unwrap();
    terrace(["put", store, "k", "v"]).ok();
    let bytes = fs::read(file(store, |name| name.ends_with(".log"))).unwrap();
    let torn = directory.path().join("000099.log");
    fs::write(&torn, &bytes[..bytes.len() - 1]).unwrap();
    let said = text(terrace(["inspect", torn.to_str().unwrap()]).ok());
    assert!(said.contains("next sequence number 1") && said.contains("followed by an incomplete record"), "{said}");
}

#[test]
fn a_marker_is_shown() {
    let (_directory, store) = fresh();
    let store = store.to_str().unwrap();
    terrace(["put", store, "k", "v", "--option", "compression=lz4"]).ok();
    let whole = json(["inspect", store, "--json"]);
    assert_eq!(whole["marker"]["features"][0], "lz4");
    let marker = file(store, |name| name == "TERRACE");
    assert_eq!(json(["inspect", &marker, "--json"])["version"], 1);
    let doctor = json(["doctor", store, "--json"]);
    assert!(doctor["store"]["value"].as_str().unwrap().contains("features = lz4"), "{doctor}");
}

#[test]
fn doctor_examines_and_leaves_nothing() {
    let (directory, store) = fresh();
    let store = store.to_str().unwrap();
    let doctor = |arguments: &[&str]| json(["doctor", "--json"].iter().chain(arguments));
    let value = |object: &Value, name: &str| object[name]["value"].as_str().unwrap_or_default().to_owned();

    let nothing = doctor(&[store]);
    for name in [
        "kernel",
        "file_system",
        "journal",
        "discard",
        "free_space",
        "direct_io",
        "reflink",
        "bpf",
        "fuse",
        "loop",
        "io_uring",
        "tier_group",
        "tier_journal",
        "tier_journal_bpf",
    ] {
        assert!(!value(&nothing, name).is_empty(), "{name}: {nothing}");
    }
    assert!(value(&nothing, "store").contains("none yet"), "{nothing}");
    assert!(value(&nothing, "durability").starts_with("inherit, which is auto, which is "), "{nothing}");
    assert_eq!(value(&doctor(&[store, "--preset", "volatile"]), "durability"), "none");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    let old = directory.path().join("old");
    terrace(["put", old.to_str().unwrap(), "k", "v", "--preset", "leveldb"]).ok();
    let old = doctor(&[old.to_str().unwrap()]);
    assert_eq!(value(&old, "durability"), "inherit, which is sync here", "{old}");
    assert!(old["durability"]["advice"].as_str().unwrap().contains("durability=auto"), "{old}");

    terrace(["put", store, "k", &"v".repeat(1000)]).ok();
    let plain = doctor(&[store]);
    assert!(value(&plain, "store").contains("LevelDB's format"), "{plain}");
    assert!(plain["codecs"].is_null(), "{plain}");
    terrace(["compact", store, "--option", "compression=zstd"]).ok();
    assert!(value(&doctor(&[store]), "codecs").contains("1 tables hold zstd"));
    assert!(value(&doctor(&[store, "--option", "compression=zstd"]), "codecs").contains("zstd"));

    fs::write(directory.path().join("IDENTITY"), "x").unwrap();
    assert!(value(&doctor(&[directory.path().to_str().unwrap()]), "store").contains("RocksDB"));
    assert!(text(terrace(["doctor", store]).ok()).contains("file system"));
}

/// Tests that the durability modes which `doctor` reports as unsupported are refused by an open
/// for the same reason, and that all other modes work.
#[test]
fn doctor_foretells_refusals() {
    let (directory, _) = fresh();
    for durability_mode in ["sync", "background", "group", "journal", "journal-bpf", "auto"] {
        let (store, option) = (directory.path().join(durability_mode), format!("durability={durability_mode}"));
        let store = store.to_str().unwrap();
        let told = json(["doctor", store, "--json", "--option", &option])["durability"].clone();
        let put = terrace(["put", store, "k", "v", "--option", &option]);
        match told["advice"].as_str().and_then(|advice| advice.strip_prefix("not supported here: ")) {
            None => drop(put.ok()),
            Some(why) => {
                let (why, instead) = why.split_once("; use ").expect(why);
                assert!(put.fails(1).contains(why), "{told}");
                terrace(["put", store, "k", "v", "--option", "durability=background"]).ok();
                assert!(instead.contains("background"), "{told}");
            }
        }
    }
}

#[test]
fn repair_salvages_and_lists_what_was_lost() {
    let (directory, store) = fresh();
    let store = store.to_str().unwrap();
    make(store);
    let table = file(store, |name| name.ends_with(".ldb"));
    let mut bytes = fs::read(&table).unwrap();
    bytes[1000] ^= 0x10;
    fs::write(&table, bytes).unwrap();
    fs::remove_file(file(store, |name| name == "CURRENT")).unwrap();
    let before: Vec<_> = fs::read_dir(store).unwrap().map(|entry| entry.unwrap().path()).collect();

    let new = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let said = text(terrace(["repair", store, &new("one")]).ok());
    assert!(said.contains(&table) && said.contains("checksum") && said.contains("key00"), "{said}");
    assert!(said.contains("CURRENT") && said.contains("2 losses"), "{said}");
    let report = json(["repair", store, &new("two"), "--json"]);
    assert_eq!(report["lost"].as_array().unwrap().len(), 2);
    let pairs = report["pairs"].as_u64().unwrap();
    assert!((700..999).contains(&pairs), "{report}");
    assert_eq!(text(terrace(["scan", &new("two"), "--keys-only"]).ok()).lines().count() as u64, pairs);
    assert_eq!(terrace(["get", &new("one"), "key00007"]).ok(), b"new\n");
    assert!(terrace(["get", &new("one"), "key00008"]).fails(1).contains("no such key"));
    assert_eq!(fs::read_dir(store).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>(), before);

    let again = json(["repair", &new("one"), &new("three"), "--json"]);
    assert_eq!((again["pairs"].as_u64(), again["lost"].as_array().unwrap().len()), (Some(pairs), 0));
    assert!(terrace(["repair", store, &new("one")]).fails(1).contains("not empty"));
    assert!(terrace(["repair", store, &format!("{store}/new")]).fails(1).contains("writes nothing"));
    assert!(terrace(["repair", &new("absent"), &new("four")]).fails(1).contains("absent"));
    assert!(!Path::new(&new("four")).exists());
    assert!(terrace(["repair", store, store]).fails(1).contains("is the damaged store itself"));
    assert!(terrace(["repair", store]).fails(2).contains("DST"));
}

#[test]
fn a_checkpoint_is_a_store() {
    let (directory, store) = fresh();
    let store = store.to_str().unwrap();
    make(store);
    let new = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let said = text(terrace(["checkpoint", store, &new("one")]).ok());
    assert!(said.contains("sequence number 1002") && said.contains(" 0 copied"), "{said}");
    let made = json(["checkpoint", store, &new("two"), "--json"]);
    assert!(made["linked"].as_u64().unwrap() > 0 && made["copied"] == 0, "{made}");
    terrace(["delete", store, "key00001"]).ok();
    terrace(["compact", store]).ok();
    assert_eq!(terrace(["get", &new("one"), "key00001"]).ok(), b"old 1\n");
    assert!(text(terrace(["check", &new("one")]).ok()).contains("no problems"));
    assert!(terrace(["checkpoint", store, &new("one")]).fails(1).contains("not empty"));
    assert!(terrace(["checkpoint", store, store]).fails(1).contains("is the source store itself"));
    assert!(terrace(["checkpoint", store, &format!("{store}/copy")]).fails(1).contains("lies within"));
    assert!(!Path::new(&format!("{store}/copy")).exists());
    fs::create_dir(new("mine")).unwrap();
    fs::write(format!("{}/notes.txt", new("mine")), "").unwrap();
    assert!(terrace(["checkpoint", store, &new("mine")]).fails(1).contains("notes.txt"));
}

#[test]
fn inspect_explains_directory_tables() {
    let (_directory, store) = fresh();
    let store = store.to_str().unwrap();
    let preset = ["--preset", "delsm", "--option", "durability=none"];
    terrace_with(["load", store, "-"].into_iter().chain(preset), b"apple\tred\nlemon\tyellow\n").ok();
    terrace(["compact", store].into_iter().chain(preset)).ok();
    assert!(text(terrace(["inspect", store]).ok()).contains("directory"));
    let inside = |folder: &Path| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    let levels = inside(Path::new(store)).into_iter().filter(|path| path.is_dir());
    let table = levels.flat_map(|level| inside(&level)).next().expect("a folder of a table");
    let table = table.to_str().unwrap();
    let said = text(terrace(["inspect", table, "--entries"]).ok());
    assert!(said.contains("2 in files of 9 bytes") && said.contains("'apple'@1 = 3 bytes in apple.1."), "{said}");
    let pair = file(table, |name| name.starts_with("lemon."));
    assert!(text(terrace(["inspect", &pair]).ok()).contains("6 bytes: 'yellow'"));
    assert_eq!(json(["inspect", &pair, "--json"])["sequence"], 2);
    assert_eq!(json(["inspect", table, "--json"])["pairs"]["files"], 2);
    fs::write(&pair, "green").unwrap();
    let refused = terrace(["inspect", &pair]).fails(1);
    assert!(refused.contains("its contents do not match its name"), "{refused}");
}

#[test]
fn advise_reads_the_store_and_its_last_session() {
    let (_directory, store) = fresh();
    let store = store.to_str().unwrap();
    make(store);
    let advice = text(terrace(["advise", store]).ok());
    assert!(advice.contains("keys of 8 B and values of") && advice.contains("Nothing limits this store"), "{advice}");
    // The statistics of a session in which writes waited for flushes.
    let log = Path::new(store).join("LOG");
    let session = r#"2026 statistics: {"seconds":100,"preset":"default","stall_seconds":{"memtables":40,"level0":1}}"#;
    fs::write(&log, format!("{session}\n")).unwrap();
    let advice = text(terrace(["advise", store]).ok());
    assert!(advice.contains("1. Writes waited 41.0 s of 100 s (41 %), mostly for flushes."), "{advice}");
    let advice = json(["advise", store, "--json"]);
    assert_eq!(advice["advice"][0]["limit"], "write_stalls");
    assert_eq!(advice["store"]["session"]["seconds"], 100);
    assert!(terrace(["advise", "none"]).fails(1).contains("none"));
}

#[test]
fn a_closed_store_has_statistics_in_its_log() {
    let (_directory, store) = fresh();
    let store = store.to_str().unwrap();
    make(store);
    let log = fs::read_to_string(Path::new(store).join("LOG")).unwrap();
    let line = log.lines().find_map(|line| line.split_once("statistics: ")).expect("a line with statistics").1;
    let statistics: Value = serde_json::from_str(line).unwrap();
    assert_eq!((&statistics["last_sequence"], &statistics["preset"]), (&1002.into(), &"default".into()), "{line}");
    for number in ["seconds", "lookups", "storage_reads", "stalls", "memory_budget"] {
        assert!(statistics[number].is_number(), "{number} in {line}");
    }
}

#[test]
fn commands_follow_a_store_that_a_process_writes() {
    let (_directory, store) = fresh();
    let path = store.clone();
    let store = store.to_str().unwrap();
    make(store);
    let writer = terrace::Db::open(&path, terrace::Options::default()).unwrap();
    writer.put("key00009", "newer").unwrap();
    assert!(terrace(["get", store, "key00009"]).fails(1).contains("--follow"), "the error names the flag");
    assert_eq!(text(terrace(["get", store, "key00009", "--follow"]).ok()), "newer\n");
    for command in ["scan", "dump"] {
        let pairs = text(terrace([command, store, "--follow"]).ok());
        assert!(pairs.contains("key00009") && !pairs.contains("key00008"), "{command}: {pairs}");
    }
    assert_eq!(json(["stats", store, "--json", "--follow"])["last_sequence"], 1003);
    assert!(text(terrace(["advise", store, "--follow"]).ok()).contains("keys of 8 B"));
    writer.put("key00008", "still writable").unwrap();
    writer.close().unwrap();
}
