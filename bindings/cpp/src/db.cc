#include "leveldb/db.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "handles.h"
#include "leveldb/write_batch.h"
#include "options.h"

namespace leveldb {

Snapshot::~Snapshot() = default;
DB::~DB() = default;

// Gives the library access to the representation of batches. Programs may have a class of this
// name, so it is not exported.
class __attribute__((visibility("hidden"))) WriteBatchInternal {
 public:
  static Slice Representation(const WriteBatch& batch) { return batch.rep_; }
};

Status DB::Get(const ReadOptions& options, const Slice& key, ValueSink* sink) {
  std::string value;
  const Status status = Get(options, key, &value);
  if (status.ok()) sink->assign(value.data(), value.size());
  return status;
}

// These two are for subclasses of programs.
Status DB::Put(const WriteOptions& options, const Slice& key, const Slice& value) {
  WriteBatch batch;
  batch.Put(key, value);
  return Write(options, &batch);
}

Status DB::Delete(const WriteOptions& options, const Slice& key) {
  WriteBatch batch;
  batch.Delete(key);
  return Write(options, &batch);
}

}  // namespace leveldb

namespace terrace_cpp {

using leveldb::Slice;
using leveldb::Status;

namespace {

struct SnapshotOfStore final : leveldb::Snapshot {
  ~SnapshotOfStore() override = default;
};

// The snapshots of a store that are not released. A read with a released snapshot is an error, and
// not an access to freed memory.
class Snapshots {
 public:
  explicit Snapshots(leveldb_t* store) : store_(store) {}

  ~Snapshots() {
    while (!handles_.empty()) Release(handles_.begin()->first);
  }

  const leveldb::Snapshot* Add() {
    auto snapshot = std::make_unique<const SnapshotOfStore>();
    std::lock_guard<std::mutex> guard(mutex_);
    handles_[snapshot.get()] = leveldb_create_snapshot(store_);
    return snapshot.release();
  }

  void Release(const leveldb::Snapshot* snapshot) {
    std::lock_guard<std::mutex> guard(mutex_);
    const auto found = handles_.find(snapshot);
    if (found == handles_.end()) return;
    leveldb_release_snapshot(store_, found->second);
    handles_.erase(found);
    delete static_cast<const SnapshotOfStore*>(snapshot);
  }

  // Stores the snapshot in `target`, which keeps it readable after its release.
  Status Set(const leveldb::Snapshot* snapshot, leveldb_readoptions_t* target) {
    std::lock_guard<std::mutex> guard(mutex_);
    const auto found = handles_.find(snapshot);
    if (found == handles_.end()) {
      return Status::InvalidArgument("ReadOptions::snapshot was released, or is from another store");
    }
    leveldb_readoptions_set_snapshot(target, found->second);
    return Status::OK();
  }

 private:
  leveldb_t* const store_;
  std::mutex mutex_;  // guards the handles
  std::unordered_map<const leveldb::Snapshot*, const leveldb_snapshot_t*> handles_;
};

WriteOptionsHandle HandleOf(const leveldb::WriteOptions& options) {
  WriteOptionsHandle handle(leveldb_writeoptions_create());
  leveldb_writeoptions_set_sync(handle.get(), options.sync);
  return handle;
}

// Keeps the current entry, so that a scan needs two calls of the C interface for each pair.
class IteratorOfStore final : public leveldb::Iterator {
 public:
  explicit IteratorOfStore(leveldb_iterator_t* handle) : handle_(handle) {}
  ~IteratorOfStore() override { leveldb_iter_destroy(handle_); }

  bool Valid() const override { return valid_; }
  Slice key() const override { return key_; }
  Slice value() const override { return value_; }

  void SeekToFirst() override { Moved(leveldb_iter_seek_to_first); }
  void SeekToLast() override { Moved(leveldb_iter_seek_to_last); }
  void Next() override { Moved(leveldb_iter_next); }
  void Prev() override { Moved(leveldb_iter_prev); }

  void Seek(const Slice& target) override {
    leveldb_iter_seek(handle_, target.data(), target.size());
    LoadEntry();
  }

  Status status() const override {
    Error error;
    leveldb_iter_get_error(handle_, error.out());
    return error.status();
  }

 private:
  void Moved(void (*move)(leveldb_iterator_t*)) {
    move(handle_);
    LoadEntry();
  }

  void LoadEntry() {
    const char *key, *value;
    size_t key_length, value_length;
    valid_ = terrace_iter_entry(handle_, &key, &key_length, &value, &value_length) != 0;
    if (!valid_) return;
    key_ = Slice(key, key_length);
    value_ = Slice(value, value_length);
  }

  leveldb_iterator_t* const handle_;
  bool valid_ = false;
  Slice key_;
  Slice value_;
};

class Store final : public leveldb::DB {
 public:
  Store(leveldb_t* handle, std::unique_ptr<OpenOptions> options) : handle_(handle), options_(std::move(options)) {}
  ~Store() override {
    snapshots_.reset();
    leveldb_close(handle_);
  }

  Status Put(const leveldb::WriteOptions& options, const Slice& key, const Slice& value) override {
    return Change([&](char** error) {
      leveldb_put(handle_, HandleOf(options).get(), key.data(), key.size(), value.data(), value.size(), error);
    });
  }

  Status Delete(const leveldb::WriteOptions& options, const Slice& key) override {
    return Change([&](char** error) {
      leveldb_delete(handle_, HandleOf(options).get(), key.data(), key.size(), error);
    });
  }

  Status Write(const leveldb::WriteOptions& options, leveldb::WriteBatch* updates) override {
    return Change([&](char** error) {
      if (updates == nullptr) {
        terrace_flush(handle_, error);
      } else {
        const Slice rep = leveldb::WriteBatchInternal::Representation(*updates);
        terrace_write(handle_, HandleOf(options).get(), rep.data(), rep.size(), error);
      }
    });
  }

  Status Get(const leveldb::ReadOptions& options, const Slice& key, std::string* value) override {
    ReadOptionsHandle read;
    Status status = Make(options, &read);
    if (!status.ok()) return status;
    Error error;
    Receiver receiver(value);
    if (terrace_get(handle_, read.get(), key.data(), key.size(), Receiver::Assign, &receiver, error.out())) {
      receiver.Rethrow();
      return Status::OK();
    }
    status = error.status();
    return status.ok() ? Status::NotFound(Slice()) : status;
  }

  leveldb::Iterator* NewIterator(const leveldb::ReadOptions& options) override {
    ReadOptionsHandle read;
    const Status status = Make(options, &read);
    if (!status.ok()) return leveldb::NewErrorIterator(status);
    return new IteratorOfStore(leveldb_create_iterator(handle_, read.get()));
  }

  const leveldb::Snapshot* GetSnapshot() override { return snapshots_->Add(); }

  void ReleaseSnapshot(const leveldb::Snapshot* snapshot) override { snapshots_->Release(snapshot); }

  bool GetProperty(const Slice& property, std::string* value) override {
    value->clear();
    char* found = leveldb_property_value(handle_, property.ToString().c_str());
    if (found != nullptr) value->assign(found);
    leveldb_free(found);
    return found != nullptr;
  }

  void GetApproximateSizes(const leveldb::Range* range, int n, uint64_t* sizes) override;

  void CompactRange(const Slice* begin, const Slice* end) override {
    const Slice none(nullptr, 0), &from = begin ? *begin : none, &to = end ? *end : none;
    leveldb_compact_range(handle_, from.data(), from.size(), to.data(), to.size());
  }

 private:
  // Calls `write` with the place for its error. The engine stops writes when the disk is full, and
  // LevelDB has no function that resumes them. So the next write resumes them; if that fails, the
  // write fails, too.
  template <class F>
  Status Change(F write) {
    if (full_) {
      Error error;
      terrace_resume(handle_, error.out());
      full_ = !error.status().ok();
    }
    Error error;
    write(error.out());
    const Status status = error.status();
    if (!status.ok() && terrace_last_error_kind() == terrace_kind_no_space) full_ = true;
    return status;
  }

  // Stores the options of a read in `*result`.
  Status Make(const leveldb::ReadOptions& options, ReadOptionsHandle* result) {
    result->reset(leveldb_readoptions_create());
    leveldb_readoptions_set_verify_checksums(result->get(), options.verify_checksums);
    leveldb_readoptions_set_fill_cache(result->get(), options.fill_cache);
    return options.snapshot == nullptr ? Status::OK() : snapshots_->Set(options.snapshot, result->get());
  }

  leveldb_t* const handle_;
  std::atomic<bool> full_{false};  // whether a lack of space has stopped writes
  std::unique_ptr<Snapshots> snapshots_ = std::make_unique<Snapshots>(handle_);
  const std::unique_ptr<OpenOptions> options_;  // the store uses their comparator and filter policy
};

void Store::GetApproximateSizes(const leveldb::Range* range, int n, uint64_t* sizes) {
  std::vector<const char*> starts, limits;
  std::vector<size_t> start_lengths, limit_lengths;
  for (int at = 0; at < n; at++) {
    starts.push_back(range[at].start.data());
    start_lengths.push_back(range[at].start.size());
    limits.push_back(range[at].limit.data());
    limit_lengths.push_back(range[at].limit.size());
  }
  leveldb_approximate_sizes(handle_, n, starts.data(), start_lengths.data(), limits.data(), limit_lengths.data(), sizes);
}

}  // namespace

}  // namespace terrace_cpp

namespace leveldb {

Status DB::Open(const Options& options, const std::string& name, DB** dbptr) {
  *dbptr = nullptr;
  std::unique_ptr<terrace_cpp::OpenOptions> opened;
  const Status status = terrace_cpp::OpenOptions::Make(options, &opened);
  if (!status.ok()) return status;
  terrace_cpp::Error error;
  leveldb_t* handle = leveldb_open(opened->get(), name.c_str(), error.out());
  if (handle == nullptr) return error.status();
  *dbptr = new terrace_cpp::Store(handle, std::move(opened));
  return Status::OK();
}

// Calls `operation` of the C interface for the closed store `name`.
static Status ForClosed(void (*operation)(const leveldb_options_t*, const char*, char**), const std::string& name,
                        const Options& options) {
  std::unique_ptr<terrace_cpp::OpenOptions> made;
  const Status status = terrace_cpp::OpenOptions::Make(options, &made);
  if (!status.ok()) return status;
  terrace_cpp::Error error;
  operation(made->get(), name.c_str(), error.out());
  return error.status();
}

Status DestroyDB(const std::string& name, const Options& options) {
  return ForClosed(leveldb_destroy_db, name, options);
}

Status RepairDB(const std::string& dbname, const Options& options) {
  return ForClosed(leveldb_repair_db, dbname, options);
}

}  // namespace leveldb
