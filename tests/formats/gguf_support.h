// Building GGUF files value by value, for the tests of the reader.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace accelerate::testing {

/// The header of a file, as it grows. add_tensor() comes behind all metadata.
class GgufBuilder {
 public:
  explicit GgufBuilder(std::uint32_t version = 3) : version_(version) {}

  static std::string number(std::uint64_t value, int bytes) {
    std::string text;
    for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 0xff);
    return text;
  }
  static std::string text(std::string_view value) {
    return number(value.size(), 8) + std::string(value);
  }

  /// `value`: as it lies in the file.
  GgufBuilder& add(std::string_view key, std::uint32_t type, const std::string& value) {
    entries_ += text(key) + number(type, 4) + value;
    ++entry_count_;
    return *this;
  }
  GgufBuilder& add_u32(std::string_view key, std::uint32_t value) {
    return add(key, 4, number(value, 4));
  }
  GgufBuilder& add_text(std::string_view key, std::string_view value) {
    return add(key, 8, text(value));
  }
  GgufBuilder& add_texts(std::string_view key, const std::vector<std::string>& values) {
    std::string all = number(8, 4) + number(values.size(), 8);
    for (const auto& value : values) all += text(value);
    return add(key, 9, all);
  }
  /// `shape`: as the file has it, the dense dimension first.
  GgufBuilder& add_tensor(std::string_view name, const std::vector<std::uint64_t>& shape,
                          std::uint32_t type, const std::string& data) {
    add_outline(name, shape, type, data_.size());
    data_ += data + std::string((32 - data.size() % 32) % 32, '\0');
    return *this;
  }
  GgufBuilder& add_outline(std::string_view name, const std::vector<std::uint64_t>& shape,
                           std::uint32_t type, std::uint64_t offset) {
    outlines_ += text(name) + number(shape.size(), 4);
    for (const auto size : shape) outlines_ += number(size, 8);
    outlines_ += number(type, 4) + number(offset, 8);
    ++tensor_count_;
    return *this;
  }

  [[nodiscard]] std::string file() const { return file(tensor_count_, entry_count_); }
  [[nodiscard]] std::string file(std::uint64_t tensors, std::uint64_t entries) const {
    std::string all = "GGUF" + number(version_, 4) + number(tensors, 8) + number(entries, 8) +
                      entries_ + outlines_;
    all += std::string((32 - all.size() % 32) % 32, '\0');
    return all + data_;
  }

 private:
  std::uint32_t version_;
  std::uint64_t tensor_count_ = 0, entry_count_ = 0;
  std::string entries_, outlines_, data_;
};

inline std::string float_bytes(float value) {
  return GgufBuilder::number(std::bit_cast<std::uint32_t>(value), 4);
}

}  // namespace accelerate::testing
