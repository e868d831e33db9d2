// Datasets by the name of their split.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/transformers/datasets/names.h"

namespace accelerate::detail {

/// Datasets by split, in order: "train", "test", … Datasets are handles and are returned by value,
/// so that a loop over load_dataset(…).only() does not outlive its dataset.
template <typename Dataset>
class Splits {
 public:
  Splits() = default;
  explicit Splits(std::vector<std::pair<std::string, Dataset>> splits)
      : splits_(std::move(splits)) {}

  /// Throws UsageError for an unknown split, and lists the splits that exist.
  [[nodiscard]] Dataset operator[](std::string_view split) const {
    const auto found = find(split);
    if (found == splits_.end()) throw UsageError(no_such("split", split, keys()));
    return found->second;
  }
  [[nodiscard]] bool contains(std::string_view split) const { return find(split) != splits_.end(); }
  /// Changes a split, or appends it.
  void set(std::string_view split, Dataset dataset) {
    const auto found = find(split);
    if (found == splits_.end()) {
      splits_.emplace_back(std::string(split), std::move(dataset));
    } else {
      splits_[static_cast<std::size_t>(found - splits_.begin())].second = std::move(dataset);
    }
  }
  /// Returns the only split. Throws UsageError if there are several splits or none.
  [[nodiscard]] Dataset only() const {
    if (splits_.size() == 1) return splits_.front().second;
    throw UsageError(
        "one split was asked for; there are: " + (splits_.empty() ? "none" : join(keys(), ", ")) +
        ". Name one by [\"…\"], or load one by {.split = \"…\"}");
  }
  [[nodiscard]] std::vector<std::string> keys() const { return names_of(splits_); }

  [[nodiscard]] std::size_t size() const { return splits_.size(); }
  [[nodiscard]] auto begin() const { return splits_.begin(); }
  [[nodiscard]] auto end() const { return splits_.end(); }

 protected:
  std::vector<std::pair<std::string, Dataset>> splits_;

 private:
  [[nodiscard]] auto find(std::string_view split) const {
    return std::ranges::find_if(splits_, [&](const auto& entry) { return entry.first == split; });
  }
};

}  // namespace accelerate::detail
