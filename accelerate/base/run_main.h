// The outermost call of a program: turns an exception into a message, said once, and an exit code.
//
//   int main(int argc, char** argv) {
//     return accelerate::run_main([&] { train(read_options(argc, argv)); });
//   }
#pragma once

#include <functional>
#include <type_traits>

namespace accelerate {

/// What an exception is that ends a program on purpose, such as HelpRequested.
class ProgramEnd {
 public:
  virtual ~ProgramEnd() = default;
  /// With 0, what() goes to standard output, from rank 0 alone.
  [[nodiscard]] virtual int exit_code() const noexcept = 0;
};

namespace detail {
[[nodiscard]] int run_guarded(const std::function<int()>& program) noexcept;
}

/// Calls `program` and returns the exit code of the process: what `program` returns, 0 if it
/// returns nothing, 1 after an exception, 130 after Ctrl-C and 143 after SIGTERM in a Trainer. The
/// message of an exception and its causes go to standard error, once for the ranks of a machine
/// that fail alike. A rank that fails because another one did says nothing where the launcher ends
/// it. If a launcher named a file in TORCHELASTIC_ERROR_FILE, the error is written there. Cost
/// after an exception on several ranks: 0.3 seconds, in which the other ranks see that all is said.
template <typename Program>
[[nodiscard]] int run_main(Program program) {
  if constexpr (std::is_void_v<std::invoke_result_t<Program&>>) {
    return detail::run_guarded([&] {
      program();
      return 0;
    });
  } else {
    static_assert(std::is_convertible_v<std::invoke_result_t<Program&>, int>,
                  "run_main(program): program() returns nothing, or the exit code as an int");
    return detail::run_guarded([&]() -> int { return program(); });
  }
}

}  // namespace accelerate
