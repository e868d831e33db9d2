// Where the flat memory of ZeRO has the elements of each parameter.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/formats/shards/deepspeed_values.h"
#include "accelerate/formats/shards/flat_elements.h"

namespace accelerate::detail {

struct DeepSpeedLayout {
  int stage = 1;
  std::size_t ranks = 1;
  std::vector<std::vector<NamedShape>> groups;  ///< Parameters in the order of the memory.
  /// Elements after each parameter, by group; empty if there are none. Not of stage 3.
  std::vector<std::vector<std::int64_t>> paddings = {};

  /// Returns the flat tensor that a rank has of a group; nothing if it has none.
  using FlatOf = std::function<std::optional<DeepSpeedValue>(std::size_t rank, std::size_t group)>;

  /// Returns the parts of all parameters, under the names that `name_of` gives them. Parts in the
  /// tensors of rank r lie in the file `first_file` + r. A parameter of which no rank has anything
  /// has no parts. Stages 1 and 2 cut each group among the ranks, stage 3 cuts each parameter.
  [[nodiscard]] std::vector<FoundPart> parts(
      const FlatOf& flat_of, const std::function<std::string(const std::string&)>& name_of,
      std::size_t first_file) const;
  /// Throws CheckpointError if the ranks' tensors do not have exactly the elements that the
  /// parameters need, except for the padding at the end of a group.
  void check(const FlatOf& flat_of) const;

  /// Returns the elements that each rank has of a parameter in stage 3.
  [[nodiscard]] std::int64_t share_of(const NamedShape& parameter) const;

 private:
  [[nodiscard]] std::int64_t padding(std::size_t group, std::size_t parameter) const;
  [[nodiscard]] std::int64_t needed(std::size_t group) const;
};

}  // namespace accelerate::detail
