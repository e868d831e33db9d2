#include "accelerate/base/lost_pages.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <mutex>

#include "accelerate/base/descriptor.h"
#include "accelerate/base/file_error.h"

namespace accelerate {

// A guarded mapping, or a free place for one. Never freed, since the handler may read it at any
// time.
struct detail::GuardedRange {
  std::atomic<std::uintptr_t> begin = 0, end = 0;
  std::atomic<bool> lost = false;
  bool taken = false;
  Descriptor file;
  std::filesystem::path path;
  GuardedRange* next = nullptr;
};

namespace {

using GuardedPages = detail::GuardedRange;

std::mutex range_mutex;  // Guards all members but the atomics.
std::atomic<GuardedPages*> guarded_pages = nullptr;
std::uintptr_t page_bytes = 0;
struct sigaction handler_before;

bool replace_page(std::uintptr_t address) {
  for (GuardedPages* range = guarded_pages; range != nullptr; range = range->next) {
    if (address < range->begin || address >= range->end) continue;
    range->lost = true;
    void* page = reinterpret_cast<void*>(address / page_bytes * page_bytes);
    return ::mmap(page, page_bytes, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS,
                  -1, 0) == page;
  }
  return false;
}

// Runs in a signal handler, so it uses only atomics and system calls.
void on_bus_error(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  // A page that the hardware has lost (BUS_MCEERR_AR) is not replaced.
  const bool beyond_file = info->si_code == BUS_ADRERR;
  if (beyond_file && replace_page(reinterpret_cast<std::uintptr_t>(info->si_addr))) {
    errno = error;
    return;
  }
  if ((handler_before.sa_flags & SA_SIGINFO) != 0) {
    handler_before.sa_sigaction(signal, info, context);
  } else if (handler_before.sa_handler != SIG_DFL && handler_before.sa_handler != SIG_IGN) {
    handler_before.sa_handler(signal);
  } else {
    // On return the access is repeated and ends the process.
    ::signal(SIGBUS, SIG_DFL);
    if (info->si_code <= 0) ::raise(SIGBUS);  // Sent by a process: no access will be repeated.
  }
}

// Whether the file ends before its mapping.
bool is_shorter(const GuardedPages& range) {
  struct stat status{};
  return ::fstat(range.file.get(), &status) == 0 &&
         static_cast<std::uintptr_t>(status.st_size) < range.end - range.begin;
}

void install_handler() {
  page_bytes = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  struct sigaction ours{};
  ours.sa_sigaction = on_bus_error;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
  ::sigemptyset(&ours.sa_mask);
  ::sigaction(SIGBUS, &ours, &handler_before);
}

// Returns a free range, else a new one. The caller holds the mutex.
GuardedPages* free_range() {
  for (GuardedPages* range = guarded_pages; range != nullptr; range = range->next)
    if (!range->taken) return range;
  auto* made = new GuardedPages;
  made->next = guarded_pages;
  guarded_pages = made;
  return made;
}

}  // namespace

PageGuard::PageGuard(const void* begin, std::size_t size_bytes, int descriptor,
                     const std::filesystem::path& path) {
  static std::once_flag once;
  std::call_once(once, install_handler);
  const std::lock_guard lock(range_mutex);
  range_ = free_range();
  range_->taken = true;
  range_->file = Descriptor(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
  range_->path = path;
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  range_->begin = address;
  range_->end = address + size_bytes;
}

PageGuard::~PageGuard() {
  const std::lock_guard lock(range_mutex);
  range_->end = 0;
  range_->begin = 0;
  range_->lost = false;
  range_->file = Descriptor();
  range_->taken = false;
}

void check_for_lost_pages() {
  if (guarded_pages == nullptr) return;
  const std::lock_guard lock(range_mutex);
  for (GuardedPages* range = guarded_pages; range != nullptr; range = range->next) {
    if (!range->taken || (!range->lost && !is_shorter(*range))) continue;
    throw FileError("read", range->path,
                    "it was cut short, or its disk failed, while it was mapped. Everything read "
                    "from it since is invalid: restore the file and open it again. To replace a "
                    "file that is in use, rename another over it");
  }
}

}  // namespace accelerate
