// Archives of torch.save that hold one value and no tensors.
#pragma once

#include <string>

namespace accelerate {

/// Returns the bytes of such an archive. `operations` push the value; see pickle_writer.h.
[[nodiscard]] std::string value_archive(const std::string& operations);

}  // namespace accelerate
