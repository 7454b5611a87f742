// handover DIRECTORY ROUND: opens a store, expects the pairs of the earlier rounds, and writes
// those of this round. LevelDB and Terrace take turns with one store.
#include <memory>

#include "check.h"
#include "leveldb/db.h"
#include "leveldb/filter_policy.h"
#include "leveldb/write_batch.h"

static const int kKeys = 3000;  // of a round

static std::string Key(int number) { return "key" + std::to_string(1000000 + number); }

// Every seventh key is deleted in its own round.
static std::string Value(int number) { return std::string(200, static_cast<char>('a' + number % 26)); }

int main(int argc, char** argv) {
  CHECK(argc == 3);
  const int round = std::atoi(argv[2]);
  const std::unique_ptr<const leveldb::FilterPolicy> bloom(leveldb::NewBloomFilterPolicy(10));
  leveldb::Options options;
  options.create_if_missing = round == 0;
  options.filter_policy = bloom.get();
  options.write_buffer_size = 128 << 10;
  leveldb::DB* opened;
  CHECK_OK(leveldb::DB::Open(options, argv[1], &opened));
  const std::unique_ptr<leveldb::DB> db(opened);

  std::unique_ptr<leveldb::Iterator> it(db->NewIterator({}));
  it->SeekToFirst();
  for (int at = 0; at < round * kKeys; at++) {
    std::string value;
    CHECK(db->Get({}, Key(at), &value).IsNotFound() == (at % 7 == 0));
    if (at % 7 == 0) continue;
    CHECK(it->Valid() && it->key() == Key(at) && it->value() == Value(at) && value == Value(at));
    it->Next();
  }
  CHECK(!it->Valid());
  CHECK_OK(it->status());

  for (int at = round * kKeys; at < (round + 1) * kKeys; at++) {
    leveldb::WriteBatch batch;
    batch.Put(Key(at), Value(at));
    if (at % 7 == 0) batch.Delete(Key(at));
    CHECK_OK(db->Write({}, &batch));
  }
  if (round % 3 == 1) db->CompactRange(nullptr, nullptr);
  return 0;
}
