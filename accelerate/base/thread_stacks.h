// The stacks of all threads of this process, for a report of why nothing goes on.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace accelerate {

struct ThreadStack {
  pid_t thread = 0;                 ///< The system's number of the thread.
  std::string name;                 ///< As `top -H` shows it.
  std::vector<std::string> frames;  ///< Innermost first: "function (library)".
  std::string why_not;              ///< Why there are no frames; empty if there are.
};

/// Returns the stacks of all threads but the calling one. Interrupts each thread once with
/// SIGURG, so a sleep or a poll of the program may return early with EINTR. A thread that
/// blocks the signal, or does not answer within a quarter of a second, has no frames. Where the
/// program handles the signal itself, no thread has. Names come from the symbol tables of the
/// program and its libraries, also of functions that are not exported; a stripped file gives
/// addresses. Calls from several threads take turns. Cost: milliseconds; the first call reads the
/// symbol tables, in large libraries for up to a second.
[[nodiscard]] std::vector<ThreadStack> stacks_of_threads();

/// Returns the stacks as text. Threads with equal stacks stand together.
[[nodiscard]] std::string to_text(const std::vector<ThreadStack>& stacks);

}  // namespace accelerate
