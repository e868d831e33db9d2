// Order and choice among ranks: run this first there, run that only there.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "accelerate/comm/communicator.h"

namespace accelerate {

/// While alive, `first` ranks run the scope before the others: those wait at its start for the
/// first to reach its end. [collective] Left by an exception, it does not wait.
class [[nodiscard]] ProcessFirst {
 public:
  ProcessFirst(std::shared_ptr<Communicator> communicator, bool first)
      : communicator_(std::move(communicator)), first_(first) {
    if (!first_) communicator_->barrier();
  }
  ~ProcessFirst() noexcept(false) {
    if (first_ && std::uncaught_exceptions() == exceptions_) communicator_->barrier();
  }
  ProcessFirst(const ProcessFirst&) = delete;
  ProcessFirst& operator=(const ProcessFirst&) = delete;

 private:
  std::shared_ptr<Communicator> communicator_;
  bool first_;
  int exceptions_ = std::uncaught_exceptions();
};

namespace detail {
/// `fn` where `here`, nothing elsewhere: a callable that returns optional<R>, or void for void.
template <typename Fn>
auto only_if(bool here, Fn fn) {
  return [here, fn = std::move(fn)](auto&&... args) mutable {
    using Result = std::invoke_result_t<Fn&, decltype(args)...>;
    if constexpr (std::is_void_v<Result>) {
      if (here) fn(std::forward<decltype(args)>(args)...);
    } else {
      return here ? std::optional<Result>(fn(std::forward<decltype(args)>(args)...)) : std::nullopt;
    }
  };
}
}  // namespace detail
}  // namespace accelerate
