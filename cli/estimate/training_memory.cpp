#include "cli/estimate/training_memory.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "accelerate/base/text.h"

namespace accelerate::cli {
namespace {

// Named by the letters of docs/costs.md.
struct Costs {
  double N, U, R, P, m, c, r;
  [[nodiscard]] bool is_mixed() const { return c < m; }
};

double replicated(const Costs& k) {
  return 4 * k.N * k.m + (k.is_mixed() ? k.N * k.c : 0);
}

double shards(const Costs& k) {
  return 4 * k.N / k.P * k.m + 2 * k.U * k.r;
}

double full_shard(const Costs& k) {
  return shards(k) + (k.is_mixed() ? k.N / k.P * k.c : 0) + (k.R + 3 * k.U) * k.c;
}

double shared_pages(const Costs& k) {
  const double parameters = k.N * k.c + (k.is_mixed() ? k.N * k.m : 0);
  return (parameters + k.N * k.m + k.P * 2 * k.U * k.r + 2 * k.N * k.m) / k.P;
}

// Units under way, and the pieces in which an optimizer steps.
double on_disk(const Costs& k) {
  constexpr double kPieces = 12.0 * 8 * 1024 * 1024;
  return (k.R + 3 * k.U) * k.c + 3 * k.U * k.r + kPieces;
}

Costs costs_of(const ModelSizes& sizes, int processes, MixedPrecision precision) {
  constexpr double kMaster = 4;
  const double compute = precision == MixedPrecision::no ? kMaster : 2;
  return {.N = static_cast<double>(sizes.parameters),
          .U = static_cast<double>(sizes.largest_unit),
          .R = static_cast<double>(sizes.root),
          .P = static_cast<double>(processes),
          .m = kMaster,
          .c = compute,
          .r = compute};
}

}  // namespace

double disk_bytes(const ModelSizes& sizes, MixedPrecision precision) {
  const Costs k = costs_of(sizes, 1, precision);
  return k.N * (4 * k.m + (k.is_mixed() ? k.c : 0));
}

double training_bytes(const ModelSizes& sizes, Division division, int processes,
                      MixedPrecision precision) {
  const Costs k = costs_of(sizes, processes, precision);
  switch (division) {
    case Division::replicated:
      return replicated(k);
    case Division::full_shard:
      return full_shard(k);
    case Division::shard_grad_op:
      return shards(k) + k.N * k.c;
    case Division::shared_pages:
      return shared_pages(k);
    case Division::on_disk:
      return on_disk(k);
  }
  return 0;
}

std::uint64_t upstream_training_bytes(std::uint64_t bytes, const std::string& dtype) {
  if (dtype == "float32") return 4 * bytes;
  return dtype == "float16" ? 2 * bytes : 0;
}

namespace {

bool is_number(std::string_view part) {
  return !part.empty() &&
         std::ranges::all_of(part, [](unsigned char c) { return std::isdigit(c) != 0; });
}

// Returns "encoder.layer.0" for "encoder.layer.0.output.dense.weight"; "" if nothing is numbered.
std::string numbered_part(std::string_view name) {
  std::size_t begin = 0;
  for (std::size_t dot = name.find('.'); dot != std::string_view::npos;
       begin = dot + 1, dot = name.find('.', begin))
    if (is_number(name.substr(begin, dot - begin))) return std::string(name.substr(0, dot));
  return "";
}

// Returns the module that has the tensor itself.
std::string owner_of(const std::string& name) {
  const auto dot = name.rfind('.');
  return dot == std::string::npos ? name : name.substr(0, dot);
}

// Whether the tensor is the weight of a norm, by the names that models have for it.
bool is_of_norm(const std::string& name) {
  const std::string owner = lower(owner_of(name));
  const auto module = owner.substr(owner.rfind('.') + 1);
  return name.ends_with(".weight") &&
         (module.find("norm") != std::string::npos || module.starts_with("ln_"));
}

std::string layer_of(const ModelTensors& model, const std::string& name) {
  if (!model.undivided) {
    const std::string numbered = numbered_part(name);
    return numbered.empty() ? owner_of(name) : numbered;
  }
  for (const std::string& module : *model.undivided)
    if (name.starts_with(module + ".")) return module;
  return owner_of(name);
}

}  // namespace

ModelSizes sizes_of(const ModelTensors& model) {
  ModelSizes sizes;
  std::map<std::string, std::uint64_t> layers, units;
  for (const ModelTensor& tensor : model.tensors) {
    sizes.bytes += tensor.bytes;
    layers[layer_of(model, tensor.name)] += tensor.bytes;
    if (!tensor.is_parameter) continue;
    sizes.parameters += tensor.elements;
    units[numbered_part(tensor.name)] += tensor.elements;
  }
  for (const auto& [layer, bytes] : layers) {
    if (bytes <= sizes.largest_layer_bytes) continue;
    sizes.largest_layer = layer;
    sizes.largest_layer_bytes = bytes;
  }
  std::set<std::string> layers_with_norms;
  for (const ModelTensor& tensor : model.tensors) {
    const std::string unit = numbered_part(tensor.name);
    if (unit.empty() || !is_of_norm(tensor.name)) continue;
    layers_with_norms.insert(unit);
    sizes.width = std::max(sizes.width, tensor.elements);
  }
  sizes.layers = layers_with_norms.size();
  for (const auto& [unit, elements] : units)
    (unit.empty() ? sizes.root : sizes.largest_unit) =
        unit.empty() ? elements : std::max(sizes.largest_unit, elements);
  return sizes;
}

}  // namespace accelerate::cli
