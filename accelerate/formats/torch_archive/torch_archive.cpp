#include "accelerate/formats/torch_archive/torch_archive.h"

#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <string_view>

#include "accelerate/base/bytes.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/text.h"
#include "accelerate/formats/safetensors/safetensors_header.h"
#include "accelerate/formats/torch_archive/torch_convert.h"
#include "accelerate/formats/torch_archive/zip_directory.h"

namespace accelerate {
namespace {

using detail::printable;
using detail::ZipEntry;

constexpr std::string_view kSaveAgain =
    "; save it again in Python: torch.save(torch.load(old, weights_only=True), new)";

// Throws CheckpointError that says what the file is instead of a zip archive.
[[noreturn]] void refuse_impostor(std::string_view text) {
  constexpr std::string_view kLegacyMagic =
      "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
  if (text.empty())
    throw CheckpointError("it is empty: was its writer or download interrupted?",
                          error_name::kWeightsDamaged);
  if (text.starts_with(kLegacyMagic)) {
    throw CheckpointError(
        "it is of the format that torch.save wrote before 1.6, which is not read" +
        std::string(kSaveAgain));
  }
  if (text.size() > 262 && text.substr(257).starts_with("ustar")) {
    throw CheckpointError("it is a tar archive, as torch.save wrote before 0.1.10" +
                          std::string(kSaveAgain));
  }
  if (text.starts_with("\x80")) {
    throw CheckpointError("it is a Python pickle outside of an archive of torch.save" +
                          std::string(kSaveAgain));
  }
  if (text.starts_with("version https://git-lfs")) {
    throw CheckpointError(
        "it is a Git LFS pointer: run `git lfs pull` to fetch the file it stands for",
        error_name::kWeightsDamaged);
  }
  if (text.starts_with("<")) {
    throw CheckpointError("it is an HTML or XML page, perhaps an error page saved by a download",
                          error_name::kWeightsDamaged);
  }
  throw CheckpointError(
      "it is not a zip archive, as torch.save writes; if it is safetensors, name it so");
}

// The entries of one archive, by their names inside its folder.
class Records {
 public:
  explicit Records(std::span<const std::byte> file) : entries_(detail::read_zip_directory(file)) {
    for (const ZipEntry& entry : entries_) {
      const std::size_t slash = entry.name.find('/');
      if (slash == std::string::npos || entry.name.substr(slash) != "/data.pkl") continue;
      if (!folder_.empty()) throw CheckpointError("it holds two archives of torch.save in one");
      folder_ = entry.name.substr(0, slash + 1);
    }
    if (folder_.empty()) {
      throw CheckpointError(
          "it is a zip archive without the entry data.pkl: torch.save did not write it");
    }
  }

  [[nodiscard]] std::optional<std::span<const std::byte>> find(std::string_view name) const {
    const std::string full = folder_ + std::string(name);
    const auto place = std::ranges::lower_bound(entries_, full, {}, &ZipEntry::name);
    if (place == entries_.end() || place->name != full) return std::nullopt;
    if (place->compressed) {
      throw CheckpointError("its entry " + printable(full) +
                            " is compressed, which torch.save never does to data: unpack it and "
                            "pack it again without compression (zip -0), or save it again in "
                            "Python");
    }
    return place->bytes;
  }

 private:
  std::vector<ZipEntry> entries_;
  std::string folder_;  // "archive/".
};

void check_byte_order(const Records& records) {
  const auto order = records.find("byteorder");
  if (order && detail::byte_text(*order) != "little") {
    throw CheckpointError("it was saved on a big-endian machine; save it again on another");
  }
}

std::vector<std::string_view> both(std::span<const std::string_view> some,
                                   std::span<const std::string_view> more) {
  std::vector<std::string_view> all(some.begin(), some.end());
  all.insert(all.end(), more.begin(), more.end());
  std::ranges::sort(all);
  return all;
}

TorchValue read_archive(std::span<const std::byte> bytes,
                        std::span<const std::string_view> classes = {}) {
  const std::string_view text = detail::byte_text(bytes);
  if (!text.starts_with("PK\3\4")) refuse_impostor(text);
  const Records records(bytes);
  check_byte_order(records);
  const bool script = records.find("constants.pkl").has_value();
  const auto known = script ? detail::script_globals() : detail::torch_globals();
  const auto shards = detail::sharded_classes();
  const auto allowed = both(known, classes), of_classes = both(shards, classes);
  const detail::Pickle pickle =
      detail::read_pickle(records.find("data.pkl").value(), allowed, of_classes);
  const auto storages = [&](std::string_view name) {
    return records.find("data/" + std::string(name));
  };
  return detail::convert_pickle(*pickle.root, storages, classes);
}

std::shared_ptr<const FileContent> map_file(FileSystem& files, const std::filesystem::path& path,
                                            const std::string& cannot) {
  try {
    return files.map(path);
  } catch (const FileError&) {
    throw_with_context<CheckpointError>(cannot);
  }
}

using TensorList = std::vector<std::pair<std::string, const TorchTensor*>>;

// Whether a value is a dict with nothing but tensors.
bool is_state(const TorchValue& value) {
  const auto* dict = value.as<TorchDict>();
  return dict != nullptr && !dict->entries.empty() &&
         std::ranges::all_of(dict->entries, [](const TorchEntry& entry) {
           return entry.key.as<std::string>() != nullptr &&
                  entry.value.as<TorchTensor>() != nullptr;
         });
}

// Returns "; there is one below 'model': …"; "" if there is none.
std::string keys_of_states(const TorchValue& value) {
  std::vector<std::string> keys;
  if (const auto* dict = value.as<TorchDict>()) {
    for (const auto& [key, held] : dict->entries) {
      const auto* name = key.as<std::string>();
      if (name != nullptr && is_state(held) && keys.size() < 8) keys.push_back(printable(*name));
    }
  }
  if (keys.empty()) return "";
  return "; there is one below " + join(keys, " and below ") +
         ": `accelerate convert --key NAME` takes it out";
}

// Refuses duplicate names: readers would disagree about which tensor counts.
void check_unique(const TensorList& tensors, const std::filesystem::path& path) {
  std::set<std::string_view> names;
  for (const auto& [name, tensor] : tensors) {
    if (names.insert(name).second) continue;
    throw CheckpointError("'" + path.string() + "' has two tensors called " + printable(name) +
                          ": it is damaged");
  }
}

void add_attributes(const TorchObject& object, const std::string& prefix, TensorList& tensors) {
  for (const auto& [key, value] : object.attributes) {
    const std::string name = prefix + *key.as<std::string>();
    if (const auto* tensor = value.as<TorchTensor>()) tensors.emplace_back(name, tensor);
    if (const auto* inner = value.as<TorchObject>()) add_attributes(*inner, name + ".", tensors);
  }
}

}  // namespace

TorchArchive TorchArchive::open(const std::filesystem::path& path, FileSystem& files) {
  return open(path, {}, files);
}

TorchArchive TorchArchive::open(const std::filesystem::path& path,
                                std::span<const std::string_view> classes, FileSystem& files) {
  const std::string cannot = "cannot load '" + path.string() + "', a file of torch.save";
  TorchArchive archive;
  archive.path_ = path;
  archive.content_ = map_file(files, path, cannot);
  try {
    archive.value_ =
        std::make_shared<const TorchValue>(read_archive(archive.content_->bytes(), classes));
  } catch (const CheckpointError& error) {
    throw CheckpointError(cannot + ": " + error.what());
  }
  return archive;
}

TorchValue read_torch_archive(std::span<const std::byte> bytes) {
  return read_archive(bytes);
}

std::vector<std::pair<std::string, const TorchTensor*>> TorchArchive::state_dict(
    std::string_view key) const {
  const std::string no_state = "'" + path_.string() + "' holds no state dict of tensors: ";
  const TorchValue* value = key.empty() ? value_.get() : value_->find(key);
  if (value == nullptr) {
    throw CheckpointError("'" + path_.string() + "' has nothing below the key " + printable(key) +
                          ": it holds " + value_->describe() + keys_of_states(*value_));
  }
  TensorList tensors;
  if (const auto* object = value->as<TorchObject>()) {
    add_attributes(*object, "", tensors);
    check_unique(tensors, path_);
    return tensors;
  }
  const auto* dict = value->as<TorchDict>();
  if (dict == nullptr) throw CheckpointError(no_state + "it holds " + value->describe());
  for (const auto& [entry, held] : dict->entries) {
    const auto* name = entry.as<std::string>();
    if (name == nullptr) throw CheckpointError(no_state + "one key is " + entry.describe());
    const auto* tensor = held.as<TorchTensor>();
    if (tensor == nullptr) {
      throw CheckpointError(no_state + printable(*name) + " is " + held.describe() +
                            keys_of_states(*value));
    }
    tensors.emplace_back(*name, tensor);
  }
  check_unique(tensors, path_);
  return tensors;
}

}  // namespace accelerate
