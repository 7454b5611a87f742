// store DIRECTORY: reads, writes, snapshots and iterators of a store, and refused opens. The output
// must be the same with LevelDB and with Terrace.
#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "check.h"
#include "leveldb/db.h"
#include "leveldb/write_batch.h"

using leveldb::DB;
using leveldb::Slice;
using leveldb::Status;

static std::unique_ptr<DB> Open(const std::string& path, leveldb::Options options = leveldb::Options()) {
  DB* db = nullptr;
  options.create_if_missing = true;
  CHECK_OK(DB::Open(options, path, &db));
  return std::unique_ptr<DB>(db);
}

static std::string Get(DB& db, const Slice& key, const leveldb::Snapshot* snapshot = nullptr) {
  leveldb::ReadOptions options;
  options.snapshot = snapshot;
  options.verify_checksums = true;
  std::string value = "unchanged";
  const Status status = db.Get(options, key, &value);
  return status.ToString() + " " + value;
}

static std::string Key(int number) {
  char key[16];
  std::snprintf(key, sizeof key, "k%06d", number);
  return key;
}

static void ReadsAndWrites(DB& db) {
  leveldb::WriteOptions synced;
  synced.sync = true;
  const std::string binary("\0\xff\n", 3), large(1 << 20, 'x');
  CHECK_OK(db.Put({}, "a", "1"));
  CHECK_OK(db.Put(synced, binary, binary));
  CHECK_OK(db.Put({}, "", ""));
  CHECK_OK(db.Put({}, "large", large));
  Print("get", Get(db, "a") + Hex(Get(db, binary)) + Get(db, "") + Get(db, "absent"));
  CHECK(Get(db, "large") == "OK " + large);
  CHECK_OK(db.Delete(synced, "a"));
  CHECK_OK(db.Delete({}, "never there"));
  Print("deleted", Get(db, "a"));

  leveldb::WriteBatch batch;
  batch.Put("b", "1");
  batch.Put("b", "2");
  batch.Delete("large");
  CHECK_OK(db.Write({}, &batch));
  CHECK_OK(db.Delete({}, "b"));
  CHECK_OK(db.Write(synced, &batch));  // a batch may be written twice
  batch.Clear();
  CHECK_OK(db.Write({}, &batch));
  Print("batch", Get(db, "b") + Get(db, "large"));
}

static std::string Entry(leveldb::Iterator& it) {
  if (!it.Valid()) return "end " + it.status().ToString();
  return Hex(it.key()) + "=" + it.value().ToString();
}

static void Iterators(DB& db) {
  for (int at = 0; at < 1000; at += 2) CHECK_OK(db.Put({}, Key(at), std::to_string(at)));
  std::unique_ptr<leveldb::Iterator> it(db.NewIterator({}));
  CHECK_OK(db.Put({}, "later", ""));
  Print("new", Entry(*it));
  int count = 0;
  for (it->SeekToFirst(); it->Valid(); it->Next()) count++;
  Print("forward", count);
  for (it->SeekToLast(); it->Valid(); it->Prev()) count--;
  Print("backward", count);
  for (const char* target : {"", "k000000", "k000001", "k000998", "k000999", "later", "z", "\xff"}) {
    it->Seek(target);
    Print("seek", Entry(*it));
    if (!it->Valid()) continue;
    it->Prev();
    Print("  before", Entry(*it));
    if (it->Valid()) it->Next();
    if (it->Valid()) it->Next();
    Print("  after", Entry(*it));
  }
  static std::string calls;
  auto call = [](void* a, void* b) { calls += static_cast<const char*>(a) + std::string(static_cast<const char*>(b)); };
  static char one[] = "1", two[] = "2", three[] = "3";
  it->RegisterCleanup(call, one, two);
  it->RegisterCleanup(call, two, three);
  it->RegisterCleanup(call, three, one);
  it.reset();
  Print("cleanup", calls);

  std::unique_ptr<leveldb::Iterator> empty(leveldb::NewEmptyIterator());
  empty->SeekToFirst();
  Print("empty", Entry(*empty));
  std::unique_ptr<leveldb::Iterator> error(leveldb::NewErrorIterator(Status::Corruption("text")));
  error->Seek("a");
  Print("error", Entry(*error));
}

static void Snapshots(DB& db) {
  CHECK_OK(db.Put({}, "s", "old"));
  const leveldb::Snapshot* old = db.GetSnapshot();
  CHECK_OK(db.Put({}, "s", "new"));
  const leveldb::Snapshot* newer = db.GetSnapshot();
  CHECK_OK(db.Delete({}, "s"));
  Print("snapshots", Get(db, "s", old) + Get(db, "s", newer) + Get(db, "s"));
  leveldb::ReadOptions options;
  options.snapshot = old;
  std::unique_ptr<leveldb::Iterator> it(db.NewIterator(options));
  db.ReleaseSnapshot(old);
  it->Seek("s");
  Print("iterator of a released snapshot", Entry(*it));
  db.CompactRange(nullptr, nullptr);
  Print("after compaction", Get(db, "s", newer) + Get(db, "s"));
  it->Prev();
  it->Next();
  Print("iterator", Entry(*it));
  db.ReleaseSnapshot(newer);
}

static void Reports(DB& db) {
  std::string value;
  for (const char* name : {"leveldb.num-files-at-level7", "leveldb.num-files-at-levelx", "leveldb.nothing", "", "x"}) {
    Print(name, db.GetProperty(name, &value));
  }
  for (const char* name : {"leveldb.num-files-at-level0", "leveldb.stats", "leveldb.sstables", "leveldb.approximate-memory-usage"}) {
    Print(name, db.GetProperty(name, &value) && !value.empty());
  }
  for (int at = 0; at < 4000; at++) CHECK_OK(db.Put({}, Key(at), std::string(1000, static_cast<char>(at * 7919))));
  const std::string begin = Key(0), middle = Key(2000), end = Key(9999);
  const Slice from(begin), to(end);
  db.CompactRange(&from, &to);
  const leveldb::Range ranges[] = {{begin, middle}, {middle, end}, {end, "z"}, {end, begin}};
  uint64_t sizes[4];
  db.GetApproximateSizes(ranges, 4, sizes);
  Print("sizes", (sizes[0] > 100000) + 2 * (sizes[1] > 100000) + 4 * (sizes[2] < 10000) + 8 * (sizes[3] == 0));
  db.GetApproximateSizes(ranges, 0, sizes);
}

// Returns the beginning of an error's text that both libraries have.
static std::string Start(const Status& status) {
  const std::string text = Shown(status.ToString());
  for (const char* after : {"held by process", "No such file or directory", "Not a directory", "unavailable"}) {
    const size_t at = text.find(after);
    if (at != std::string::npos) return text.substr(0, at) + after;
  }
  return text;
}

static void Refusals() {
  DB* db = reinterpret_cast<DB*>(1);
  leveldb::Options options;
  Print("no store", Start(DB::Open(options, At("missing"), &db)));
  CHECK(db == nullptr);
  mkdir(At("empty").c_str(), 0755);
  Print("empty directory", Start(DB::Open(options, At("empty"), &db)));
  options.create_if_missing = true;
  Print("no parent", Start(DB::Open(options, At("no/parent"), &db)));
  std::fclose(std::fopen(At("file").c_str(), "w"));
  Print("a file", Start(DB::Open(options, At("file"), &db)));
  {
    const std::unique_ptr<DB> open = Open(At("open"));
    Print("open", Start(DB::Open(options, At("open"), &db)));
    Print("destroy an open one", Start(leveldb::DestroyDB(At("open"), options)));
  }
  options.error_if_exists = true;
  Print("exists", Start(DB::Open(options, At("open"), &db)));
  Print("destroy", leveldb::DestroyDB(At("open"), options));
  Print("destroy nothing", leveldb::DestroyDB(At("open"), options));
  Print("destroy a file", leveldb::DestroyDB(At("file"), options));
  Print("destroy an empty directory", leveldb::DestroyDB(At("empty"), options));
  Print("there", !access(At("open").c_str(), F_OK) + 2 * !access(At("empty").c_str(), F_OK));
}

static void Repairs() {
  Open(At("broken"))->Put({}, "key", "value");
  CHECK(unlink(At("broken/CURRENT").c_str()) == 0);
  DB* db = nullptr;
  Print("without CURRENT", DB::Open({}, At("broken"), &db));
  Print("repair", leveldb::RepairDB(At("broken"), {}));
  Print("repaired", Get(*Open(At("broken")), "key"));
}

int main(int argc, char** argv) {
  CHECK(argc == 2);
  Place() = argv[1];
  {
    const std::unique_ptr<DB> db = Open(At("store"));
    ReadsAndWrites(*db);
    Iterators(*db);
    Snapshots(*db);
    Reports(*db);
  }
  leveldb::Options options;
  options.paranoid_checks = true;
  options.compression = leveldb::kNoCompression;
  options.write_buffer_size = 1 << 20;
  options.max_open_files = 100;
  options.block_restart_interval = 4;
  options.reuse_logs = true;
  const std::unique_ptr<DB> db = Open(At("store"), options);
  Print("again", Get(*db, Key(0)).substr(0, 5) + Get(*db, "b") + Get(*db, "absent"));
  Refusals();
  Repairs();
  return 0;
}
