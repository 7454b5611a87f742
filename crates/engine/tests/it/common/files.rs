//! Represents a store as a map from file names to contents. A test can change the map and write it
//! back.
#![allow(dead_code, reason = "other programs include this file, too, and use a part")]
use std::{collections::BTreeMap, convert::Infallible, sync::Arc};
use terrace_format::{
    Batch, Edit, FileName, LogId, SeqNo,
    log_record::{Event, Framer, RecordDecoder},
    names::encode_current,
};
use terrace_storage::{
    Memory, WalWriteMode,
    vfs::{FileSystem, FileUse},
};

/// The files of a directory, by name.
pub type Files = BTreeMap<String, Vec<u8>>;

/// Returns the bytes of one file. Its name may be below `lost/`.
pub fn bytes_of(fs: &dyn FileSystem, name: &str) -> Vec<u8> {
    let file = fs.open(name).unwrap_or_else(|e| panic!("{name}: {e}"));
    let mut bytes = vec![0; file.bytes().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

/// Returns the files in the directory, without those in subdirectories.
pub fn files(fs: &dyn FileSystem) -> Files {
    fs.list().unwrap().into_iter().map(|entry| (entry.name.clone(), bytes_of(fs, &entry.name))).collect()
}

/// Makes a directory in memory that contains exactly `files`.
pub fn directory(files: &Files) -> Arc<dyn FileSystem> {
    let fs = Memory::new();
    fs.make_directory().unwrap();
    write(&fs, files.iter());
    Arc::new(fs)
}

/// Writes `files` and a lock file into the empty directory `fs`, and returns the directory.
pub fn holding(fs: Arc<dyn FileSystem>, files: &Files) -> Arc<dyn FileSystem> {
    fs.make_directory().unwrap();
    let held = fs.lock(true).unwrap();
    write(&*fs, files.iter().filter(|(name, _)| *name != "LOCK"));
    drop(held);
    fs
}

fn write<'a>(fs: &dyn FileSystem, files: impl Iterator<Item = (&'a String, &'a Vec<u8>)>) {
    for (name, bytes) in files {
        let is_log = matches!(FileName::parse(name), Some(FileName::Log(_) | FileName::Manifest(_)));
        let made = if is_log { fs.create_for(name, FileUse::Log(WalWriteMode::Write)) } else { fs.create(name) };
        made.unwrap().append(bytes).unwrap();
    }
}

/// Returns the name of the manifest that `CURRENT` names.
pub fn manifest_of(files: &Files) -> String {
    String::from_utf8(files["CURRENT"].clone()).unwrap().trim_end().to_string()
}

/// Returns the name and the id of the newest WAL, which has the highest id.
pub fn newest_log(files: &Files) -> (String, LogId) {
    let logs = files.keys().filter_map(|name| match FileName::parse(name) {
        Some(FileName::Log(id)) => Some((name.clone(), id)),
        _ => None,
    });
    logs.max_by_key(|(_, id)| *id).expect("a store has a log")
}

/// Returns the records of an undamaged WAL or manifest.
pub fn records(file: &[u8]) -> Vec<Vec<u8>> {
    let (mut deframer, mut found) = (RecordDecoder::new(file.len() as u64), Vec::new());
    let mut read = |offset: u64, buf: &mut [u8]| {
        buf.copy_from_slice(&file[offset as usize..][..buf.len()]);
        Ok::<_, Infallible>(())
    };
    loop {
        match deframer.next(&mut read).unwrap() {
            Event::Record { bytes, .. } => found.push(bytes),
            Event::End { torn: false, .. } => return found,
            other => panic!("{other:?}"),
        }
    }
}

/// The engine that writes a file. Terrace and LevelDB split the first record of a file into
/// fragments in different ways.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Writer {
    Ours,
    LevelDb,
}

/// Returns the bytes of a WAL or manifest with these records.
pub fn framed(writer: Writer, records: &[Vec<u8>]) -> Vec<u8> {
    let (mut framer, mut file) = (Framer::new(), Vec::new());
    for (number, record) in records.iter().enumerate() {
        let emit = |piece: &[u8]| {
            file.extend_from_slice(piece);
            Ok::<_, Infallible>(())
        };
        let ours = writer == Writer::Ours && number == 0;
        if ours { framer.frame_ours(record, emit) } else { framer.frame(record, emit) }.unwrap();
    }
    file
}

/// Returns a batch with one put, in the form in which a WAL stores it.
pub fn put(sequence: u64, key: &str, value: &str) -> Vec<u8> {
    let mut batch = Batch::new();
    batch.put(key.as_bytes(), value.as_bytes());
    batch.set_sequence(SeqNo(sequence));
    batch.as_bytes().to_vec()
}

/// Returns a batch that cannot be decoded. Its header states one operation, but no operation
/// follows. The batch has 12 bytes: the sequence number and the operation count.
pub fn undecodable(sequence: u64) -> Vec<u8> {
    [sequence.to_le_bytes().as_slice(), &1u32.to_le_bytes()].concat()
}

/// Returns the first edit in the manifest of a new LevelDB store.
pub fn leveldb_edit() -> Edit {
    Edit {
        comparator: Some("leveldb.BytewiseComparator".into()),
        log_number: Some(3),
        prev_log_number: Some(0),
        next_file_number: Some(4),
        last_sequence: Some(SeqNo(0)),
        ..Edit::default()
    }
}

/// Returns the files of a LevelDB store with one manifest and one WAL.
pub fn leveldb_store(edit: &Edit, log: &[Vec<u8>]) -> Files {
    let manifest = LogId(2);
    Files::from([
        ("CURRENT".into(), encode_current(manifest).into_bytes()),
        ("LOCK".into(), Vec::new()),
        (FileName::Manifest(manifest).to_string(), framed(Writer::LevelDb, &[edit.encode()])),
        (FileName::Log(LogId(3)).to_string(), framed(Writer::LevelDb, log)),
    ])
}
