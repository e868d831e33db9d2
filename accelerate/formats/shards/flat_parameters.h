// Parameters that FSDP 1 has laid one after the other into a flat parameter of each wrapped module.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "accelerate/formats/shards/flat_elements.h"

namespace accelerate::detail {

/// A parameter of the model, as the program that loads it knows it.
struct KnownShape {
  std::string name;
  std::vector<std::int64_t> shape;
};

class FlatParameters {
 public:
  /// `shapes`: of all parameters, in the order of their registration, tied ones once.
  explicit FlatParameters(std::vector<KnownShape> shapes) : shapes_(std::move(shapes)) {}

  /// Whether a value of that name is a flat parameter.
  [[nodiscard]] static bool is_flat(const std::string& name);

  /// Adds what the next rank has of the flat parameter `name`, which has `numel` elements on all
  /// ranks together. Throws CheckpointError if that does not follow what the ranks before had.
  void add(const std::string& name, std::int64_t numel, const TorchShards& part, std::size_t file);

  /// Returns the parts of all parameters. `ranks`: how many have added theirs. Throws
  /// CheckpointError if a flat parameter has other elements than the model's parameters.
  [[nodiscard]] std::vector<FoundPart> parts(std::size_t ranks) const;

 private:
  struct Flat {
    std::int64_t numel = 0;
    FlatElements elements;
  };

  std::vector<KnownShape> shapes_;
  std::map<std::string, Flat> flat_;  // By the name of the module, with a dot at its end.
};

}  // namespace accelerate::detail
