#include "accelerate/comm/sentence.h"

#include <c10/util/accumulate.h>

#include <sstream>

namespace accelerate::detail {

std::string Sentence::text() const {
  std::string text = call != nullptr ? std::string(call) + ": " : "";
  text += kind == FlightKind::meeting ? "meeting the other ranks" : to_string(kind);
  if (peer >= 0) {
    return text + (kind == FlightKind::receive ? " from rank " : " to rank ") +
           std::to_string(peer);
  }
  if (!has_tensor) return text;
  std::ostringstream with_tensor;
  with_tensor << text << " of " << c10::toString(dtype) << at::IntArrayRef(sizes);
  return with_tensor.str();
}

std::uint64_t Sentence::bytes() const {
  return has_tensor ? c10::multiply_integers(sizes) * c10::elementSize(dtype) : 0;
}

}  // namespace accelerate::detail
