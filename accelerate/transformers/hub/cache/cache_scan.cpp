#include "accelerate/transformers/hub/cache/cache_scan.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/transformers/hub/cache/cache_files.h"
#include "accelerate/transformers/hub/cache/python_paths.h"
#include "accelerate/transformers/hub/cache/shared_store.h"
#include "accelerate/transformers/hub/repository.h"

namespace accelerate {

using namespace detail::cache_files;
using detail::SharedStore;
using detail::shown;
namespace fs = std::filesystem;

namespace {

// Reads one repository. Throws FileError, which says what is damaged.
class RepoScanner {
 public:
  explicit RepoScanner(fs::path folder) { repo_.path = std::move(folder); }
  CachedRepo scan();

 private:
  void read_name();
  void read_refs();
  void read_snapshots();
  CachedRevision revision(const std::string& name);
  fs::path content_of(const fs::path& file);
  void sum_up();

  CachedRepo repo_;
  std::map<std::string, std::vector<std::string>> refs_;  // By the commit that they hold.
  std::map<fs::path, BlobStatus> blobs_;
};

CachedRepo RepoScanner::scan() {
  if (!is_folder(repo_.path)) throw FileError("scan", repo_.path, "it is not a folder");
  read_name();
  read_refs();
  read_snapshots();
  sum_up();
  return std::move(repo_);
}

void RepoScanner::read_name() {
  std::string name = repo_.path.filename().string();
  const auto at = name.find("--");
  const std::string type = name.substr(0, at);
  if (at == std::string::npos || (type != "models" && type != "datasets")) {
    const bool is_other = at != std::string::npos && (type == "spaces" || type == "kernels");
    throw FileError("scan", repo_.path,
                    is_other ? type + " are left out: only models and datasets are read"
                             : "a repository's folder begins with 'models--' or 'datasets--'");
  }
  repo_.type = type == "datasets" ? RepoType::dataset : RepoType::model;
  name.erase(0, at + 2);
  for (auto dashes = name.find("--"); dashes != std::string::npos; dashes = name.find("--")) {
    name.replace(dashes, 2, "/");
  }
  repo_.id = std::move(name);
}

void RepoScanner::read_refs() {
  constexpr std::size_t kMostBytes = 4096;
  const fs::path folder = repo_.path / "refs";
  if (real_file_system().status(folder).kind == FileKind::file) {
    throw FileError("scan", folder, "it is a file, but must be a folder");
  }
  for (const auto& file : paths_below(folder)) {
    if (is_helper(file.filename().string())) continue;
    refs_[real_file_system().read(file, kMostBytes)].push_back(
        file.lexically_relative(folder).string());
  }
}

void RepoScanner::read_snapshots() {
  const fs::path folder = repo_.path / "snapshots";
  if (!is_folder(folder)) throw FileError("scan", folder, "there is no such folder");
  for (const auto& name : names_in(folder)) {
    if (!is_helper(name)) repo_.revisions.push_back(revision(name));
  }
  if (refs_.empty()) return;
  const auto& [commit, names] = *refs_.begin();
  throw FileError("scan", repo_.path / "refs" / names.front(),
                  "it names the commit " + shown(commit) + ", which has no snapshot");
}

CachedRevision RepoScanner::revision(const std::string& name) {
  CachedRevision revision;
  revision.commit = name;
  revision.snapshot = repo_.path / "snapshots" / name;
  if (real_file_system().status(revision.snapshot).kind == FileKind::file) {
    throw FileError("scan", revision.snapshot, "it is a file, but must be a folder");
  }
  if (auto refs = refs_.extract(name)) revision.refs = std::move(refs.mapped());
  std::sort(revision.refs.begin(), revision.refs.end());
  std::set<fs::path> contents;
  for (const auto& file : paths_below(revision.snapshot)) {
    ++revision.files;
    contents.insert(content_of(file));
  }
  const auto own = status_of(revision.snapshot);
  if (!own) throw FileError("scan", revision.snapshot, "it is a link to a missing folder");
  if (contents.empty()) revision.last_modified = own->modified;
  for (const auto& path : contents) {
    const BlobStatus& status = blobs_.at(path);
    revision.size_bytes += status.size_bytes;
    revision.last_modified = std::max(revision.last_modified, status.modified);
    revision.blobs.push_back({path, status.size_bytes});
  }
  return revision;
}

// Returns the blob of a file in a snapshot. Follows only one link: a blob may itself be a link to a
// shared content, and a removal must remove that link.
fs::path RepoScanner::content_of(const fs::path& file) {
  std::error_code error;
  fs::path blob = own_type(file) == fs::file_type::symlink ? target_of(file, error) : file;
  if (error) throw FileError("read", file, error.value());
  if (blobs_.contains(blob)) return blob;
  const auto status = status_of(blob);
  if (!status) {
    throw FileError("scan", file, "it is a link to " + quoted(blob) + ", which is missing");
  }
  blobs_.emplace(blob, *status);
  return blob;
}

void RepoScanner::sum_up() {
  repo_.files = blobs_.size();
  if (blobs_.empty()) {
    const BlobStatus own = status_of(repo_.path).value_or(BlobStatus());
    repo_.last_accessed = own.accessed;
    repo_.last_modified = own.modified;
  }
  for (const auto& [path, status] : blobs_) {
    repo_.size_bytes += status.size_bytes;
    repo_.last_accessed = std::max(repo_.last_accessed, status.accessed);
    repo_.last_modified = std::max(repo_.last_modified, status.modified);
  }
}

fs::path cache_folder(const fs::path& cache_dir) {
  fs::path folder =
      cache_dir.empty() ? hub_cache_folder() : fs::path(detail::expand_user(cache_dir.string()));
  if (folder.empty()) folder = ".";  // Like Python's Path("").
  const FileStatus status = real_file_system().status(folder);
  if (status.kind == FileKind::none) {
    throw FileError("find", folder,
                    "there is no cache folder: set HF_HUB_CACHE or pass the folder of another "
                    "cache. `accelerate hub download` makes one");
  }
  if (status.kind != FileKind::directory) {
    throw FileError("scan", folder, "it is not a folder: pass the folder of a cache");
  }
  std::error_code error;
  folder = fs::canonical(folder, error);
  if (error) throw FileError("find", folder, error.value());
  return folder;
}

void scan_repos(CacheScan& scan, bool has_store) {
  for (const auto& name : names_in(scan.path)) {
    if (is_helper(name) || name == ".locks" || name == "CACHEDIR.TAG") continue;
    if (has_store && name == "blobs") continue;
    try {
      scan.repos.push_back(RepoScanner(scan.path / name).scan());
    } catch (const FileError& fault) {
      scan.faults.emplace_back(fault.what());
    }
  }
  const auto by_path = [](const CachedRepo& a, const CachedRepo& b) { return a.path < b.path; };
  std::sort(scan.repos.begin(), scan.repos.end(), by_path);
}

// Adds the parts of interrupted downloads. Source: `_scan_incomplete_files`.
void scan_incomplete(CacheScan& scan) {
  for (const auto& repo : names_in(scan.path)) {
    const fs::path blobs = scan.path / repo / "blobs";
    for (const auto& name : names_in(blobs)) {
      const auto status = name.ends_with(".incomplete") ? status_of(blobs / name) : std::nullopt;
      if (status) scan.incomplete.push_back({blobs / name, status->size_bytes});
    }
  }
}

// Returns the bytes on the disk; a shared content counts once.
std::uint64_t physical_bytes(const CacheScan& scan, const SharedStore& store) {
  std::map<fs::path, std::uint64_t> sizes;
  for (const auto& repo : scan.repos) {
    for (const auto& revision : repo.revisions) {
      for (const auto& blob : revision.blobs) {
        if (!store.content_of(blob.path)) sizes.emplace(blob.path, blob.size_bytes);
      }
    }
  }
  for (const auto& content : store.contents()) {
    sizes.emplace(content, status_of(content).value_or(BlobStatus()).size_bytes);
  }
  std::uint64_t bytes = 0;
  for (const auto& [path, size_bytes] : sizes) bytes += size_bytes;
  return bytes;
}

}  // namespace

std::string CachedRepo::cache_id() const {
  return detail::word_of(type) + "/" + id;
}

CacheScan scan_cache(const fs::path& cache_dir) {
  CacheScan scan;
  scan.path = cache_folder(cache_dir);
  const SharedStore store(scan.path);
  scan_repos(scan, store.exists());
  scan_incomplete(scan);
  scan.size_bytes = physical_bytes(scan, store);
  return scan;
}

}  // namespace accelerate
