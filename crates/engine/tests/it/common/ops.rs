//! Generators of random cases for the model test in `model.rs`: operations and options.
use proptest::{collection::vec, prelude::*};
use terrace_sim::Rng;

/// A key. Keys are binary and short, and often one is a prefix of another.
pub type Key = Vec<u8>;

/// Describes a value; its bytes follow from the description. A description keeps the output of a
/// failure short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value {
    pub fill: u8,
    pub bytes: usize,
    pub noisy: bool,
}

impl Value {
    pub fn expand(self) -> Vec<u8> {
        let mut rng = Rng::new(u64::from(self.fill));
        (0..self.bytes).map(|_| if self.noisy { rng.next_u64() as u8 } else { self.fill }).collect()
    }
}

/// The range of keys of a read.
#[derive(Clone, Debug, Default)]
pub struct Range {
    pub from: Option<Key>,
    pub to: Option<Key>,
    pub prefix: Option<Key>,
}

/// A move of a cursor.
#[derive(Clone, Debug)]
pub enum Move {
    First,
    Last,
    Seek(Key),
    SeekForPrev(Key),
    Next,
    Prev,
}

#[derive(Clone, Debug)]
pub enum Op {
    Put(Key, Value),
    Delete(Key),
    DeleteRange(Key, Key),
    Batch(Vec<(Key, Option<Value>)>, bool),
    Get(Key),
    Scan(Range, bool),
    Walk(Range, Vec<Move>),
    TakeSnapshot,
    ReadSnapshot(usize, Range),
    DropSnapshot(usize),
    HoldCursor(Range, Vec<Move>),
    MoveCursor(usize, Vec<Move>),
    DropCursor(usize),
    Flush,
    Compact(Option<Key>, Option<Key>),
    Step(u64),
    Tick,
    Idle,
    Close,
    Kill,
    ReadOnly,
}

/// The parameters of a case of the model test.
#[derive(Clone, Debug)]
pub struct Config {
    pub preset: &'static str,
    /// Two sets of options. Opens of the store use them in turn, so that a store that was written
    /// with one set is read with the other.
    pub option_sets: [Vec<(&'static str, String)>; 2],
    /// The table form.
    pub tables: &'static str,
    pub backwards: bool,
    pub manual: bool,
    /// The place of the store: 0 is memory, 1 scrambled memory, 2 a directory, 3 a device.
    pub place: u8,
}

fn any_key() -> impl Strategy<Value = Key> {
    prop_oneof![
        4 => vec(prop::sample::select(vec![0u8, b'a', b'b', 0xff]), 0..4),
        1 => (0u8..30).prop_map(|n| format!("shared/prefix/{n:02}").into_bytes()),
    ]
}

fn any_value() -> impl Strategy<Value = Value> {
    let bytes = prop_oneof![1 => Just(0), 8 => 1usize..200, 3 => 200usize..3000, 2 => 3000usize..20_480];
    (any::<u8>(), bytes, any::<bool>()).prop_map(|(fill, bytes, noisy)| Value { fill, bytes, noisy })
}

fn any_range() -> impl Strategy<Value = Range> {
    use prop::option::weighted;
    (weighted(0.4, any_key()), weighted(0.4, any_key()), weighted(0.25, any_key()))
        .prop_map(|(from, to, prefix)| Range { from, to, prefix })
}

fn any_moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        1 => Just(Move::First),
        1 => Just(Move::Last),
        2 => any_key().prop_map(Move::Seek),
        2 => any_key().prop_map(Move::SeekForPrev),
        4 => Just(Move::Next),
        4 => Just(Move::Prev),
    ];
    vec(one, 1..12)
}

pub fn any_op() -> impl Strategy<Value = Op> {
    let batch = vec((any_key(), prop::option::weighted(0.7, any_value())), 0..8);
    prop_oneof![
        24 => (any_key(), any_value()).prop_map(|(key, value)| Op::Put(key, value)),
        8 => any_key().prop_map(Op::Delete),
        6 => (any_key(), any_key()).prop_map(|(from, to)| Op::DeleteRange(from, to)),
        8 => (batch, any::<bool>()).prop_map(|(ops, sync)| Op::Batch(ops, sync)),
        8 => any_key().prop_map(Op::Get),
        5 => (any_range(), any::<bool>()).prop_map(|(range, reverse)| Op::Scan(range, reverse)),
        5 => (any_range(), any_moves()).prop_map(|(range, moves)| Op::Walk(range, moves)),
        3 => Just(Op::TakeSnapshot),
        3 => (any::<usize>(), any_range()).prop_map(|(which, range)| Op::ReadSnapshot(which, range)),
        2 => any::<usize>().prop_map(Op::DropSnapshot),
        2 => (any_range(), any_moves()).prop_map(|(range, moves)| Op::HoldCursor(range, moves)),
        3 => (any::<usize>(), any_moves()).prop_map(|(which, moves)| Op::MoveCursor(which, moves)),
        1 => any::<usize>().prop_map(Op::DropCursor),
        4 => Just(Op::Flush),
        3 => (prop::option::of(any_key()), prop::option::of(any_key())).prop_map(|(from, to)| Op::Compact(from, to)),
        6 => any::<u64>().prop_map(Op::Step),
        1 => Just(Op::Tick),
        1 => Just(Op::Idle),
        1 => Just(Op::Close),
        2 => Just(Op::Kill),
        1 => Just(Op::ReadOnly),
    ]
}

fn any_layout() -> impl Strategy<Value = Vec<(&'static str, String)>> {
    let one_of = |name: &'static str, values: &'static [&'static str]| {
        prop::sample::select(values).prop_map(move |value| (name, value.to_string()))
    };
    let level0 = prop::sample::select(vec![["1", "2", "3"], ["2", "4", "8"], ["4", "8", "12"]]);
    let single = (
        one_of("write_buffer_size", &["64KiB", "128KiB", "4MiB"]),
        one_of("max_write_buffer_number", &["2", "4"]),
        one_of("target_file_size", &["64KiB", "256KiB"]),
        one_of("block_size", &["1KiB", "4KiB", "64KiB"]),
        one_of("block_restart_interval", &["1", "2", "16"]),
        one_of("compression", &["none", "snappy", "zstd", "lz4"]),
        one_of("bloom_bits", &["0", "10"]),
        one_of("filter_form", &["block", "table"]),
        one_of("block_cache_size", &["1", "8MiB"]),
        one_of("max_open_files", &["16", "990"]),
    );
    let other = (
        one_of("max_bytes_for_level_base", &["64KiB", "10MiB"]),
        one_of("seek_compaction", &["on", "off"]),
        one_of("max_background_compactions", &["1", "2", "3"]),
        one_of("base_background_compactions", &["1", "64"]),
        one_of("rate_bytes_per_sec", &["0", "64MiB"]),
        one_of("max_subcompactions", &["1", "3"]),
        one_of("min_subcompaction_size", &["1KiB", "4MiB"]),
        one_of("intra_l0_compaction_trigger", &["0", "2", "3"]),
        one_of("compaction_pri", &["round_robin", "min_overlapping_ratio"]),
        one_of("paranoid_checks", &["on", "off"]),
        one_of("max_manifest_file_size", &["4KiB", "64MiB"]),
        level0,
    );
    let writing = (
        one_of("pipelined_writes", &["on", "off"]),
        one_of("delayed_writes", &["on", "off"]),
        one_of("level0_seek_compaction_bytes", &["0", "1MiB"]),
        one_of("seek_compaction_bytes", &["0", "16", "4KiB"]),
        one_of("tombstone_compaction_percent", &["0", "1", "50"]),
        one_of("level0_min_overlap_percent", &["0", "70", "1000"]),
        one_of("range_tombstones", &["on", "off"]),
        one_of("min_value_file_size", &["0", "20", "1KiB"]),
        one_of("max_entries_for_level_base", &["0", "20", "10000"]),
        one_of("copy_whole_blocks", &["on", "off"]),
    );
    let separated = (
        one_of("values", &["preset", "table", "log"]),
        one_of("value_log_threshold", &["0", "100", "512"]),
        one_of("value_log_segment_size", &["64KiB", "64MiB"]),
        one_of("value_log_gc_percent", &["1", "20"]),
        one_of("value_log_gc", &["segments", "tail"]),
        one_of("value_readahead_bytes", &["0", "1", "1MiB"]),
    );
    let shape = (
        one_of("compaction_style", &["leveled", "leveled", "universal"]),
        one_of("universal_max_size_amplification_percent", &["10", "200"]),
    );
    let all = (single, other, writing, separated, shape);
    all.prop_map(
        |(
            (a, b, c, d, e, f, g, h, i, j),
            (k, l, m, n, o, p, q, r, s, t, per_second, level0),
            (u, v, w, seek, tombstones, least, x, y, z, whole),
            separated,
            shape,
        )| {
            let mut layout = vec![a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y, z];
            layout.extend([per_second, seek, tombstones, least, whole]);
            layout.extend(<[_; 6]>::from(separated));
            layout.extend(<[_; 2]>::from(shape));
            let names =
                ["level0_file_num_compaction_trigger", "level0_slowdown_writes_trigger", "level0_stop_writes_trigger"];
            layout.extend(names.into_iter().zip(level0.map(String::from)));
            layout
        },
    )
}

pub fn any_config() -> impl Strategy<Value = Config> {
    let place = prop_oneof![6 => Just(0u8), 3 => Just(1), 1 => Just(2), 2 => Just(3), 1 => Just(4)];
    let preset = prop::sample::select(vec!["leveldb", "default", "noblsm", "delsm", "volatile", "wisckey"]);
    let tables = prop_oneof![3 => Just("block"), 1 => Just("bundled"), 1 => Just("directory")];
    let switches = (prop::bool::weighted(0.2), prop::bool::weighted(0.7));
    let all = (preset, any_layout(), any_layout(), tables, switches, place);
    all.prop_map(|(preset, first, second, tables, switches, place)| {
        let (backwards, manual) = switches;
        // Directory tables cannot be stored on a device.
        let tables = if place >= 3 && tables == "directory" { "block" } else { tables };
        let mut option_sets = [first, second];
        // The first open determines whether the store has key-value separation.
        option_sets[1].iter_mut().filter(|(name, _)| *name == "values").for_each(|(_, value)| *value = "preset".into());
        let is_universal = |layout: &[(&str, String)]| layout.iter().any(|(_, value)| value == "universal");
        if !is_universal(&option_sets[0]) {
            let style = option_sets[1].iter_mut().find(|(name, _)| *name == "compaction_style");
            style.expect("there is one").1 = "leveled".into();
        }
        let codec = |layout: &[(&str, String)]| layout.iter().any(|(_, value)| value == "lz4");
        if !codec(&option_sets[0]) && codec(&option_sets[1]) {
            // A store that was created without LZ4 refuses the option `lz4`; durability.rs tests
            // that.
            option_sets[1].iter_mut().filter(|(_, value)| value == "lz4").for_each(|(_, value)| *value = "zstd".into());
        }
        let asks = |layout: &[(&str, String)]| layout.contains(&("range_tombstones", "on".to_string()));
        if !asks(&option_sets[0]) && !codec(&option_sets[0]) && !is_universal(&option_sets[0]) {
            // A store that was created without range tombstones refuses the option
            // `range_tombstones`. In such a store a range delete deletes each key.
            option_sets[1]
                .iter_mut()
                .filter(|(name, _)| *name == "range_tombstones")
                .for_each(|(_, value)| *value = "off".into());
        } else if !codec(&option_sets[0]) {
            option_sets[1].iter_mut().filter(|(_, value)| value == "lz4").for_each(|(_, value)| *value = "zstd".into());
        }
        // Directory tables store each pair in a separate file, so they cannot be used with a value
        // log.
        let log = option_sets[0].contains(&("values", "log".to_string()))
            || preset == "wisckey" && !option_sets[0].contains(&("values", "table".to_string()));
        let tables = if log && tables == "directory" { "block" } else { tables };
        Config { preset, option_sets, tables, backwards, manual, place }
    })
}
