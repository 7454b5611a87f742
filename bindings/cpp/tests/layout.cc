// layout: sizes and offsets that compiled programs contain. The output must be the same with the
// headers of LevelDB and of Terrace.
#include <cstddef>

#include "check.h"
#include "leveldb/cache.h"
#include "leveldb/comparator.h"
#include "leveldb/db.h"
#include "leveldb/env.h"
#include "leveldb/filter_policy.h"
#include "leveldb/write_batch.h"

#define SIZE(type) Print("sizeof " #type, sizeof(leveldb::type))
#define OFFSET(type, field) Print("offset of " #type "::" #field, offsetof(leveldb::type, field))

int main() {
  SIZE(Slice);
  SIZE(Status);
  SIZE(Iterator);
  SIZE(WriteBatch);
  SIZE(WriteBatch::Handler);
  SIZE(Cache);
  SIZE(Comparator);
  SIZE(FilterPolicy);
  SIZE(Snapshot);
  SIZE(DB);
  SIZE(Env);
  SIZE(EnvWrapper);
  SIZE(Logger);
  SIZE(FileLock);
  SIZE(SequentialFile);
  SIZE(RandomAccessFile);
  SIZE(WritableFile);
  SIZE(Range);
  SIZE(Options);
  SIZE(ReadOptions);
  SIZE(WriteOptions);
  OFFSET(Range, limit);
  OFFSET(Options, comparator);
  OFFSET(Options, create_if_missing);
  OFFSET(Options, error_if_exists);
  OFFSET(Options, paranoid_checks);
  OFFSET(Options, env);
  OFFSET(Options, info_log);
  OFFSET(Options, write_buffer_size);
  OFFSET(Options, max_open_files);
  OFFSET(Options, block_cache);
  OFFSET(Options, block_size);
  OFFSET(Options, block_restart_interval);
  OFFSET(Options, max_file_size);
  OFFSET(Options, compression);
  OFFSET(Options, reuse_logs);
  OFFSET(Options, filter_policy);
  OFFSET(ReadOptions, verify_checksums);
  OFFSET(ReadOptions, fill_cache);
  OFFSET(ReadOptions, snapshot);
  OFFSET(WriteOptions, sync);

  const leveldb::Options options;
  Print("defaults", options.create_if_missing + 2 * options.error_if_exists + 4 * options.paranoid_checks +
                        8 * options.reuse_logs + 16 * options.compression);
  CHECK(options.comparator == leveldb::BytewiseComparator() && options.env == leveldb::Env::Default());
  CHECK(options.info_log == nullptr && options.block_cache == nullptr && options.filter_policy == nullptr);
  Print("write_buffer_size", options.write_buffer_size);
  Print("max_open_files", options.max_open_files);
  Print("block_size", options.block_size);
  Print("block_restart_interval", options.block_restart_interval);
  Print("max_file_size", options.max_file_size);
  const leveldb::ReadOptions read;
  CHECK(!read.verify_checksums && read.fill_cache && read.snapshot == nullptr);
  CHECK(!leveldb::WriteOptions().sync);
  return 0;
}
