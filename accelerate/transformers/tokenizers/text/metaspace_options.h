// The options that Metaspace has as a pre-tokenizer and as a decoder.
#pragma once

#include <string>

#include "accelerate/transformers/tokenizers/json_view.h"
#include "accelerate/transformers/tokenizers/unicode/code_points.h"

namespace accelerate::detail {

enum class PrependScheme { always, first, never };

struct MetaspaceOptions {
  std::string replacement;
  PrependScheme prepend = PrependScheme::always;
  bool splits = true;
};

[[nodiscard]] inline MetaspaceOptions read_metaspace_options(const JsonView& json) {
  MetaspaceOptions options{.replacement = std::string(json.text("replacement", "▁")),
                           .splits = json.boolean("split", true)};
  if (count_code_points(options.replacement) != 1) {
    json.refuse("has the replacement '" + options.replacement + "'; allowed is one character");
  }
  const std::string_view scheme = json.text("prepend_scheme", "always");
  if (scheme == "first") {
    options.prepend = PrependScheme::first;
  } else if (scheme == "never" || !json.boolean("add_prefix_space", true)) {
    options.prepend = PrependScheme::never;
  } else if (scheme != "always") {
    json.refuse("has the prepend_scheme '" + std::string(scheme) +
                "'; allowed are always, first, never");
  }
  return options;
}

}  // namespace accelerate::detail
