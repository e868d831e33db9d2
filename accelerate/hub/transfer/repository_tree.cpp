#include "accelerate/hub/transfer/repository_tree.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "accelerate/base/error.h"
#include "accelerate/base/file_system.h"
#include "accelerate/base/text.h"

namespace accelerate::detail {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostFiles = 1'000'000;
constexpr std::size_t kMostTreeBytes = 256U << 20;
constexpr int kMostPages = 10'000;
constexpr int kFormatVersion = 1;

[[noreturn]] void throw_malformed_tree(const HubSubject& subject, const std::string& what) {
  throw NetworkError("the list of files of " + label_of(subject.id, subject.type) + " " + what +
                     ": the server is not a Hugging Face hub");
}

std::string text_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

std::uint64_t size_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
}

bool is_hex(std::string_view text, std::size_t digits) {
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return text.size() == digits && std::ranges::all_of(text, is_digit);
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

void check_size(const Json& entry, const RepositoryFile& file, const HubSubject& subject) {
  const auto size = entry.find("size");
  if (size == entry.end() || !size->is_number_unsigned())
    throw_malformed_tree(subject, "has no size for " + shown(file.path));
}

RepositoryFile file_of(const Json& entry, const HubSubject& subject) {
  RepositoryFile file{.path = text_of(entry, "path"),
                      .size_bytes = size_of(entry, "size"),
                      .blob_id = text_of(entry, "oid"),
                      .xet_hash = text_of(entry, "xetHash")};
  if (const auto lfs = entry.find("lfs"); lfs != entry.end() && lfs->is_object()) {
    file.sha256 = text_of(*lfs, "oid");
    check_size(*lfs, file, subject);
    file.size_bytes = size_of(*lfs, "size");
  } else {
    check_size(entry, file, subject);
  }
  return checked(std::move(file), subject);
}

void take_page(const std::string& text, const HubSubject& subject,
               std::vector<RepositoryFile>& files) {
  const Json page = Json::parse(text, nullptr, false);
  if (!page.is_array()) throw_malformed_tree(subject, "is no JSON array");
  for (const Json& entry : page) {
    if (!entry.is_object()) throw_malformed_tree(subject, "has an entry that is no JSON object");
    if (text_of(entry, "type") == "file") files.push_back(file_of(entry, subject));
    if (files.size() > kMostFiles) throw_malformed_tree(subject, "has more than a million files");
  }
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

std::vector<RepositoryFile> parsed_tree(const Json& tree) {
  std::vector<RepositoryFile> files;
  if (tree.value("format_version", 0) != kFormatVersion) return files;
  for (const auto& [path, entry] : tree.at("files").items()) {
    RepositoryFile file{.path = path,
                        .size_bytes = size_of(entry, "size"),
                        .blob_id = text_of(entry, "blob_id"),
                        .sha256 = text_of(entry, "lfs_sha256"),
                        .xet_hash = text_of(entry, "xet_hash")};
    if (!file.sha256.empty()) file.size_bytes = size_of(entry, "lfs_size");
    files.push_back(checked(std::move(file), {}));
  }
  return files;
}

}  // namespace

std::string commit_at(HubClient& client, const HubSubject& subject) {
  const std::string url = client.api_url(subject, "/revision/" + url_escape(subject.revision));
  const Json info = Json::parse(client.get(url, subject), nullptr, false);
  std::string commit = info.is_object() ? text_of(info, "sha") : "";
  if (is_commit(commit)) return commit;
  throw NetworkError("the answer of " + client.endpoint() + " names no commit for " +
                     label_of(subject.id, subject.type) +
                     ": is HF_ENDPOINT a hub of Hugging Face?");
}

std::vector<RepositoryFile> list_tree(HubClient& client, const HubSubject& subject) {
  std::vector<RepositoryFile> files;
  std::string url = client.api_url(
      subject, "/tree/" + url_escape(subject.revision) + "?recursive=true&expand=false");
  for (int pages = 0; !url.empty(); ++pages) {
    if (pages == kMostPages) throw_malformed_tree(subject, "has more than 10,000 pages");
    const HttpResponse page = client.send({.url = url}, {.subject = subject});
    take_page(page.body, subject, files);
    url = next_page(page, url, subject);
  }
  std::ranges::sort(files, {}, &RepositoryFile::path);
  return files;
}

std::optional<std::vector<RepositoryFile>> cached_tree(const RepositoryCache& cache,
                                                       const std::string& commit) {
  const auto path = tree_file(cache, commit);
  if (real_file_system().status(path).kind != FileKind::file) return std::nullopt;
  try {
    auto files = parsed_tree(Json::parse(real_file_system().read(path, kMostTreeBytes)));
    return files.empty() ? std::nullopt : std::optional(std::move(files));
  } catch (const std::exception&) {  // Damaged or of a later version: fetched again.
    return std::nullopt;
  }
}

void cache_tree(const RepositoryCache& cache, const std::string& commit,
                const std::vector<RepositoryFile>& files) {
  Json entries = Json::object();
  for (const RepositoryFile& file : files) entries[file.path] = cached_entry(file);
  const Json tree = {{"format_version", kFormatVersion}, {"files", std::move(entries)}};
  const auto path = tree_file(cache, commit);
  try {
    real_file_system().create_directories(path.parent_path());
    write_file_atomically(real_file_system(), path, tree.dump(1), {.durable = false});
  } catch (const FileError&) {
    // This file only saves a request. If the cache cannot be written, writing content reports it.
  }
}

}  // namespace accelerate::detail
