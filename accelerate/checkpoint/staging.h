// Memory beside the training into which its state is copied, so that it can be written while the
// training goes on.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "accelerate/checkpoint/planned_files.h"

namespace accelerate {

/// Keeps its memory from copy to copy: pages that are there already cost nothing, fresh ones more
/// than the copy itself.
class Staging {
 public:
  /// The same files with copies of their tensors: on the CPU, row-major, and unmoved by whatever
  /// happens to the originals. They are valid until the next copy. Throws CheckpointError when
  /// there is no memory. Cost: one pass, by as many threads as LibTorch may use
  /// (at::set_num_threads); memory: the bytes of all tensors, kept until release().
  [[nodiscard]] std::vector<PlannedFile> copy(std::vector<PlannedFile> planned);
  /// Gives the memory back once no copy uses it.
  void release() { memory_.reset(); }
  /// What is held now.
  [[nodiscard]] std::size_t size_bytes() const;

 private:
  class Memory;

  std::shared_ptr<Memory> memory_;
};

}  // namespace accelerate
