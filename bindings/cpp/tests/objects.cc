// objects DIRECTORY: classes of a program that a store calls, and environments. The output must be
// the same with LevelDB and with Terrace.
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "check.h"
#include "leveldb/cache.h"
#include "leveldb/comparator.h"
#include "leveldb/db.h"
#include "leveldb/env.h"
#include "leveldb/filter_policy.h"
#include "leveldb/helpers/memenv.h"
#include "leveldb/write_batch.h"

using leveldb::DB;
using leveldb::Env;
using leveldb::Slice;
using leveldb::Status;

static std::unique_ptr<DB> Open(leveldb::Options options, const std::string& path) {
  DB* db = nullptr;
  options.create_if_missing = true;
  CHECK_OK(DB::Open(options, path, &db));
  return std::unique_ptr<DB>(db);
}

static std::string Scan(DB& db) {
  std::string keys;
  std::unique_ptr<leveldb::Iterator> it(db.NewIterator({}));
  for (it->SeekToFirst(); it->Valid(); it->Next()) keys += it->key().ToString() + " ";
  return keys + it->status().ToString();
}

// Orders decimal numbers by value.
struct Numeric : leveldb::Comparator {
  int Compare(const Slice& a, const Slice& b) const override {
    const long one = std::stol(a.ToString()), other = std::stol(b.ToString());
    return one < other ? -1 : one > other;
  }
  const char* Name() const override { return "test.Numeric"; }
  void FindShortestSeparator(std::string*, const Slice&) const override {}
  void FindShortSuccessor(std::string*) const override {}
};

static void Comparators() {
  Numeric numeric;
  leveldb::Options options;
  options.comparator = &numeric;
  {
    const auto db = Open(options, At("numeric"));
    for (const char* key : {"10", "9", "100", "0", "010"}) CHECK_OK(db->Put({}, key, key));
    Print("numeric", Scan(*db));
    db->CompactRange(nullptr, nullptr);
    std::string value;
    CHECK_OK(db->Get({}, "00009", &value));
    Print("compacted", Scan(*db) + " " + value);
  }
  DB* db = nullptr;
  Print("bytewise", DB::Open({}, At("numeric"), &db));
  Print("numeric again", Scan(*Open(options, At("numeric"))));
}

// A filter that stores the whole keys.
struct Exact : leveldb::FilterPolicy {
  const char* Name() const override { return "test.Exact"; }
  void CreateFilter(const Slice* keys, int n, std::string* dst) const override {
    for (int at = 0; at < n; at++) dst->append("|" + keys[at].ToString());
    dst->append("|");
    created++;
  }
  bool KeyMayMatch(const Slice& key, const Slice& filter) const override {
    asked++;
    return filter.ToString().find("|" + key.ToString() + "|") != std::string::npos;
  }
  mutable std::atomic<int> created{0}, asked{0};
};

static void Filters() {
  Exact exact;
  const std::unique_ptr<const leveldb::FilterPolicy> bloom(leveldb::NewBloomFilterPolicy(10));
  for (const leveldb::FilterPolicy* policy : {static_cast<const leveldb::FilterPolicy*>(&exact), bloom.get()}) {
    leveldb::Options options;
    options.filter_policy = policy;
    const auto db = Open(options, At("filtered"));
    for (int at = 0; at < 500; at++) CHECK_OK(db->Put({}, "key" + std::to_string(at), "value"));
    db->CompactRange(nullptr, nullptr);
    std::string value;
    int found = 0;
    for (int at = 0; at < 1000; at++) found += db->Get({}, "key" + std::to_string(at), &value).ok();
    Print(policy->Name(), found);
  }
  Print("calls", (exact.created > 0) + 2 * (exact.asked >= 500));
}

// Works like leveldb::Log, which Debian's library does not export.
static void LogTo(leveldb::Logger* logger, const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  logger->Logv(format, arguments);
  va_end(arguments);
}

struct Lines : leveldb::Logger {
  void Logv(const char* format, std::va_list arguments) override {
    char line[500];
    std::vsnprintf(line, sizeof line, format, arguments);
    std::lock_guard<std::mutex> guard(mutex);
    lines.push_back(line);
  }
  std::mutex mutex;
  std::vector<std::string> lines;
};

static void Loggers() {
  Lines lines;
  leveldb::Options options;
  options.info_log = &lines;
  {
    const auto db = Open(options, At("logged"));
    CHECK_OK(db->Put({}, "key", "value"));
    db->CompactRange(nullptr, nullptr);
  }
  bool compacted = false;
  for (const std::string& line : lines.lines) compacted |= strstr(line.c_str(), "evel") != nullptr;
  Print("lines", !lines.lines.empty() + 2 * compacted);
  Print("LOG", Env::Default()->FileExists(At("logged/LOG")));
  LogTo(&lines, "%s %d", "text", 7);
  Print("last line", lines.lines.back());
}

// A program's own store, which has only Write.
struct Recorder : DB {
  Status Put(const leveldb::WriteOptions& o, const Slice& k, const Slice& v) override { return DB::Put(o, k, v); }
  Status Delete(const leveldb::WriteOptions& o, const Slice& k) override { return DB::Delete(o, k); }
  Status Write(const leveldb::WriteOptions&, leveldb::WriteBatch* batch) override {
    Print("recorded", batch->ApproximateSize());
    return Status::NotSupported("recorder");
  }
  Status Get(const leveldb::ReadOptions&, const Slice&, std::string*) override { return Status::OK(); }
  leveldb::Iterator* NewIterator(const leveldb::ReadOptions&) override { return leveldb::NewEmptyIterator(); }
  const leveldb::Snapshot* GetSnapshot() override { return nullptr; }
  void ReleaseSnapshot(const leveldb::Snapshot*) override {}
  bool GetProperty(const Slice&, std::string*) override { return false; }
  void GetApproximateSizes(const leveldb::Range*, int, uint64_t*) override {}
  void CompactRange(const Slice*, const Slice*) override {}
};

static void Subclasses() {
  const std::unique_ptr<DB> db(new Recorder);
  Print("put", db->Put({}, "key", "value"));
  Print("delete", db->Delete({}, "key"));
}

// Files of an environment. `directory` exists.
static void Files(Env* env, const std::string& directory) {
  const std::string name = directory + "/file", other = directory + "/other";
  std::string data;
  uint64_t size = 0;
  Print("write", leveldb::WriteStringToFile(env, "0123456789", name));
  Print("read", leveldb::ReadFileToString(env, name, &data).ToString() + data);
  leveldb::WritableFile* writable;
  CHECK_OK(env->NewAppendableFile(name, &writable));
  CHECK_OK(writable->Append("abc"));
  CHECK_OK(writable->Flush());
  CHECK_OK(writable->Sync());
  CHECK_OK(writable->Close());
  delete writable;
  Print("size", env->GetFileSize(name, &size).ToString() + std::to_string(size));
  CHECK_OK(env->RenameFile(name, other));
  Print("exists", env->FileExists(name) + 2 * env->FileExists(other));

  char scratch[100];
  Slice part;
  leveldb::SequentialFile* sequential;
  CHECK_OK(env->NewSequentialFile(other, &sequential));
  CHECK_OK(sequential->Read(3, &part, scratch));
  Print("first", part.ToString());
  CHECK_OK(sequential->Skip(5));
  CHECK_OK(sequential->Read(100, &part, scratch));
  Print("rest", part.ToString());
  CHECK_OK(sequential->Read(100, &part, scratch));
  Print("end", part.ToString());
  delete sequential;
  leveldb::RandomAccessFile* random;
  CHECK_OK(env->NewRandomAccessFile(other, &random));
  CHECK_OK(random->Read(9, 3, &part, scratch));
  Print("random", part.ToString());
  delete random;

  std::vector<std::string> names;
  CHECK_OK(env->GetChildren(directory, &names));
  bool listed = false;
  for (const std::string& found : names) listed |= found == "other";
  CHECK(listed);
  CHECK_OK(env->RemoveFile(other));
  CHECK(!env->RemoveFile(other).ok() && !env->GetFileSize(other, &size).ok());
  CHECK(!env->NewSequentialFile(other, &sequential).ok() && sequential == nullptr);
  CHECK(!env->NewRandomAccessFile(other, &random).ok() && random == nullptr);
  leveldb::FileLock *lock, *second;
  CHECK_OK(env->LockFile(name, &lock));
  CHECK_OK(env->UnlockFile(lock));
  CHECK_OK(env->LockFile(name, &second));
  CHECK_OK(env->UnlockFile(second));
  leveldb::Logger* logger;
  CHECK_OK(env->NewLogger(directory + "/text", &logger));
  LogTo(logger, "%s", std::string(5000, 'x').c_str());
  delete logger;
}

static void OperatingSystem() {
  Env* env = Env::Default();
  CHECK_OK(env->CreateDir(At("files")));
  Files(env, At("files"));
  Print("missing", env->RemoveFile(At("files/none")));
  Print("not empty", env->RemoveDir(At("files")));
  Print("again", env->CreateDir(At("files")));
  leveldb::FileLock *lock, *second;
  CHECK_OK(env->LockFile(At("files/LOCK"), &lock));
  Print("locked", env->LockFile(At("files/LOCK"), &second));
  CHECK_OK(env->UnlockFile(lock));
  Print("lock in no directory", env->LockFile(At("none/LOCK"), &lock));
  leveldb::Logger* logger;
  uint64_t size;
  CHECK_OK(env->NewLogger(At("files/text"), &logger)); // the second one of this file
  LogTo(logger, "%s", std::string(5000, 'y').c_str());
  delete logger;
  CHECK_OK(env->GetFileSize(At("files/text"), &size));
  Print("log was appended to", size > 10000);
  std::string path;
  CHECK_OK(env->GetTestDirectory(&path));
  CHECK(env->FileExists(path));

  static std::atomic<int> ran{0};
  auto run = [](void* amount) { ran += *static_cast<int*>(amount); };
  static int one = 1, ten = 10;
  for (int at = 0; at < 5; at++) env->Schedule(run, &one);
  env->StartThread(run, &ten);
  const uint64_t start = env->NowMicros();
  while (ran < 15 && env->NowMicros() - start < 10000000) env->SleepForMicroseconds(100);
  Print("ran", ran);
}

static void Memory() {
  const std::unique_ptr<Env> env(leveldb::NewMemEnv(Env::Default()));
  Files(env.get(), "/dir");
  leveldb::Options options;
  options.env = env.get();
  for (int round = 0; round < 3; round++) {
    const auto db = Open(options, At("memory"));
    CHECK_OK(db->Put({}, std::to_string(round), ""));
    if (round == 1) db->CompactRange(nullptr, nullptr);
    Print("memory", Scan(*db));
  }
  CHECK(!Env::Default()->FileExists(At("memory")));
  CHECK_OK(leveldb::DestroyDB(At("memory"), options));
  DB* db = nullptr;
  Print("destroyed", DB::Open(options, At("memory"), &db));
}

static void Threads() {
  leveldb::Options options;
  const std::unique_ptr<leveldb::Cache> cache(leveldb::NewLRUCache(1 << 20));
  options.block_cache = cache.get();
  options.write_buffer_size = 64 << 10;
  const auto db = Open(options, At("threads"));
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; thread++) {
    threads.emplace_back([&, thread] {
      std::string value;
      for (int at = 0; at < 2000; at++) {
        const std::string key = std::to_string(thread) + "-" + std::to_string(at);
        CHECK_OK(db->Put({}, key, key));
        CHECK_OK(db->Get({}, key, &value));
        CHECK(value == key);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Print("keys", static_cast<long long>(Scan(*db).size()));
}

int main(int argc, char** argv) {
  CHECK(argc == 2);
  Place() = argv[1];
  Comparators();
  Filters();
  Loggers();
  Subclasses();
  OperatingSystem();
  Memory();
  Threads();
  return 0;
}
