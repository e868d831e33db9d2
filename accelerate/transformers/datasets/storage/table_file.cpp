#include "accelerate/transformers/datasets/storage/table_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#define XXH_INLINE_ALL  // there is no library to link
#include <xxhash.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "accelerate/base/descriptor.h"
#include "accelerate/base/error.h"
#include "accelerate/base/file_system.h"
#include "accelerate/base/logger.h"

namespace accelerate::detail {
namespace {

using Json = nlohmann::ordered_json;
using Kind = Feature::Kind;

constexpr std::string_view kMagic = "ACCTBL01";
constexpr std::size_t kAlignment = 64;
/// Follows the footer: the footer's begin, length and hash, then the magic again.
constexpr std::size_t kTrailerBytes = 32;
constexpr std::array<const char*, 6> kKindNames{"null", "int64",  "float64",
                                                "bool", "string", "list"};

Json json_of(const Feature& feature) {
  if (feature.is_class_label()) return {{"class_label", feature.names()}};
  if (feature.kind() == Kind::list) return {{"list", json_of(feature.element())}};
  return kKindNames[static_cast<std::size_t>(feature.kind())];
}

struct UnknownFeature : std::runtime_error {
  using std::runtime_error::runtime_error;
};

Feature feature_of_json(const Json& json, std::size_t depth = 0) {
  if (depth > kDeepestList) throw UnknownFeature("lists lie more than 64 deep within each other");
  if (json.is_object() && json.contains("class_label"))
    return Feature::class_label(json["class_label"].get<std::vector<std::string>>());
  if (json.is_object()) return Feature::list_of(feature_of_json(json.at("list"), depth + 1));
  const auto name = json.get<std::string>();
  if (name == "int64") return Feature::integer();
  if (name == "float64") return Feature::floating();
  if (name == "bool") return Feature::boolean();
  if (name == "string") return Feature::string();
  if (name == "null") return Feature::null();
  throw UnknownFeature("the feature '" + name + "' is unknown");
}

Json json_of(const Features& features) {
  Json list = Json::array();
  for (const auto& [name, feature] : features) list.push_back({name, json_of(feature)});
  return list;
}

Features features_of_json(const Json& json) {
  Features features;
  for (const Json& pair : json)
    features.emplace_back(pair.at(0).get<std::string>(), feature_of_json(pair.at(1)));
  return features;
}

std::string_view view(const void* bytes, std::size_t size) {
  return {static_cast<const char*>(bytes), size};
}

class FileSink : public ChunkSink {
 public:
  FileSink(const std::filesystem::path& path, std::string fingerprint)
      : path_(path),
        fingerprint_(std::move(fingerprint)),
        file_(real_file_system(), path, {.durable = false}) {
    write(kMagic);
    align();
  }

  void add(const Features& features, Chunk chunk) override {
    if (fingerprint_.empty())
      content_ = fingerprint_of({content_, fingerprint_of(features, {chunk})});
    Json columns = Json::array();
    for (const ColumnChunk& column : chunk.columns) columns.push_back(put(column));
    chunks_.push_back({{"rows", chunk.rows}, {"columns", std::move(columns)}});
  }

  std::shared_ptr<const Table> finish(const Features& features) override {
    if (fingerprint_.empty()) fingerprint_ = fingerprint_of({content_, json_of(features).dump()});
    const std::string footer = Json{
        {"features", json_of(features)},
        {"fingerprint", fingerprint_},
        {"chunks", chunks_}}.dump();
    const std::array<std::uint64_t, 3> trailer{place_, footer.size(),
                                               XXH3_64bits(footer.data(), footer.size())};
    write(footer);
    write(view(trailer.data(), sizeof(trailer)));
    write(kMagic);
    guarded([&] { file_.commit(); });
    return open_table(path_);
  }

 private:
  Json put(const ColumnChunk& column) {
    const auto& parts = column.parts();
    Json json{{"kind", kKindNames[static_cast<std::size_t>(parts.kind)]}, {"rows", parts.size}};
    const auto put_buffer = [&](const char* name, const Buffer& buffer) {
      if (buffer.bytes.empty()) return;
      json[name] = {place_, buffer.bytes.size()};
      write(view(buffer.bytes.data(), buffer.bytes.size()));
      align();
    };
    put_buffer("values", parts.values);
    put_buffer("offsets", parts.offsets);
    put_buffer("missing", parts.missing);
    if (parts.entries) json["entries"] = put(*parts.entries);
    return json;
  }

  void write(std::string_view bytes) {
    guarded([&] { file_.write(bytes); });
    place_ += bytes.size();
  }

  void align() {
    static constexpr std::array<char, kAlignment> kZeros{};
    write({kZeros.data(), (kAlignment - place_ % kAlignment) % kAlignment});
  }

  template <typename Action>
  void guarded(Action action) {
    try {
      action();
    } catch (const FileError&) {
      throw_with_context<DataError>(
          "the rows cannot be kept in the cache of datasets. Free the disk, or name another folder "
          "by .cache_dir or ACCELERATE_DATASETS_CACHE");
    }
  }

  std::filesystem::path path_;
  std::string fingerprint_, content_;
  AtomicFile file_;
  std::uint64_t place_ = 0;
  Json chunks_ = Json::array();
};

// Touching bytes that a mapped file no longer has would raise SIGBUS.
class MappedStorage : public TableStorage {
 public:
  MappedStorage(const std::filesystem::path& path, std::size_t size)
      : path_(path), file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)), size_(size) {
    if (!file_.valid()) throw FileError("open", path, errno);
  }
  void check() const override {
    struct stat status{};
    if (::fstat(file_.get(), &status) == 0 && static_cast<std::size_t>(status.st_size) >= size_)
      return;
    throw DataError(
        "'" + path_.string() +
        "' was cut short while its rows were in use. Remove it; it will be rebuilt when needed");
  }

 private:
  std::filesystem::path path_;
  Descriptor file_;
  std::size_t size_;
};

// Maps a file and reads its footer.
class Opener {
 public:
  explicit Opener(const std::filesystem::path& path)
      : path_(path), content_(real_file_system().map(path)), bytes_(content_->bytes()) {}

  std::shared_ptr<const Table> run() {
    try {
      const Json footer = read_footer();
      Features features = features_of_json(footer.at("features"));
      const auto storage = std::make_shared<const MappedStorage>(path_, bytes_.size());
      std::vector<Chunk> chunks;
      for (const Json& json : footer.at("chunks")) {
        chunks.push_back(chunk_of(json, features));
        chunks.back().storage = storage;
      }
      return std::make_shared<const Table>(std::move(features), std::move(chunks),
                                           footer.at("fingerprint").get<std::string>());
    } catch (const Json::exception&) {
      refuse("its footer lacks a part");
    } catch (const UsageError& error) {
      refuse(error.what());
    } catch (const UnknownFeature& error) {
      refuse(error.what());
    }
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw DataError("'" + path_.string() + "' is not a table file, or is damaged: " + what +
                    ". Remove it; it will be rebuilt when needed");
  }

  Json read_footer() const {
    if (bytes_.size() < kMagic.size() + kTrailerBytes)
      refuse("it has " + std::to_string(bytes_.size()) + " bytes");
    const auto* end = reinterpret_cast<const char*>(bytes_.data()) + bytes_.size();
    if (view(bytes_.data(), kMagic.size()) != kMagic ||
        view(end - kMagic.size(), kMagic.size()) != kMagic)
      refuse("it was not finished");
    std::array<std::uint64_t, 3> trailer{};
    std::memcpy(trailer.data(), end - kTrailerBytes, sizeof(trailer));
    const auto [begin, size, hash] = trailer;
    if (begin > bytes_.size() - kTrailerBytes || size != bytes_.size() - kTrailerBytes - begin)
      refuse("its footer lies outside");
    const auto footer = view(bytes_.data() + begin, size);
    if (XXH3_64bits(footer.data(), footer.size()) != hash)
      refuse("its footer has another checksum");
    return Json::parse(footer);
  }

  Chunk chunk_of(const Json& json, const Features& features) const {
    Chunk chunk{.rows = json.at("rows").get<std::size_t>()};
    for (const Json& column : json.at("columns")) chunk.columns.push_back(column_of(column));
    if (chunk.columns.size() != features.size()) refuse("a chunk lacks a column");
    for (std::size_t i = 0; i < features.size(); ++i) {
      const ColumnChunk& column = chunk.columns[i];
      if (!is_of(column, features[i].second) || column.size() != chunk.rows)
        refuse("a column differs from its feature");
    }
    return chunk;
  }

  static bool is_of(const ColumnChunk& column, const Feature& feature) {
    return column.kind() == feature.kind() &&
           (column.kind() != Kind::list || is_of(*column.parts().entries, feature.element()));
  }

  ColumnChunk column_of(const Json& json, std::size_t depth = 0) const {
    if (depth > kDeepestList) refuse("lists lie more than 64 deep within each other");
    const auto name = json.at("kind").get<std::string>();
    const auto kind = std::find(kKindNames.begin(), kKindNames.end(), name);
    if (kind == kKindNames.end()) refuse("a column has the unknown kind '" + name + "'");
    ColumnChunk::Parts parts;
    parts.kind = static_cast<Kind>(kind - kKindNames.begin());
    parts.size = json.at("rows").get<std::size_t>();
    parts.values = buffer_of(json, "values");
    parts.offsets = buffer_of(json, "offsets");
    parts.missing = buffer_of(json, "missing");
    if (json.contains("entries"))
      parts.entries = std::make_shared<const ColumnChunk>(column_of(json["entries"], depth + 1));
    check_sizes(parts);
    return ColumnChunk(std::move(parts));
  }

  void check_sizes(const ColumnChunk::Parts& parts) const {
    const bool has_offsets = parts.kind == Kind::string || parts.kind == Kind::list;
    const std::size_t width = parts.kind == Kind::boolean                                   ? 1
                              : parts.kind == Kind::integer || parts.kind == Kind::floating ? 8
                                                                                            : 0;
    // Excludes sizes for which the products below overflow.
    const bool fits = parts.size < bytes_.size() + 1 || parts.kind == Kind::null;
    if (!fits || (width > 0 && parts.values.bytes.size() != parts.size * width) ||
        (has_offsets && parts.offsets.bytes.size() != (parts.size + 1) * 8) ||
        (!parts.missing.bytes.empty() && parts.missing.bytes.size() != parts.size) ||
        (parts.kind == Kind::list) != (parts.entries != nullptr)) {
      refuse("a column's size differs from its number of rows");
    }
  }

  Buffer buffer_of(const Json& json, const char* name) const {
    const auto found = json.find(name);
    if (found == json.end()) return {};
    const auto begin = found->at(0).get<std::size_t>(), size = found->at(1).get<std::size_t>();
    if (begin > bytes_.size() || size > bytes_.size() - begin || begin % kAlignment != 0)
      refuse("a column lies outside");
    return {content_, bytes_.subspan(begin, size)};
  }

  std::filesystem::path path_;
  std::shared_ptr<const FileContent> content_;
  std::span<const std::byte> bytes_;
};

}  // namespace

std::unique_ptr<ChunkSink> sink_in_file(const std::filesystem::path& path,
                                        std::string fingerprint) {
  try {
    real_file_system().create_directories(path.parent_path());
    return std::make_unique<FileSink>(path, std::move(fingerprint));
  } catch (const FileError&) {
    throw_with_context<DataError>(
        "the cache of datasets cannot be written. Name another folder by .cache_dir or "
        "ACCELERATE_DATASETS_CACHE");
  }
}

std::shared_ptr<const Table> open_table(const std::filesystem::path& path) {
  return Opener(path).run();
}

std::shared_ptr<const Table> open_cached_table(const std::filesystem::path& path) {
  if (real_file_system().status(path).kind != FileKind::file) return nullptr;
  try {
    return open_table(path);
  } catch (const Error& error) {
    get_logger("datasets").warning(std::string("rebuilds rows in the cache: ") + error.what());
    return nullptr;
  }
}

std::string write_features(const Features& features) {
  return json_of(features).dump();
}

}  // namespace accelerate::detail
