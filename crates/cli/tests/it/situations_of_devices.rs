//! Error situations with raw devices, and with halves of split stores (directory and device), that
//! are corrupt, unprepared or missing. `common/situations.rs` explains the tables.
use crate::common::situations;
use situations::{GET, PUT, Situation, cut, device, half, harm, judge, lose, prepared};
use std::fs;

const SITUATIONS: &[Situation] = &[
    (
        "device: not prepared",
        |at| fs::write(at, vec![0; 8 << 20]).unwrap(),
        PUT,
        1,
        "terrace: missing store: {} (`terrace raw format` prepares a device for one)",
    ),
    (
        "device: not prepared, to read",
        |at| fs::write(at, vec![0; 8 << 20]).unwrap(),
        GET,
        1,
        "terrace: missing store: {} (`terrace raw format` prepares a device for one)",
    ),
    (
        "device: not prepared, to repair",
        |at| fs::write(at, vec![0; 8 << 20]).unwrap(),
        &["repair", "{}", "{}-new"],
        1,
        "terrace: missing store: {} (`terrace raw format` prepares a device for one)",
    ),
    ("device: without a store", prepared, GET, 1, "terrace: missing store: {} (no file CURRENT)"),
    (
        "device: one superblock damaged",
        |at| {
            device(at);
            harm(at, 0, 4096);
        },
        &["raw", "check", "{}"],
        1,
        "superblock at 0: not a superblock",
    ),
    (
        "device: both superblocks overwritten",
        |at| {
            device(at);
            harm(at, 0, 4096);
            harm(at, 64 << 10, 4096);
        },
        PUT,
        1,
        "terrace: missing store: {} (`terrace raw format` prepares a device for one)",
    ),
    (
        "device: a byte of both superblocks flipped",
        |at| {
            device(at);
            harm(at, 20, 1);
            harm(at, (64 << 10) + 20, 1);
        },
        GET,
        1,
        "terrace: open {}: superblock at 65536: checksum mismatch",
    ),
    (
        "device: slot journal overwritten",
        |at| {
            device(at);
            harm(at, 128 << 10, 96 << 10);
        },
        GET,
        1,
        "terrace: open {}: slot journal, half A, byte 0: no head",
    ),
    (
        "device: half a copy",
        |at| {
            device(at);
            cut(at, 4 << 20);
        },
        GET,
        1,
        "terrace: open {}: it was formatted as a device of 8388608 bytes, and has 4194304",
    ),
    (
        "device: slots overwritten",
        |at| {
            device(at);
            harm(at, 1 << 20, 7 << 20);
        },
        GET,
        1,
        "terrace: corrupt CURRENT in {}/CURRENT at byte 16: no newline at the end",
    ),
    (
        "halves: the other is gone",
        |at| {
            half(at);
            fs::remove_file(at.with_extension("data")).unwrap();
        },
        GET,
        1,
        "terrace: missing device: {}.data (the file {}/DATA names it)",
    ),
    (
        "halves: the other is not prepared",
        |at| {
            half(at);
            fs::write(at.with_extension("data"), vec![0; 8 << 20]).unwrap();
        },
        PUT,
        1,
        "terrace: missing half of the store on its device: {}.data (the file {}/DATA names it)",
    ),
    (
        "halves: half a copy, no DATA",
        |at| {
            half(at);
            lose(at, "DATA");
        },
        GET,
        1,
        "terrace: missing device: {} (the device that its file DATA names holds the store's logs and tables)",
    ),
    (
        "halves: half a copy, no CURRENT",
        |at| {
            half(at);
            lose(at, "CURRENT");
        },
        PUT,
        1,
        "terrace: missing CURRENT file: {}, although {}/000010.ldb is there; restore it, or salvage the rest with `terrace repair`",
    ),
    (
        "halves: half a copy, no marker",
        |at| {
            half(at);
            lose(at, "TERRACE");
        },
        GET,
        1,
        "terrace: {} (the device that its file DATA names holds nothing of the store that is here, as its format file TERRACE says, or because it has none)",
    ),
    (
        "halves: the device alone",
        half,
        &["put", "{}.data", "k", "v"],
        1,
        "terrace: missing CURRENT file: {}.data, although {}.data/000010.ldb is there; restore it, or salvage the rest with `terrace repair`",
    ),
];

#[test]
fn first_lines_and_exit_statuses() {
    judge(SITUATIONS);
}
