#include "accelerate/formats/shards/shard_files.h"

#include <algorithm>
#include <map>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/formats/safetensors/safetensors_header.h"
#include "accelerate/formats/shards/sharding_info.h"
#include "accelerate/formats/weights/weight_index.h"

namespace accelerate {
namespace {

constexpr std::string_view kPrefix = "shard-";
constexpr std::string_view kSuffix = ".safetensors";

std::optional<std::size_t> number_of(std::string_view digits) {
  const bool plain = digits.size() >= 5 && digits.size() <= 12 && detail::all_digits(digits);
  const auto number = plain ? parse_int(digits) : std::nullopt;
  if (!number || *number < 1) return std::nullopt;
  return static_cast<std::size_t>(*number);
}

// Cuts `text` at the last `separator` and returns the part behind it.
std::optional<std::string_view> take_back(std::string_view& text, std::string_view separator) {
  const auto place = text.rfind(separator);
  if (place == std::string_view::npos) return std::nullopt;
  const auto behind = text.substr(place + separator.size());
  text = text.substr(0, place);
  return behind;
}

void check_inside(const TensorPart& part) {
  bool inside =
      part.tile.offsets.size() == part.shape.size() && part.tile.sizes.size() == part.shape.size();
  for (std::size_t d = 0; inside && d < part.shape.size(); ++d)
    inside = part.tile.offsets[d] >= 0 && part.tile.sizes[d] >= 0 &&
             part.tile.offsets[d] <= part.shape[d] &&
             part.tile.sizes[d] <= part.shape[d] - part.tile.offsets[d];
  if (inside) return;
  throw UsageError("the part " + describe_ranges(part.tile.ranges()) + " is not within " +
                   detail::tensor_label(part.name) + ", which has " +
                   describe_ranges(whole_tile(part.shape).ranges()));
}

PlannedShard planned(std::string file_name, const std::vector<TensorPart>& parts,
                     std::vector<std::size_t> chosen) {
  PlannedShard shard{.file_name = std::move(file_name), .specs = {}, .parts = {}, .metadata = {}};
  ShardingInfo info;
  for (const std::size_t i : chosen) {
    const TensorPart& part = parts[i];
    shard.specs.push_back({part.name, part.dtype, part.tile.sizes});
    info.offsets[part.name] = part.tile.offsets;
    info.global_shapes[part.name] = part.shape;
  }
  shard.parts = std::move(chosen);
  shard.metadata = sharding_metadata(info);
  return shard;
}

// The line of all tensors' bytes, and where it is cut.
struct Line {
  std::uint64_t total = 0;
  std::size_t ranks = 1;

  [[nodiscard]] std::uint64_t cut(std::size_t rank) const {
    return static_cast<std::uint64_t>(static_cast<unsigned __int128>(total) * rank / ranks);
  }
  // Returns the rank whose part holds `byte`.
  [[nodiscard]] std::size_t owner(std::uint64_t byte) const {
    if (total == 0) return 0;
    const auto rank = static_cast<unsigned __int128>(byte) * ranks / total;
    return std::min(static_cast<std::size_t>(rank), ranks - 1);
  }
};

std::size_t first_long_dimension(const TensorSpec& tensor) {
  const auto place = std::ranges::find_if(tensor.shape, [](std::int64_t size) { return size > 1; });
  return static_cast<std::size_t>(place - tensor.shape.begin());
}

// Distributes the rows of `tensor`, whose bytes begin at `begin` on the line, among the ranks.
void deal_rows(const TensorSpec& tensor, std::uint64_t begin, std::uint64_t size, const Line& line,
               std::vector<std::vector<TensorPart>>& dealt) {
  const std::size_t d = first_long_dimension(tensor);
  const auto rows = static_cast<std::uint64_t>(tensor.shape[d]);
  const std::uint64_t row_bytes = size / rows;
  std::uint64_t done = 0;
  for (std::size_t rank = line.owner(begin); done < rows; ++rank) {
    const std::uint64_t end = line.cut(rank + 1);
    std::uint64_t next = rows;
    if (rank + 1 < line.ranks && end < begin + size)
      next = std::max(done, end <= begin ? 0 : (end - begin + row_bytes / 2) / row_bytes);
    if (next == done) continue;
    TensorPart part{{tensor}, whole_tile(tensor.shape)};
    part.tile.offsets[d] = static_cast<std::int64_t>(done);
    part.tile.sizes[d] = static_cast<std::int64_t>(next - done);
    dealt[rank].push_back(std::move(part));
    done = next;
  }
}

}  // namespace

std::string ShardFileName::text() const {
  return std::string(kPrefix) + detail::five_digits(writer) + "-" + stem + "-" +
         detail::five_digits(number) + "-of-" + detail::five_digits(count) + std::string(kSuffix);
}

std::optional<ShardFileName> ShardFileName::parse(std::string_view name) {
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix) ||
      name.size() < kPrefix.size() + kSuffix.size())
    return std::nullopt;
  name.remove_prefix(kPrefix.size());
  name.remove_suffix(kSuffix.size());
  const auto count = take_back(name, "-of-");
  const auto number = take_back(name, "-");
  const auto dash = name.find('-');
  if (!count || !number || dash == std::string_view::npos || dash + 1 == name.size())
    return std::nullopt;
  const auto w = number_of(name.substr(0, dash)), n = number_of(*number), c = number_of(*count);
  if (!w || !n || !c || *n > *c) return std::nullopt;
  return ShardFileName{std::string(name.substr(dash + 1)), *w, *n, *c};
}

std::vector<std::filesystem::path> shard_files_in(const std::filesystem::path& folder,
                                                  const std::string& stem, FileSystem& files) {
  std::vector<std::filesystem::path> found;
  for (const auto& name : files.list(folder)) {
    const auto parsed = ShardFileName::parse(name);
    if (parsed && parsed->stem == stem) found.push_back(folder / name);
  }
  return found;
}

std::string name_in_shards(const std::string& stem, const std::string& name) {
  return stem == "model" ? name : stem + ":" + name;
}

std::string name_from_shards(const std::string& stem, const std::string& name) {
  const bool told_apart = stem != "model" && name.starts_with(stem + ":");
  return told_apart ? name.substr(stem.size() + 1) : name;
}

std::vector<PlannedShard> plan_shard_files(const std::string& stem, std::size_t rank,
                                           const std::vector<TensorPart>& parts) {
  std::vector<std::vector<std::size_t>> files;
  std::map<std::string_view, std::size_t> seen;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    check_inside(parts[i]);
    // PyTorch's reader identifies parts by their offset, and would confuse this one with the part
    // that follows.
    if (parts[i].tile.empty() && !whole_tile(parts[i].shape).empty()) continue;
    const std::size_t file = seen[parts[i].name]++;
    if (file == files.size()) files.emplace_back();
    files[file].push_back(i);
  }
  std::vector<PlannedShard> shards;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const ShardFileName name{stem, rank + 1, i + 1, files.size()};
    shards.push_back(planned(name.text(), parts, std::move(files[i])));
  }
  return shards;
}

std::vector<std::vector<TensorPart>> deal_to_ranks(const std::vector<TensorSpec>& tensors,
                                                   std::size_t ranks, std::uint64_t whole_bytes) {
  Line line{.total = 0, .ranks = ranks};
  std::vector<std::uint64_t> sizes;
  for (const TensorSpec& tensor : tensors) {
    const auto size = bytes_of(tensor.dtype, tensor.shape);
    if (!size || __builtin_add_overflow(line.total, *size, &line.total))
      throw UsageError("the size of " + detail::tensor_label(tensor.name) +
                       ", with those before it, overflows 64 bits");
    sizes.push_back(*size);
  }
  std::vector<std::vector<TensorPart>> dealt(ranks);
  std::uint64_t begin = 0;
  for (std::size_t i = 0; i < tensors.size(); begin += sizes[i++]) {
    const TensorSpec& tensor = tensors[i];
    if (sizes[i] <= whole_bytes || bits_of(tensor.dtype) < 8 ||
        first_long_dimension(tensor) == tensor.shape.size()) {
      dealt[line.owner(begin + sizes[i] / 2)].push_back({{tensor}, whole_tile(tensor.shape)});
    } else {
      deal_rows(tensor, begin, sizes[i], line, dealt);
    }
  }
  return dealt;
}

}  // namespace accelerate
