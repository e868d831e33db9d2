#include "accelerate/launch/config/launched_settings.h"

#include <limits>
#include <string>

#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/base/text.h"

namespace accelerate {

std::optional<MixedPrecision> launched_mixed_precision() {
  const auto word = env(kMixedPrecisionVariable);
  if (!word) return std::nullopt;
  if (const auto precision = parse_enum<MixedPrecision>(*word)) return precision;
  throw ConfigError(std::string(kMixedPrecisionVariable) + " is '" + *word +
                    "'; allowed is one of no, fp16, bf16." +
                    did_you_mean(*word, enum_names<MixedPrecision>()));
}

std::optional<int> launched_accumulation_steps() {
  const auto steps = env_int(kAccumulationVariable);
  if (!steps) return std::nullopt;
  if (*steps >= 1 && *steps <= std::numeric_limits<int>::max()) return static_cast<int>(*steps);
  throw ConfigError(std::string(kAccumulationVariable) + " is " + std::to_string(*steps) +
                    "; allowed is 1 or more");
}

}  // namespace accelerate
