// Building safetensors files byte by byte, for the tests of the reader and the writer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/formats/safetensors/safetensors.h"

namespace accelerate::testing {

inline std::string little_endian(std::uint64_t value) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xff);
  return bytes;
}

/// A file of this header and `data_bytes` zero bytes, with a true length in front.
inline std::string safetensors_text(std::string_view header, std::size_t data_bytes = 0) {
  return little_endian(header.size()) + std::string(header) + std::string(data_bytes, '\0');
}

inline std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

inline std::span<const std::byte> as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

inline std::string as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// A file system of one file, held in memory: thousands of hostile files need no disk.
class OneFile final : public FileSystem {
 public:
  explicit OneFile(std::string_view text) : text_(text) {}

  std::shared_ptr<const FileContent> map(const std::filesystem::path&) override {
    struct Content final : FileContent {
      // An exact allocation, so that the address sanitizer sees one byte too many.
      explicit Content(std::string_view text) : data(as_bytes(text).begin(), as_bytes(text).end()) {
        data.shrink_to_fit();
      }
      [[nodiscard]] std::span<const std::byte> bytes() const override { return data; }
      std::vector<std::byte> data;
    };
    return std::make_shared<const Content>(text_);
  }
  std::unique_ptr<WritableFile> create(const std::filesystem::path&) override { return {}; }
  std::string read(const std::filesystem::path&, std::size_t) override {
    return std::string(text_);
  }
  FileStatus status(const std::filesystem::path&) override {
    return {FileKind::file, text_.size()};
  }
  void rename(const std::filesystem::path&, const std::filesystem::path&) override {}
  void sync_directory(const std::filesystem::path&) override {}
  bool remove(const std::filesystem::path&) override { return false; }
  std::vector<std::string> list(const std::filesystem::path&) override { return {}; }
  void create_directories(const std::filesystem::path&) override {}

 private:
  std::string_view text_;
};

inline SafetensorsFile open_text(std::string_view text) {
  OneFile files(text);
  return SafetensorsFile::open("hostile.safetensors", files);
}

/// The message with which `text` is refused, "" when it is taken.
inline std::string refusal_of(std::string_view text) {
  try {
    (void)open_text(text);
    return "";
  } catch (const CheckpointError& error) {
    return error.what();
  }
}

}  // namespace accelerate::testing
