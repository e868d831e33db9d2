#include "accelerate/transformers/datasets/storage/column_table.h"

#define XXH_INLINE_ALL  // there is no library to link
#include <xxhash.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "accelerate/base/hex.h"

namespace accelerate::detail {
namespace {

// Hashes parts with their lengths, so that ("ab", "c") differs from ("a", "bc").
class Fingerprint {
 public:
  Fingerprint() : state_(XXH3_createState()) { XXH3_128bits_reset(state_); }
  Fingerprint(const Fingerprint&) = delete;
  Fingerprint& operator=(const Fingerprint&) = delete;
  ~Fingerprint() { XXH3_freeState(state_); }

  void add(const void* bytes, std::size_t size) {
    XXH3_128bits_update(state_, &size, sizeof(size));
    if (size > 0) XXH3_128bits_update(state_, bytes, size);
  }
  void add(std::string_view text) { add(text.data(), text.size()); }

  void add(const ColumnChunk& column) {
    const auto& parts = column.parts();
    // A column with only missing values has no bytes, so add its size.
    add(&parts.size, sizeof(parts.size));
    for (const Buffer* buffer : {&parts.values, &parts.offsets, &parts.missing})
      add(buffer->bytes.data(), buffer->bytes.size());
    if (parts.entries) add(*parts.entries);
  }

  [[nodiscard]] std::string digits() const {
    XXH128_canonical_t bytes;
    XXH128_canonicalFromHash(&bytes, XXH3_128bits_digest(state_));
    return to_hex({reinterpret_cast<const char*>(bytes.digest), sizeof(bytes.digest)});
  }

 private:
  XXH3_state_t* state_;
};

}  // namespace

Table::Table(Features features, std::vector<Chunk> chunks, std::string fingerprint)
    : features_(std::move(features)),
      chunks_(std::move(chunks)),
      fingerprint_(std::move(fingerprint)) {
  for (const Chunk& chunk : chunks_) starts_.push_back(starts_.back() + chunk.rows);
}

Table::Place Table::place_of(std::size_t row) const {
  const auto behind = std::upper_bound(starts_.begin(), starts_.end(), row);
  const auto chunk = static_cast<std::size_t>(behind - starts_.begin()) - 1;
  if (chunks_[chunk].storage) chunks_[chunk].storage->check();
  return {chunk, row - starts_[chunk]};
}

std::string fingerprint_of(const std::vector<std::string_view>& parts) {
  Fingerprint fingerprint;
  for (const std::string_view part : parts) fingerprint.add(part);
  return fingerprint.digits();
}

std::string fingerprint_of(const Features& features, const std::vector<Chunk>& chunks) {
  Fingerprint fingerprint;
  for (const auto& [name, feature] : features) {
    fingerprint.add(name);
    fingerprint.add(feature.description());
  }
  for (const Chunk& chunk : chunks) {
    for (const ColumnChunk& column : chunk.columns) fingerprint.add(column);
  }
  return fingerprint.digits();
}

}  // namespace accelerate::detail
