// The encoding of batches is docs/format/batch.md; LevelDB has the same.
#include "leveldb/write_batch.h"

#include <cstdint>

#include "leveldb/slice.h"

namespace leveldb {

namespace {

const size_t kHeadBytes = 12;  // sequence number (8), number of operations (4), both little-endian
const size_t kCountAt = 8;
enum Tag : char { kDelete = 0, kPut = 1 };

uint32_t Count(const std::string& rep) {
  uint32_t count = 0;
  for (size_t byte = 0; byte < 4; byte++) {
    count |= uint32_t{static_cast<unsigned char>(rep[kCountAt + byte])} << (8 * byte);
  }
  return count;
}

void AddToCount(std::string* rep, uint32_t more) {
  const uint32_t count = Count(*rep) + more;
  for (size_t byte = 0; byte < 4; byte++) {
    (*rep)[kCountAt + byte] = static_cast<char>(count >> (8 * byte));
  }
}

// Appends the length as a varint of at most 32 bits, and the bytes. The library refuses longer keys
// and values when the batch is written: the length then does not match.
void AppendBytes(std::string* rep, const Slice& bytes) {
  uint32_t rest = static_cast<uint32_t>(bytes.size());
  for (; rest >= 0x80; rest >>= 7) rep->push_back(static_cast<char>(rest | 0x80));
  rep->push_back(static_cast<char>(rest));
  rep->append(bytes.data(), bytes.size());
}

// Takes a length and the bytes from the start of `input`. Returns whether they are complete.
bool TakeBytes(Slice* input, Slice* bytes) {
  uint64_t length = 0;
  for (unsigned shift = 0; shift <= 28; shift += 7) {
    if (input->empty()) return false;
    const unsigned char byte = (*input)[0];
    input->remove_prefix(1);
    length |= uint64_t{byte & 0x7fu} << shift;
    if (byte >= 0x80) continue;
    if (length > input->size()) return false;
    *bytes = Slice(input->data(), length);
    input->remove_prefix(length);
    return true;
  }
  return false;
}

}  // namespace

WriteBatch::Handler::~Handler() = default;

WriteBatch::WriteBatch() { Clear(); }

WriteBatch::~WriteBatch() = default;

void WriteBatch::Clear() { rep_.assign(kHeadBytes, '\0'); }

size_t WriteBatch::ApproximateSize() const { return rep_.size(); }

void WriteBatch::Put(const Slice& key, const Slice& value) {
  AddToCount(&rep_, 1);
  rep_.push_back(kPut);
  AppendBytes(&rep_, key);
  AppendBytes(&rep_, value);
}

void WriteBatch::Delete(const Slice& key) {
  AddToCount(&rep_, 1);
  rep_.push_back(kDelete);
  AppendBytes(&rep_, key);
}

void WriteBatch::Append(const WriteBatch& source) {
  const std::string operations = source.rep_.substr(kHeadBytes);  // a copy: `source` may be this batch
  AddToCount(&rep_, Count(source.rep_));
  rep_.append(operations);
}

// The messages are LevelDB's.
Status WriteBatch::Iterate(Handler* handler) const {
  if (rep_.size() < kHeadBytes) return Status::Corruption("malformed WriteBatch (too small)");
  Slice input(rep_);
  input.remove_prefix(kHeadBytes);
  uint32_t found = 0;
  for (Slice key, value; !input.empty(); found++) {
    const char tag = input[0];
    input.remove_prefix(1);
    switch (tag) {
      case kPut:
        if (!TakeBytes(&input, &key) || !TakeBytes(&input, &value)) return Status::Corruption("bad WriteBatch Put");
        handler->Put(key, value);
        break;
      case kDelete:
        if (!TakeBytes(&input, &key)) return Status::Corruption("bad WriteBatch Delete");
        handler->Delete(key);
        break;
      default:
        return Status::Corruption("unknown WriteBatch tag");
    }
  }
  return found == Count(rep_) ? Status::OK() : Status::Corruption("WriteBatch has wrong count");
}

}  // namespace leveldb
