#include "accelerate/transformers/hub/transfer/repository_tree.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <variant>

#include "accelerate/base/error.h"
#include "accelerate/base/file_system.h"
#include "accelerate/base/hex.h"
#include "accelerate/base/text.h"
#include "accelerate/formats/documents/json.h"
#include "accelerate/transformers/hub/transfer/digest.h"

namespace accelerate::detail {
namespace {

// What a list says of one file, before it is checked: the texts and numbers that are needed, by
// their keys. "lfs.oid" is the key "oid" of the object "lfs", whose own text is "".
struct TreeEntry {
  std::string name = {};  // The key of the entry, if the list is an object.
  std::map<std::string, std::variant<std::string, std::uint64_t>, std::less<>> fields = {};

  // Returns "" if there is none, or if it is not a text.
  [[nodiscard]] std::string text(std::string_view key) const {
    const auto found = fields.find(key);
    const auto* text = found == fields.end() ? nullptr : std::get_if<std::string>(&found->second);
    return text == nullptr ? "" : *text;
  }
  // Returns nullptr if there is none, or if it is not a whole number from 0 on.
  [[nodiscard]] const std::uint64_t* number(std::string_view key) const {
    const auto found = fields.find(key);
    return found == fields.end() ? nullptr : std::get_if<std::uint64_t>(&found->second);
  }
};

using TakeEntry = std::function<void(TreeEntry&& entry)>;

using Json = nlohmann::json;

constexpr std::array<std::string_view, 12> kWanted = {
    "type",    "path",     "oid",     "size",       "xetHash",  "lfs",
    "lfs.oid", "lfs.size", "blob_id", "lfs_sha256", "lfs_size", "xet_hash"};

// What both forms of a list have in common: entries are objects at a certain depth.
class EntryHandler : public nlohmann::json_sax<Json> {
 public:
  EntryHandler(std::size_t entry_depth, const TakeEntry& take)
      : entry_depth_(entry_depth), take_(take) {}

  bool null() override { return take_value({}); }
  bool boolean(bool) override { return take_value({}); }
  bool number_integer(number_integer_t) override { return take_value({}); }
  bool number_unsigned(number_unsigned_t value) override {
    note_number(value);
    return take_value(std::uint64_t{value});
  }
  bool number_float(number_float_t, const string_t&) override { return take_value({}); }
  bool string(string_t& value) override { return take_value(std::move(value)); }
  bool binary(binary_t&) override { return false; }
  bool parse_error(std::size_t, const std::string&, const Json::exception&) override {
    return false;
  }

  bool start_object(std::size_t) override {
    if (!may_begin(true)) return false;
    if (depth_ + 1 == entry_depth_) entry_ = {.name = key_};
    if (depth_ == entry_depth_) {
      (void)take_value(std::string());
      prefix_ = key_ + ".";
    }
    ++depth_;
    key_.clear();
    return true;
  }
  bool end_object() override {
    if (depth_ == entry_depth_) take_(std::move(entry_));
    return leave();
  }
  bool start_array(std::size_t) override {
    if (!may_begin(false)) return false;
    ++depth_;
    key_.clear();
    return true;
  }
  bool end_array() override { return leave(); }
  bool key(string_t& key) override {
    key_ = depth_ <= entry_depth_ ? key : depth_ == entry_depth_ + 1 ? prefix_ + key : "";
    return true;
  }

 protected:
  /// Whether an object or an array may begin here.
  virtual bool may_begin(bool is_object) = 0;
  virtual bool may_stand_outside() = 0;  ///< Whether other values may stand outside of entries.
  virtual void note_number(std::uint64_t) {}

  [[nodiscard]] std::size_t depth() const { return depth_; }
  [[nodiscard]] const std::string& last_key() const { return key_; }

 private:
  using Value = std::variant<std::monostate, std::string, std::uint64_t>;

  bool take_value(Value value) {
    if (depth_ < entry_depth_) return may_stand_outside();
    if (std::ranges::find(kWanted, key_) == kWanted.end()) return true;
    if (auto* text = std::get_if<std::string>(&value)) {
      entry_.fields.insert_or_assign(key_, std::move(*text));
    } else if (const auto* number = std::get_if<std::uint64_t>(&value)) {
      entry_.fields.insert_or_assign(key_, *number);
    } else {
      entry_.fields.erase(key_);
    }
    return true;
  }

  bool leave() {
    --depth_;
    key_.clear();
    return true;
  }

  std::size_t entry_depth_, depth_ = 0;
  const TakeEntry& take_;
  TreeEntry entry_;
  std::string key_, prefix_;  // The key of the next value; "" within arrays.
};

class PageHandler final : public EntryHandler {
 public:
  explicit PageHandler(const TakeEntry& take) : EntryHandler(2, take) {}
  std::string fault = "is not a JSON array";

 private:
  bool may_begin(bool is_object) override {
    if (depth() == 0) return !is_object;
    return depth() > 1 || is_object || may_stand_outside();
  }
  bool may_stand_outside() override {
    if (depth() == 1) fault = "has an entry that is not a JSON object";
    return false;
  }
};

class CachedHandler final : public EntryHandler {
 public:
  explicit CachedHandler(const TakeEntry& take) : EntryHandler(3, take) {}
  std::uint64_t version = 0;

 private:
  bool may_begin(bool is_object) override {
    return is_object && (depth() != 1 || last_key() == "files");
  }
  bool may_stand_outside() override { return depth() == 1; }
  void note_number(std::uint64_t number) override {
    if (depth() == 1 && last_key() == "format_version") version = number;
  }
};

// Calls `take` for each entry of a page of the hub: [{"path": …}, …]. Returns what is wrong with
// the page, as the end of a sentence; "" if nothing is. Lets exceptions of `take` through.
std::string read_tree_page(std::string_view page, const TakeEntry& take) {
  PageHandler handler(take);
  return Json::sax_parse(page, &handler) ? "" : handler.fault;
}

// Calls `take` for each entry of a list in the cache: {"format_version": 1, "files": {path: {…}}}.
// Returns whether the list has this form and this version.
bool read_cached_tree(std::string_view list, const TakeEntry& take) {
  CachedHandler handler(take);
  return Json::sax_parse(list, &handler) && handler.version == 1;
}

constexpr std::size_t kMostFiles = 1'000'000;
constexpr std::size_t kMostTreeBytes = 256U << 20;
constexpr std::size_t kMostPageBytes = 64U << 20;
constexpr std::size_t kMostPages = 2'000;  // The hub lists a thousand files a page.

[[noreturn]] void throw_malformed_tree(const HubSubject& subject, const std::string& what) {
  throw NetworkError("the list of files of " + label_of(subject.id, subject.type) + " " + what +
                     ": the server is not a Hugging Face hub");
}

// Checks an entry of the hub's answer, so that no malformed text becomes a file's name.
RepositoryFile checked(RepositoryFile file, const HubSubject& subject) {
  try {
    check_safe("a file's name", file.path);
  } catch (const ConfigError& error) {
    throw_malformed_tree(subject, std::string("is refused, since ") + error.what());
  }
  const auto parts = split(file.path, '/');
  if (std::ranges::any_of(parts,
                          [](const std::string& part) { return part.empty() || part == "."; }))
    throw_malformed_tree(subject, "has the path " + shown(file.path) + ", which is refused");
  if (!is_hex(file.xet_hash, 64)) file.xet_hash.clear();
  if (!is_hex(file.blob_id, 40) || !(file.sha256.empty() || is_hex(file.sha256, 64)))
    throw_malformed_tree(subject, "has no checksum for " + shown(file.path));
  return file;
}

std::uint64_t size_of(const TreeEntry& entry, const char* key, const HubSubject& subject) {
  if (const std::uint64_t* size = entry.number(key)) return *size;
  throw_malformed_tree(subject, "has no size for " + shown(entry.text("path")));
}

RepositoryFile file_of(const TreeEntry& entry, const HubSubject& subject) {
  const bool is_large = entry.fields.contains("lfs");
  if (is_large && entry.text("lfs.oid").empty())
    throw_malformed_tree(subject, "has no checksum for " + shown(entry.text("path")));
  return checked({.path = entry.text("path"),
                  .size_bytes = size_of(entry, is_large ? "lfs.size" : "size", subject),
                  .blob_id = entry.text("oid"),
                  .sha256 = entry.text("lfs.oid"),
                  .xet_hash = entry.text("xetHash")},
                 subject);
}

void take_page(const std::string& text, const HubSubject& subject,
               std::vector<RepositoryFile>& files) {
  const std::string fault = read_tree_page(text, [&](const TreeEntry& entry) {
    if (entry.text("type") == "file") files.push_back(file_of(entry, subject));
    if (files.size() > kMostFiles) throw_malformed_tree(subject, "has more than a million files");
  });
  if (!fault.empty()) throw_malformed_tree(subject, fault);
}

void check_pages(const std::set<std::string>& pages, const std::string& next, std::size_t bytes,
                 const HubSubject& subject) {
  if (pages.contains(next)) throw_malformed_tree(subject, "has pages that lead in a circle");
  if (pages.size() == kMostPages)
    throw_malformed_tree(subject, "has more than " + std::to_string(kMostPages) + " pages");
  if (bytes > kMostTreeBytes) throw_malformed_tree(subject, "has more than 256 MiB");
}

// Sorts the files by their paths.
void sort_files(std::vector<RepositoryFile>& files, const HubSubject& subject) {
  std::ranges::sort(files, {}, &RepositoryFile::path);
  const auto twice = std::ranges::adjacent_find(files, {}, &RepositoryFile::path);
  if (twice != files.end())
    throw_malformed_tree(subject, "has " + shown(twice->path) + " more than once");
}

// Returns the URL of `Link: <url>; rel="next"`; "" on the last page. Throws NetworkError for a bad
// link, so that a list never ends early unnoticed.
std::string next_page(const HttpResponse& response, const std::string& url,
                      const HubSubject& subject) {
  const std::string link = response.header("link").value_or("");
  for (const std::string& part : split(link, ',')) {
    if (part.find("rel=\"next\"") == std::string::npos) continue;
    const auto open = part.find('<');
    const auto close = part.find('>', open);
    const auto next = open == std::string::npos || close == std::string::npos
                          ? std::nullopt
                          : resolve_location(url, part.substr(open + 1, close - open - 1));
    const bool is_safe = next && *next != url &&
                         (origin_of(url)->scheme != "https" || origin_of(*next)->scheme == "https");
    if (!is_safe)
      throw_malformed_tree(subject, "has an invalid link to the next page, " + shown(part));
    return *next;
  }
  return "";
}

std::filesystem::path tree_file(const RepositoryCache& cache, const std::string& commit) {
  return cache.folder() / "trees" / (commit + ".json");
}

Json cached_entry(const RepositoryFile& file) {
  // "size" is the size that the hub lists, which is that of the content.
  Json entry = {{"size", file.size_bytes}, {"blob_id", file.blob_id}};
  if (!file.sha256.empty()) {
    entry["lfs_sha256"] = file.sha256;
    entry["lfs_size"] = file.size_bytes;
  }
  if (!file.xet_hash.empty()) entry["xet_hash"] = file.xet_hash;
  return entry;
}

RepositoryFile cached_file_of(const TreeEntry& entry) {
  const bool is_large = !entry.text("lfs_sha256").empty();
  const std::uint64_t* size = entry.number(is_large ? "lfs_size" : "size");
  return checked({.path = entry.name,
                  .size_bytes = size == nullptr ? 0 : *size,
                  .blob_id = entry.text("blob_id"),
                  .sha256 = entry.text("lfs_sha256"),
                  .xet_hash = entry.text("xet_hash")},
                 {});
}

}  // namespace

std::string commit_at(HubClient& client, const HubSubject& subject) {
  const std::string url = client.api_url(subject, "/revision/" + url_escape(subject.revision));
  const auto answer =
      client.send({.url = url, .most_body_bytes = kMostPageBytes}, {.subject = subject});
  // The answer lists all files, too, of which nothing is kept.
  const auto is_kept = [](int depth, Json::parse_event_t event, const Json& key) {
    return event != Json::parse_event_t::key || (depth == 1 && key == "sha");
  };
  const Json info = Json::parse(answer.body, is_kept, false);
  const auto sha = info.is_object() ? info.find("sha") : info.end();
  std::string commit = sha != info.end() && sha->is_string() ? sha->get<std::string>() : "";
  if (is_commit(commit)) return commit;
  throw NetworkError("the answer of " + client.endpoint() + " names no commit for " +
                     label_of(subject.id, subject.type) +
                     ": is HF_ENDPOINT a hub of Hugging Face?");
}

std::vector<RepositoryFile> list_tree(HubClient& client, const HubSubject& subject) {
  std::vector<RepositoryFile> files;
  std::string url = client.api_url(
      subject, "/tree/" + url_escape(subject.revision) + "?recursive=true&expand=false");
  std::set<std::string> pages;
  for (std::size_t bytes = 0; !url.empty();) {
    check_pages(pages, url, bytes, subject);
    pages.insert(url);
    const HttpResponse page =
        client.send({.url = url, .most_body_bytes = kMostPageBytes}, {.subject = subject});
    bytes += page.body.size();
    take_page(page.body, subject, files);
    url = next_page(page, url, subject);
  }
  sort_files(files, subject);
  return files;
}

std::optional<std::vector<RepositoryFile>> cached_tree(const RepositoryCache& cache,
                                                       const std::string& commit) {
  const auto path = tree_file(cache, commit);
  if (real_file_system().status(path).kind != FileKind::file) return std::nullopt;
  try {
    std::vector<RepositoryFile> files;
    const bool is_whole =
        read_cached_tree(real_file_system().read(path, kMostTreeBytes),
                         [&](const TreeEntry& entry) { files.push_back(cached_file_of(entry)); });
    return is_whole && !files.empty() ? std::optional(std::move(files)) : std::nullopt;
  } catch (const std::exception&) {  // Damaged or of a later version: fetched again.
    return std::nullopt;
  }
}

void cache_tree(const RepositoryCache& cache, const std::string& commit,
                const std::vector<RepositoryFile>& files) {
  std::string tree = "{\n \"format_version\": 1,\n \"files\": {";
  for (const RepositoryFile& file : files) {
    tree += &file == files.data() ? "\n  " : ",\n  ";
    tree += json_string(file.path) + ": " + json_text(cached_entry(file));
  }
  tree += "\n }\n}";
  const auto path = tree_file(cache, commit);
  try {
    real_file_system().create_directories(path.parent_path());
    write_file_atomically(real_file_system(), path, tree, {.durable = false});
  } catch (const FileError&) {
    // This file only saves a request. If the cache cannot be written, writing content reports it.
  }
}

}  // namespace accelerate::detail
