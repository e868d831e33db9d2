#include "cli/estimate/model_sizes.h"

#include <algorithm>
#include <cctype>
#include <map>

namespace accelerate::cli {
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
  for (const auto& [unit, elements] : units)
    (unit.empty() ? sizes.root : sizes.largest_unit) =
        unit.empty() ? elements : std::max(sizes.largest_unit, elements);
  return sizes;
}

}  // namespace accelerate::cli
