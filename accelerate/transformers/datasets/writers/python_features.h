// Describes features as Python `datasets` does.
#pragma once

#include <string>

#include "accelerate/transformers/datasets/features.h"

namespace accelerate::detail {

/// Returns, byte for byte, the JSON that Python `datasets` 5 keeps under the key "huggingface" of
/// an Arrow schema: {"info": {"features": {"text": {"dtype": "string", "_type": "Value"}}}}.
[[nodiscard]] std::string metadata_of(const Features& features);

}  // namespace accelerate::detail
