#include "accelerate/launch/config/launched_settings.h"

#include <limits>
#include <string>

#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/launch/config/deepspeed.h"
#include "accelerate/launch/config/resolved_deepspeed.h"

namespace accelerate {
namespace {

// A file that does not name the key means one micro-batch.
std::optional<int> steps_in_deepspeed_file() {
  constexpr const char* kKey = "gradient_accumulation_steps";
  const auto file = use_deepspeed() ? deepspeed_file_of({}) : std::nullopt;
  if (!file || file->is_auto(kKey)) return std::nullopt;
  return static_cast<int>(file->integer(kKey).value_or(1));
}

}  // namespace

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
  if (!steps) return steps_in_deepspeed_file();
  if (*steps >= 1 && *steps <= std::numeric_limits<int>::max()) return static_cast<int>(*steps);
  throw ConfigError(std::string(kAccumulationVariable) + " is " + std::to_string(*steps) +
                    "; allowed is 1 or more");
}

}  // namespace accelerate
