// values: objects that need no store. The output must be the same with LevelDB and with Terrace.
#include <string>
#include <vector>

#include "check.h"
#include "leveldb/cache.h"
#include "leveldb/comparator.h"
#include "leveldb/db.h"
#include "leveldb/filter_policy.h"
#include "leveldb/write_batch.h"

using leveldb::Slice;
using leveldb::Status;
using leveldb::WriteBatch;

namespace leveldb {
// LevelDB's clients read and write the representation through a class of this name.
class WriteBatchInternal {
 public:
  static std::string& Rep(WriteBatch* batch) { return batch->rep_; }
};
}  // namespace leveldb

static void Slices() {
  const std::string bytes("a\0b", 3);
  Slice slice(bytes);
  CHECK(slice.size() == 3 && slice[2] == 'b' && !slice.empty());
  CHECK(slice.starts_with(Slice("a\0", 2)) && slice.starts_with("") && !slice.starts_with("b"));
  CHECK(Slice("a").compare("b") < 0 && Slice("a").compare("ab") < 0 && Slice("\xff").compare("a") > 0);
  CHECK(Slice() == "" && Slice("a") != "b" && slice.ToString() == bytes);
  slice.remove_prefix(2);
  CHECK(slice == "b");
  slice.clear();
  CHECK(slice.empty());
}

static void Statuses() {
  const Status all[] = {Status::OK(),
                        Status::NotFound("message"),
                        Status::Corruption("message", "more"),
                        Status::NotSupported("message", ""),
                        Status::InvalidArgument("", "more"),
                        Status::IOError(Slice("a\0b", 3))};
  for (const Status& status : all) {
    Print("status", Hex(status.ToString()));
    Print("  kinds", status.ok() + 2 * status.IsNotFound() + 4 * status.IsCorruption() +
                         8 * status.IsNotSupportedError() + 16 * status.IsInvalidArgument() + 32 * status.IsIOError());
  }
  Status status = all[1];
  Status copy(status);
  status = all[2];
  CHECK(copy.IsNotFound() && status.IsCorruption());
  Status moved(std::move(status));
  CHECK(moved.IsCorruption());
  moved = std::move(copy);
  CHECK(moved.IsNotFound());
  const Status& same = moved;
  moved = same;
  CHECK(moved.ToString() == "NotFound: message");
  moved = Status::OK();
  CHECK(moved.ok());
}

struct Printer : WriteBatch::Handler {
  void Put(const Slice& key, const Slice& value) override { Print("  put", Hex(key) + " " + Hex(value)); }
  void Delete(const Slice& key) override { Print("  delete", Hex(key)); }
};

static void PrintBatch(const char* what, WriteBatch& batch) {
  Print(what, Hex(leveldb::WriteBatchInternal::Rep(&batch)));
  Printer printer;
  Print("  iterated", batch.Iterate(&printer));
  Print("  size", batch.ApproximateSize());
}

static void Batches() {
  WriteBatch batch, other;
  PrintBatch("empty", batch);
  batch.Put("key", "value");
  batch.Delete(Slice("\0", 1));
  batch.Put("", std::string(200, 'v'));
  PrintBatch("three", batch);
  other.Put("other", "");
  other.Append(batch);
  other.Append(other);
  PrintBatch("appended", other);
  WriteBatch copy = batch;
  batch.Clear();
  PrintBatch("cleared", batch);
  for (int at = 0; at < 300; at++) batch.Delete("k");
  Print("of 300", Hex(Slice(leveldb::WriteBatchInternal::Rep(&batch).data(), 14)));
  PrintBatch("copy", copy);

  const std::string whole = leveldb::WriteBatchInternal::Rep(&copy);
  for (size_t length : {0, 5, 11, 12, 13, 14, 18, 19, 24, 26, 27, 30}) {
    leveldb::WriteBatchInternal::Rep(&copy) = whole.substr(0, length);
    PrintBatch("cut", copy);
  }
  leveldb::WriteBatchInternal::Rep(&copy) = whole + "\x07";
  PrintBatch("unknown operation", copy);
}

static void Comparators() {
  const leveldb::Comparator* bytewise = leveldb::BytewiseComparator();
  Print("name", bytewise->Name());
  CHECK(bytewise->Compare("a", "b") < 0 && bytewise->Compare("b", "a") > 0 && bytewise->Compare("a", "a") == 0);
  const char* keys[] = {"", "a", "abc", "abcdef", "abd", "abe", "abf", "b", "\xff", "\xff\xff", "a\xff", "a\xff\x01", "a\xff\x05z"};
  for (const char* start : keys) {
    std::string successor = start;
    bytewise->FindShortSuccessor(&successor);
    Print("successor", Hex(start) + " " + Hex(successor));
    for (const char* limit : keys) {
      std::string separator = start;
      if (bytewise->Compare(start, limit) >= 0) continue;
      bytewise->FindShortestSeparator(&separator, limit);
      Print("separator", Hex(start) + " " + Hex(limit) + " " + Hex(separator));
    }
  }
}

static void Blooms() {
  for (int bits : {1, 10, 40}) {
    const leveldb::FilterPolicy* policy = leveldb::NewBloomFilterPolicy(bits);
    const std::vector<Slice> keys = {"hello", "world", "", Slice("\0\xff", 2)};
    std::string filter = "before";
    policy->CreateFilter(keys.data(), 4, &filter);
    Print(policy->Name(), filter.substr(0, 6) + Hex(filter.substr(6)));
    filter.erase(0, 6);
    for (const Slice& key : keys) CHECK(policy->KeyMayMatch(key, filter));
    Print("absent", policy->KeyMayMatch("absent", filter) + 2 * policy->KeyMayMatch("", ""));
    delete policy;
  }
}

static int deleted = 0;
static void Delete(const Slice& key, void* value) {
  CHECK(*static_cast<std::string*>(value) == key.ToString());
  delete static_cast<std::string*>(value);
  deleted++;
}

static void Caches() {
  leveldb::Cache* cache = leveldb::NewLRUCache(1000);
  auto insert = [&](const std::string& key) { return cache->Insert(key, new std::string(key), 1, Delete); };
  cache->Release(insert("a"));
  leveldb::Cache::Handle* first = cache->Lookup("a");
  CHECK(*static_cast<std::string*>(cache->Value(first)) == "a" && cache->Lookup("b") == nullptr);
  cache->Release(insert("a"));  // the first entry stays readable
  CHECK(*static_cast<std::string*>(cache->Value(first)) == "a" && deleted == 0);
  cache->Release(first);
  CHECK(deleted == 1 && cache->TotalCharge() == 1);
  leveldb::Cache::Handle* held = insert("held");
  for (int at = 0; at < 10000; at++) cache->Release(insert(std::to_string(at)));
  CHECK(cache->TotalCharge() <= 1100 && deleted > 8000);  // LevelDB has 16 parts with a bound for each
  leveldb::Cache::Handle* again = cache->Lookup("held");
  CHECK(again == held);
  cache->Erase("held");
  CHECK(cache->Lookup("held") == nullptr);
  cache->Release(again);
  cache->Release(held);
  cache->Prune();
  CHECK(cache->TotalCharge() == 0 && cache->NewId() != cache->NewId());
  delete cache;
  Print("deleted", deleted);
}

int main() {
  Print("version", leveldb::kMajorVersion * 1000 + leveldb::kMinorVersion);
  Slices();
  Statuses();
  Batches();
  Comparators();
  Blooms();
  Caches();
  return 0;
}
