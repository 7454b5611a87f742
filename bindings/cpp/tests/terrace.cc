// terrace DIRECTORY: behaviour in which Terrace differs from LevelDB 1.23. The program is compiled
// with -fno-rtti, as some clients are.
#include <sched.h>
#include <sys/mount.h>

#include <memory>
#include <random>
#include <vector>

#include "check.h"
#include "helpers/memenv/memenv.h"
#include "leveldb/cache.h"
#include "leveldb/comparator.h"
#include "leveldb/db.h"
#include "leveldb/env.h"
#include "leveldb/write_batch.h"

using leveldb::DB;
using leveldb::Env;
using leveldb::Options;
using leveldb::Slice;
using leveldb::Status;

namespace leveldb {
class WriteBatchInternal {
 public:
  static std::string& Rep(WriteBatch* batch) { return batch->rep_; }
};
}  // namespace leveldb

static Status Open(const Options& options, const std::string& path, std::unique_ptr<DB>* db) {
  DB* opened = reinterpret_cast<DB*>(1);
  const Status status = DB::Open(options, path, &opened);
  CHECK(status.ok() == (opened != nullptr));
  db->reset(opened);
  return status;
}

static std::string Get(DB& db, const Slice& key) {
  std::string value;
  const Status status = db.Get({}, key, &value);
  return status.ok() ? value : status.ToString();
}

// Objects of a program that a store cannot use are refused, and never ignored.
static void Refusals() {
  struct OwnCache : leveldb::Cache {
    Handle* Insert(const Slice&, void*, size_t, void (*)(const Slice&, void*)) override { return nullptr; }
    Handle* Lookup(const Slice&) override { return nullptr; }
    void Release(Handle*) override {}
    void* Value(Handle*) override { return nullptr; }
    void Erase(const Slice&) override {}
    uint64_t NewId() override { return 0; }
    size_t TotalCharge() const override { return 0; }
  };
  std::unique_ptr<DB> db;
  leveldb::EnvWrapper own(Env::Default());
  OwnCache cache;
  Options options;
  options.create_if_missing = true;
  options.env = &own;
  CHECK(Open(options, At("refused"), &db).IsNotSupportedError());
  CHECK(leveldb::DestroyDB(At("refused"), options).IsNotSupportedError());
  CHECK(leveldb::RepairDB(At("refused"), options).IsNotSupportedError());
  options.env = nullptr;
  CHECK(Open(options, At("refused"), &db).IsNotSupportedError());
  options.env = Env::Default();
  options.block_cache = &cache;
  CHECK(Open(options, At("refused"), &db).IsNotSupportedError());
  options.block_cache = nullptr;
  options.comparator = nullptr;
  CHECK(Open(options, At("refused"), &db).IsInvalidArgument());
  options.comparator = leveldb::BytewiseComparator();
  options.compression = static_cast<leveldb::CompressionType>(7);
  CHECK(Open(options, At("refused"), &db).IsInvalidArgument());
  options.compression = leveldb::kZstdCompression;
  options.zstd_compression_level = 999;
  CHECK(Open(options, At("refused"), &db).IsInvalidArgument());
  CHECK(!Env::Default()->FileExists(At("refused")));
}

static void Zstandard() {
  Options options;
  options.create_if_missing = true;
  options.compression = leveldb::kZstdCompression;
  options.zstd_compression_level = 3;
  std::unique_ptr<DB> db;
  CHECK_OK(Open(options, At("zstd"), &db));
  for (int at = 0; at < 10000; at++) CHECK_OK(db->Put({}, std::to_string(at), std::string(100, 'z')));
  CHECK_OK(db->Write({}, nullptr));  // flushes
  int tables = 0;
  std::string value;
  for (int level = 0; level < 7; level++) {
    CHECK(db->GetProperty("leveldb.num-files-at-level" + std::to_string(level), &value));
    tables += std::atoi(value.c_str());
  }
  CHECK(tables > 0);
  db->CompactRange(nullptr, nullptr);
  CHECK(Get(*db, "777") == std::string(100, 'z'));
}

static void DamagedBatches() {
  Options options;
  options.create_if_missing = true;
  std::unique_ptr<DB> db;
  CHECK_OK(Open(options, At("batches"), &db));
  leveldb::WriteBatch batch;
  batch.Put("key", "value");
  const std::string whole = leveldb::WriteBatchInternal::Rep(&batch);
  for (size_t length = 0; length < whole.size(); length++) {
    leveldb::WriteBatchInternal::Rep(&batch) = whole.substr(0, length);
    CHECK(db->Write({}, &batch).IsCorruption());
  }
  CHECK(Get(*db, "key") == "NotFound: ");
  leveldb::WriteBatchInternal::Rep(&batch) = whole;
  CHECK_OK(db->Write({}, &batch));
  CHECK(Get(*db, "key") == "value");
}

static void Memory() {
  const std::unique_ptr<Env> env(leveldb::NewMemEnv(Env::Default())), other(leveldb::NewMemEnv(Env::Default()));
  Options options;
  options.create_if_missing = true;
  options.env = env.get();
  std::unique_ptr<DB> db, second;
  CHECK_OK(Open(options, "/memory", &db));
  CHECK_OK(db->Put({}, "key", "value"));
  const Status locked = Open(options, "/memory", &second);
  CHECK(locked.ToString().find("IO error: lock /memory/LOCK: already held by process") == 0);
  CHECK(leveldb::DestroyDB("/memory", options).IsIOError());
  db.reset();
  CHECK_OK(leveldb::RepairDB("/memory", options));
  options.create_if_missing = false;
  CHECK_OK(Open(options, "/memory", &db));
  CHECK(Get(*db, "key") == "value");
  CHECK(Open(options, "/another", &second).IsInvalidArgument());
  options.env = other.get();
  CHECK(Open(options, "/memory", &second).IsInvalidArgument());
}

// A read with a released snapshot is an error. LevelDB reads freed memory.
static void ReleasedSnapshots() {
  Options options;
  options.create_if_missing = true;
  std::unique_ptr<DB> db;
  CHECK_OK(Open(options, At("snapshots"), &db));
  CHECK_OK(db->Put({}, "key", "value"));
  leveldb::ReadOptions read;
  read.snapshot = db->GetSnapshot();
  std::string value;
  CHECK_OK(db->Get(read, "key", &value));
  db->ReleaseSnapshot(read.snapshot);
  CHECK(db->Get(read, "key", &value).IsInvalidArgument());
  const std::unique_ptr<leveldb::Iterator> it(db->NewIterator(read));
  it->SeekToFirst();
  CHECK(!it->Valid() && it->status().IsInvalidArgument());
  db->ReleaseSnapshot(read.snapshot);
  db->GetSnapshot();  // is never released
}

static void Sinks() {
  Options options;
  options.create_if_missing = true;
  std::unique_ptr<DB> db;
  CHECK_OK(Open(options, At("sinks"), &db));
  CHECK_OK(db->Put({}, "key", "value"));
  std::string value;
  leveldb::StringValueSink sink(&value);
  CHECK_OK(db->Get({}, "key", &sink));
  CHECK(value == "value" && db->Get({}, "absent", &sink).IsNotFound() && value == "value");
}

// Writes stop when the disk is full, and continue once there is space.
static void FullDisk() {
  const std::string disk = At("disk"), other = disk + "/other";
  CHECK_OK(Env::Default()->CreateDir(disk));
  if (::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=24m") != 0) {
    std::puts("skipped: a small file system cannot be mounted");
    return;
  }
  CHECK_OK(leveldb::WriteStringToFile(Env::Default(), std::string(16 << 20, 'x'), other));
  Options options;
  options.create_if_missing = true;
  std::unique_ptr<DB> db;
  CHECK_OK(Open(options, disk + "/db", &db));
  std::mt19937 random;
  std::string value(64 << 10, '\0');
  for (char& byte : value) byte = static_cast<char>(random());
  Status status;
  for (int at = 0; status.ok(); at++) {
    CHECK(at < 1000);
    status = db->Put({}, std::to_string(at), value);
  }
  CHECK(status.IsIOError() && db->Put({}, "refused", value).IsIOError());
  CHECK_OK(Env::Default()->RemoveFile(other));
  leveldb::WriteBatch batch;
  batch.Put("accepted", "value");
  CHECK_OK(db->Write({}, &batch));
  CHECK_OK(db->Delete({}, "0"));
  CHECK(Get(*db, "accepted") == "value" && Get(*db, "refused") == "NotFound: ");
}

static void Messages() {
  struct Lines : leveldb::Logger {
    void Logv(const char* format, std::va_list arguments) override {
      char line[100];
      std::vsnprintf(line, sizeof line, format, arguments);
      lines.push_back(line);
    }
    std::vector<std::string> lines;
  };
  Lines lines;
  leveldb::Log(nullptr, "%d", 1);
  leveldb::Log(&lines, "%s %d", "text", 7);
  CHECK(lines.lines.size() == 1 && lines.lines[0] == "text 7");
  const std::string bytes = "abc";
  CHECK(std::string(Slice(bytes).begin(), Slice(bytes).end()) == bytes);
}

int main(int argc, char** argv) {
  CHECK(argc == 2);
  Place() = argv[1];
  // Mounts of this program end with it. This is before its first thread.
  if (::unshare(CLONE_NEWNS) == 0) CHECK(::mount("none", "/", "", MS_REC | MS_PRIVATE, nullptr) == 0);
  Refusals();
  Zstandard();
  DamagedBatches();
  Memory();
  ReleasedSnapshots();
  Sinks();
  FullDisk();
  Messages();
  std::puts("what differs from LevelDB is as documented");
  return 0;
}
