#include "cli/commands/shared_options.h"

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"

namespace accelerate::cli {

MixedPrecision offered_precision(const std::string& text) {
  const auto precision = parse_enum<MixedPrecision>(text);
  if (precision && *precision != MixedPrecision::fp8) return *precision;
  throw ConfigError("--mixed_precision is '" + text + "'; allowed is one of no, fp16, bf16." +
                    did_you_mean(text, {"no", "fp16", "bf16"}));
}

}  // namespace accelerate::cli
