#include "accelerate/optim/schedules/per_group.h"

#include <string>

#include "accelerate/base/error.h"

namespace accelerate {

std::vector<double> PerGroup::expand(std::size_t groups, std::string_view option) const {
  if (same_) return std::vector<double>(groups, values_.front());
  if (values_.size() == groups) return values_;
  throw ConfigError(std::string(option) + " has " + std::to_string(values_.size()) +
                    " values for an optimizer with " + std::to_string(groups) +
                    " parameter groups: give one number, or one for each group");
}

}  // namespace accelerate
