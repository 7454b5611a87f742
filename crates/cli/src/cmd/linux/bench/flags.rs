//! Flags that select the workloads, the engines, and the settings for all engines.
use crate::args::Usage;
use anyhow::Result;
use terrace::parse_size;
use terrace_lab::{cell::CellSpec, target::Settings, workload::ycsb::Update};

/// Workloads and engines.
#[derive(clap::Args)]
pub struct Load {
    /// Workloads by name. They run in this order on one store per engine and round.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "fillrandom,readrandom,readseq")]
    workload: Vec<String>,
    /// Engines by name; the first is the baseline of the comparison. Options after a preset
    /// override the settings for that engine: terrace:PRESET+OPTION=VALUE.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "terrace")]
    engine: Vec<String>,
    /// Number of keys of a fill.
    #[arg(long, default_value_t = 1_000_000)]
    num: u64,
    /// Key size in bytes.
    #[arg(long, default_value_t = 16)]
    key_size: usize,
    /// Value size in bytes.
    #[arg(long, default_value_t = 100)]
    value_size: usize,
    /// Concurrent threads.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Operations per write batch.
    #[arg(long, default_value_t = 1)]
    batch: usize,
    /// Random seed: equal seeds give equal operations for every engine.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Operations of a read workload per thread; of a YCSB workload in total. Default: the number
    /// of keys.
    #[arg(long, value_name = "COUNT")]
    reads: Option<u64>,
    /// Random puts per thread in fills and overwrites. Default: the number of keys.
    #[arg(long, value_name = "COUNT")]
    writes: Option<u64>,
    /// Record the latency of each operation.
    #[arg(long, value_name = "ON|OFF", default_value = "on")]
    histogram: Switch,
    /// Verify every result against the expected contents. db_bench does not verify.
    #[arg(long, value_name = "ON|OFF", default_value = "on")]
    check_answers: Switch,
    /// Compression ratio of the values.
    #[arg(long, value_name = "RATIO", default_value_t = 0.5)]
    compression_ratio: f64,
    /// Meaning of a YCSB update: put a whole record, or read it and replace one field.
    #[arg(long, value_name = "HOW", default_value = "blind")]
    ycsb_update: UpdateFlag,
    /// Restrict the engine and the benchmark driver to this many processors. The others are left to
    /// the kernel and to a simulated drive, because a real drive does not use the machine's
    /// processors. Default: all processors.
    #[arg(long, value_name = "N")]
    processors: Option<usize>,
    /// Memory limit of the engine's process during read-only workloads, with its page cache (needs
    /// root). Default: none.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    memory: Option<u64>,
}

/// Settings that are equal for all engines.
#[derive(clap::Args)]
pub struct Terms {
    /// Memtable size. An engine has two memtables unless its list of departures says otherwise.
    #[arg(long, value_name = "SIZE", default_value = "4MiB", value_parser = parse_size)]
    write_buffer_size: u64,
    /// Target file size of compactions.
    #[arg(long, value_name = "SIZE", default_value = "2MiB", value_parser = parse_size)]
    max_file_size: u64,
    /// Size of the block cache (uncompressed blocks).
    #[arg(long, value_name = "SIZE", default_value = "8MiB", value_parser = parse_size)]
    cache_size: u64,
    /// Uncompressed block size.
    #[arg(long, value_name = "SIZE", default_value = "4KiB", value_parser = parse_size)]
    block_size: u64,
    /// Bloom filter bits per key; 0 for none.
    #[arg(long, value_name = "BITS", default_value_t = 10)]
    bloom_bits: u32,
    /// Compression codec.
    #[arg(long, value_name = "CODEC", default_value = "none", value_parser = ["none", "snappy", "zstd", "lz4"])]
    compression: String,
    /// Verify checksums on reads.
    #[arg(long, value_name = "ON|OFF", default_value = "off")]
    verify_checksums: Switch,
    /// Maximum size of level 1.
    #[arg(long, value_name = "SIZE", default_value = "10MiB", value_parser = parse_size)]
    level_base: u64,
    /// Numbers of level-0 files at which compaction starts, writes slow down, and writes stop.
    #[arg(long, value_name = "START,SLOW,STOP", default_value = "4,8,12")]
    l0_triggers: String,
    /// Maximum number of open files.
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
    /// Returns the engine names in order.
    pub fn engines(&self) -> &[String] {
        &self.engine
    }

    /// Returns the workload names in order.
    pub fn workloads(&self) -> &[String] {
        &self.workload
    }

    /// Returns the specification that all cells share.
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
    /// Returns the settings in the form that engines take.
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
