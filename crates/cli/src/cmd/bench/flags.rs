//! Flags that say what runs and under which terms.
use crate::args::Usage;
use anyhow::Result;
use terrace_lab::{cell::CellSpec, device::parse_size, target::Settings, workload::ycsb::Update};

/// What runs.
#[derive(clap::Args)]
pub struct Load {
    /// Workloads by name, in order, on one store per engine and round.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "fillrandom,readrandom,readseq")]
    workload: Vec<String>,
    /// Engines by name; all others are compared with the first. A preset may be followed by options that the terms then do not
    /// change: terrace:PRESET+OPTION=VALUE.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "terrace")]
    engine: Vec<String>,
    /// Keys of a fill.
    #[arg(long, default_value_t = 1_000_000)]
    num: u64,
    /// Bytes of a key.
    #[arg(long, default_value_t = 16)]
    key_size: usize,
    /// Bytes of a value.
    #[arg(long, default_value_t = 100)]
    value_size: usize,
    /// Threads that work at once.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Changes in one write.
    #[arg(long, default_value_t = 1)]
    batch: usize,
    /// The same seed gives the same operations for every engine.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Operations of a thread in workloads that read, and of YCSB in all. Default: as many as keys.
    #[arg(long, value_name = "COUNT")]
    reads: Option<u64>,
    /// Random puts of a thread in fills and in overwrite. Default: as many as keys
    #[arg(long, value_name = "COUNT")]
    writes: Option<u64>,
    /// Whether the latency of each operation is recorded.
    #[arg(long, value_name = "ON|OFF", default_value = "on")]
    histogram: Switch,
    /// Whether every answer is checked against what the store must hold; db_bench does not.
    #[arg(long, value_name = "ON|OFF", default_value = "on")]
    check_answers: Switch,
    /// What values compress to.
    #[arg(long, value_name = "RATIO", default_value_t = 0.5)]
    compression_ratio: f64,
    /// What a YCSB update does: puts a whole record, or reads it and replaces one field.
    #[arg(long, value_name = "HOW", default_value = "blind")]
    ycsb_update: UpdateFlag,
    /// Engine and driver run on so many processors, and leave the others to the kernel and to the drive, which has its own where it is
    /// real. Default: they run on all.
    #[arg(long, value_name = "N")]
    processors: Option<usize>,
    /// Memory that an engine's process may hold while a workload only reads, with what the kernel caches for it (root). Default: any.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    memory: Option<u64>,
}

/// Equal terms for all engines.
#[derive(clap::Args)]
pub struct Terms {
    /// Size at which a memtable is full; an engine has two, unless its departures say otherwise.
    #[arg(long, value_name = "SIZE", default_value = "4MiB", value_parser = parse_size)]
    write_buffer_size: u64,
    /// Size at which a compaction ends a file.
    #[arg(long, value_name = "SIZE", default_value = "2MiB", value_parser = parse_size)]
    max_file_size: u64,
    /// Cache of uncompressed blocks.
    #[arg(long, value_name = "SIZE", default_value = "8MiB", value_parser = parse_size)]
    cache_size: u64,
    /// Uncompressed size of a block.
    #[arg(long, value_name = "SIZE", default_value = "4KiB", value_parser = parse_size)]
    block_size: u64,
    /// Bits of Bloom filter per key; 0 for none.
    #[arg(long, value_name = "BITS", default_value_t = 10)]
    bloom_bits: u32,
    /// How blocks are compressed.
    #[arg(long, value_name = "CODEC", default_value = "none", value_parser = ["none", "snappy", "zstd", "lz4"])]
    compression: String,
    /// Whether reads verify checksums.
    #[arg(long, value_name = "ON|OFF", default_value = "off")]
    verify_checksums: Switch,
    /// Bytes that level 1 may hold.
    #[arg(long, value_name = "SIZE", default_value = "10MiB", value_parser = parse_size)]
    level_base: u64,
    /// Files in level 0 that start its compaction, slow writes, stop them.
    #[arg(long, value_name = "START,SLOW,STOP", default_value = "4,8,12")]
    l0_triggers: String,
    /// Files kept open at most.
    #[arg(long, value_name = "FILES", default_value_t = 1000)]
    max_open_files: u32,
}

#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum Switch {
    On,
    Off,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum UpdateFlag {
    Blind,
    Merge,
}

impl Load {
    /// Names of engines, in the order given.
    pub fn engines(&self) -> &[String] {
        &self.engine
    }

    /// Names of workloads, in the order given.
    pub fn workloads(&self) -> &[String] {
        &self.workload
    }

    /// What all cells have in common.
    pub fn spec(&self, settings: Settings) -> CellSpec {
        CellSpec {
            settings,
            workloads: self.workload.clone(),
            num: self.num,
            key_size: self.key_size,
            value_size: self.value_size,
            threads: self.threads,
            batch: self.batch,
            seed: self.seed,
            histogram: self.histogram == Switch::On,
            check_answers: self.check_answers == Switch::On,
            reads: self.reads,
            writes: self.writes,
            compression_ratio: self.compression_ratio,
            ycsb_update: match self.ycsb_update {
                UpdateFlag::Blind => Update::Blind,
                UpdateFlag::Merge => Update::Merge,
            },
            processors: self.processors,
            memory: self.memory,
            ..CellSpec::default()
        }
    }
}

impl Terms {
    /// The terms, as engines take them.
    pub fn settings(&self) -> Result<Settings> {
        let triggers: Vec<u32> = self.l0_triggers.split(',').map_while(|number| number.trim().parse().ok()).collect();
        let &[start, slow, stop] = &triggers[..] else {
            let problem = format!("'{}' is not of the form START,SLOW,STOP", self.l0_triggers);
            return Err(Usage::of("--l0-triggers", problem));
        };
        Ok(Settings {
            write_buffer_size: self.write_buffer_size,
            max_file_size: self.max_file_size,
            cache_size: self.cache_size,
            block_size: self.block_size,
            bloom_bits: self.bloom_bits,
            compression: self.compression.clone(),
            verify_checksums: self.verify_checksums == Switch::On,
            level_base: self.level_base,
            l0_triggers: (start, slow, stop),
            max_open_files: self.max_open_files,
        })
    }
}
