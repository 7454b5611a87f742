// Writes the golden stores. Usage: ./make DIRECTORY, which must exist and be empty.
#include <leveldb/db.h>
#include <leveldb/filter_policy.h>
#include <leveldb/write_batch.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

static void check(const leveldb::Status& status) {
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    std::exit(1);
  }
}

static std::string key(int i) {
  char text[32];
  std::snprintf(text, sizeof text, "key%05d", i * 7);
  return text;
}

// Text of varying length that compresses by about half.
static std::string value(int i, int generation) {
  uint32_t x = 2654435761u * (i + 1) + generation;
  std::string text;
  for (int n = 10 + i % 60; n > 0; n--) {
    x = x * 1664525u + 1013904223u;
    text += (n % 2) ? char('a' + (x >> 24) % 26) : '-';
  }
  return text;
}

static void copy(const std::string& from, const std::string& to) {
  std::ifstream in(from, std::ios::binary);
  std::ofstream out(to, std::ios::binary);
  out << in.rdbuf();
}

// Writes four generations of data and opens the store again before each. The first generation fills the tree and is
// compacted to a deeper level. The second overwrites and deletes a part of it and is merged with it. The next open
// flushes the third. The fourth stays in the WAL.
static void write(leveldb::DB* db, int generation) {
  leveldb::WriteOptions how;
  int from = generation * 100, to = generation == 0 ? 500 : from + 80;
  for (int i = from; i < to; i++) {
    if (generation > 0 && i % 3 == 0) {
      check(db->Delete(how, key(i)));
    } else {
      check(db->Put(how, key(i), value(i, generation)));
    }
  }
  if (generation == 0) {
    check(db->Put(how, "", "the empty key"));
    check(db->Put(how, std::string("\xff\xff\x00\x01", 4), ""));
  }
  if (generation <= 1) db->CompactRange(nullptr, nullptr);
  if (generation == 3) {
    leveldb::WriteBatch batch;
    batch.Put("batch", "one");
    batch.Delete(key(0));
    batch.Put("batch", "two");
    check(db->Write(how, &batch));
    check(db->Put(how, "large", std::string(33000, 'L')));  // spans blocks of the log
    check(db->Put(how, "last", "of the log"));
  }
}

static void dump(leveldb::DB* db, const std::string& path) {
  std::ofstream out(path);
  leveldb::Iterator* it = db->NewIterator(leveldb::ReadOptions());
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
    for (unsigned char byte : it->key().ToString()) {
      char hex[3];
      std::snprintf(hex, sizeof hex, "%02x", byte);
      out << hex;
    }
    uint64_t hash = 14695981039346656037ull;  // FNV-1a
    for (unsigned char byte : it->value().ToString()) hash = (hash ^ byte) * 1099511628211ull;
    out << ' ' << it->value().size() << ' ' << hash << '\n';
  }
  check(it->status());
  delete it;
}

static void store(const std::string& path, leveldb::CompressionType compression, const leveldb::FilterPolicy* filter) {
  leveldb::Options options;
  options.create_if_missing = true;
  options.compression = compression;
  options.filter_policy = filter;
  options.write_buffer_size = 64 << 10;
  options.block_size = 1024;
  for (int generation = 0; generation < 4; generation++) {
    leveldb::DB* db;
    check(leveldb::DB::Open(options, path, &db));
    write(db, generation);
    if (generation == 1) {  // the next open replaces the manifest
      std::ifstream current(path + "/CURRENT");
      std::string name;
      current >> name;
      copy(path + "/" + name, path + ".manifest");
    }
    if (generation == 3) dump(db, path + ".contents");
    delete db;
  }
}

int main(int argc, char** argv) {
  if (argc != 2) return 1;
  std::string root = argv[1];
  store(root + "/plain", leveldb::kNoCompression, leveldb::NewBloomFilterPolicy(10));
  store(root + "/snappy", leveldb::kSnappyCompression, nullptr);
}
