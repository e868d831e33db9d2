// Order and choice among ranks: which rank runs a scope first, which rank runs it at all.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "accelerate/comm/communicator.h"

namespace accelerate {

/// While alive, ranks with `first` run the scope before the others, which wait at its start until
/// the first have reached its end. [collective] If an exception ends the scope, it does not wait.
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
/// Returns a callable that calls `fn` if `here`, else does nothing. It returns optional<R>, or void
/// if `fn` does.
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
