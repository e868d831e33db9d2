// Reads GGUF, the file format of llama.cpp. One file holds a model's configuration, vocabulary and
// weights, the weights often in blocks of a few bits an element.
// Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "accelerate/base/file_system.h"
#include "accelerate/formats/gguf/ggml_type.h"

namespace accelerate {

struct GgufTensor {
  std::string name;
  GgmlType type = GgmlType::f32;
  std::vector<std::int64_t> shape;   ///< The last dimension is dense, as in LibTorch.
  std::span<const std::byte> bytes;  ///< Whole blocks; no two rows share a block.
};

/// An array of metadata, such as a vocabulary. Only its length is kept.
struct GgufArray {
  std::uint64_t length = 0;
};

using GgufValue =
    std::variant<bool, std::int64_t, std::uint64_t, double, std::string_view, GgufArray>;

/// A mapped file of version 2 or 3, little-endian. Views stay valid while content() is held.
class GgufFile {
 public:
  /// Maps and checks the file at `path`. Nothing is trusted: counts, lengths, shapes and offsets
  /// are checked against the file before anything is allocated. Throws CheckpointError, with the
  /// path, for a file that is not GGUF, is truncated, has a name twice, or has a tensor of a type
  /// that is not read. Cost: the header is read, the data is not.
  [[nodiscard]] static GgufFile open(const std::filesystem::path& path,
                                     FileSystem& files = real_file_system());

  [[nodiscard]] const std::map<std::string, GgufValue, std::less<>>& metadata() const {
    return metadata_;
  }
  /// Returns the value of `key`; nullopt if there is none. Each of these functions throws
  /// CheckpointError, with path and key, for a value of another kind.
  [[nodiscard]] std::optional<std::int64_t> integer(std::string_view key) const;
  [[nodiscard]] std::optional<double> number(std::string_view key) const;
  [[nodiscard]] std::optional<std::string> text(std::string_view key) const;
  /// Returns the number of elements of an array.
  [[nodiscard]] std::optional<std::uint64_t> length(std::string_view key) const;

  [[nodiscard]] const std::vector<GgufTensor>& tensors() const& { return tensors_; }
  /// Deleted for temporaries: a loop over the tensors of one would dangle.
  const std::vector<GgufTensor>& tensors() && = delete;
  [[nodiscard]] const GgufTensor* find(std::string_view name) const;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] const std::shared_ptr<const FileContent>& content() const { return content_; }

 private:
  template <typename T>
  [[nodiscard]] const T* as(std::string_view key, const char* wanted) const;

  std::filesystem::path path_;
  std::shared_ptr<const FileContent> content_;
  std::map<std::string, GgufValue, std::less<>> metadata_;
  std::vector<GgufTensor> tensors_;
};

}  // namespace accelerate
