#include "accelerate/checkpoint/background_save.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <sys/mman.h>
#include <cerrno>
#include <cstring>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include "accelerate/base/bytes.h"
#include "accelerate/base/error.h"
#include "accelerate/base/logger.h"
#include "accelerate/base/process_identity.h"
#include "accelerate/base/signal_guards.h"
#include "accelerate/tensor/weights.h"

namespace accelerate {
namespace {

void log_failure(const std::exception& error) {
  get_logger("accelerate.checkpoint")
      .error("a save in the background failed: " + describe(error), {.main_process_only = false});
}

void complete_on(Communicator& group, const BackgroundSave::Complete& complete) {
  try {
    complete(group);
  } catch (const CommError&) {
    throw_with_context<CheckpointError>(
        "the checkpoint that was being saved was given up: not all ranks took part to the end. "
        "The one before it is whole");
  }
}

}  // namespace

BackgroundSave::~BackgroundSave() {
  try {
    wait();
  } catch (const std::exception& error) {
    log_failure(error);
  }
}

void BackgroundSave::start(Communicator& ranks, Complete complete) {
  const auto& group = group_.beside(ranks);
  auto sigterm = std::make_unique<DeferredSigterm>();
  const BlockedSignals blocked;
  running_ =
      std::async(std::launch::async, [complete = std::move(complete), sigterm = std::move(sigterm),
                                      group, identity = process_identity()]() mutable {
        const ScopedProcessIdentity scope(std::move(identity));
        // Released here in any case: first the lock on the folder, then the signal.
        const auto ends_last = std::move(sigterm);
        const auto work = std::move(complete);
        complete_on(*group, work);
      });
}

void BackgroundSave::wait() {
  if (running_.valid()) running_.get();
}

void BackgroundSave::wait_before(const Communicator& ranks) {
  try {
    wait();
  } catch (const CheckpointError& error) {
    if (group_.is_beside(ranks)) throw;
    log_failure(error);
  }
}

void BackgroundSave::release(const Communicator& ranks) {
  staging_.release();  // A save that is under way holds its memory.
  wait_before(ranks);
}

namespace {

constexpr std::size_t kAlignment = 64;

std::size_t bytes_of(const std::vector<PlannedFile>& planned) {
  std::size_t bytes = 0;
  for (const auto& file : planned)
    for (const auto& item : file.tensors)
      bytes += detail::round_up(item.tensor.nbytes(), kAlignment);
  return bytes;
}

// Each thread takes one long part: a long memcpy bypasses the caches.
void copy_bytes(std::byte* to, std::span<const std::byte> from) {
  constexpr std::int64_t kLeastPart = std::int64_t{8} << 20;
  at::parallel_for(0, static_cast<std::int64_t>(from.size()), kLeastPart,
                   [&](std::int64_t begin, std::int64_t end) {
                     std::memcpy(to + begin, from.data() + begin,
                                 static_cast<std::size_t>(end - begin));
                   });
}

}  // namespace

// Mapped instead of taken from the heap: large pages make the first copy cheaper, and freed memory
// returns to the system.
class Staging::Memory {
 public:
  explicit Memory(std::size_t size_bytes) : size_bytes_(size_bytes) {
    void* data =
        ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED)
      throw CheckpointError(
          "no memory for a copy of " + std::to_string(size_bytes) +
          " bytes to save asynchronously: " + std::generic_category().message(errno) +
          ". Save synchronously, which needs no copy");
    data_ = static_cast<std::byte*>(data);
    ::madvise(data_, size_bytes_, MADV_HUGEPAGE);
  }
  ~Memory() { ::munmap(data_, size_bytes_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t size_bytes() const { return size_bytes_; }

 private:
  std::size_t size_bytes_;
  std::byte* data_ = nullptr;
};

std::size_t Staging::size_bytes() const {
  return memory_ ? memory_->size_bytes() : 0;
}

std::vector<PlannedFile> Staging::copy(std::vector<PlannedFile> planned) {
  const std::size_t bytes = bytes_of(planned);
  if (bytes > size_bytes()) {
    release();  // First, so that both never exist together.
    memory_ = std::make_shared<Memory>(bytes);
  }
  std::size_t offset = 0;
  for (auto& file : planned) {
    for (auto& [name, tensor] : file.tensors) {
      const auto options = at::TensorOptions().dtype(tensor.scalar_type());
      if (tensor.nbytes() == 0) {
        tensor = at::empty(tensor.sizes(), options);
        continue;
      }
      std::byte* const begin = memory_->data() + offset;
      std::byte* end = begin;
      for_each_piece(data_of(file, {name, tensor}), [&](std::span<const std::byte> piece) {
        copy_bytes(end, piece);
        end += piece.size();
      });
      offset += detail::round_up(tensor.nbytes(), kAlignment);
      tensor = at::from_blob(begin, tensor.sizes(), [memory = memory_](void*) {}, options);
    }
  }
  return planned;
}

}  // namespace accelerate
