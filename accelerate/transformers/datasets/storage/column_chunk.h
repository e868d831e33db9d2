// A part of a column: values that lie one after the other in memory or in a mapped file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "accelerate/transformers/datasets/features.h"
#include "accelerate/transformers/datasets/value.h"

namespace accelerate::detail {

/// Bytes and their owner: a vector, or a mapping of a file.
struct Buffer {
  std::shared_ptr<const void> owner;
  std::span<const std::byte> bytes;

  template <typename T>
  [[nodiscard]] std::span<const T> as() const {
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
};

/// Immutable. Copies share the memory, and several threads may read a chunk.
class ColumnChunk {
 public:
  struct Parts {
    Feature::Kind kind = Feature::Kind::integer;
    std::size_t size = 0;
    Buffer values;   ///< int64, float64 or one byte a boolean; the bytes of all strings.
    Buffer offsets;  ///< int64, size + 1 of them: where each string or list begins.
    Buffer missing;  ///< One byte a value, 1 if it is missing; empty if none is missing.
    std::shared_ptr<const ColumnChunk> entries;  ///< The entries of all lists.
  };

  explicit ColumnChunk(Parts parts) : parts_(std::move(parts)) {}

  [[nodiscard]] Feature::Kind kind() const { return parts_.kind; }
  [[nodiscard]] std::size_t size() const { return parts_.size; }
  [[nodiscard]] const Parts& parts() const { return parts_; }

  [[nodiscard]] bool is_missing(std::size_t row) const {
    if (kind() == Feature::Kind::null) return true;
    return !parts_.missing.bytes.empty() && parts_.missing.bytes[row] != std::byte{0};
  }
  [[nodiscard]] Value at(std::size_t row) const;
  // Each requires a column of its kind.
  [[nodiscard]] std::int64_t integer(std::size_t row) const {
    return parts_.values.as<std::int64_t>()[row];
  }
  [[nodiscard]] double number(std::size_t row) const { return parts_.values.as<double>()[row]; }
  [[nodiscard]] bool boolean(std::size_t row) const {
    return parts_.values.bytes[row] != std::byte{0};
  }
  [[nodiscard]] std::string_view text(std::size_t row) const;

  struct Range {
    std::size_t begin, end;
  };
  /// Returns where the bytes of a string or the entries of a list are. Throws DataError when a
  /// damaged file places them outside the column.
  [[nodiscard]] Range range(std::size_t row) const;

 private:
  Parts parts_;
};

}  // namespace accelerate::detail
