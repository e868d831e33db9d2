// What an operation is called in errors, logs and the flight record.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "accelerate/comm/announced_call.h"
#include "accelerate/formats/flight_record.h"

namespace accelerate::detail {

/// Describes an operation. The text is made only when an error needs it.
struct Sentence {
  Sentence(FlightKind operation) : kind(operation) {}  // NOLINT: reads as its text
  /// text() is e.g. "all_reduce of Float[4]" or "save_state(): all_gather of Long[2]".
  Sentence(FlightKind operation, const at::Tensor& tensor)
      : kind(operation), has_tensor(true), dtype(tensor.scalar_type()), sizes(tensor.sizes()) {}
  /// text() is e.g. "send to rank 3". The tensor is for the flight record.
  Sentence(FlightKind operation, const at::Tensor& tensor, int other)
      : Sentence(operation, tensor) {
    peer = other;
  }

  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::uint64_t bytes() const;

  const char* call = announced_call();
  FlightKind kind;
  int peer = -1;  ///< The rank at the other end of a message; -1 for a collective.
  bool has_tensor = false;
  c10::ScalarType dtype = c10::ScalarType::Byte;
  at::DimVector sizes = {};
};

}  // namespace accelerate::detail
