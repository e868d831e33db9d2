// Tells state folders of Python from folders of this library, by the names of their files.
#pragma once

#include <filesystem>
#include <set>
#include <string>

#include "accelerate/base/file_system.h"

namespace accelerate {

/// Which program wrote a state folder.
enum class StateWriter {
  this_library,  ///< Also when the folder is damaged, is of no known program, or does not exist.
  python_accelerate,
  python_trainer,
};

/// Returns which program wrote `folder`, by the names of its files.
[[nodiscard]] StateWriter writer_of(FileSystem& files, const std::filesystem::path& folder);

/// Whether `folder` is a checkpoint of Python's Trainer and holds nothing else: only files with the
/// names that a Trainer, a model and a tokenizer write. `other`: set to the first name that is not
/// such a name, if there is one.
[[nodiscard]] bool is_python_checkpoint_alone(FileSystem& files,
                                              const std::filesystem::path& folder,
                                              std::string& other);

/// Returns the names of the files in `folder`.
[[nodiscard]] std::set<std::string> python_names_in(FileSystem& files,
                                                    const std::filesystem::path& folder);

/// Whether the Trainer of Transformers wrote the files `names`. It gives them other names than
/// Accelerate does.
[[nodiscard]] bool is_of_python_trainer(const std::set<std::string>& names);

}  // namespace accelerate
