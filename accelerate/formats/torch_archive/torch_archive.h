// Files of torch.save and torch.jit.save (.bin, .pt, .pth, .pkl), and of LibTorch's torch::save, as
// data. Nothing in them is ever executed: tensors, numbers, text, containers, and the attributes of
// TorchScript's modules are read, anything else is refused by its name. The format, and every name
// that is understood, is in docs/formats/torch_archive.md.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accelerate/base/file_system.h"
#include "accelerate/formats/torch_archive/torch_value.h"

namespace accelerate {

/// Our caps on what a file may ask for. Those of the pickle: 64 MiB, 4 000 000 values.
struct TorchArchiveLimits {
  static constexpr int kDepth = 64;  ///< Of nested containers.
  static constexpr std::size_t kTreeBytes = std::size_t{1}
                                            << 29;  ///< Of the tree in memory, about.
};

/// An open file. Copies share the mapping, which is let go with the last of them and of content().
/// Threads: safe to read from several at once.
class TorchArchive {
 public:
  /// Maps `path`, checks it and reads its pickle; the data of the tensors is not read. Throws
  /// CheckpointError: the file, what was found, and the cure, e.g. how to save it again in Python.
  [[nodiscard]] static TorchArchive open(const std::filesystem::path& path,
                                         FileSystem& files = real_file_system());

  /// What was saved. The bytes of tensors are valid while content() is held.
  [[nodiscard]] const TorchValue& value() const& { return *value_; }
  /// A file that lives only as long as the expression would leave its tensors dangling.
  const TorchValue& value() && = delete;
  /// Keeps the bytes of the tensors alive: hold it as long as anything points into them.
  [[nodiscard]] const std::shared_ptr<const FileContent>& content() const { return content_; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  /// The tensors of a state dict: the entries of a dict whose keys are text and whose values are
  /// tensors, in the order of the file; or the tensors of a TorchScript module and of those in it,
  /// named as in state_dict(), "layer1.weight". `key`: below this key of the outermost dict, e.g.
  /// "state_dict"; "" for the whole. Throws CheckpointError, with the key and what is there, and
  /// with the keys below which there are state dicts, when the value is another. They live as long
  /// as this.
  [[nodiscard]] std::vector<std::pair<std::string, const TorchTensor*>> state_dict(
      std::string_view key = {}) const;

 private:
  TorchArchive() = default;

  std::filesystem::path path_;
  std::shared_ptr<const FileContent> content_;
  std::shared_ptr<const TorchValue> value_;
};

}  // namespace accelerate
