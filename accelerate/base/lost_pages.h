// What happens when a file that is mapped here is cut short by another program.
#pragma once

#include <cstddef>
#include <filesystem>

namespace accelerate {
namespace detail {
struct GuardedRange;
}

/// While this lives, a page of the mapping at `begin` whose part of the file is gone, or cannot be
/// read from disk, becomes zeros where it is touched, instead of ending the process by SIGBUS.
/// Whoever uses the memory asks check_for_lost_pages() before it gives away what it made of it. Has
/// a handler of SIGBUS, installed once, which leaves every other SIGBUS to the handler before it;
/// a handler that is installed later has to do the same. Thread-safe.
class PageGuard {
 public:
  /// `begin`: of a private mapping that may be written, of `size_bytes`, of the file `path` that is
  /// open as `descriptor`, of which a copy is kept.
  PageGuard(const void* begin, std::size_t size_bytes, int descriptor,
            const std::filesystem::path& path);
  ~PageGuard();
  PageGuard(const PageGuard&) = delete;
  PageGuard& operator=(const PageGuard&) = delete;

 private:
  detail::GuardedRange* range_;
};

/// Throws FileError, with the file, while there is a mapping that has lost a page, or whose file is
/// shorter than it: of a page that is cut within, the system gives zeros without a signal. Cost: a
/// system call a mapping.
void check_for_lost_pages();

}  // namespace accelerate
