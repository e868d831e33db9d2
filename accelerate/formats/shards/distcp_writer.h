// Writes a checkpoint of torch.distributed.checkpoint, as FSDP of Python Accelerate reads it:
// .metadata and one file of archives. docs/formats/distcp.md has the format.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "accelerate/base/file_system.h"
#include "accelerate/formats/safetensors/byte_stream.h"
#include "accelerate/formats/safetensors/tensor_spec.h"

namespace accelerate {

/// The keys that lead to a value in the state that Python sees: texts, and numbers in lists.
using DistcpPath = std::vector<std::variant<std::string, std::int64_t>>;

/// Writes value by value. finish() completes the folder; without it there is no .metadata, so
/// nobody takes the folder for a checkpoint.
class DistcpWriter {
 public:
  /// Makes the file of archives in `folder`, which must exist and hold no such file. Throws
  /// CheckpointError.
  DistcpWriter(FileSystem& files, std::filesystem::path folder);
  ~DistcpWriter();

  /// Adds a tensor as one chunk. `spec`: its type and shape; the name comes from `path`. Throws
  /// CheckpointError when it cannot be written, or has a type that PyTorch lacks; UsageError for
  /// bytes that do not match `spec`.
  void add_tensor(const DistcpPath& path, TensorSpec spec, const ByteSource& source);
  /// Adds a value that is no tensor. `operations` push it; see pickle_writer.h.
  void add_value(const DistcpPath& path, const std::string& operations);
  /// Syncs the file, then writes the table of contents. Throws CheckpointError.
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace accelerate
