//! Tests the command `backup`.
use crate::common;
use common::{fresh, json, terrace, terrace_with, text};
use std::{fs, path::Path};

/// Tests backups of a store, also of one on a device, and wrong arguments.
#[test]
fn backups_are_made_verified_restored_and_removed() {
    let (directory, store) = fresh();
    let store = store.to_str().unwrap();
    let lines: String = (0..1000).map(|n| format!("key{n:05}\told {n}\n")).collect();
    terrace_with(["load", store, "-"], lines.as_bytes()).ok();
    let new = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let place = &new("backups");
    let said = text(terrace(["backup", "create", store, place]).ok());
    assert!(said.starts_with("backup 1 contains all writes up to sequence number 1000: "), "{said}");
    terrace(["put", store, "key00001", "newer"]).ok();
    let made = json(["backup", "create", store, place, "--json", "--rate", "100MiB"]);
    assert!(made["id"] == 2 && made["added_bytes"].as_u64() < made["bytes"].as_u64(), "{made}");
    terrace(["raw", "format", &new("device"), "--size", "16MiB"]).ok();
    terrace(["put", &new("device"), "k", "v"]).ok();
    let refused = terrace(["backup", "create", &new("device"), place]).fails(1);
    assert!(refused.contains("has no directory of its own"), "{refused}");
    terrace(["backup", "create", &new("device"), place, "--scratch", &new("scratch")]).ok();

    let listed = json(["backup", "list", place, "--json"]);
    assert!(listed["backups"].as_array().unwrap().len() == 3 && listed["damaged"] == serde_json::json!([]));
    assert_eq!(text(terrace(["backup", "list", place]).ok()).lines().count(), 4);
    assert!(text(terrace(["backup", "verify", place]).ok()).ends_with("no problems\n"));
    terrace(["backup", "restore", place, &new("one"), "--id", "1"]).ok();
    terrace(["backup", "restore", place, &new("newest")]).ok();
    assert_eq!(terrace(["get", &new("one"), "key00001"]).ok(), b"old 1\n");
    assert_eq!(terrace(["get", &new("newest"), "k"]).ok(), b"v\n");
    assert!(text(terrace(["check", &new("one")]).ok()).contains("no problems"));

    assert!(terrace(["backup", "restore", place, &new("one")]).fails(1).contains("not empty"));
    assert!(terrace(["backup", "restore", place, &new("two"), "--id", "9"]).fails(1).contains("has no backup 9"));
    assert!(!Path::new(&new("two")).exists());
    assert!(terrace(["backup", "list", store]).fails(1).contains("has files but no file BACKUPS"));
    assert!(terrace(["backup", "list", &new("absent")]).fails(1).contains("not a directory with backups"));
    assert!(terrace(["backup", "create", &new("absent"), place]).fails(1).contains("missing store"));
    assert!(terrace(["backup", "create", store, &format!("{store}/b")]).fails(1).contains("within the store"));
    assert!(terrace(["backup", "purge", place]).fails(2).contains("--keep"));

    let object = fs::read_dir(place).unwrap().map(|entry| entry.unwrap().path());
    let object = object
        .filter(|path| path.extension().is_some_and(|end| end == "object"))
        .max_by_key(|path| fs::metadata(path).unwrap().len());
    fs::write(object.unwrap(), "rot").unwrap();
    let found = terrace(["backup", "verify", place, "--id", "1"]);
    let shown = text(found.out);
    assert!(found.status == 1 && shown.contains("its SHA-256 is") && shown.contains("backup 1, "), "{shown}");
    assert!(terrace(["backup", "restore", place, &new("two"), "--id", "1"]).fails(1).contains("damaged backup file"));
    assert_eq!(terrace(["backup", "verify", place, "--remove-damaged"]).status, 1);
    terrace(["backup", "create", store, place]).ok();
    assert!(text(terrace(["backup", "verify", place]).ok()).ends_with("no problems\n"));
    assert!(text(terrace(["backup", "purge", place, "--id", "1"]).ok()).starts_with("removed backup 1;"));
    assert!(text(terrace(["backup", "purge", place, "--keep", "0"]).ok()).starts_with("removed backups 2, 3, 4;"));
}
