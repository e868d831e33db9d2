// What a communicator made of others answers when one is asked for what only its parts have.
#pragma once

#include "accelerate/comm/communicator.h"

namespace accelerate::detail {

class Composite {
 public:
  virtual ~Composite() = default;
  /// renew() of every part, in the same order on all ranks.
  virtual void renew_parts() = 0;
  /// outlive() between this one's parts and `part`, or the parts of that.
  virtual void let_parts_go(const Communicator& part) = 0;
  /// The part that all ranks share.
  [[nodiscard]] virtual const Communicator& of_all() const = 0;
};

}  // namespace accelerate::detail
