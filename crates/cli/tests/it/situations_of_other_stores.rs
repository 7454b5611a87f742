//! Error situations with value logs, directory tables and bundles that are corrupt or incomplete.
//! `common/situations.rs` explains the tables.
use crate::common::situations;
use situations::{
    CHECK, GET, PUT, Situation, bundles, cut, folders, harm, judge, lose, names, replace, table, value_log,
};
use std::fs;

const SITUATIONS: &[Situation] = &[
    (
        "values: a segment is missing",
        |at| {
            value_log(at);
            lose(at, "000002.vlog");
        },
        GET,
        1,
        "terrace: missing segment of the value log: {}/000002.vlog (table 000010 points into it)",
    ),
    (
        "values: the newest segment is missing",
        |at| {
            value_log(at);
            lose(at, "000011.vlog");
        },
        PUT,
        1,
        "terrace: missing WAL that the manifest names: {}/000011.vlog",
    ),
    (
        "values: a damaged segment",
        |at| {
            value_log(at);
            harm(&at.join("000002.vlog"), 90, 2);
        },
        GET,
        1,
        "terrace: corrupt entry in {}/000002.vlog at byte 56: checksum of an entry",
    ),
    (
        "values: a damaged segment, checked",
        |at| {
            value_log(at);
            harm(&at.join("000002.vlog"), 90, 2);
        },
        CHECK,
        1,
        "level 1: table 000010: corrupt entry in {}/000002.vlog at byte 56: checksum of an entry",
    ),
    (
        "values: a segment cut short",
        |at| {
            value_log(at);
            cut(&at.join("000002.vlog"), 100);
        },
        GET,
        1,
        "terrace: corrupt segment in {}/000002.vlog at byte 56: it ends before the 68 bytes that a table points to",
    ),
    (
        "values: an empty segment",
        |at| {
            value_log(at);
            cut(&at.join("000002.vlog"), 0);
        },
        PUT, // reads that need the segment fail and name it
        0,
        "",
    ),
    (
        "values: somebody else's file for a segment",
        |at| {
            value_log(at);
            replace(at, "000002.vlog", 5000);
        },
        GET,
        1,
        "terrace: corrupt entry in {}/000002.vlog at byte 62: 101 bytes needed, 62 left",
    ),
    (
        "values: half a copy, no CURRENT",
        |at| {
            value_log(at);
            lose(at, "CURRENT");
        },
        PUT,
        1,
        "terrace: missing CURRENT file: {}, although {}/000011.vlog is there; restore it, or salvage the rest with `terrace repair`",
    ),
    (
        "values: half a copy, no marker",
        |at| {
            value_log(at);
            lose(at, "TERRACE");
        },
        GET,
        1,
        "terrace: {} uses \"value-log\" by its manifest, but its format file TERRACE does not list it; restore that file, or salvage the store with `terrace repair`",
    ),
    (
        "values: half a copy, no manifest",
        |at| {
            value_log(at);
            lose(at, "MANIFEST-000012");
        },
        GET,
        1,
        "terrace: missing manifest: {}/MANIFEST-000012",
    ),
    (
        "values: half a copy, no tables",
        |at| {
            value_log(at);
            lose(at, ".ldb");
        },
        GET,
        1,
        "terrace: missing table that the manifest names: {}/000010.ldb of level 1",
    ),
    (
        "folders: no META",
        |at| {
            folders(at);
            fs::remove_file(table(at).join("META")).unwrap();
        },
        GET,
        1,
        "terrace: missing table: {}/L1/000010/META",
    ),
    (
        "folders: META cut short",
        |at| {
            folders(at);
            cut(&table(at).join("META"), 20);
        },
        GET,
        1,
        "terrace: corrupt footer in {}/L1/000010/META at byte 0: 20 bytes are too few for a table",
    ),
    (
        "folders: somebody else's META",
        |at| {
            folders(at);
            replace(&table(at), "META", 1000);
        },
        GET,
        1,
        "terrace: corrupt table footer in {}/L1/000010/META at byte 992: magic number 652079646f62656d: not an SSTable",
    ),
    (
        "folders: a pair is missing",
        |at| {
            folders(at);
            let table = table(at);
            fs::remove_file(table.join(&names(&table, "k.")[0])).unwrap();
        },
        GET,
        1,
        "terrace: missing pair: {}/L1/000010/k.1.bf34bbbc",
    ),
    (
        "folders: a damaged pair",
        |at| {
            folders(at);
            let table = table(at);
            harm(&table.join(&names(&table, "k.")[0]), 9, 1);
        },
        GET,
        1,
        "terrace: corrupt pair in {}/L1/000010/k.1.bf34bbbc at byte 0: checksum 1bc50c72 where its name has bf34bbbc",
    ),
    (
        "folders: half a copy, no table",
        |at| {
            folders(at);
            fs::remove_dir_all(table(at)).unwrap();
        },
        GET,
        1,
        "terrace: missing table that the manifest names: {}/L*/000010 of level 1",
    ),
    (
        "folders: half a copy, no folders",
        |at| {
            folders(at);
            lose(at, "L0");
            lose(at, "L1");
        },
        PUT,
        1,
        "terrace: missing table that the manifest names: {}/L*/000010 of level 1",
    ),
    (
        "folders: half a copy, no CURRENT",
        |at| {
            folders(at);
            lose(at, "CURRENT");
            lose(at, ".log");
        },
        PUT,
        1,
        "terrace: missing CURRENT file: {}, although {}/L1/000010 is there; restore it, or salvage the rest with `terrace repair`",
    ),
    (
        "folders: half a copy, neither CURRENT nor marker",
        |at| {
            folders(at);
            lose(at, "CURRENT");
            lose(at, "TERRACE");
            lose(at, ".log");
        },
        PUT,
        1,
        "terrace: missing CURRENT file: {}, although {}/L1/000010 is there; restore it, or salvage the rest with `terrace repair`",
    ),
    (
        "folders: half a copy, no marker",
        |at| {
            folders(at);
            lose(at, "TERRACE");
        },
        GET,
        1,
        "terrace: {} uses \"directory-tables\" by its manifest, but its format file TERRACE does not list it; restore that file, or salvage the store with `terrace repair`",
    ),
    (
        "folders: half a copy, no log",
        |at| {
            folders(at);
            lose(at, ".log");
        },
        GET,
        1,
        "terrace: missing WAL that the manifest names: {}/000011.log",
    ),
    (
        "bundles: half a copy, no bundle",
        |at| {
            bundles(at);
            lose(at, ".bundle");
        },
        GET,
        1,
        "terrace: missing table that the manifest names: {}/000010.bundle of level 1",
    ),
    (
        "bundles: a bundle cut short",
        |at| {
            bundles(at);
            cut(&at.join("000010.bundle"), 40);
        },
        GET,
        1,
        "terrace: corrupt table in {}/000010.bundle from byte 0 on at byte 40: 40 bytes long, where the manifest says 262",
    ),
    (
        "bundles: somebody else's file",
        |at| {
            bundles(at);
            replace(at, ".bundle", 4096);
        },
        GET,
        1,
        "terrace: corrupt table footer in {}/000010.bundle from byte 0 on at byte 254: magic number 7478657420732765: not an SSTable",
    ),
    (
        "bundles: half a copy, neither CURRENT nor marker",
        |at| {
            bundles(at);
            lose(at, "CURRENT");
            lose(at, "TERRACE");
        },
        PUT,
        1,
        "terrace: missing CURRENT file: {}, although {}/000011.log is there; restore it, or salvage the rest with `terrace repair`",
    ),
];

#[test]
fn first_lines_and_exit_statuses() {
    judge(SITUATIONS);
}
