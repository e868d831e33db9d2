#include "accelerate/datasets/names.h"

#include "accelerate/base/text.h"

namespace accelerate::detail {

std::string no_such(std::string_view kind, std::string_view name,
                    const std::vector<std::string>& names) {
  return "there is no " + std::string(kind) + " '" + std::string(name) +
         "'; there are: " + (names.empty() ? "none" : join(names, ", ")) + "." +
         did_you_mean(name, names);
}

}  // namespace accelerate::detail
