#include "accelerate/hub/cache.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <system_error>
#include <utility>
#include <vector>

#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/base/file_system.h"
#include "accelerate/base/text.h"
#include "accelerate/base/utf8.h"
#include "accelerate/hub/python_paths.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;
using detail::is_word_character;

// As os.getenv: a variable that is set but empty counts.
std::optional<std::string> python_env(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
}

std::string expanded(const std::string& path) {
  return detail::expand_variables(detail::expand_user(path));
}

bool is_repo_part(std::string_view part) {
  const auto is_allowed = [](char c) { return is_word_character(c) || c == '-' || c == '.'; };
  return !part.empty() && part.size() <= 96 && is_word_character(part.front()) &&
         is_word_character(part.back()) && std::all_of(part.begin(), part.end(), is_allowed);
}

bool is_commit(std::string_view text) {
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return text.size() == 40 && std::all_of(text.begin(), text.end(), is_digit);
}

// Safe to print: names and files may hold anything.
std::string printable(std::string_view text) {
  const bool is_text = is_utf8(text);
  std::string safe(text);
  for (char& c : safe) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f || (byte >= 0x80 && !is_text)) c = '?';
  }
  return safe;
}

// In quotes, safe to print and of bearable length.
std::string shown(std::string_view text) {
  const std::string safe = printable(text);
  const std::string_view fitting = fit_bytes(safe, 120);
  return "'" + std::string(fitting) + (fitting.size() < safe.size() ? "…'" : "'");
}

std::string shown(const std::vector<std::string>& texts) {
  constexpr std::size_t kMost = 8;
  std::vector<std::string> parts;
  for (const auto& text : texts) {
    if (parts.size() == kMost) break;
    parts.push_back(shown(text));
  }
  if (texts.size() > kMost) parts.push_back(std::to_string(texts.size() - kMost) + " more");
  return join(parts, ", ");
}

// One word of a shell's command line.
std::string shell_word(const std::string& word) {
  const auto is_plain = [](char c) {
    return is_word_character(c) || std::string_view("-.,:/@%+=").find(c) != std::string_view::npos;
  };
  if (std::all_of(word.begin(), word.end(), is_plain)) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

// `what` begins the sentence: "the revision".
void check_safe(std::string_view what, const std::string& path) {
  std::string fault;
  std::string slashes = path;  // Windows' separators count too, as in huggingface_hub.
  std::replace(slashes.begin(), slashes.end(), '\\', '/');
  const auto parts = split(slashes, '/');
  if (path.empty()) fault = "is empty";
  if (path.starts_with('/')) fault = "is an absolute path";
  if (path.find('\0') != std::string::npos) fault = "holds a zero byte";
  if (std::find(parts.begin(), parts.end(), "..") != parts.end()) fault = "holds a '..'";
  if (fault.empty()) return;
  throw ConfigError(std::string(what) + " " + shown(path) + " " + fault +
                    ": use a path inside the repository, such as 'main' for a revision and "
                    "'onnx/config.json' for a file");
}

bool is_folder(const std::string& name, std::error_code& error) {
  if (name.find('\0') == std::string::npos) return fs::is_directory(name, error);
  error = std::make_error_code(std::errc::invalid_argument);
  return false;
}

// For messages: leaves out what cannot be read.
template <typename Iterator>
std::vector<std::string> names_below(const fs::path& folder, fs::file_type kind) {
  std::vector<std::string> names;
  std::error_code error;
  std::error_code ignored;
  for (Iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (at->status(ignored).type() != kind) continue;
    names.push_back(at->path().lexically_relative(folder).string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// One repository in the cache, at one revision.
class CachedRepository {
 public:
  CachedRepository(std::string id, const HubOptions& options);
  [[nodiscard]] fs::path snapshot() const;
  /// "Download it with …".
  [[nodiscard]] std::string cure() const;

 private:
  [[nodiscard]] std::string commit() const;
  [[nodiscard]] std::string commit_in(const fs::path& ref, std::uint64_t size_bytes) const;
  [[nodiscard]] std::string label() const;
  [[nodiscard]] std::string similar() const;
  [[nodiscard]] std::string revisions() const;

  std::string id_;
  const HubOptions& options_;
  std::string kind_;  // "model"
  fs::path cache_;
  fs::path folder_;
};

CachedRepository::CachedRepository(std::string id, const HubOptions& options)
    : id_(std::move(id)),
      options_(options),
      kind_(options.type == RepoType::dataset ? "dataset" : "model"),
      cache_(options.cache_dir.empty()
                 ? hub_cache_folder()
                 : fs::path(detail::expand_user(options.cache_dir.string()))) {
  folder_ = cache_ / (kind_ + "s--" + join(split(id_, '/'), "--"));
}

std::string CachedRepository::label() const {
  return "the " + kind_ + " '" + id_ + "'";
}

std::string CachedRepository::cure() const {
  std::string command = "hf download " + id_;
  if (options_.type == RepoType::dataset) command += " --repo-type dataset";
  if (options_.revision != "main") command += " --revision " + shell_word(options_.revision);
  if (!options_.cache_dir.empty()) command += " --cache-dir " + shell_word(cache_.string());
  const char* offline =
      is_offline() ? " (unset HF_HUB_OFFLINE and TRANSFORMERS_OFFLINE first)" : "";
  return "Download it with Python's `" + printable(command) + "`" + offline +
         ", or pass a folder that holds it.";
}

// A name cannot hold "--", so the folders' names tell the ids exactly.
std::string CachedRepository::similar() const {
  const std::string prefix = kind_ + "s--";
  std::vector<std::string> ids;
  for (auto name : names_below<fs::directory_iterator>(cache_, fs::file_type::directory)) {
    if (!name.starts_with(prefix)) continue;
    name.erase(0, prefix.size());
    if (const auto at = name.find("--"); at != std::string::npos) name.replace(at, 2, "/");
    if (is_repo_id(name)) ids.push_back(name);
  }
  return did_you_mean(id_, ids);
}

std::string CachedRepository::revisions() const {
  using Refs = fs::recursive_directory_iterator;
  const auto refs = names_below<Refs>(folder_ / "refs", fs::file_type::regular);
  const auto commits =
      names_below<fs::directory_iterator>(folder_ / "snapshots", fs::file_type::directory);
  return "the revisions there: " + (refs.empty() ? "none" : shown(refs)) +
         "; the commits there: " + (commits.empty() ? "none" : shown(commits)) + ". ";
}

std::string CachedRepository::commit() const {
  if (is_commit(options_.revision)) return options_.revision;
  const fs::path ref = folder_ / "refs" / options_.revision;
  const FileStatus status = real_file_system().status(ref);
  if (status.kind == FileKind::none || status.kind == FileKind::directory) {
    throw FileError("find", ref,
                    "the cache has no revision " + shown(options_.revision) + " of " + label() +
                        "; " + revisions() + cure());
  }
  return commit_in(ref, status.size_bytes);
}

std::string CachedRepository::commit_in(const fs::path& ref, std::uint64_t size_bytes) const {
  constexpr std::uint64_t kMostBytes = 4096;
  const std::string text = size_bytes > kMostBytes ? "" : real_file_system().read(ref, kMostBytes);
  if (is_commit(text)) return text;
  const std::string found = count_of(std::max<std::uint64_t>(size_bytes, text.size()), "byte");
  throw FileError("read", ref,
                  "the file of a revision must hold 40 lower-case hexadecimal digits and nothing "
                  "else, but holds " +
                      found + (text.empty() ? "" : ": " + shown(text)) + ". Remove the file. " +
                      cure());
}

fs::path CachedRepository::snapshot() const {
  FileSystem& files = real_file_system();
  if (files.status(folder_).kind != FileKind::directory) {
    const bool has_cache = files.status(cache_).kind == FileKind::directory;
    const char* why =
        has_cache ? "the cache lacks " : "there is no cache folder, which would hold ";
    throw FileError(
        "find", folder_,
        why + label() + ", and no folder '" + id_ + "' exists either. " + cure() + similar());
  }
  const std::string commit = this->commit();
  fs::path snapshot = folder_ / "snapshots" / commit;
  if (files.status(snapshot).kind == FileKind::directory) return snapshot;
  const std::string why = commit == options_.revision
                              ? "the cache has no such commit of "
                              : "no files were downloaded of " + shown(options_.revision) + " of ";
  throw FileError("find", snapshot, why + label() + "; " + revisions() + cure());
}

constexpr const char* kIdRule =
    "a repository's id on the hub. An id is 'name' or 'organization/name'. Each part is 1 to 96 of "
    "A-Z a-z 0-9 _ - . and neither begins nor ends with - or . ; the id has no '--' or '..' and "
    "does not end in '.git'. Pass a folder that exists, or an id such as "
    "'google-bert/bert-base-uncased'";

// The repository called `name`. `error` says why no folder of this name can be used.
CachedRepository repository_of(const std::string& name, const HubOptions& options,
                               const std::error_code& error) {
  if (!is_repo_id(name)) {
    const std::string why = error ? error.message() : "It is not a folder";
    throw ConfigError(shown(name) + " is neither an existing folder (" + why + ") nor " + kIdRule);
  }
  check_safe("the revision", options.revision);
  return {name, options};
}

}  // namespace

fs::path hugging_face_home() {
  if (const auto home = python_env("HF_HOME")) return expanded(*home);
  const auto cache = python_env("XDG_CACHE_HOME");
  return expanded(fs::path(cache ? *cache : detail::expand_user("~") + "/.cache") / "huggingface");
}

fs::path hub_cache_folder() {
  if (const auto folder = python_env("HF_HUB_CACHE")) return expanded(*folder);
  if (const auto folder = python_env("HUGGINGFACE_HUB_CACHE")) return expanded(*folder);
  return expanded(hugging_face_home() / "hub");
}

bool is_offline() {
  const std::string word =
      lower(env_first({"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"}).value_or(""));
  return word == "1" || word == "on" || word == "yes" || word == "true";
}

bool is_repo_id(std::string_view text) {
  const auto parts = split(text, '/');
  return parts.size() <= 2 && std::all_of(parts.begin(), parts.end(), is_repo_part) &&
         text.find("--") == std::string_view::npos && text.find("..") == std::string_view::npos &&
         !text.ends_with(".git");
}

fs::path resolve_folder(const std::string& name_or_folder, const HubOptions& options) {
  std::error_code error;
  if (is_folder(name_or_folder, error)) return name_or_folder;
  return repository_of(name_or_folder, options, error).snapshot();
}

std::optional<fs::path> find_file(const std::string& name_or_folder, const std::string& filename,
                                  const HubOptions& options) {
  check_safe("the file name", filename);
  fs::path file = resolve_folder(name_or_folder, options) / filename;
  const FileKind kind = real_file_system().status(file).kind;
  if (kind == FileKind::file) return file;
  if (kind != FileKind::none) return std::nullopt;
  std::error_code no_link;
  const fs::path target = fs::read_symlink(file, no_link);
  if (no_link) return std::nullopt;
  std::error_code no_folder;
  const std::string cure = is_folder(name_or_folder, no_folder)
                               ? "Download or copy the folder's files again."
                               : CachedRepository(name_or_folder, options).cure();
  throw FileError("read", file,
                  "it is a link to " + shown(target.string()) +
                      ", which does not exist: a download was interrupted, or the folder was "
                      "copied without the cache's blobs. " +
                      cure);
}

}  // namespace accelerate
