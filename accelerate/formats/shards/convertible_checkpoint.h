// A checkpoint of save_state that is to be written for Python.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "accelerate/base/file_system.h"
#include "accelerate/formats/documents/document.h"

namespace accelerate::detail {

class ConvertibleCheckpoint {
 public:
  /// Compares the checksums of `source`. Throws CheckpointError if it is damaged, or no checkpoint.
  ConvertibleCheckpoint(const std::filesystem::path& source, FileSystem& files);

  /// "model", "model_1", ….
  [[nodiscard]] static std::string numbered(const std::string& kind, int number) {
    return kind + (number == 0 ? "" : "_" + std::to_string(number));
  }
  /// Parameters of a second model are called "model_1:fc.weight" here: returns "fc.weight".
  [[nodiscard]] static std::string plain(const std::string& name);

  [[nodiscard]] bool has(const std::string& name) const { return names_.contains(name); }
  [[nodiscard]] std::vector<std::filesystem::path> tensor_files_of(const std::string& stem) const;
  /// Returns what the JSON file of that stem holds. Throws CheckpointError.
  [[nodiscard]] Node state_of(const std::string& stem) const;

  /// Returns the step at which a Trainer saved the checkpoint; nullopt if none did. Throws
  /// CheckpointError.
  [[nodiscard]] std::optional<std::int64_t> trainer_step() const;
  /// Copies what a Trainer writes for any reader into `output`: its own state, and the files of
  /// config and tokenizer. Returns their names.
  std::vector<std::string> copy_trainer_files(const std::filesystem::path& output);

  /// Returns the rate with which a group of an optimizer began, as its schedule kept it, else its
  /// present one; null if it has none.
  [[nodiscard]] Node initial_rate(std::size_t number, const Node& group) const;

  /// Runs `step`, which converts `stem`. Says so in its errors, which become CheckpointErrors.
  void convert(const std::string& stem, const std::function<void()>& step);
  /// Returns the stems of states that convert() was not called for.
  [[nodiscard]] std::vector<std::string> left() const;

 private:
  std::filesystem::path source_;
  FileSystem& files_;
  std::set<std::string> names_, done_;
};

/// Runs `convert` for a new folder `output`, which lies outside of `source`. Throws as
/// write_state_for_python(). After an error there is no `output`.
void convert_into(const std::filesystem::path& source, const std::filesystem::path& output,
                  FileSystem& files, const std::function<void(ConvertibleCheckpoint&)>& convert);

}  // namespace accelerate::detail
