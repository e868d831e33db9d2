// Reads lists of files entry by entry. As documents in memory they would take 70 times their size.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <variant>

namespace accelerate::detail {

/// What a list says of one file, before it is checked: the texts and numbers that are needed, by
/// their keys. "lfs.oid" is the key "oid" of the object "lfs", whose own text is "".
struct TreeEntry {
  std::string name = {};  ///< The key of the entry, if the list is an object.
  std::map<std::string, std::variant<std::string, std::uint64_t>, std::less<>> fields = {};

  /// Returns "" if there is no text at `key`.
  [[nodiscard]] std::string text(std::string_view key) const;
  /// Returns null if there is no unsigned number at `key`.
  [[nodiscard]] const std::uint64_t* number(std::string_view key) const;
};

using TakeEntry = std::function<void(TreeEntry&& entry)>;

/// Calls `take` for each entry of a page of the hub: [{"path": …}, …]. Returns what is wrong with
/// the page, as the end of a sentence; "" if nothing is. Lets exceptions of `take` through.
[[nodiscard]] std::string read_tree_page(std::string_view page, const TakeEntry& take);

/// Calls `take` for each entry of a list in the cache: {"format_version": 1, "files": {path: {…}}}.
/// Returns whether the list has this form and this version.
[[nodiscard]] bool read_cached_tree(std::string_view list, const TakeEntry& take);

}  // namespace accelerate::detail
