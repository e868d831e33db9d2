// Reads the values in DeepSpeed's files. Errors name the file and the key.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/base/file_system.h"
#include "accelerate/formats/torch_archive/torch_archive.h"

namespace accelerate::detail {

/// Opens a file of DeepSpeed. Objects of DeepSpeed's own classes are read as their attributes;
/// nothing is executed. Throws CheckpointError.
[[nodiscard]] TorchArchive open_deepspeed_file(const std::filesystem::path& path,
                                               FileSystem& files);

/// Throws CheckpointError: "'<file>' of DeepSpeed cannot be read: <why>".
[[noreturn]] void refuse_deepspeed(const std::filesystem::path& file, const std::string& why);

/// A value in a file, and its key for messages.
struct DeepSpeedValue {
  const TorchArchive* archive;
  const TorchValue* value;
  std::string key = {};

  /// Returns the value below `name`. The first throws if there is none, the second returns nullopt
  /// if there is none or it is None.
  [[nodiscard]] DeepSpeedValue at(std::string_view name) const;
  [[nodiscard]] std::optional<DeepSpeedValue> find(std::string_view name) const;
  /// Returns the items of a list or tuple. Throws for anything else.
  [[nodiscard]] std::vector<DeepSpeedValue> items() const;
  /// Returns the entries of a dict whose keys are texts, in the order of the file. Throws for
  /// anything else, and for a key that occurs twice.
  [[nodiscard]] std::vector<std::pair<std::string, DeepSpeedValue>> entries() const;
  /// Returns a whole number; of an enum its value; of a list the greatest.
  [[nodiscard]] std::int64_t number() const;
  /// Returns the sizes in a torch.Size, tuple or list.
  [[nodiscard]] std::vector<std::int64_t> shape() const;
  /// Returns a tensor whose elements follow each other, of a type of whole bytes.
  [[nodiscard]] const TorchTensor& tensor() const;
  /// As tensor(), with one dimension.
  [[nodiscard]] const TorchTensor& flat() const;

  [[noreturn]] void refuse(const std::string& why) const;
};

[[nodiscard]] DeepSpeedValue root_of(const TorchArchive& archive);

/// A parameter's name and shape.
struct NamedShape {
  std::string name;
  std::vector<std::int64_t> shape;
  std::int64_t numel = 0;
};

/// Returns the names and shapes in a dict, in its order. Throws for sizes that overflow.
[[nodiscard]] std::vector<NamedShape> named_shapes(const DeepSpeedValue& dict);

/// Returns the elements as fp32, and the memory that holds them. Nothing if the tensor is fp32
/// already, or of whole numbers.
[[nodiscard]] std::shared_ptr<const FileContent> as_fp32(const TorchTensor& tensor);

}  // namespace accelerate::detail
