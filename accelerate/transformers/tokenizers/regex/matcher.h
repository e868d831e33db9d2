// The interface of what finds the matches of a regular expression.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace accelerate::detail {

/// Bytes from `begin` up to `end`.
struct Match {
  std::size_t begin, end;
  bool operator==(const Match&) const = default;
};

/// Finds the matches of one pattern.
class Matcher {
 public:
  virtual ~Matcher() = default;
  virtual void find_all(std::string_view text, std::vector<Match>& matches) const = 0;
};

}  // namespace accelerate::detail
