#include <algorithm>
#include <string>

#include "accelerate/base/error.h"
#include "accelerate/formats/safetensors/safetensors_header.h"
#include "accelerate/formats/torch_archive/pickle_machine.h"

namespace accelerate::detail {

std::string_view allowed_global(std::string_view module, std::string_view name,
                                std::span<const std::string_view> allowed) {
  const std::string full = std::string(module) + "." + std::string(name);
  const bool script = module == kScriptClasses || module.starts_with("__torch__.");
  const std::string_view wanted = script ? kScriptClasses : std::string_view(full);
  const auto place = std::ranges::lower_bound(allowed, wanted);
  if (place != allowed.end() && *place == wanted) return *place;
  throw CheckpointError(
      "its pickle asks for " + printable(full) +
      ", which is not a tensor, number, text or container of Python; such an object is never made, "
      "because making it can run any program. In Python save the tensors alone "
      "(model.state_dict()), or as safetensors");
}

}  // namespace accelerate::detail
