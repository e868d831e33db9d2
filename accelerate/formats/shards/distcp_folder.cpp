#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/formats/safetensors/safetensors_header.h"
#include "accelerate/formats/shards/distcp_metadata.h"
#include "accelerate/formats/shards/row_major_parts.h"
#include "accelerate/formats/shards/sharded_state.h"
#include "accelerate/formats/torch_archive/torch_archive.h"

namespace accelerate {
namespace {

using Path = std::filesystem::path;

// The names in the checkpoint without the key that all of them begin with.
class ShortNames {
 public:
  explicit ShortNames(const DistcpMetadata& metadata) : metadata_(metadata) {
    std::set<std::string> roots;
    bool nested = true;
    const auto visit = [&](const std::string& name) {
      const auto path = metadata.paths.find(name);
      nested = nested && path != metadata.paths.end() && path->second.size() > 1;
      if (nested) roots.insert(path->second.front());
    };
    for (const auto& tensor : metadata.tensors) visit(tensor.name);
    for (const auto& [name, place] : metadata.values) visit(name);
    drops_root_ = nested && roots.size() == 1;
  }

  // Returns the keys that lead to what is called `name` in the checkpoint.
  [[nodiscard]] std::vector<std::string> path(const std::string& name) const {
    const auto found = metadata_.paths.find(name);
    if (found == metadata_.paths.end()) return {name};
    const auto& path = found->second;
    return {path.begin() + (drops_root_ ? 1 : 0), path.end()};
  }

 private:
  const DistcpMetadata& metadata_;
  bool drops_root_ = false;
};

class Opener {
 public:
  Opener(const Path& folder, FileSystem& files) : folder_(folder), files_(files) {}

  ShardedState open(const DistcpMetadata& metadata) {
    const ShortNames names(metadata);
    check_apart(metadata);
    ShardedState state;
    for (const auto& tensor : metadata.tensors) {
      auto path = names.path(tensor.name);
      const std::string name = join(path, ".");
      add(tensor, name);
      remember(state, name, std::move(path));
    }
    for (const auto& [stored, place] : metadata.values) {
      auto path = names.path(stored);
      const std::string name = join(path, ".");
      const std::size_t file = file_called(place.file, stored);
      state.values.emplace(name, SavedValue{read(stored, place), parts_.files[file].content});
      remember(state, name, std::move(path));
    }
    state.tensors = std::move(parts_).assemble();
    return state;
  }

 private:
  void remember(ShardedState& state, const std::string& name, std::vector<std::string> path) const {
    if (!state.paths.emplace(name, std::move(path)).second)
      throw CheckpointError((folder_ / ".metadata").string() + " has two values called " +
                            detail::printable(name));
  }

  std::size_t file_called(const std::string& name, const std::string& wanted_for) {
    if (const auto known = indices_.find(name); known != indices_.end()) return known->second;
    const Path path = folder_ / name;
    try {
      return indices_[name] = parts_.add_file(path, files_.map(path));
    } catch (const FileError&) {
      throw_with_context<CheckpointError>(
          "cannot read " + detail::printable(wanted_for) + " from '" + path.string() +
          "'; were all files of the checkpoint copied, from every rank's machine?");
    }
  }

  // Parts that share bytes would make little data much.
  void check_apart(const DistcpMetadata& metadata) const {
    using Range = std::tuple<std::string, std::uint64_t, std::uint64_t, std::string>;
    std::vector<Range> ranges;
    const auto visit = [&](const std::string& name, const DistcpPlace& place) {
      ranges.emplace_back(place.file, place.offset_bytes, place.size_bytes, name);
    };
    for (const auto& tensor : metadata.tensors)
      for (const auto& part : tensor.parts) visit(tensor.name, part.place);
    for (const auto& [name, place] : metadata.values) visit(name, place);
    std::ranges::sort(ranges);
    for (std::size_t i = 1; i < ranges.size(); ++i) {
      const auto& [file, begin, size, name] = ranges[i - 1];
      const auto& [next_file, next_begin, next_size, next_name] = ranges[i];
      if (file == next_file && next_begin - begin < size)
        throw CheckpointError((folder_ / ".metadata").string() + " gives " +
                              detail::printable(name) + " and " + detail::printable(next_name) +
                              " the same bytes of '" + file + "'");
    }
  }

  TorchValue read(const std::string& name, const DistcpPlace& place) {
    const std::size_t file = file_called(place.file, name);
    const auto bytes = parts_.files[file].content->bytes();
    const std::string where = detail::printable(name) + " in '" + parts_.files[file].path.string() +
                              "', at its byte " + std::to_string(place.offset_bytes);
    if (place.offset_bytes > bytes.size() || place.size_bytes > bytes.size() - place.offset_bytes)
      throw CheckpointError("cannot read " + where + ": it should have " +
                            std::to_string(place.size_bytes) + " bytes, and the file ends at " +
                            std::to_string(bytes.size()) + "; it is cut short");
    try {
      return read_torch_archive(bytes.subspan(place.offset_bytes, place.size_bytes));
    } catch (const CheckpointError& error) {
      throw CheckpointError("cannot read " + where + ": " + error.what());
    }
  }

  void add(const DistcpTensor& tensor, const std::string& name) {
    for (const auto& part : tensor.parts) {
      const TorchValue value = read(tensor.name, part.place);
      const auto* found = value.as<TorchTensor>();
      if (found == nullptr || found->dtype != tensor.dtype || found->shape != part.tile.sizes)
        throw CheckpointError(detail::printable(tensor.name) + " in '" +
                              (folder_ / part.place.file).string() + "' is " + value.describe() +
                              ", and .metadata says " + std::string(dtype_name(tensor.dtype)) +
                              " " + detail::shape_text(part.tile.sizes));
      parts_.add(name, part.tile.offsets, *found, file_called(part.place.file, tensor.name),
                 tensor.shape);
    }
    if (tensor.parts.empty()) parts_.add_empty(name, tensor.dtype, tensor.shape, folder_);
  }

  const Path& folder_;
  FileSystem& files_;
  RowMajorParts parts_;
  std::map<std::string, std::size_t> indices_;
};

}  // namespace

bool is_distcp(const Path& folder, FileSystem& files) {
  return files.status(folder / ".metadata").kind == FileKind::file;
}

ShardedState open_distcp(const Path& folder, FileSystem& files) {
  const Path path = folder / ".metadata";
  DistcpMetadata metadata;
  try {
    const auto content = files.map(path);
    metadata = read_distcp_metadata(content->bytes());
  } catch (const FileError&) {
    throw_with_context<CheckpointError>("cannot read '" + path.string() + "'");
  } catch (const CheckpointError& error) {
    throw CheckpointError("cannot read '" + path.string() +
                          "', the table of contents of a distributed checkpoint: " + error.what());
  }
  return Opener(folder, files).open(metadata);
}

}  // namespace accelerate
