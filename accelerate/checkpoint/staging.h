// Memory into which the state of a training is copied, so that it can be written while the training
// goes on.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "accelerate/checkpoint/planned_files.h"

namespace accelerate {

/// Keeps its memory from copy to copy: fresh pages would cost more than the copy itself.
class Staging {
 public:
  /// Returns the same files with copies of their tensors: on the CPU, row-major, independent of the
  /// originals. They are valid until the next copy. Throws CheckpointError if there is no memory.
  /// Cost: one pass, by as many threads as LibTorch may use (at::set_num_threads). Memory: the
  /// bytes of all tensors, kept until release().
  [[nodiscard]] std::vector<PlannedFile> copy(std::vector<PlannedFile> planned);
  /// Frees the memory once no copy uses it.
  void release() { memory_.reset(); }
  /// The bytes that are held now.
  [[nodiscard]] std::size_t size_bytes() const;

 private:
  class Memory;

  std::shared_ptr<Memory> memory_;
};

}  // namespace accelerate
