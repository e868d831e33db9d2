// Features as Python `datasets` writes them.
#pragma once

#include <string>

#include "accelerate/datasets/features.h"

namespace accelerate::detail {

/// Returns the JSON that Python `datasets` 5 keeps under the key "huggingface" of an Arrow schema,
/// to the byte: {"info": {"features": {"text": {"dtype": "string", "_type": "Value"}}}}.
[[nodiscard]] std::string metadata_of(const Features& features);

}  // namespace accelerate::detail
