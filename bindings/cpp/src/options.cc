#include "options.h"

#include <cstdlib>
#include <string>
#include <vector>

#include "bloom.h"
#include "cache.h"
#include "leveldb/comparator.h"
#include "leveldb/env.h"
#include "mem_env.h"

namespace leveldb {

Options::Options() : comparator(BytewiseComparator()), env(Env::Default()) {}

}  // namespace leveldb

namespace terrace_cpp {

using leveldb::Slice;
using leveldb::Status;

namespace {

void Nothing(void*) noexcept {}

// The functions of the C interface receive the program's object as their state. An exception of the
// program ends the process, because it may not pass through the library.

ComparatorHandle WrapComparator(const leveldb::Comparator* comparator) {
  auto compare = [](void* state, const char* a, size_t alen, const char* b, size_t blen) noexcept {
    return static_cast<const leveldb::Comparator*>(state)->Compare(Slice(a, alen), Slice(b, blen));
  };
  auto name = [](void* state) noexcept { return static_cast<const leveldb::Comparator*>(state)->Name(); };
  auto* state = const_cast<leveldb::Comparator*>(comparator);  // is used only as const
  return ComparatorHandle(leveldb_comparator_create(state, Nothing, compare, name));
}

// Returns a filter of the keys in memory from malloc.
char* CreateFilter(void* state, const char* const* keys, const size_t* lengths, int count, size_t* length) noexcept {
  std::vector<Slice> slices;
  for (int at = 0; at < count; at++) slices.emplace_back(keys[at], lengths[at]);
  std::string filter;
  static_cast<const leveldb::FilterPolicy*>(state)->CreateFilter(slices.data(), count, &filter);
  *length = filter.size();
  auto* copy = static_cast<char*>(std::malloc(filter.size() + 1));  // never 0 bytes
  if (copy == nullptr) std::abort();                                // as the engine does without memory
  filter.copy(copy, filter.size());
  return copy;
}

FilterHandle WrapFilter(const leveldb::FilterPolicy* policy) {
  auto may_match = [](void* state, const char* key, size_t keylen, const char* filter,
                      size_t length) noexcept -> uint8_t {
    return static_cast<const leveldb::FilterPolicy*>(state)->KeyMayMatch(Slice(key, keylen), Slice(filter, length));
  };
  auto name = [](void* state) noexcept { return static_cast<const leveldb::FilterPolicy*>(state)->Name(); };
  auto* state = const_cast<leveldb::FilterPolicy*>(policy);  // is used only as const
  return FilterHandle(leveldb_filterpolicy_create(state, Nothing, CreateFilter, may_match, name));
}

void LogLine(void* logger, const char* line, size_t length) noexcept {
  leveldb::Log(static_cast<leveldb::Logger*>(logger), "%.*s", static_cast<int>(length), line);
}

}  // namespace

Status OpenOptions::Make(const leveldb::Options& options, std::unique_ptr<OpenOptions>* result) {
  std::unique_ptr<OpenOptions> made(new OpenOptions(options));
  const Status status = made->SetObjects(options);
  if (status.ok()) *result = std::move(made);
  return status;
}

OpenOptions::OpenOptions(const leveldb::Options& options) : options_(leveldb_options_create()) {
  leveldb_options_set_create_if_missing(options_.get(), options.create_if_missing);
  leveldb_options_set_error_if_exists(options_.get(), options.error_if_exists);
  leveldb_options_set_paranoid_checks(options_.get(), options.paranoid_checks);
  SetNumbers(options);
}

// Sets the numbers that the program has changed. The others keep the values of the preset.
void OpenOptions::SetNumbers(const leveldb::Options& options) {
  static const leveldb::Options kDefaults;
  leveldb_options_t* target = options_.get();
  if (options.write_buffer_size != kDefaults.write_buffer_size) {
    leveldb_options_set_write_buffer_size(target, options.write_buffer_size);
  }
  if (options.max_open_files != kDefaults.max_open_files) {
    leveldb_options_set_max_open_files(target, options.max_open_files);
  }
  if (options.block_size != kDefaults.block_size) leveldb_options_set_block_size(target, options.block_size);
  if (options.block_restart_interval != kDefaults.block_restart_interval) {
    leveldb_options_set_block_restart_interval(target, options.block_restart_interval);
  }
  if (options.max_file_size != kDefaults.max_file_size) {
    leveldb_options_set_max_file_size(target, options.max_file_size);
  }
  leveldb_options_set_compression(target, options.compression);
}

Status OpenOptions::SetObjects(const leveldb::Options& options) {
  leveldb_options_t* target = options_.get();
  if (options.compression == leveldb::kZstdCompression) {
    Error error;
    terrace_options_set(target, "zstd_level", std::to_string(options.zstd_compression_level).c_str(), error.out());
    if (!error.status().ok()) return error.status();
  }
  if (options.env != leveldb::Env::Default()) {
    const MemEnv* memory = Registry<MemEnv, leveldb::Env>::Find(options.env);
    if (memory == nullptr) {
      return Status::NotSupported("Options::env: Terrace uses only Env::Default() and environments of NewMemEnv");
    }
    leveldb_options_set_env(target, memory->stores());
  }
  if (options.block_cache != nullptr) {
    const LruCache* cache = Registry<LruCache, leveldb::Cache>::Find(options.block_cache);
    if (cache == nullptr) return Status::NotSupported("Options::block_cache: Terrace uses only caches of NewLRUCache");
    leveldb_cache_t* handle = leveldb_cache_create_lru(cache->capacity());
    leveldb_options_set_cache(target, handle);
    leveldb_cache_destroy(handle);
  }
  if (options.comparator == nullptr) return Status::InvalidArgument("Options::comparator is nullptr");
  if (options.comparator != leveldb::BytewiseComparator()) {
    comparator_ = WrapComparator(options.comparator);
    leveldb_options_set_comparator(target, comparator_.get());
  }
  if (options.filter_policy != nullptr) {
    const BloomPolicy* bloom = Registry<BloomPolicy, leveldb::FilterPolicy>::Find(options.filter_policy);
    if (bloom == nullptr) filter_ = WrapFilter(options.filter_policy);
    leveldb_options_set_filter_policy(target, bloom == nullptr ? filter_.get() : bloom->handle());
  }
  if (options.info_log != nullptr) terrace_options_set_logger(target, options.info_log, LogLine);
  return Status::OK();
}

}  // namespace terrace_cpp
