// Reads files of torch.save and torch.jit.save (.bin, .pt, .pth, .pkl), and of LibTorch's
// torch::save, as data. Nothing in them is ever executed. Tensors, numbers, text, containers and
// the attributes of TorchScript modules are read; anything else is refused by its name.
// docs/formats/torch_archive.md has the format and every name that is understood.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accelerate/base/file_system.h"
#include "accelerate/formats/torch_archive/torch_convert.h"
#include "accelerate/formats/torch_archive/torch_value.h"

namespace accelerate {

/// An open file. Copies share the mapping. It is released when the last copy and the last content()
/// are gone.
/// Threads: safe to read from several threads at the same time.
class TorchArchive {
 public:
  /// Maps `path`, checks it and reads its pickle; the data of the tensors is not read. Throws
  /// CheckpointError with the file, what was found and a remedy, such as how to save it again in
  /// Python.
  [[nodiscard]] static TorchArchive open(const std::filesystem::path& path,
                                         FileSystem& files = real_file_system());
  /// Also reads objects of the Python classes `classes` ("module.Class", sorted), as their
  /// attributes.
  [[nodiscard]] static TorchArchive open(const std::filesystem::path& path,
                                         std::span<const std::string_view> classes,
                                         FileSystem& files = real_file_system());

  /// The saved value. The bytes of its tensors are valid while content() is held.
  [[nodiscard]] const TorchValue& value() const& { return *value_; }
  /// Deleted for temporaries: the tensors of one would dangle.
  const TorchValue& value() && = delete;
  /// Keeps the bytes of the tensors alive: hold it as long as anything points into them.
  [[nodiscard]] const std::shared_ptr<const FileContent>& content() const { return content_; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  /// Returns the tensors of a state dict, in the order of the file. A state dict is a dict whose
  /// keys are text and whose values are tensors. For a TorchScript module, returns the tensors of
  /// the module and its submodules, named as in state_dict(): "layer1.weight".
  ///
  /// `key`: takes the value below this key of the outermost dict, such as "state_dict"; "" takes
  /// the whole. Throws CheckpointError if the value is not a state dict, with the key, what is
  /// there, and the keys below which there are state dicts. The tensors live as long as this
  /// object.
  [[nodiscard]] std::vector<std::pair<std::string, const TorchTensor*>> state_dict(
      std::string_view key = {}) const;

 private:
  TorchArchive() = default;

  std::filesystem::path path_;
  std::shared_ptr<const FileContent> content_;
  std::shared_ptr<const TorchValue> value_;
};

/// Reads the value in an archive that fills `bytes`, such as an entry of a larger file. The bytes of
/// its tensors lie in `bytes`. Throws CheckpointError, whose message is a clause without a name.
[[nodiscard]] TorchValue read_torch_archive(std::span<const std::byte> bytes);

}  // namespace accelerate
