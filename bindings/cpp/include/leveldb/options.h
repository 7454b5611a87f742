// Source of the interface, of the names and of the defaults: LevelDB 1.23,
// include/leveldb/options.h. zstd_compression_level and kZstdCompression are from later versions.
#ifndef TERRACE_LEVELDB_OPTIONS_H_
#define TERRACE_LEVELDB_OPTIONS_H_

#include <cstddef>
#include <cstdint>

#include "leveldb/export.h"

namespace leveldb {

class Cache;
class Comparator;
class Env;
class FilterPolicy;
class Logger;
class Snapshot;

// The compression of blocks. The numbers are part of the file format.
enum CompressionType {
  kNoCompression = 0x0,
  kSnappyCompression = 0x1,
  kZstdCompression = 0x2,  // LevelDB 1.23 cannot read it
};

// Options of DB::Open. A number outside the bounds of Terrace is changed to the nearest bound.
//
// The numbers write_buffer_size to max_file_size have LevelDB's defaults here. A number that is
// unchanged leaves the value of Terrace's preset `default`.
struct LEVELDB_EXPORT Options {
  Options();

  // Orders the keys. Default: BytewiseComparator().
  const Comparator* comparator;

  // Whether an open creates a store if there is none.
  bool create_if_missing = false;

  // Whether an open fails if there is a store.
  bool error_if_exists = false;

  // Whether an open fails if a part of the WAL cannot be read. If not, it skips that part.
  bool paranoid_checks = false;

  // Env::Default(), or an environment from NewMemEnv. An open with another one fails as not
  // supported.
  Env* env;

  // Receives a line for each event of the store, such as a flush or a compaction, in addition to
  // the file LOG in the store's directory. It must live until the store is closed.
  Logger* info_log = nullptr;

  // Bytes of a memtable at which it is flushed to an SSTable.
  size_t write_buffer_size = 4 * 1024 * 1024;

  // Number of files that the store may keep open.
  int max_open_files = 1000;

  // The size of the block cache; see NewLRUCache. An open with a subclass of a program fails as not
  // supported.
  Cache* block_cache = nullptr;

  // Uncompressed bytes of a block of an SSTable.
  size_t block_size = 4 * 1024;

  // Number of keys from one restart point of a block to the next; at most 1024.
  int block_restart_interval = 16;

  // Bytes of an SSTable at which a compaction starts the next one.
  size_t max_file_size = 2 * 1024 * 1024;

  CompressionType compression = kSnappyCompression;

  // No effect: an open always starts a new WAL.
  bool reuse_logs = false;

  // The level of kZstdCompression. It is 16 bits wide because it uses padding of LevelDB's layout.
  int16_t zstd_compression_level = 1;

  // Builds the filters of SSTables. Default: the Bloom filter of Terrace's preset.
  const FilterPolicy* filter_policy = nullptr;
};

// Options of a read.
struct LEVELDB_EXPORT ReadOptions {
  ReadOptions() = default;

  // Whether the read verifies the checksums of the blocks that it reads.
  bool verify_checksums = false;

  // Whether the blocks that are read stay in the block cache.
  bool fill_cache = true;

  // The state that is read. Default: the state at the start of the read.
  const Snapshot* snapshot = nullptr;
};

// Options of a write.
struct LEVELDB_EXPORT WriteOptions {
  WriteOptions() = default;

  // Whether the write is durable when it returns, with all earlier writes. Without it, a write
  // survives the end of the process, and a power cut only after a later sync.
  bool sync = false;
};

}  // namespace leveldb

#endif
