// Messages about names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace accelerate::detail {

/// Returns a message: "there is no column 'txt'; there are: text, label. Did you mean 'text'?"
[[nodiscard]] std::string no_such(std::string_view kind, std::string_view name,
                                  const std::vector<std::string>& names);

/// Returns a sentence for a file of one column whose name looks like several: which delimiter to
/// give. Returns "" otherwise.
[[nodiscard]] std::string delimiter_hint(const std::vector<std::string>& columns);

/// Returns the first member of each pair, e.g. the names of columns.
template <typename Pairs>
[[nodiscard]] std::vector<std::string> names_of(const Pairs& pairs) {
  std::vector<std::string> names;
  for (const auto& [name, value] : pairs) names.emplace_back(name);
  return names;
}

}  // namespace accelerate::detail
