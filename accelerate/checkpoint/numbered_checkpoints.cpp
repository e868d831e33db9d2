#include "accelerate/checkpoint/numbered_checkpoints.h"

#include <algorithm>
#include <string>
#include <system_error>

#include "accelerate/base/text.h"

namespace accelerate {

std::vector<NumberedCheckpoint> numbered_checkpoints(FileSystem& files,
                                                     const std::filesystem::path& directory,
                                                     std::string_view prefix) {
  std::vector<NumberedCheckpoint> found;
  if (files.status(directory).kind != FileKind::directory) return found;
  for (const auto& name : files.list(directory)) {
    if (!name.starts_with(prefix)) continue;
    const auto digits = name.substr(prefix.size());
    const auto number = parse_int(digits);
    if (number && *number >= 0 && std::to_string(*number) == digits &&
        files.status(directory / name).kind == FileKind::directory)
      found.push_back({*number, directory / name});
  }
  std::ranges::sort(found, {}, &NumberedCheckpoint::number);
  return found;
}

std::vector<NumberedCheckpoint> beyond_limit(std::vector<NumberedCheckpoint> oldest_first,
                                             std::int64_t limit,
                                             const std::filesystem::path& best) {
  auto& all = oldest_first;
  const auto place =
      std::ranges::find_if(all, [&](const auto& one) { return is_same_folder(one.folder, best); });
  if (place != all.end()) {
    // The best one counts as the second newest, because the newest is needed to resume.
    const bool is_newest = place + 1 == all.end();
    if (limit == 1 && !is_newest) limit = 2;
    std::rotate(place, place + 1, all.end() - (is_newest ? 0 : 1));
  }
  const auto count = static_cast<std::int64_t>(all.size());
  all.resize(static_cast<std::size_t>(std::max<std::int64_t>(count - limit, 0)));
  return all;
}

bool is_same_folder(const std::filesystem::path& a, const std::filesystem::path& b) {
  std::error_code error;
  return !a.empty() && !b.empty() && std::filesystem::equivalent(a, b, error);
}

}  // namespace accelerate
