#include "accelerate/base/heap.h"

#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <unordered_map>
#include <vector>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace accelerate {

bool keep_freed_memory() {
#ifdef __GLIBC__
  constexpr std::array kOfTheUser = {"MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_",
                                     "MALLOC_TOP_PAD_", "MALLOC_MMAP_MAX_", "GLIBC_TUNABLES"};
  if (std::ranges::any_of(kOfTheUser, [](const char* name) { return std::getenv(name); })) {
    return false;
  }
  constexpr int kMiB = 1 << 20;
  // glibc keeps small freed blocks in lists, unmerged, and they separate the large free blocks
  // around them. Without these lists fine-tuning MiniLM keeps some 20 MiB less.
  mallopt(M_MXFAST, 0);
  // Set both or neither: setting one ends glibc's automatic adjustment of both, which is better
  // than setting only one. 32 MiB is the most that glibc accepts.
  return mallopt(M_MMAP_THRESHOLD, 32 * kMiB) == 1 && mallopt(M_TRIM_THRESHOLD, 512 * kMiB) == 1;
#else
  return false;
#endif
}

namespace large_blocks {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kMostKept = std::size_t{512} << 20;

struct Block {
  void* address = nullptr;
  std::size_t bytes = 0;
};

struct Blocks {
  std::mutex mutex;
  std::unordered_map<const void*, std::size_t> taken;
  std::vector<Block> kept;  // The oldest first.
  std::size_t kept_bytes = 0, times_mapped = 0;
};

// Never destroyed: tensors may be freed while the process ends. A process that forks does so while
// no other thread changes the blocks, so the child can use them.
Blocks& all() {
  static auto* const blocks = [] {
    auto* const made = new Blocks;
    pthread_atfork([] { all().mutex.lock(); }, [] { all().mutex.unlock(); },
                   [] { all().mutex.unlock(); });
    return made;
  }();
  return *blocks;
}

std::size_t in_huge_pages(std::size_t bytes) {
  return (bytes + kHugePage - 1) / kHugePage * kHugePage;
}

// Maps a little more, and unmaps what lies before and behind the first huge page's multiple.
void* map(std::size_t bytes) {
  auto* const mapped = static_cast<std::byte*>(
      mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (mapped == MAP_FAILED) return nullptr;
  const std::size_t before = -reinterpret_cast<std::uintptr_t>(mapped) % kHugePage;
  if (before > 0) munmap(mapped, before);
  munmap(mapped + before + bytes, kHugePage - before);
  madvise(mapped + before, bytes, MADV_HUGEPAGE);
  return mapped + before;
}

void unmap_oldest(Blocks& blocks) {
  const Block oldest = blocks.kept.front();
  blocks.kept.erase(blocks.kept.begin());
  blocks.kept_bytes -= oldest.bytes;
  munmap(oldest.address, oldest.bytes);
}

// Takes the smallest kept block that is large enough, and of which less than a quarter is idle.
Block kept_block(Blocks& blocks, std::size_t bytes) {
  auto best = blocks.kept.end();
  for (auto block = blocks.kept.begin(); block != blocks.kept.end(); ++block) {
    const bool fits = block->bytes >= bytes && block->bytes - bytes < block->bytes / 4;
    if (fits && (best == blocks.kept.end() || block->bytes < best->bytes)) best = block;
  }
  if (best == blocks.kept.end()) return {};
  const Block found = *best;
  blocks.kept.erase(best);
  blocks.kept_bytes -= found.bytes;
  return found;
}

}  // namespace

void* take(std::size_t bytes) {
  bytes = in_huge_pages(bytes);
  Blocks& blocks = all();
  const std::lock_guard lock(blocks.mutex);
  Block block = kept_block(blocks, bytes);
  if (block.address == nullptr) {
    block = {map(bytes), bytes};
    if (block.address == nullptr) {
      while (!blocks.kept.empty()) unmap_oldest(blocks);
      block.address = map(bytes);
    }
    if (block.address == nullptr) return nullptr;
    ++blocks.times_mapped;
  }
  blocks.taken.emplace(block.address, block.bytes);
  return block.address;
}

bool owns(const void* block) {
  if (reinterpret_cast<std::uintptr_t>(block) % kHugePage != 0) return false;
  Blocks& blocks = all();
  const std::lock_guard lock(blocks.mutex);
  return blocks.taken.contains(block);
}

void give_back(void* block) {
  Blocks& blocks = all();
  const std::lock_guard lock(blocks.mutex);
  const auto taken = blocks.taken.find(block);
  const std::size_t bytes = taken->second;
  blocks.taken.erase(taken);
  madvise(block, bytes, MADV_FREE);
  blocks.kept.push_back({block, bytes});
  blocks.kept_bytes += bytes;
  while (blocks.kept_bytes > kMostKept) unmap_oldest(blocks);
}

std::size_t times_mapped() {
  const std::lock_guard lock(all().mutex);
  return all().times_mapped;
}

}  // namespace large_blocks

void return_freed_memory() {
  large_blocks::Blocks& blocks = large_blocks::all();
  {
    const std::lock_guard lock(blocks.mutex);
    while (!blocks.kept.empty()) large_blocks::unmap_oldest(blocks);
  }
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace accelerate
