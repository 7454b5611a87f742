//! Tests stores on a raw device through the command line.
use crate::common;
use common::{Ran, command, fresh, terrace, terrace_with};
use std::{
    collections::BTreeSet,
    fs,
    io::Write,
    path::Path,
    process::{Command, Stdio},
};
use terrace_peers::require;

fn raw<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Ran {
    terrace(["raw"].into_iter().chain(arguments))
}

/// Returns a temporary directory and a file in it that is prepared as a device.
fn prepared() -> (tempfile::TempDir, String) {
    let (directory, path) = fresh();
    let device = path.display().to_string();
    raw(["format", &device, "--size", "64MiB"]).ok();
    (directory, device)
}

#[test]
fn a_store_goes_onto_a_device_and_back() {
    let (directory, device) = prepared();
    let pairs: String = (0..3000).map(|n| format!("{n:08x}\t{:0200x}\n", n * n)).collect();
    terrace_with(["load", &device, "-", "--format", "hex", "--option", "write_buffer_size=64KiB"], pairs.as_bytes())
        .ok();
    terrace(["put", &device, "last", "one", "--preset", "device"]).ok();
    terrace(["check", &device]).ok();
    assert_eq!(raw(["check", &device]).ok(), b"no problems\n");
    let listed = String::from_utf8(raw(["ls", &device, "--json"]).ok()).unwrap();
    assert!(listed.lines().count() > 3 && listed.contains("\"name\":\"CURRENT\""), "{listed}");
    let info: serde_json::Value = serde_json::from_slice(&raw(["info", &device, "--json"]).ok()).unwrap();
    assert_eq!(info["files"].as_u64(), Some(listed.lines().count() as u64));
    assert!(raw(["cat", &device, "CURRENT"]).ok().starts_with(b"MANIFEST-"));

    // Export the store into a directory, use it like any other store, and import it to another
    // device.
    let out = directory.path().join("out").display().to_string();
    raw(["export", &device, &out]).ok();
    let exported = fs::read(Path::new(&out).join("CURRENT")).unwrap();
    assert_eq!(raw(["cat", &device, "CURRENT"]).ok(), exported);
    terrace(["put", &out, "more", "there"]).ok();
    let other = directory.path().join("other").display().to_string();
    raw(["format", &other, "--size", "32MiB", "--slot", "32KiB", "--unit", "256KiB"]).ok();
    raw(["import", &out, &other]).ok();
    let dumps = [&out, &other].map(|store| terrace(["dump", store, "--format", "hex"]).ok());
    assert_eq!(dumps[0], dumps[1]);
    assert_eq!(dumps[0].iter().filter(|byte| **byte == b'\n').count(), 3002);
    assert!(raw(["import", &out, &other]).fails(1).contains("holds a store"));
    assert!(raw(["export", &device, &out]).fails(1).contains("not empty"));
}

/// Tests a device with corruption in a part of its file table that was durable. Every command must
/// fail, except `export --damaged`, which must copy the files that the valid parts of the table
/// list.
#[test]
fn files_come_out_of_a_device_whose_list_is_damaged() {
    let (directory, device) = prepared();
    let pairs: String = (0..3000).map(|n| format!("{n:08x}\t{:0200x}\n", n * n)).collect();
    terrace_with(["load", &device, "-", "--format", "hex", "--option", "write_buffer_size=64KiB"], pairs.as_bytes())
        .ok();
    terrace(["put", &device, "last", "one"]).ok();
    let mut image = fs::read(&device).unwrap();
    let number = |image: &[u8], at: usize| u32::from_le_bytes(image[at..at + 4].try_into().unwrap()) as usize;
    let halves = (128 << 10..image.len()).step_by(4096).filter(|at| image[*at..].starts_with(b"TERRACEJ")).take(2);
    let half = halves.max_by_key(|at| number(&image, at + 16)).unwrap();
    let entry = half + 4096 + number(&image, half + 24).next_multiple_of(4096);
    image[entry + 9] ^= 1;
    fs::write(&device, &image).unwrap();
    let [out, saved, again] = ["out", "saved", "again"].map(|name| directory.path().join(name).display().to_string());
    assert!(terrace(["get", &device, "last"]).fails(1).contains("damaged"));
    assert!(raw(["export", &device, &out]).fails(1).contains("raw export --damaged"));
    let told = raw(["export", &device, &out, "--damaged"]);
    let (damage, advice) = (String::from_utf8(told.out).unwrap(), told.err);
    assert!(
        told.status == 1 && damage.starts_with("damage: half ") && advice.contains("terrace repair"),
        "{damage}{advice}"
    );
    terrace(["repair", &out, &saved]);
    terrace(["check", &saved]).ok();
    let kept = String::from_utf8(terrace(["dump", &saved, "--format", "hex"]).ok()).unwrap();
    assert!(pairs.lines().all(|pair| kept.contains(pair)), "{} pairs", kept.lines().count());

    // Without damage, the flag `--damaged` must not change the result. If neither half of the slot
    // journal is valid, the command must fail.
    let (fresh_device, nothing) = (prepared(), directory.path().join("nothing").display().to_string());
    raw(["export", &fresh_device.1, &nothing, "--damaged"]).ok();
    let mut headless = image.clone();
    (128 << 10..image.len()).step_by(4096).for_each(|at| {
        if headless[at..].starts_with(b"TERRACEJ") {
            headless[at] ^= 1;
        }
    });
    fs::write(&device, &headless).unwrap();
    assert!(raw(["export", &device, &again, "--damaged"]).fails(1).contains("no half of its slot journal"));
    image[entry + 9] ^= 1;
    fs::write(&device, &image).unwrap();
    raw(["export", &device, &again, "--damaged"]).ok();
    let all = [&again, &device].map(|store| terrace(["dump", store, "--format", "hex"]).ok());
    assert!(all[0] == all[1] && all[0].len() > pairs.len());
}

/// Tests split stores. A split store has its manifest in a directory and its WALs and SSTables on
/// a device; the store's path is the directory. Neither half may work with another store's half.
#[test]
fn logs_and_tables_may_be_on_a_device_and_the_rest_in_a_directory() {
    let (directory, store) = fresh();
    let at = |name: &str| directory.path().join(name).display().to_string();
    let (store, data) = (store.display().to_string(), at("data"));
    let put = |store: &str| terrace(["put", store, "key", "value", "--preset", "leveldb-raw"]);
    assert!(put(&store).fails(1).contains("--meta"));
    raw(["format", &data, "--size", "16MiB", "--meta", &store]).ok();
    let pairs: String = (0..2000).map(|n| format!("{n:08x}\t{:0200x}\n", n * n)).collect();
    terrace_with(["load", &store, "-", "--format", "hex", "--preset", "leveldb-raw"], pairs.as_bytes()).ok();
    terrace(["compact", &store]).ok();
    put(&store).ok();
    for checked in [terrace(["check", &store, "--deep"]), raw(["check", &data])] {
        checked.ok();
    }
    let here: Vec<_> = fs::read_dir(&store).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(here.iter().all(|name| !name.display().to_string().contains('.')), "{here:?}");
    let there = String::from_utf8(raw(["ls", &data]).ok()).unwrap();
    assert!(there.contains(".ldb") && there.contains(".log") && !there.contains("MANIFEST"), "{there}");
    let all = terrace(["dump", &store]).ok();
    assert_eq!(all.iter().filter(|byte| **byte == b'\n').count(), 2001);

    // Options for partial pages and for direct I/O must work on the same store.
    terrace(["put", &store, "key", "value", "--option", "pad_device_writes=false"]).ok();
    let direct = terrace(["put", &store, "key", "value", "--option", "direct_io=true"]);
    // A tmpfs may refuse direct I/O.
    assert!(direct.status == 0 || direct.err.contains("direct_io=true is refused"), "{}", direct.err);
    let both = ["put", &store, "k", "v", "--option", "pad_device_writes=false", "--option", "direct_io=true"];
    assert!(terrace(both).fails(2).contains("whole pages"));
    assert!(
        terrace(["put", &store, "k", "v", "--option", "durability=group"])
            .fails(1)
            .contains("durability mode group is refused")
    );

    // The directory of a split store is only half a store, so `import` must refuse it.
    let whole = at("whole");
    raw(["format", &whole, "--size", "16MiB"]).ok();
    assert!(raw(["import", &store, &whole]).fails(1).contains("all in one directory"));

    // A checkpoint of a split store is a store in a single directory.
    let copy = at("copy");
    terrace(["checkpoint", &store, &copy]).ok();
    assert!(terrace(["dump", &copy]).ok() == all);
    terrace(["check", &copy, "--deep"]).ok();

    // Halves that do not match are not a store. No command may remove anything from them.
    let data_file = Path::new(&store).join("DATA");
    let told = fs::read_to_string(&data_file).unwrap();
    let other = at("other");
    raw(["format", &other, "--size", "16MiB"]).ok();
    fs::write(&data_file, told.replace(&data, &other)).unwrap();
    assert!(terrace(["dump", &store]).fails(1).contains("another store's"));
    fs::write(&data_file, told.replace(&data, &at("nowhere"))).unwrap();
    assert!(terrace(["dump", &store]).fails(1).contains("nowhere"));
    fs::write(&data_file, "somebody's notes").unwrap();
    assert!(terrace(["dump", &store]).fails(1).contains("device = PATH"));
    fs::remove_file(&data_file).unwrap();
    assert!(terrace(["dump", &store]).fails(1).contains("missing device"));
    fs::write(&data_file, told).unwrap();
    assert!(terrace(["dump", &store]).ok() == all);
    assert!(raw(["format", &other, "--force", "--meta", &store]).fails(1).contains("not empty"));
}

/// Tests that a store whose SSTables are not single files (bundles, directory tables) is not
/// imported to a device. The error must name the command `terrace convert` instead.
#[test]
fn a_store_of_other_tables_is_not_imported() {
    let (directory, device) = prepared();
    for option in ["tables=directory", "tables=bundled"] {
        let from = directory.path().join(option).display().to_string();
        terrace(["put", &from, "key", "value", "--option", option]).ok();
        assert!(raw(["import", &from, &device]).fails(1).contains("terrace convert"), "{option}");
        assert_eq!(raw(["ls", &device, "--json"]).ok(), b"", "{option}");
    }
}

#[test]
fn what_is_there_is_not_overwritten_unasked() {
    let (directory, device) = prepared();
    terrace(["put", &device, "key", "value"]).ok();
    let store = "a store of Terrace's, in slots of 65536 and units of 1048576 bytes";
    assert!(raw(["format", &device]).fails(1).contains(store));
    assert_eq!(terrace(["get", &device, "key"]).ok(), b"value\n");
    raw(["format", &device, "--force", "--slot", "128KiB"]).ok();
    assert!(terrace(["get", &device, "key"]).fails(1).contains("missing store"));
    terrace(["put", &device, "key", "other"]).ok();

    let file = |name: &str, bytes: &[u8]| {
        let path = directory.path().join(name);
        fs::write(&path, bytes).unwrap();
        path.display().to_string()
    };
    let mut text = b"somebody's text".to_vec();
    text.resize(8 << 20, 0);
    assert!(raw(["format", &file("text", &text)]).fails(1).contains("bytes of an unknown kind"));
    assert!(raw(["format", &file("short", &[0; 5000])]).fails(1).contains("4096"));
    assert!(raw(["format", &file("small", &[0; 1 << 20])]).fails(1).contains("no room"));
    let zeros = file("zeros", &vec![0; 8 << 20]);
    assert!(terrace(["put", &zeros, "key", "value"]).fails(1).contains("terrace raw format"));
    assert!(raw(["ls", &zeros]).fails(1).contains("terrace raw format"));
    assert!(raw(["format", &zeros, "--slot", "5000"]).fails(1).contains("multiple of 4096"));
    assert!(raw(["format", &zeros, "--slot", "8KiB", "--unit", "12KiB"]).fails(2).contains("--unit"));
    let bad = directory.path().join("bad").display().to_string();
    for (slot, status) in [("4MiB", 1), ("12KiB", 2)] {
        raw(["format", &bad, "--size", "8MiB", "--slot", slot, "--unit", "20GiB"]).fails(status);
        assert!(!Path::new(&bad).exists(), "--slot {slot}");
    }
    // The device is truncated, so the superblock describes a larger device.
    fs::OpenOptions::new().write(true).open(&device).unwrap().set_len(32 << 20).unwrap();
    assert!(terrace(["get", &device, "key"]).fails(1).contains("was formatted as a device of 67108864 bytes"));

    let nowhere = directory.path().join("nowhere").display().to_string();
    assert!(terrace(["put", &nowhere, "key", "value", "--preset", "device"]).fails(1).contains("raw format"));
    assert!(!Path::new(&nowhere).exists());
    let (_directory, other) = prepared();
    let refused = terrace(["put", &other, "k", "v", "--option", "durability=journal"]).fails(1);
    assert!(refused.contains("durability mode journal is refused"), "{refused}");
}

/// Tests that `format` names the kind of contents that other tools wrote to a file. Tools that
/// make a file system in a plain file are needed; if one is missing, its case is skipped with a
/// message.
#[test]
fn what_other_tools_leave_is_recognised() {
    let directory = tempfile::tempdir().unwrap();
    let mut told = 0;
    for (program, arguments, input, what) in [
        ("mkfs.ext4", &["-q", "-F"][..], "", "an ext4 file system"),
        ("mkswap", &[], "", "swap space"),
        ("mkfs.xfs", &["-q", "-f"], "", "an XFS file system"),
        ("mkfs.btrfs", &["-q", "-f"], "", "a btrfs file system"),
        ("mkfs.f2fs", &["-q", "-f"], "", "an f2fs file system"),
        ("mkfs.fat", &[], "", "a FAT file system"),
        (
            "cryptsetup",
            &["-q", "--pbkdf-force-iterations", "1000", "--pbkdf", "pbkdf2", "luksFormat"],
            "word",
            "LUKS encryption",
        ),
        ("sfdisk", &["-q", "--label", "gpt"], "size=1MiB\n", "a partition table (GPT)"),
        ("sfdisk", &["-q", "--label", "dos"], "size=1MiB\n", "a partition table (MBR)"),
    ] {
        let image = directory.path().join("image");
        fs::File::create(&image).and_then(|file| file.set_len(512 << 20)).unwrap();
        let image = image.display().to_string();
        let child =
            Command::new(program).args(arguments).arg(&image).stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
        let Ok(mut child) = child else {
            println!("skipped: there is no {program}");
            continue;
        };
        // Some of these tools do not read their input, so the write may fail.
        let _ = child.stdin.take().expect("it is piped").write_all(input.as_bytes());
        assert!(child.wait().unwrap().success(), "{program}");
        let refused = raw(["format", &image]).fails(1);
        assert!(refused.contains(what), "{program}: {refused}");
        raw(["format", &image, "--force"]).ok();
        let left = Command::new("blkid").args(["-p", "-o", "value", "-s", "TYPE", "-s", "PTTYPE", &image]).output();
        match left {
            Ok(left) => {
                assert_eq!(String::from_utf8_lossy(&left.stdout), "", "{program}: somebody still recognises it")
            }
            Err(_) => println!("skipped: there is no blkid"),
        }
        told += 1;
    }
    require("mkfs", if told >= 2 { Ok(()) } else { Err("no two tools that make file systems") });
}

/// Runs all commands at the same time. Returns the names of the commands that succeeded. Asserts
/// that all others failed because the device was in use.
fn at_once(commands: impl IntoIterator<Item = (String, Command)>) -> BTreeSet<String> {
    let spawn = |(what, mut command): (String, Command)| (what, command.spawn().expect("the binary was built"));
    let children: Vec<_> = commands.into_iter().map(spawn).collect();
    let mut done = BTreeSet::new();
    for (what, child) in children {
        let output = child.wait_with_output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() || told.contains("in use"), "TWO WRITERS: {told}");
        done.extend(output.status.success().then_some(what));
    }
    done
}

/// Tests concurrent use of a device. First many processes write to it. Then many processes write
/// while others format it, until a format succeeds.
fn race(device: &str) {
    let put = |n: usize| (format!("key{n:02}\tvalue"), command(["put", device, &format!("key{n:02}"), "value"]));
    let format = || ("format".to_owned(), command(["raw", "format", device, "--force"]));
    let found = || match terrace(["dump", device]) {
        // The store is missing if a `format` was the last command that succeeded.
        Ran { status: 1, err, .. } if err.contains("missing store") => BTreeSet::new(),
        dumped => String::from_utf8(dumped.ok()).unwrap().lines().map(str::to_owned).collect(),
    };
    let is_whole = || assert_eq!(raw(["check", device]).ok(), b"no problems\n", "TWO WRITERS");
    let mut there = at_once((0..12).map(put));
    assert!(!there.is_empty() && found() == there, "TWO WRITERS: {:?} in {device}, not {there:?}", found());
    is_whole();
    let formatted = (1..100).any(|round| {
        let mut written = at_once((0..12).map(|n| if n % 3 == 0 { format() } else { put(round * 12 + n) }));
        let (formatted, left) = (written.remove("format"), found());
        is_whole();
        if !formatted {
            there.extend(written.iter().cloned());
        }
        let is_right = if formatted { left.is_subset(&written) } else { left == there };
        assert!(is_right, "TWO WRITERS: {left:?} in {device} after {there:?} and {written:?}");
        formatted
    });
    assert!(formatted, "nobody came to format {device}");
}

#[test]
fn of_many_who_open_a_file_at_once_one_uses_it_at_a_time() {
    let (_directory, device) = prepared();
    race(&device);
}

#[test]
fn of_many_who_open_a_block_device_at_once_one_uses_it_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let Some(device) = require("loop", Loop::new(&directory.path().join("image"))) else { return };
    raw(["format", &device.0]).ok();
    race(&device.0);
}

/// Tests a process that is killed repeatedly while it writes. After each kill the device's file
/// table must be consistent, and earlier contents must still be there.
#[test]
fn a_killed_process_leaves_a_whole_list_and_all_that_was_there() {
    let (_directory, device) = prepared();
    for round in 0..8 {
        let key = format!("before {round}");
        terrace(["put", &device, &key, "there", "--preset", "device"]).ok();
        let mut child = command(["load", &device, "-", "--format", "hex", "--option", "write_buffer_size=64KiB"])
            .stdin(Stdio::piped())
            .spawn()
            .expect("the binary was built");
        let mut lines = child.stdin.take().expect("it is piped");
        // The number of lines grows with each round, so that the kill hits different operations.
        for n in 0..1000 * (round + 1) {
            writeln!(lines, "{n:08x}\t{:0400x}", n * n).unwrap();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(raw(["check", &device]).ok(), b"no problems\n", "round {round}");
        terrace(["check", &device, "--deep"]).ok();
        for before in 0..=round {
            assert_eq!(terrace(["get", &device, &format!("before {before}")]).ok(), b"there\n", "round {round}");
        }
    }
}

/// A loop device over a sparse file.
struct Loop(String);

impl Loop {
    fn new(image: &Path) -> Result<Loop, String> {
        fs::File::create(image).and_then(|file| file.set_len(64 << 20)).map_err(|error| error.to_string())?;
        run("losetup", &["-f", "--show", &image.display().to_string()]).map(|name| Loop(name.trim().into()))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = run("losetup", &["-d", &self.0]); // its file is removed with the test's directory
    }
}

fn run(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).output().map_err(|error| format!("{program}: {error}"))?;
    let told =
        String::from_utf8_lossy(if output.status.success() { &output.stdout } else { &output.stderr }).into_owned();
    if output.status.success() { Ok(told) } else { Err(format!("{program} {arguments:?}: {told}")) }
}

#[test]
fn a_real_block_device_holds_a_store_and_a_mounted_one_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let Some(device) = require("loop", Loop::new(&directory.path().join("image"))) else { return };
    raw(["format", &device.0]).ok();
    terrace(["put", &device.0, "key", "value", "--preset", "device"]).ok();
    assert_eq!(terrace(["get", &device.0, "key"]).ok(), b"value\n");
    terrace(["compact", &device.0]).ok();
    terrace(["check", &device.0]).ok();
    assert_eq!(raw(["check", &device.0]).ok(), b"no problems\n");

    // The file and the loop device over it are two names of one device. A user of one name must
    // exclude users of the other.
    let image = directory.path().join("image");
    let attached = raw(["format", &image.display().to_string(), "--force"]).fails(1);
    assert!(attached.contains(&format!("attached to the loop device {}", device.0)), "{attached}");
    let held = fs::File::open(&image).unwrap();
    held.lock().unwrap();
    assert!(terrace(["put", &device.0, "key", "value"]).fails(1).contains("in use"));
    drop(held);
    terrace(["put", &device.0, "key", "value"]).ok();

    for (program, arguments, what) in [
        ("mkfs.ext4", &["-q", "-F"][..], "an ext4 file system"),
        ("mkswap", &[], "swap space"),
        ("mkfs.ext4", &["-q", "-F"], "an ext4 file system"),
    ] {
        let Some(_) = require("mkfs", run(program, &[arguments, &[&device.0]].concat())) else { return };
        assert!(raw(["format", &device.0]).fails(1).contains(what), "{what}");
    }
    let mount = directory.path().join("mount").display().to_string();
    fs::create_dir(&mount).unwrap();
    let Some(_) = require("root", run("mount", &[&device.0, &mount])) else { return };
    let refused = raw(["format", &device.0, "--force"]);
    let refused_store = terrace(["put", &device.0, "key", "value"]);
    run("umount", &[&mount]).unwrap();
    assert!(refused.fails(1).contains(&format!("mounted at {mount}")));
    assert!(refused_store.fails(1).contains("in use"));
    raw(["format", &device.0, "--force"]).ok();
}
