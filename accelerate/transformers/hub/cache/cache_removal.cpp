#include "accelerate/transformers/hub/cache/cache_removal.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/hex.h"
#include "accelerate/base/text.h"
#include "accelerate/transformers/hub/cache/cache_files.h"
#include "accelerate/transformers/hub/cache/shared_store.h"
#include "accelerate/transformers/hub/repository.h"

namespace accelerate {

using namespace detail::cache_files;
using detail::SharedStore;
using detail::shown;
namespace fs = std::filesystem;

namespace {

// A repository of a scan, or one of its revisions. `revision` is null for the whole repository.
struct Choice {
  const CachedRepo* repo = nullptr;
  const CachedRevision* revision = nullptr;
};
using Choices = std::vector<Choice>;

std::string label(const Choice& choice) {
  const std::string id = choice.repo->cache_id();
  return choice.revision == nullptr ? id : id + "@" + choice.revision->commit;
}

Choices repos_where(const CacheScan& scan, const auto& fits) {
  Choices found;
  for (const auto& repo : scan.repos) {
    if (fits(repo)) found.push_back({&repo});
  }
  return found;
}

// A name of the form "type/id" wins over an equal id, and equal case over different case.
Choices repos_called(const CacheScan& scan, const std::string& name) {
  const std::string any_case = lower(name);
  Choices found = repos_where(scan, [&](const auto& repo) { return repo.cache_id() == name; });
  if (!found.empty()) return found;
  found = repos_where(scan, [&](const auto& repo) { return lower(repo.cache_id()) == any_case; });
  if (!found.empty()) return found;
  found = repos_where(scan, [&](const auto& repo) { return repo.id == name; });
  if (!found.empty()) return found;
  return repos_where(scan, [&](const auto& repo) { return lower(repo.id) == any_case; });
}

// Returns the revisions of `repos` whose commit is `text`. If there is none, returns those whose
// commit begins with it.
Choices commits_called(const Choices& repos, const std::string& text) {
  constexpr std::size_t kLeastDigits = 7;
  const std::string digits = lower(text);
  Choices equal;
  Choices longer;
  for (const auto& [repo, all] : repos) {
    for (const auto& revision : repo->revisions) {
      if (revision.commit == text || revision.commit == digits) equal.push_back({repo, &revision});
      if (revision.commit.starts_with(digits)) longer.push_back({repo, &revision});
    }
  }
  if (!equal.empty()) return equal;
  return digits.size() >= kLeastDigits && detail::is_hex(digits, digits.size()) ? longer
                                                                                : Choices();
}

[[noreturn]] void refuse_unknown(const CacheScan& scan, const std::string& text) {
  std::vector<std::string> names;
  for (const auto& repo : scan.repos) {
    names.push_back(repo.cache_id());
    names.push_back(repo.id);
    for (const auto& revision : repo.revisions) names.push_back(revision.commit);
  }
  throw ConfigError("the cache " + quoted(scan.path) + " holds no repository and no commit " +
                    shown(text) +
                    ". Name a repository as 'model/organization/name' or 'dataset/name', a commit "
                    "by 7 or more of its digits, or both as 'model/organization/name@0123456'." +
                    did_you_mean(text, names));
}

[[noreturn]] void refuse_ambiguous(const Choices& found, const std::string& text) {
  std::vector<std::string> labels;
  for (const auto& choice : found) labels.push_back(label(choice));
  throw ConfigError(shown(text) + " may mean " + shown(labels) + ": name one of these");
}

Choice choose(const CacheScan& scan, const std::string& text) {
  Choices found;
  if (const auto at = text.find('@'); at != std::string::npos) {
    const Choices repos = repos_called(scan, text.substr(0, at));
    found = commits_called(repos, text.substr(at + 1));
  } else {
    found = commits_called(repos_where(scan, [](const auto&) { return true; }), text);
    const Choices repos = repos_called(scan, text);
    found.insert(found.end(), repos.begin(), repos.end());
  }
  if (found.empty()) refuse_unknown(scan, text);
  if (found.size() > 1) refuse_ambiguous(found, text);
  return found.front();
}

// --- The plan ------------------------------------------------------------------------------------

class RemovalPlanner {
 public:
  explicit RemovalPlanner(const CacheScan& scan) : store_(scan.path) { plan_.cache = scan.path; }
  /// `chosen` are revisions of `repo`; if they are all its revisions, the whole repository goes.
  void add(const CachedRepo& repo, const std::set<const CachedRevision*>& chosen);
  CacheRemoval take();

 private:
  void add_whole(const CachedRepo& repo);
  void add_revision(const CachedRepo& repo, const CachedRevision& revision);
  void add_blob(const CachedBlob& blob, const fs::path& blobs, const fs::path& snapshot);
  bool can_remove(const CachedRepo& repo, const CachedRevision& revision);
  void keep(const fs::path& path, const std::string& reason);

  SharedStore store_;
  CacheRemoval plan_;
  std::map<fs::path, std::uint64_t> unlinked_;  // Removed blobs and their bytes.
  std::set<fs::path> kept_;                     // Blobs that remaining revisions use.
  std::set<fs::path> shared_;
};

void RemovalPlanner::keep(const fs::path& path, const std::string& reason) {
  plan_.faults.push_back(quoted(path) + " stays: " + reason);
}

// Whether no link lies on the way to the paths that removing the revision would remove.
bool RemovalPlanner::can_remove(const CachedRepo& repo, const CachedRevision& revision) {
  Paths paths = {revision.snapshot};
  for (const auto& ref : revision.refs) paths.push_back(repo.path / "refs" / ref);
  const auto behind = std::find_if(paths.begin(), paths.end(), is_behind_link);
  if (behind == paths.end()) return true;
  keep(revision.snapshot, "a link lies on the way to " + quoted(*behind));
  return false;
}

void RemovalPlanner::add(const CachedRepo& repo, const std::set<const CachedRevision*>& chosen) {
  if (chosen.size() == repo.revisions.size()) return add_whole(repo);
  std::vector<const CachedRevision*> removed;
  kept_.clear();
  for (const auto& revision : repo.revisions) {
    if (chosen.contains(&revision) && can_remove(repo, revision)) {
      removed.push_back(&revision);
    } else {
      for (const auto& blob : revision.blobs) kept_.insert(blob.path);
    }
  }
  for (const auto* revision : removed) add_revision(repo, *revision);
}

void RemovalPlanner::add_revision(const CachedRepo& repo, const CachedRevision& revision) {
  plan_.snapshots.push_back(revision.snapshot);
  for (const auto& ref : revision.refs) plan_.refs.push_back(repo.path / "refs" / ref);
  for (const auto& record : {repo.path / "trees" / (revision.commit + ".json"),
                             repo.path / ".no_exist" / revision.commit}) {
    const bool is_there = own_type(record) != fs::file_type::not_found;
    if (is_there && !is_behind_link(record)) plan_.records.push_back(record);
  }
  for (const auto& blob : revision.blobs) {
    if (!kept_.contains(blob.path)) add_blob(blob, repo.path / "blobs", revision.snapshot);
  }
}

// A blob inside the snapshot is removed with the snapshot.
void RemovalPlanner::add_blob(const CachedBlob& blob, const fs::path& blobs,
                              const fs::path& snapshot) {
  const bool is_in_snapshot = is_below(blob.path, snapshot);
  if (is_behind_link(blob.path) || (!is_in_snapshot && !is_below(blob.path, blobs))) {
    return keep(blob.path, "it is not in " + quoted(blobs) + ", or reached through a link");
  }
  if (!unlinked_.emplace(blob.path, blob.size_bytes).second) return;
  if (!is_in_snapshot) plan_.blobs.push_back(blob.path);
  if (auto content = store_.content_of(blob.path)) shared_.insert(std::move(*content));
}

void RemovalPlanner::add_whole(const CachedRepo& repo) {
  plan_.repos.push_back(repo.path);
  const fs::path locks = plan_.cache / ".locks" / repo.path.filename();
  if (own_type(locks) != fs::file_type::not_found && !is_behind_link(locks)) {
    plan_.locks.push_back(locks);
  }
  if (!is_own_folder(repo.path)) return keep(repo.path, "only the link to it is removed");
  for (const auto& revision : repo.revisions) {
    for (const auto& blob : revision.blobs) {
      if (is_below(blob.path, repo.path) && !is_behind_link(blob.path)) {
        unlinked_.emplace(blob.path, blob.size_bytes);
      } else {
        keep(blob.path, "it is not in " + quoted(repo.path) + ", or behind a link");
      }
    }
  }
  const fs::path blobs = repo.path / "blobs";
  for (const auto& name : is_own_folder(blobs) ? names_in(blobs) : std::vector<std::string>()) {
    if (auto content = store_.content_of(blobs / name)) shared_.insert(std::move(*content));
  }
}

CacheRemoval RemovalPlanner::take() {
  for (const auto& [blob, size_bytes] : unlinked_) {
    if (!store_.content_of(blob)) plan_.freed_bytes += size_bytes;
  }
  for (const auto& content : shared_) plan_.freed_bytes += store_.freed_bytes(content, unlinked_);
  plan_.shared.assign(shared_.begin(), shared_.end());
  for (Paths* paths : {&plan_.refs, &plan_.snapshots, &plan_.blobs}) {
    std::sort(paths->begin(), paths->end());
  }
  std::sort(plan_.faults.begin(), plan_.faults.end());
  plan_.faults.erase(std::unique(plan_.faults.begin(), plan_.faults.end()), plan_.faults.end());
  return std::move(plan_);
}

// --- Removal -------------------------------------------------------------------------------------

// Returns the paths in `repo`/`folder`; none if one of the two is a link.
Paths entries_of(const fs::path& repo, const char* folder) {
  Paths entries;
  if (!is_own_folder(repo) || !is_own_folder(repo / folder)) return entries;
  for (const auto& name : names_in(repo / folder)) entries.push_back(repo / folder / name);
  return entries;
}

void check_inside(const fs::path& cache, const Paths& paths) {
  for (const auto& path : paths) {
    if (!is_below(path, cache) || path != path.lexically_normal()) {
      throw FileError("remove", path, "it is not in the cache " + quoted(cache));
    }
    if (is_folder(path.parent_path()) && is_behind_link(path)) {
      throw FileError("remove", path, "a link lies on the way to it");
    }
  }
}

// Removes `paths` and syncs their folders.
void remove_each(const Paths& paths, FileSystem& files) {
  std::set<fs::path> folders;
  for (const auto& path : paths) {
    if (files.remove_tree(path)) folders.insert(path.parent_path());
  }
  for (const auto& folder : folders) files.sync_directory(folder);
}

// Returns `paths` and the entries of `folder` in repositories that are removed whole.
Paths with_entries(Paths paths, const CacheRemoval& removal, const char* folder) {
  for (const auto& repo : removal.repos) {
    const Paths entries = entries_of(repo, folder);
    paths.insert(paths.end(), entries.begin(), entries.end());
  }
  return paths;
}

}  // namespace

CacheRemoval plan_removal(const CacheScan& scan, const std::vector<std::string>& what) {
  std::map<fs::path, std::pair<const CachedRepo*, std::set<const CachedRevision*>>> chosen;
  for (const auto& text : what) {
    const Choice choice = choose(scan, std::string(trim(text)));
    auto& [repo, revisions] = chosen[choice.repo->path];
    repo = choice.repo;
    for (const auto& revision : repo->revisions) {
      if (choice.revision == nullptr || choice.revision == &revision) revisions.insert(&revision);
    }
  }
  RemovalPlanner planner(scan);
  for (const auto& [path, choice] : chosen) planner.add(*choice.first, choice.second);
  return planner.take();
}

void remove(const CacheRemoval& removal, FileSystem& files) {
  for (const Paths* paths : {&removal.refs, &removal.records, &removal.snapshots, &removal.blobs,
                             &removal.repos, &removal.locks, &removal.shared}) {
    check_inside(removal.cache, *paths);
  }
  remove_each(with_entries(removal.refs, removal, "refs"), files);
  remove_each(removal.records, files);
  // The empty folder of snapshots stays for now: without it, a scan would call the rest damaged.
  remove_each(with_entries(removal.snapshots, removal, "snapshots"), files);
  remove_each(with_entries(removal.blobs, removal, "blobs"), files);
  remove_each(removal.repos, files);
  remove_each(removal.locks, files);
  const SharedStore store(removal.cache);
  for (const auto& content : removal.shared) store.sweep(content, files);
}

}  // namespace accelerate
