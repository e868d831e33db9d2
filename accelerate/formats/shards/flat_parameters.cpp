#include "accelerate/formats/shards/flat_parameters.h"

#include <functional>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "accelerate/base/error.h"

namespace accelerate::detail {
namespace {

constexpr std::string_view kFlat = "_flat_param";

std::int64_t elements_of(const KnownShape& known) {
  return std::accumulate(known.shape.begin(), known.shape.end(), std::int64_t{1},
                         std::multiplies<>());
}

std::int64_t rounded_up(std::int64_t value, std::int64_t step) {
  return (value + step - 1) / step * step;
}

// Returns where parameters begin if each begins at a multiple of `alignment`; nullopt if they are
// not `numel` elements then. PyTorch aligns where modules keep their own parameters
// (use_orig_params), and then fills up to a multiple of the ranks.
std::optional<std::vector<std::int64_t>> places_of(const std::vector<const KnownShape*>& members,
                                                   std::int64_t alignment, std::int64_t ranks,
                                                   std::int64_t numel) {
  std::vector<std::int64_t> places;
  std::int64_t end = 0;
  for (const auto* member : members) {
    places.push_back(rounded_up(end, alignment));
    end = places.back() + elements_of(*member);
  }
  if (alignment > 1) end = rounded_up(end, ranks);
  if (end != numel) return std::nullopt;
  return places;
}

}  // namespace

bool FlatParameters::is_flat(const std::string& name) {
  return name == kFlat || name.ends_with("." + std::string(kFlat));
}

void FlatParameters::add(const std::string& name, std::int64_t numel, const TorchShards& part,
                         std::size_t file) {
  const auto [place, is_first] = flat_.try_emplace(name.substr(0, name.size() - kFlat.size()));
  Flat& flat = place->second;
  if (is_first) flat.numel = numel;
  if (flat.numel != numel)
    throw CheckpointError("'" + name + "' has " + std::to_string(numel) + " elements here and " +
                          std::to_string(flat.numel) +
                          " there: are files of several saves mixed? Copy all files of one save");
  for (const auto& [offsets, tensor] : part.parts) {
    const bool follows = offsets.size() == 1 && tensor.shape.size() == 1 && tensor.contiguous() &&
                         offsets[0] == flat.elements.numel();
    if (!follows || tensor.shape[0] > numel - flat.elements.numel())
      throw CheckpointError("the part of '" + name +
                            "' does not follow that of the rank before: are files of several saves "
                            "mixed? Copy all files of one save");
    if (tensor.shape[0] > 0) flat.elements.add(tensor, file);
  }
}

std::vector<FoundPart> FlatParameters::parts(std::size_t ranks) const {
  std::map<std::string, std::vector<const KnownShape*>> members;
  for (const auto& known : shapes_) {
    // The innermost module that has a flat parameter.
    const std::string* owner = nullptr;
    for (const auto& [module, flat] : flat_)
      if (known.name.starts_with(module) && (owner == nullptr || module.size() > owner->size()))
        owner = &module;
    if (owner != nullptr) members[*owner].push_back(&known);
  }
  std::vector<FoundPart> found;
  for (const auto& [module, flat] : flat_) {
    const auto& own = members[module];
    std::set<std::vector<std::int64_t>> all;
    for (const std::int64_t alignment : {1, 4, 8})  // Of 16 bytes in fp32, and in 16 bits.
      if (auto places = places_of(own, alignment, static_cast<std::int64_t>(ranks), flat.numel))
        all.insert(std::move(*places));
    const std::string name = "'" + module + std::string(kFlat) + "'";
    if (flat.elements.numel() != flat.numel)
      throw CheckpointError(name + " has " + std::to_string(flat.numel) + " elements, and " +
                            std::to_string(flat.elements.numel()) +
                            " are in the files: is a rank's file missing?");
    if (all.size() != 1)
      throw CheckpointError(name + " has " + std::to_string(flat.numel) +
                            " elements, which do not fit the parameters of the model: was another "
                            "model saved, or wrapped in another way?");
    for (std::size_t i = 0; i < own.size(); ++i)
      flat.elements.find({own[i]->name, own[i]->shape, 0, elements_of(*own[i])}, (*all.begin())[i],
                         found);
  }
  return found;
}

}  // namespace accelerate::detail
