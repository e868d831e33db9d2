// A second group of the ranks of a first one, for collectives that must not meet that one's.
#pragma once

#include <memory>

#include "accelerate/comm/communicator.h"

namespace accelerate::detail {

/// Splits all ranks off from `communicator`. [collective]
[[nodiscard]] std::shared_ptr<Communicator> split_everyone(Communicator& communicator);

/// Not thread-safe; the groups that it gives are each for one thread.
class SecondGroup {
 public:
  /// The second group beside `first`, the same in each call. Groups that were split off end with
  /// the one that they come from, so after `first` was renewed there is another. [collective over
  /// `first` when it is new]
  const std::shared_ptr<Communicator>& beside(Communicator& first);

  /// Whether there is one that no renewal of `first` has ended. Local.
  [[nodiscard]] bool is_beside(const Communicator& first) const;

  /// The one given last; null when there was none.
  [[nodiscard]] const std::shared_ptr<Communicator>& last() const { return group_; }

 private:
  std::shared_ptr<Communicator> group_;
  int renewals_ = 0;  // Of the first group, when this one was split off.
};

}  // namespace accelerate::detail
