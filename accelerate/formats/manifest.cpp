#include "accelerate/formats/manifest.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <set>
#include <span>
#include <utility>

#include "accelerate/base/checksum.h"
#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/text.h"
#include "accelerate/formats/documents/json.h"
#include "accelerate/formats/shards/shard_files.h"

namespace accelerate {
namespace {

constexpr DocumentLimits kLimits{.max_bytes = std::size_t{64} << 20, .max_depth = 4};

bool is_plain_name(const std::string& name) {
  return !name.empty() && name.size() <= 255 && name != "." && name != ".." &&
         name.find('/') == std::string::npos && name.find('\0') == std::string::npos;
}

const Node& entry(const Node& node, const char* key) {
  const Node* value = node.is_map() ? node.find(key) : nullptr;
  if (value == nullptr) throw CheckpointError("it lacks '" + std::string(key) + "'");
  return *value;
}

std::int64_t integer(const Node& node, const char* key, std::int64_t lowest) {
  const Node& value = entry(node, key);
  const auto number = value.is_scalar() && !value.quoted ? parse_int(value.text) : std::nullopt;
  if (!number || *number < lowest)
    throw CheckpointError("'" + std::string(key) + "' is " + value.describe() +
                          "; it must be an integer of at least " + std::to_string(lowest));
  return *number;
}

std::uint64_t checksum_of(const Node& node) {
  const Node& value = entry(node, "xxh3_64");
  std::uint64_t sum = 0;
  const char* end = value.text.data() + value.text.size();
  const auto [stop, error] = std::from_chars(value.text.data(), end, sum, 16);
  if (!value.quoted || value.text.size() != 16 || stop != end || error != std::errc())
    throw CheckpointError("'xxh3_64' is " + value.describe() +
                          "; it must be 16 hexadecimal digits");
  return sum;
}

ManifestFile file_of(const Node& node) {
  const Node& name = entry(node, "name");
  if (!name.quoted || !is_plain_name(name.text) || name.text == Manifest::kName)
    throw CheckpointError("'name' is " + name.describe() + "; it must be a plain file name");
  return {name.text, static_cast<std::uint64_t>(integer(node, "size_bytes", 0)), checksum_of(node)};
}

// Reads `ranks` and `save`. Only a checkpoint that every machine has on its own disk has them.
void read_place(const Node& node, Manifest& manifest) {
  if (node.find("ranks") == nullptr) return;
  for (const Node& rank : entry(node, "ranks").items) {
    const auto number = rank.is_scalar() && !rank.quoted ? parse_int(rank.text) : std::nullopt;
    const int least = manifest.ranks.empty() ? 0 : manifest.ranks.back() + 1;
    if (!number || *number < least || *number >= manifest.num_processes)
      throw CheckpointError("'ranks' holds " + rank.describe() +
                            "; it must hold numbers from 0 to " +
                            std::to_string(manifest.num_processes - 1) + ", in order");
    manifest.ranks.push_back(static_cast<int>(*number));
  }
  const Node& save = entry(node, "save");
  if (manifest.ranks.empty() || !save.quoted || save.text.empty())
    throw CheckpointError("'ranks' is empty, or 'save' is not a string");
  manifest.save = save.text;
}

Manifest manifest_of(const Node& node) {
  const auto format = integer(node, "format", 1);
  if (format > Manifest::kFormat)
    throw CheckpointError("it has format " + std::to_string(format) + ", newer than " +
                          std::to_string(Manifest::kFormat) +
                          ", the newest that this version reads; update accelerate.cpp");
  Manifest manifest;
  const auto ranks = integer(node, "num_processes", 1);
  if (ranks > std::numeric_limits<int>::max())
    throw CheckpointError("'num_processes' is " + std::to_string(ranks));
  manifest.num_processes = static_cast<int>(ranks);
  read_place(node, manifest);
  std::set<std::string> names;
  for (const Node& file : entry(node, "files").items) {
    manifest.files.push_back(file_of(file));
    if (!names.insert(manifest.files.back().name).second)
      throw CheckpointError("it lists '" + manifest.files.back().name + "' twice");
  }
  return manifest;
}

std::uint64_t counted_checksum(std::span<const std::byte> bytes, const ByteCounter& counter) {
  constexpr std::size_t kPieceBytes = std::size_t{4} << 20;
  Checksum sum;
  for (std::size_t i = 0; i < bytes.size(); i += kPieceBytes) {
    const auto piece = bytes.subspan(i, std::min(kPieceBytes, bytes.size() - i));
    sum.update(piece);
    if (counter) counter(piece.size());
  }
  return sum.value();
}

// Says which rank wrote the file, so that the user knows whose disk or backup to look at.
std::string writer_of(const std::string& name) {
  const auto shard = ShardFileName::parse(name);
  return shard ? " (rank " + std::to_string(shard->writer - 1) + " wrote it)" : "";
}

std::string fault_of(FileSystem& files, const std::filesystem::path& folder,
                     const ManifestFile& expected, const ByteCounter& counter) try {
  const auto label = "'" + expected.name + "' ";
  const auto status = files.status(folder / expected.name);
  if (status.kind == FileKind::none) return label + "is missing" + writer_of(expected.name);
  if (status.kind != FileKind::file) return label + "is not a file";
  if (status.size_bytes != expected.size_bytes)
    return label + "has " + std::to_string(status.size_bytes) + " bytes, not " +
           std::to_string(expected.size_bytes);
  const auto found = manifest_file(files, folder, expected.name, counter);
  if (found.checksum == expected.checksum) return {};
  return label + "is damaged: its checksum is " + checksum_text(found.checksum) + ", not " +
         checksum_text(expected.checksum);
} catch (const Error& error) {
  return describe(error);
}

FileKind kind_at(FileSystem& files, const std::filesystem::path& path) try {
  return files.status(path).kind;
} catch (const Error&) {
  throw_with_context<CheckpointError>("cannot look for a checkpoint");
}

}  // namespace

bool Manifest::has_rank(int rank) const {
  if (ranks.empty()) return rank < num_processes;
  return std::ranges::binary_search(ranks, rank);
}

ManifestFile manifest_file(FileSystem& files, const std::filesystem::path& folder,
                           const std::string& name, const ByteCounter& counter) {
  try {
    const auto content = files.map(folder / name);
    return {name, content->bytes().size(), counted_checksum(content->bytes(), counter)};
  } catch (const Error&) {
    throw_with_context<CheckpointError>("cannot read " + (folder / name).string());
  }
}

std::string manifest_text(Manifest manifest) {
  std::ranges::sort(manifest.files, {}, &ManifestFile::name);
  std::vector<Node> list;
  for (const auto& file : manifest.files) {
    list.push_back(Node::map(
        {{.key = "name", .value = Node::string(file.name)},
         {.key = "size_bytes", .value = Node::integer(static_cast<std::int64_t>(file.size_bytes))},
         {.key = "xxh3_64", .value = Node::string(checksum_text(file.checksum))}}));
  }
  std::vector<NodeEntry> entries = {
      {.key = "format", .value = Node::integer(Manifest::kFormat)},
      {.key = "num_processes", .value = Node::integer(manifest.num_processes)},
      {.key = "files", .value = Node::sequence(std::move(list))}};
  if (!manifest.ranks.empty()) {
    std::vector<Node> ranks;
    for (const int rank : manifest.ranks) ranks.push_back(Node::integer(rank));
    entries.push_back({.key = "ranks", .value = Node::sequence(std::move(ranks))});
    entries.push_back({.key = "save", .value = Node::string(manifest.save)});
  }
  return write_json(Node::map(std::move(entries)));
}

Manifest parse_manifest(std::string_view text, const std::string& name) {
  try {
    return manifest_of(read_json(text, name, kLimits));
  } catch (const Error&) {
    throw_with_context<CheckpointError>("cannot read " + name);
  }
}

void write_manifest(FileSystem& files, const std::filesystem::path& folder, Manifest manifest) {
  try {
    write_file_atomically(files, folder / Manifest::kName, manifest_text(std::move(manifest)));
  } catch (const Error&) {
    throw_with_context<CheckpointError>("cannot complete the checkpoint in " + folder.string());
  }
}

Manifest read_manifest(FileSystem& files, const std::filesystem::path& folder) {
  const auto path = folder / Manifest::kName;
  if (kind_at(files, folder) != FileKind::directory)
    throw CheckpointError("there is no checkpoint " + folder.string() + ": no such folder",
                          error_name::kNoCheckpoint);
  if (kind_at(files, path) == FileKind::none)
    throw CheckpointError(
        folder.string() +
            " is not a complete checkpoint: it has no manifest.json, which is written "
            "when all else is there",
        error_name::kCheckpointUnfinished);
  std::string text;
  try {
    text = read_file(files, path, kLimits.max_bytes);
  } catch (const Error&) {
    throw_with_context<CheckpointError>("cannot read " + path.string());
  }
  return parse_manifest(text, path.string());
}

std::vector<std::string> manifest_faults(FileSystem& files, const std::filesystem::path& folder,
                                         const Manifest& manifest, const FaultSearch& search) {
  std::vector<std::string> faults;
  for (std::size_t i = search.first; i < manifest.files.size(); i += search.stride) {
    if (auto fault = fault_of(files, folder, manifest.files[i], search.counter); !fault.empty())
      faults.push_back(std::move(fault));
  }
  return faults;
}

}  // namespace accelerate
