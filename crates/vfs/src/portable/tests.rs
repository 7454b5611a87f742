//! Tests of the portable directory, on every system.
use super::*;
use std::io::ErrorKind;

fn directory() -> (tempfile::TempDir, PortableFs) {
    let folder = tempfile::tempdir().expect("a folder");
    let fs = PortableFs::new(folder.path().join("a/b/c"));
    assert!(!fs.exists().unwrap());
    fs.make_directory().unwrap();
    fs.make_directory().unwrap();
    assert!(fs.exists().unwrap());
    (folder, fs)
}

fn write(fs: &PortableFs, name: &str, bytes: &[u8]) {
    let mut file = fs.create(name).unwrap();
    file.append(bytes).unwrap();
    file.second_handle().unwrap().sync().unwrap();
    file.write_back().unwrap();
}

fn read(fs: &PortableFs, name: &str) -> Vec<u8> {
    let file = fs.open(name).unwrap();
    file.read_at(0, file.bytes().unwrap() as usize).unwrap()
}

#[test]
fn files_are_created_read_renamed_and_removed() {
    let (_folder, fs) = directory();
    write(&fs, "a.tmp", b"bytes");
    write(&fs, "CURRENT", b"old");
    assert_eq!(fs.create("CURRENT").map(drop).unwrap_err().kind(), ErrorKind::AlreadyExists);
    fs.rename("a.tmp", "CURRENT").unwrap();
    fs.sync_directory().unwrap();
    fs.sync_file("CURRENT").unwrap();
    assert_eq!(read(&fs, "CURRENT"), b"bytes");
    let open = fs.open("CURRENT").unwrap();
    assert_eq!(open.read_at(1, 3).unwrap(), b"yte");
    assert_eq!(open.read_at(3, 3).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    assert_eq!(fs.list().unwrap(), [DirEntry { name: "CURRENT".into(), bytes: 5 }]);
    fs.remove("CURRENT").unwrap();
    assert_eq!(open.read_at(0, 5).unwrap(), b"bytes", "an open file stays readable");
    drop(open);
    assert!(!fs.has("CURRENT") && fs.list().unwrap().is_empty());
    assert_eq!(fs.open("CURRENT").map(drop).unwrap_err().kind(), ErrorKind::NotFound);
    fs.remove_empty().unwrap();
    assert!(!fs.exists().unwrap());
}

#[test]
fn a_second_name_is_given_and_nothing_is_replaced() {
    let (folder, fs) = directory();
    write(&fs, "000005.log", b"log");
    fs.link("000005.log", "lost/000005.log").unwrap();
    assert_eq!(fs.link("000005.log", "lost/000005.log").unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(fs.list_lost().unwrap(), ["000005.log"]);
    fs.remove("000005.log").unwrap();
    assert_eq!(read(&fs, "lost/000005.log"), b"log");
    let other = PortableFs::new(folder.path().join("other"));
    other.make_directory().unwrap();
    other.take(&fs, "lost/000005.log", "taken").unwrap();
    assert_eq!(other.take(&fs, "lost/000005.log", "taken").unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(read(&other, "taken"), b"log");
    assert!(fs.remove_empty().is_ok() && fs.has("lost"), "a folder that is not empty stays");
}

#[test]
fn a_lock_excludes_other_handles() {
    let (_folder, fs) = directory();
    drop(fs.lock(false).unwrap());
    assert!(fs.list().unwrap().is_empty(), "a reader creates no lock file");
    let held = fs.lock(true).unwrap();
    held.check().unwrap();
    for exclusive in [false, true] {
        assert_eq!(fs.lock(exclusive).map(drop).unwrap_err().kind(), ErrorKind::WouldBlock);
    }
    // Either the lock file cannot be removed, or the lock notices the removal.
    assert!(fs.remove("LOCK").is_err() || held.check().is_err());
    drop(held);
    fs.remove_lock(fs.lock(true).unwrap()).unwrap();
    assert!(!fs.has("LOCK"));
    drop(fs.lock(true).unwrap());
    let _shared = (fs.lock(false).unwrap(), fs.lock(false).unwrap());
}

#[test]
fn what_is_not_a_regular_file_is_refused() {
    let (_folder, fs) = directory();
    std::fs::create_dir(fs.root.join("LOCK")).unwrap();
    let refused = fs.lock(true).map(drop).unwrap_err();
    assert!(refused.to_string().contains("LOCK is a directory"), "{refused}");
    #[cfg(unix)]
    {
        write(&fs, "precious", b"text");
        std::os::unix::fs::symlink("precious", fs.root.join("000001.log")).unwrap();
        let refused = fs.open("000001.log").map(drop).unwrap_err();
        assert!(refused.to_string().contains("a symbolic link"), "{refused}");
        assert_eq!(fs.create("000001.log").map(drop).unwrap_err().kind(), ErrorKind::AlreadyExists);
        let (_other_folder, other) = directory();
        write(&other, "000002.log", b"log");
        std::os::unix::fs::symlink(&other.root, fs.root.join("lost")).unwrap();
        assert_eq!(fs.list_lost().unwrap_err().kind(), ErrorKind::NotADirectory);
        assert_eq!(fs.remove("lost/000002.log").unwrap_err().kind(), ErrorKind::NotADirectory);
        assert_eq!(fs.link("precious", "lost/precious").unwrap_err().kind(), ErrorKind::NotADirectory);
        assert!(other.has("000002.log") && !other.has("precious"));
    }
}

#[test]
fn space_is_reported_and_reserved() {
    let (_folder, fs) = directory();
    assert!(fs.free_bytes().is_some_and(|bytes| bytes > 0));
    fs.reserve("RESERVE", 1 << 20).unwrap();
    assert_eq!(fs.has("RESERVE"), system::SET_LEN_ALLOCATES);
    fs.reserve("RESERVE", 0).unwrap();
    assert!(!fs.has("RESERVE"));
}
