#include "accelerate/transformers/hub/cache/cache.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <system_error>
#include <utility>
#include <vector>

#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/file_system.h"
#include "accelerate/base/text.h"
#include "accelerate/transformers/hub/cache/cache_files.h"
#include "accelerate/transformers/hub/cache/python_paths.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;
using detail::check_safe;
using detail::is_commit;
using detail::shown;

// Like os.getenv: a variable that is set but empty counts.
std::optional<std::string> python_env(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
}

std::string expanded(const std::string& path) {
  return detail::expand_variables(detail::expand_user(path));
}

// Returns names for messages; skips entries that cannot be read.
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
  /// Returns "Download it with …".
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
      kind_(detail::word_of(options.type)),
      cache_(detail::cache_folder_of(options)),
      folder_(cache_ / detail::folder_name_of(id_, options.type)) {}

std::string CachedRepository::label() const {
  return detail::label_of(id_, options_.type);
}

std::string CachedRepository::cure() const {
  const char* offline =
      is_offline() ? " (unset HF_HUB_OFFLINE and TRANSFORMERS_OFFLINE first)" : "";
  return "Download it with `accelerate hub download " + detail::command_words(id_, options_) + "`" +
         offline + ", or pass a folder that holds it.";
}

// A part of an id cannot contain "--", so folder names identify the ids exactly.
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
                        "; " + revisions() + cure(),
                    error_name::kNotInCache);
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
        why + label() + ", and no folder '" + id_ + "' exists either. " + cure() + similar(),
        error_name::kNotInCache);
  }
  const std::string commit = this->commit();
  fs::path snapshot = folder_ / "snapshots" / commit;
  if (files.status(snapshot).kind == FileKind::directory) return snapshot;
  const std::string why = commit == options_.revision
                              ? "the cache has no such commit of "
                              : "no files were downloaded of " + shown(options_.revision) + " of ";
  throw FileError("find", snapshot, why + label() + "; " + revisions() + cure(),
                  error_name::kNotInCache);
}

// Looks for a file. Throws FileError, ending with `cure`, for a link without its content.
template <typename Cure>
std::optional<fs::path> file_in(const fs::path& folder, const std::string& filename,
                                const Cure& cure) {
  fs::path file = folder / filename;
  const FileKind kind = real_file_system().status(file).kind;
  if (kind == FileKind::file) return file;
  if (kind != FileKind::none) return std::nullopt;
  std::error_code no_link;
  const fs::path target = fs::read_symlink(file, no_link);
  if (no_link) return std::nullopt;
  throw FileError("read", file,
                  "it is a link to " + shown(target.string()) +
                      ", which does not exist: a download was interrupted, or the folder was "
                      "copied without the cache's blobs. " +
                      cure(),
                  error_name::kNotInCache);
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
  return detail::is_on(env_first({"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"}));
}

fs::path detail::cache_folder_of(const HubOptions& options) {
  if (options.cache_dir.empty()) return hub_cache_folder();
  return expand_user(options.cache_dir.string());
}

fs::path detail::cached_snapshot(const std::string& id, const HubOptions& options) {
  check_safe("the revision", options.revision);
  return CachedRepository(id, options).snapshot();
}

std::optional<fs::path> detail::find_cached_file(const std::string& id, const std::string& filename,
                                                 const HubOptions& options) {
  return file_in(cached_snapshot(id, options), filename,
                 [&] { return CachedRepository(id, options).cure(); });
}

fs::path resolve_folder(const std::string& name_or_folder, const HubOptions& options) {
  if (detail::is_local(name_or_folder)) return name_or_folder;
  return detail::cached_snapshot(name_or_folder, options);
}

std::optional<fs::path> find_file(const std::string& name_or_folder, const std::string& filename,
                                  const HubOptions& options) {
  check_safe("the file name", filename);
  if (!detail::is_local(name_or_folder))
    return detail::find_cached_file(name_or_folder, filename, options);
  return file_in(name_or_folder, filename,
                 [] { return std::string("Download or copy the folder's files again."); });
}

}  // namespace accelerate
