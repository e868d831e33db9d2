// What happens when a file that is mapped here is cut short by another program.
#pragma once

#include <cstddef>
#include <filesystem>

namespace accelerate {
namespace detail {
struct GuardedRange;
}

/// Protects the mapping at `begin` while this lives. A page whose part of the file is gone, or
/// cannot be read from disk, becomes zeros when it is touched. Otherwise the process would end by
/// SIGBUS. Whoever uses the memory calls check_for_lost_pages() before it passes on what it made of
/// it. Installs a handler of SIGBUS once, which leaves every other SIGBUS to the handler before it;
/// a handler that is installed later has to do the same. Thread-safe.
class PageGuard {
 public:
  /// `begin`: a private, writable mapping of `size_bytes` of the file `path`. The file is open as
  /// `descriptor`, which is duplicated.
  PageGuard(const void* begin, std::size_t size_bytes, int descriptor,
            const std::filesystem::path& path);
  ~PageGuard();
  PageGuard(const PageGuard&) = delete;
  PageGuard& operator=(const PageGuard&) = delete;

 private:
  detail::GuardedRange* range_;
};

/// Throws FileError, with the file, while any guarded mapping has lost a page or is longer than its
/// file. Lengths are compared because a page that the file ends within reads as zeros without a
/// signal. Cost: one system call a mapping.
void check_for_lost_pages();

}  // namespace accelerate
