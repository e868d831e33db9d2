// The loaders that each thread iterates, whichever GradientState they tell of their progress. In
// Python all Accelerators of a process have one such state.
#pragma once

namespace accelerate {

struct LoaderProgress;

namespace detail {

/// Makes `progress` the innermost loader of this thread until it is left, on any thread.
void enter_loader(const LoaderProgress* progress);
void leave_loader(const LoaderProgress* progress) noexcept;

/// Returns the innermost loader of this thread; null outside any loader.
[[nodiscard]] const LoaderProgress* loader_of_thread();

}  // namespace detail
}  // namespace accelerate
