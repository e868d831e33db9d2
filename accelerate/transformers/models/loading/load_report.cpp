#include "accelerate/transformers/models/loading/load_report.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "accelerate/base/text.h"

namespace accelerate::detail {
namespace {

constexpr std::size_t kMostLines = 40;

// A name that is cut at its first number: "a.11.b" is "a.", 11, ".b". Without a number, all of it
// is `before`.
struct Numbered {
  std::string before, after;
  std::int64_t number = -1;
};

Numbered numbered(const std::string& name) {
  std::size_t begin = 0;
  for (const std::string& part : split(name, '.')) {
    const auto number = parse_int(part);
    if (number && *number >= 0)
      return {name.substr(0, begin), name.substr(begin + part.size()), *number};
    begin += part.size() + 1;
  }
  return {name, "", -1};
}

}  // namespace

std::string LoadReport::table() const {
  struct Group {
    Numbered first;
    std::string status;
    std::int64_t least, most;
  };
  std::vector<Group> groups;
  for (const auto& [name, status] : lines) {
    Numbered found = numbered(name);
    const auto same = std::ranges::find_if(groups, [&](const Group& group) {
      return group.status == status && group.first.before == found.before &&
             group.first.after == found.after && found.number >= 0 && group.first.number >= 0;
    });
    if (same == groups.end()) {
      groups.push_back({found, status, found.number, found.number});
    } else {
      same->least = std::min(same->least, found.number);
      same->most = std::max(same->most, found.number);
    }
  }
  std::vector<std::string> names;
  std::size_t width = 0;
  for (const Group& group : groups) {
    const std::string number =
        group.first.number < 0 ? ""
        : group.least == group.most
            ? std::to_string(group.least)
            : "{" + std::to_string(group.least) + "…" + std::to_string(group.most) + "}";
    names.push_back(group.first.before + number + group.first.after);
    width = std::max(width, names.back().size());
  }
  std::string text;
  for (std::size_t i = 0; i < std::min(groups.size(), kMostLines); ++i) {
    text += "\n  " + names[i] + std::string(width - names[i].size() + 2, ' ') + groups[i].status;
  }
  if (groups.size() > kMostLines)
    text += "\n  and " + std::to_string(groups.size() - kMostLines) + " more";
  return text;
}

}  // namespace accelerate::detail
