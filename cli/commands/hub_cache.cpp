// `accelerate hub cache`: lists what the cache holds, and removes it.
#include <ctime>
#include <ostream>

#include "accelerate/base/error.h"
#include "accelerate/base/terminal/table.h"
#include "accelerate/base/terminal/terminal_screen.h"
#include "accelerate/base/text.h"
#include "accelerate/transformers/hub/cache/cache_removal.h"
#include "cli/commands/commands.h"
#include "cli/terminal/prompt.h"

namespace accelerate::cli {
namespace {

std::string size_of(std::uint64_t bytes) {
  return format_bytes(static_cast<double>(bytes));
}

std::string date_of(std::chrono::system_clock::time_point time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm local{};
  localtime_r(&seconds, &local);
  std::string text(16, '\0');
  text.resize(std::strftime(text.data(), text.size(), "%Y-%m-%d", &local));
  return text;
}

Table table_of_repositories(const CacheScan& scan) {
  Table table({{"repository"},
               {"size", Align::right},
               {"files", Align::right},
               {"last used"},
               {"revisions"}});
  for (const CachedRepo& repo : scan.repos) {
    std::vector<std::string> refs;
    for (const CachedRevision& revision : repo.revisions) {
      refs.push_back(revision.refs.empty() ? revision.commit.substr(0, 7)
                                           : join(revision.refs, ", "));
    }
    table.add_row({repo.cache_id(), size_of(repo.size_bytes), std::to_string(repo.files),
                   date_of(repo.last_accessed), join(refs, ", ")});
  }
  return table;
}

Table table_of_revisions(const CacheScan& scan) {
  Table table({{"repository"},
               {"commit"},
               {"size", Align::right},
               {"files", Align::right},
               {"changed"},
               {"branches and tags"}});
  for (const CachedRepo& repo : scan.repos) {
    for (const CachedRevision& revision : repo.revisions) {
      table.add_row({repo.cache_id(), revision.commit, size_of(revision.size_bytes),
                     std::to_string(revision.files), date_of(revision.last_modified),
                     join(revision.refs, ", ")});
    }
  }
  return table;
}

}  // namespace

int run_cache_list(const CacheCommandOptions& options, std::ostream& out) {
  const CacheScan scan = scan_cache(options.cache_dir);
  const Table table =
      options.shows_revisions ? table_of_revisions(scan) : table_of_repositories(scan);
  if (!scan.repos.empty()) out << table.box(locale_is_utf8());
  out << count_of(scan.repos.size(), "repository") << ", " << size_of(scan.size_bytes) << ", in "
      << scan.path.string() << "\n";
  if (!scan.incomplete.empty()) {
    std::uint64_t bytes = 0;
    for (const CachedBlob& part : scan.incomplete) bytes += part.size_bytes;
    out << count_of(scan.incomplete.size(), "interrupted download") << " of " << size_of(bytes)
        << "; downloading again continues\n";
  }
  for (const std::string& fault : scan.faults) out << "left out: " << fault << "\n";
  return 0;
}

int run_cache_remove(const CacheCommandOptions& options, std::ostream& out) {
  const CacheRemoval removal = plan_removal(scan_cache(options.cache_dir), options.what);
  out << count_of(removal.repos.size(), "repository") << " and "
      << count_of(removal.snapshots.size(), "revision") << ", " << size_of(removal.freed_bytes)
      << "\n";
  for (const auto& list : {removal.repos, removal.snapshots}) {
    for (const auto& path : list) out << "  " << path.string() << "\n";
  }
  for (const std::string& fault : removal.faults) out << "stays: " << fault << "\n";
  if (options.is_dry_run) return 0;
  if (!options.is_sure && !is_agreed("Remove?")) {
    out << "nothing was removed\n";
    return 1;
  }
  remove(removal);
  out << "removed\n";
  return 0;
}

}  // namespace accelerate::cli
