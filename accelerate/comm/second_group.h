// A second group of the same ranks, for collectives that must not mix with the first group's.
#pragma once

#include <memory>

#include "accelerate/comm/communicator.h"

namespace accelerate::detail {

/// Splits off a group of all ranks of `communicator`. [collective]
[[nodiscard]] std::shared_ptr<Communicator> split_everyone(Communicator& communicator);

/// Keeps a second group beside a first one. Not thread-safe; each group is for one thread.
class SecondGroup {
 public:
  /// Returns the second group beside `first`, the same in each call. It is aborted together with
  /// `first`, so after a renewal of `first` a new second group is split off. [collective over
  /// `first` when the second group is new]
  const std::shared_ptr<Communicator>& beside(Communicator& first);

  /// Whether there is a second group that no renewal of `first` has ended. Local.
  [[nodiscard]] bool is_beside(const Communicator& first) const;

  /// The group that beside() returned last; null before the first call.
  [[nodiscard]] const std::shared_ptr<Communicator>& last() const { return group_; }

 private:
  std::shared_ptr<Communicator> group_;
  int renewals_ = 0;  // The renewals of the first group when group_ was split off.
};

}  // namespace accelerate::detail
