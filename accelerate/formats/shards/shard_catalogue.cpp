#include "accelerate/formats/shards/shard_catalogue.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/formats/safetensors/safetensors_header.h"
#include "accelerate/formats/shards/sharding_info.h"

namespace accelerate {
namespace {

using detail::shape_text;
using detail::tensor_label;

[[noreturn]] void refuse_tensor(std::string_view name, const std::string& what) {
  throw CheckpointError(tensor_label(name) + " " + what);
}

TensorTile tile_of(const StoredTensor& stored, const std::filesystem::path& path,
                   const std::optional<ShardingInfo>& info) {
  if (!info) return whole_tile(stored.shape);
  const auto found = info->offsets.find(stored.name);
  if (found == info->offsets.end())
    refuse_tensor(stored.name, "has no entry in the DCP_SHARDING_INFO of '" + path.string() + "'");
  return {found->second, stored.shape};
}

std::optional<std::vector<std::int64_t>> shape_said_by(const StoredTensor& stored,
                                                       const std::optional<ShardingInfo>& info) {
  if (!info) return stored.shape;
  const auto said = info->global_shapes.find(stored.name);
  if (said == info->global_shapes.end()) return std::nullopt;
  return said->second;
}

// Adds the parts in the safetensors file at place `index` of the catalogue.
void find_parts(const SafetensorsFile& file, std::size_t index,
                const ShardCatalogue::Filter& counts, std::vector<FoundPart>& parts) {
  std::optional<ShardingInfo> info;
  try {
    info = sharding_info_of(file.metadata());
  } catch (const CheckpointError& error) {
    throw CheckpointError("cannot load tensors from '" + file.path().string() +
                          "': " + error.what());
  }
  for (const StoredTensor& stored : file.tensors()) {
    if (!counts(index, stored.name)) continue;
    parts.push_back({.name = stored.name,
                     .dtype = stored.dtype,
                     .piece = {tile_of(stored, file.path(), info), index, stored.bytes},
                     .whole_shape = shape_said_by(stored, info)});
  }
}

void check_count(std::size_t files) {
  if (files > ShardLimits::kFiles)
    throw CheckpointError("there are " + std::to_string(files) + " files of shards, at most " +
                          std::to_string(ShardLimits::kFiles) + " are allowed");
}

// Gathers the pieces of all files, then makes tensors from them.
class Assembly {
 public:
  explicit Assembly(const std::vector<ShardFile>& files) : files_(files) {}

  void add(FoundPart part) {
    check_part(part);
    const auto [place, fresh] = entries_.try_emplace(part.name);
    Entry& entry = place->second;
    if (fresh) {
      static_cast<TensorSpec&>(entry.tensor) = {part.name, part.dtype, part.piece.tile.sizes};
    } else {
      check_alike(entry.tensor, part);
    }
    if (part.whole_shape) say_shape(entry, part.piece.file, *part.whole_shape);
    entry.tensor.pieces.push_back(std::move(part.piece));
  }

  std::vector<ShardedTensor> finish() {
    std::vector<ShardedTensor> tensors;
    tensors.reserve(entries_.size());
    for (auto& [name, entry] : entries_) {
      settle_shape(entry);
      std::ranges::sort(entry.tensor.pieces, {},
                        [](const ShardPiece& piece) -> const auto& { return piece.tile.offsets; });
      check_tiles(entry.tensor);
      tensors.push_back(std::move(entry.tensor));
    }
    return tensors;
  }

 private:
  struct Entry {
    ShardedTensor tensor;
    std::optional<std::size_t> shape_from;  // The file that states the whole shape.
  };

  [[nodiscard]] std::string name_of(std::size_t file) const { return files_[file].path.string(); }
  [[nodiscard]] std::string place_of(const ShardPiece& piece) const {
    return describe_ranges(piece.tile.ranges()) + " in '" + name_of(piece.file) + "'";
  }
  [[noreturn]] static void refuse(const TensorSpec& tensor, const std::string& what) {
    refuse_tensor(tensor.name, what);
  }

  void check_part(const FoundPart& part) const {
    const auto& [tile, file, bytes] = part.piece;
    if (file >= files_.size()) throw UsageError("a part lies in a file that was not given");
    const std::string in = " in '" + name_of(file) + "'";
    if (tile.offsets.size() != tile.sizes.size())
      refuse_tensor(part.name, "has " + std::to_string(tile.offsets.size()) + " offsets for its " +
                                   std::to_string(tile.sizes.size()) + " dimensions" + in);
    for (std::size_t d = 0; d < tile.sizes.size(); ++d) {
      if (tile.offsets[d] < 0 || tile.sizes[d] < 0)
        refuse_tensor(part.name, "has a part of the shape " + shape_text(tile.sizes) + " at " +
                                     shape_text(tile.offsets) + in +
                                     ": neither may have negative numbers");
      if (tile.offsets[d] > std::numeric_limits<std::int64_t>::max() - tile.sizes[d])
        refuse_tensor(part.name, "begins at " + shape_text(tile.offsets) + in +
                                     ", and with its shape " + shape_text(tile.sizes) +
                                     " ends beyond 2^63");
    }
    const auto needed = bytes_of(part.dtype, tile.sizes);
    if (!needed || *needed != bytes.size())
      refuse_tensor(part.name, "has " + std::to_string(bytes.size()) + " bytes" + in + ", and " +
                                   shape_text(tile.sizes) + " of " +
                                   std::string(dtype_name(part.dtype)) + " needs " +
                                   (needed ? std::to_string(*needed) : "more than 64 bits count"));
  }

  void check_alike(const ShardedTensor& known, const FoundPart& part) const {
    const auto& first = known.pieces.front();
    const auto& piece = part.piece;
    if (known.dtype != part.dtype)
      refuse(known, "is " + std::string(dtype_name(known.dtype)) + " in '" + name_of(first.file) +
                        "' and " + std::string(dtype_name(part.dtype)) + " in '" +
                        name_of(piece.file) + "'");
    if (first.tile.sizes.size() != piece.tile.sizes.size())
      refuse(known, "has " + std::to_string(first.tile.sizes.size()) + " dimensions in '" +
                        name_of(first.file) + "' and " + std::to_string(piece.tile.sizes.size()) +
                        " in '" + name_of(piece.file) + "'");
  }

  void say_shape(Entry& entry, std::size_t file, const std::vector<std::int64_t>& shape) const {
    if (!entry.shape_from) {
      entry.shape_from = file;
      entry.tensor.shape = shape;
    } else if (entry.tensor.shape != shape) {
      refuse(entry.tensor, "is a part of " + shape_text(entry.tensor.shape) + " in '" +
                               name_of(*entry.shape_from) + "' and of " + shape_text(shape) +
                               " in '" + name_of(file) + "': files of different checkpoints?");
    }
  }

  void settle_shape(Entry& entry) const {
    auto& tensor = entry.tensor;
    if (!entry.shape_from) {
      std::ranges::fill(tensor.shape, 0);
      for (const auto& piece : tensor.pieces) {
        const auto ends = piece.tile.ends();
        for (std::size_t d = 0; d < ends.size(); ++d)
          tensor.shape[d] = std::max(tensor.shape[d], ends[d]);
      }
    }
    if (!bytes_of(tensor.dtype, tensor.shape))
      refuse(tensor, "would have the shape " + shape_text(tensor.shape) +
                         ", whose size overflows 64 bits or fills no whole number of bytes: " +
                         place_of(tensor.pieces.front()));
    for (const auto& piece : tensor.pieces) check_inside(tensor, piece);
  }

  void check_inside(const ShardedTensor& tensor, const ShardPiece& piece) const {
    const auto ends = piece.tile.ends();
    bool inside = ends.size() == tensor.shape.size();
    for (std::size_t d = 0; inside && d < ends.size(); ++d) inside = ends[d] <= tensor.shape[d];
    if (!inside)
      refuse(tensor, "has the shape " + shape_text(tensor.shape) +
                         ", and a part beyond it: " + place_of(piece));
    try {
      (void)SliceRuns(tensor, piece.tile.ranges());
    } catch (const UsageError& error) {  // Parts that share a byte.
      throw CheckpointError(std::string(error.what()) + ": " + place_of(piece));
    }
  }

  void check_tiles(const ShardedTensor& tensor) const {
    std::vector<TensorTile> tiles;
    for (const auto& piece : tensor.pieces) tiles.push_back(piece.tile);
    if (const auto twice = overlapping_tiles(tiles))
      refuse(tensor, "has parts that overlap: " + place_of(tensor.pieces[twice->first]) + " and " +
                         place_of(tensor.pieces[twice->second]));
    if (const auto hole = uncovered_box(tensor.shape, tiles))
      refuse(tensor, "has the shape " + shape_text(tensor.shape) + ", and " +
                         describe_ranges(*hole) + " of it is in none of the " +
                         std::to_string(files_.size()) +
                         " files that were read: a shard is missing. Its first part is " +
                         place_of(tensor.pieces.front()));
  }

  const std::vector<ShardFile>& files_;
  std::map<std::string, Entry, std::less<>> entries_;
};

std::vector<IndexRange> complete(const ShardedTensor& tensor, std::span<const IndexRange> ranges) {
  std::vector<IndexRange> all(ranges.begin(), ranges.end());
  for (std::size_t d = all.size(); d < tensor.shape.size(); ++d)
    all.push_back({0, tensor.shape[d]});
  return all;
}

// Returns the intersection of a tile and a slice, counted from the beginning of `origin`.
std::vector<IndexRange> common(const TensorTile& tile, std::span<const IndexRange> slice,
                               std::span<const std::int64_t> origin) {
  std::vector<IndexRange> all;
  for (std::size_t d = 0; d < slice.size(); ++d) {
    const auto begin = std::max(tile.offsets[d], slice[d].begin);
    const auto end = std::max(begin, std::min(tile.offsets[d] + tile.sizes[d], slice[d].end));
    all.push_back({begin - origin[d], end - origin[d]});
  }
  return all;
}

bool has_elements(const std::vector<IndexRange>& ranges) {
  return std::ranges::none_of(ranges, [](const IndexRange& r) { return r.begin == r.end; });
}

// Passes the box `ranges` on. Cuts it along dimension `d` and the following dimensions until a
// buffer holds it.
class Streamer {
 public:
  Streamer(const ShardedTensor& tensor, const std::function<void(std::span<const std::byte>)>& sink,
           std::size_t buffer_bytes)
      : tensor_(tensor), sink_(sink), buffer_bytes_(buffer_bytes) {
    // Rows of a type of less than 8 bits may begin inside a byte, so such a tensor is not cut.
    if (bits_of(tensor.dtype) < 8) buffer_bytes_ = std::numeric_limits<std::size_t>::max();
  }

  void pass(std::vector<IndexRange> ranges, std::size_t d) {
    const std::uint64_t size = SliceRuns(tensor_, ranges).total_bytes();
    if (size <= buffer_bytes_ || d == ranges.size()) return pass_whole(ranges, size);
    const auto [begin, end] = ranges[d];
    const std::uint64_t row_bytes = size / static_cast<std::uint64_t>(end - begin);
    const auto rows = static_cast<std::int64_t>(
        std::max<std::uint64_t>(1, buffer_bytes_ / std::max<std::uint64_t>(1, row_bytes)));
    for (std::int64_t at = begin; at < end; at += std::min(rows, end - at)) {
      ranges[d] = {at, at + std::min(rows, end - at)};
      pass(ranges, d + 1);
    }
  }

 private:
  void pass_whole(const std::vector<IndexRange>& ranges, std::uint64_t size) {
    buffer_.resize(size);
    ShardCatalogue::read(tensor_, ranges, buffer_);
    sink_(buffer_);
  }

  const ShardedTensor& tensor_;
  const std::function<void(std::span<const std::byte>)>& sink_;
  std::size_t buffer_bytes_;
  std::vector<std::byte> buffer_;
};

}  // namespace

const ShardPiece* ShardedTensor::whole() const {
  for (const ShardPiece& piece : pieces)
    if (piece.tile.sizes == shape) return &piece;
  return nullptr;
}

ShardCatalogue ShardCatalogue::open(const std::vector<std::filesystem::path>& paths,
                                    FileSystem& files) {
  return open(paths, [](std::size_t, std::string_view) { return true; }, files);
}

ShardCatalogue ShardCatalogue::open(const std::vector<std::filesystem::path>& paths,
                                    const Filter& counts, FileSystem& files) {
  check_count(paths.size());
  std::vector<ShardFile> mapped;
  std::vector<FoundPart> parts;
  for (const auto& path : paths) {
    const auto file = SafetensorsFile::open(path, files);
    find_parts(file, mapped.size(), counts, parts);
    mapped.push_back({path, file.content()});
  }
  return assemble(std::move(mapped), std::move(parts));
}

ShardCatalogue ShardCatalogue::assemble(std::vector<ShardFile> files,
                                        std::vector<FoundPart> parts) {
  check_count(files.size());
  ShardCatalogue catalogue;
  catalogue.files_ = std::move(files);
  Assembly assembly(catalogue.files_);
  for (FoundPart& part : parts) assembly.add(std::move(part));
  catalogue.tensors_ = assembly.finish();
  return catalogue;
}

const ShardedTensor* ShardCatalogue::find(std::string_view name) const {
  const auto place = std::ranges::lower_bound(tensors_, name, {}, &ShardedTensor::name);
  return place == tensors_.end() || place->name != name ? nullptr : &*place;
}

const ShardedTensor& ShardCatalogue::at(std::string_view name) const {
  if (const ShardedTensor* tensor = find(name)) return *tensor;
  std::vector<std::string> names;
  for (const ShardedTensor& tensor : tensors_) names.push_back(tensor.name);
  throw CheckpointError("the shards have no " + tensor_label(name) + " among their " +
                        std::to_string(names.size()) + " tensors." + did_you_mean(name, names));
}

void ShardCatalogue::read(const ShardedTensor& tensor, std::span<const IndexRange> ranges,
                          std::span<std::byte> out) {
  const SliceRuns wanted(tensor, ranges);
  if (out.size() != wanted.total_bytes())
    throw UsageError("the slice of " + tensor_label(tensor.name) + " has " +
                     std::to_string(wanted.total_bytes()) + " bytes, the room for it " +
                     std::to_string(out.size()));
  const auto slice = complete(tensor, ranges);
  std::vector<std::int64_t> origin;
  for (const IndexRange& range : slice) origin.push_back(range.begin);
  const TensorSpec target{tensor.name, tensor.dtype, wanted.shape()};
  for (const ShardPiece& piece : tensor.pieces) {
    const auto from = common(piece.tile, slice, piece.tile.offsets);
    if (!has_elements(from)) continue;
    const TensorSpec source{tensor.name, tensor.dtype, piece.tile.sizes};
    copy_slice(SliceRuns(source, from), piece.bytes,
               SliceRuns(target, common(piece.tile, slice, origin)), out);
  }
}

void ShardCatalogue::stream(const ShardedTensor& tensor,
                            const std::function<void(std::span<const std::byte>)>& sink,
                            std::size_t buffer_bytes) {
  if (const ShardPiece* piece = tensor.whole()) return sink(piece->bytes);
  Streamer(tensor, sink, buffer_bytes).pass(complete(tensor, {}), 0);
}

}  // namespace accelerate
