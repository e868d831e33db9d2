// An interface of communicators that are made of several communicators. Functions that need a c10d
// group reach the parts through it.
#pragma once

#include "accelerate/comm/communicator.h"

namespace accelerate::detail {

class Composite {
 public:
  virtual ~Composite() = default;
  /// Calls renew() on every part, in the same order on all ranks.
  virtual void renew_parts() = 0;
  /// Calls outlive() for the parts of this communicator and `part`, or the parts of `part`.
  virtual void let_parts_go(const Communicator& part) = 0;
  /// The part that contains all ranks.
  [[nodiscard]] virtual const Communicator& of_all() const = 0;
};

}  // namespace accelerate::detail
