#include "accelerate/accelerator/batch_size/batch_size_finder.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/logger.h"
#include "accelerate/base/text.h"
#include "accelerate/comm/operations.h"
#include "accelerate/comm/second_group.h"
#include "accelerate/watch/profiler/memory_meter.h"

namespace accelerate {
namespace {

// Texts that mean that memory ran out. The first five are the texts of the original, so that the
// same errors are retried here. The last is for memory shared between ranks.
constexpr std::array<std::string_view, 6> kOutOfMemoryTexts = {
    " out of memory.",
    "MPS backend out of memory",
    "cuDNN error: CUDNN_STATUS_NOT_SUPPORTED.",
    "DefaultCPUAllocator: can't allocate memory",
    "FATAL ERROR :: MODULE:PT_DEVMEM Allocation failed",
    "of shared memory: "};

// Whether `holds` is true of `error` or of an error nested in it.
template <typename Predicate>
bool any_of_chain(const std::exception& error, const Predicate& holds) {
  if (holds(error)) return true;
  try {
    std::rethrow_if_nested(error);
  } catch (const std::exception& inner) {
    return any_of_chain(inner, holds);
  } catch (...) {
  }
  return false;
}

bool says_out_of_memory(const std::exception& error) {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr) return true;
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return true;
  const std::string_view text = error.what();
  return std::ranges::any_of(kOutOfMemoryTexts, [text](std::string_view part) {
    return text.find(part) != std::string_view::npos;
  });
}

bool is_comm_error(const std::exception& error) {
  return dynamic_cast<const CommError*>(&error) != nullptr;
}

}  // namespace

bool should_reduce_batch_size(const std::exception& error) {
  return any_of_chain(error, says_out_of_memory);
}

namespace detail {

// How an attempt ended on a rank. The greatest value among the ranks decides.
enum Ending : std::int64_t { kFits, kBrokenOff, kOutOfMemory, kFailed };

namespace {

Ending ending_of(const std::exception& error) {
  if (should_reduce_batch_size(error)) return kOutOfMemory;
  return any_of_chain(error, is_comm_error) ? kBrokenOff : kFailed;
}

// Makes a second group of the same ranks, in which they meet after the first has been aborted.
std::shared_ptr<Communicator> meeting_of(Communicator& group) {
  auto meeting = split_everyone(group);
  meeting->detach();
  return meeting;
}

}  // namespace

struct BatchSizeSearch::Outcome {
  Ending ending = kFits;
  std::exception_ptr error;
  std::string text;
};

BatchSizeSearch::BatchSizeSearch(Communicator& communicator, BatchSizeOptions options)
    : communicator_(&communicator), options_(std::move(options)) {
  start();
}

BatchSizeSearch::BatchSizeSearch(BatchSizeOptions options)
    : alone_(single_communicator()), communicator_(alone_.get()), options_(std::move(options)) {
  start();
}

void BatchSizeSearch::start() {
  batch_size_ = options_.starting_batch_size;
  const auto refuse = [](const char* name, std::int64_t value, const std::string& allowed) {
    throw UsageError("find_executable_batch_size: " + std::string(name) + " is " +
                     std::to_string(value) + "; a number " + allowed + " is allowed");
  };
  if (batch_size_ < 1) refuse("starting_batch_size", batch_size_, "of samples from 1 up");
  if (options_.max_batch_size < batch_size_) {
    refuse("max_batch_size", options_.max_batch_size,
           "from starting_batch_size, " + std::to_string(batch_size_) + ", up");
  }
  if (options_.upward_trials < 0) refuse("upward_trials", options_.upward_trials, "from 0 up");
}

BatchSizeSearch::Outcome BatchSizeSearch::try_once(
    const std::function<void(std::int64_t)>& attempt) {
  Outcome outcome;
  try {
    attempt(batch_size_);
    return outcome;
  } catch (const std::exception& error) {
    outcome = {ending_of(error), std::current_exception(), describe(error)};
  } catch (...) {
    outcome = {kFailed, std::current_exception(), "an exception of an unknown type"};
  }
  // Peers may be waiting for this rank inside a collective; this makes them stop waiting.
  communicator_->abort(outcome.ending == kOutOfMemory
                           ? "it ran out of memory with batch size " + std::to_string(batch_size_)
                           : outcome.text);
  return outcome;
}

void BatchSizeSearch::run(const std::function<void(std::int64_t)>& attempt) {
  const auto meeting = meeting_of(*communicator_);
  const std::string trials = options_.upward_trials == 0
                                 ? ""
                                 : ", upward trials " + std::to_string(options_.upward_trials) +
                                       ", maximum " + std::to_string(options_.max_batch_size);
  require_agreement(*meeting, "find_executable_batch_size",
                    "batch size " + std::to_string(batch_size_) + trials);
  tried_.clear();
  last_ = nullptr;
  clear_device_cache();
  shrink(*meeting, attempt);
  if (!looked_upwards_) look_upwards(*meeting, attempt);
}

void BatchSizeSearch::shrink(Communicator& meeting,
                             const std::function<void(std::int64_t)>& attempt) {
  while (true) {
    if (batch_size_ == 0) throw_nothing_fits();
    if (settle(meeting, try_once(attempt))) return;
    tried_.push_back(batch_size_);
    too_large_ = batch_size_;
    const at::Tensor next = at::full({1}, next_size(batch_size_), at::kLong);
    meeting.all_reduce(next, ReduceOp::min).wait();
    get_logger("accelerate.batch_size")
        .info("batch size " + std::to_string(batch_size_) + " does not fit into memory; next is " +
              std::to_string(next.item<std::int64_t>()));
    batch_size_ = next.item<std::int64_t>();
    clear_device_cache();
  }
}

// All ranks know the same sizes that fitted and did not, so they try the same ones. Afterwards the
// last attempt was one with the size that is kept.
void BatchSizeSearch::look_upwards(Communicator& meeting,
                                   const std::function<void(std::int64_t)>& attempt) {
  bool fits = true;
  for (int trials = options_.upward_trials; trials > 0 && larger_size() > batch_size_; --trials) {
    clear_device_cache();
    const std::int64_t best = std::exchange(batch_size_, larger_size());
    fits = settle(meeting, try_once(attempt));
    get_logger("accelerate.batch_size")
        .info("batch size " + std::to_string(batch_size_) + (fits ? " fits" : " does not fit") +
              " into memory; " + std::to_string(best) + " does");
    if (!fits) too_large_ = std::exchange(batch_size_, best);
  }
  looked_upwards_ = true;
  if (fits) return;
  clear_device_cache();
  shrink(meeting, attempt);
}

// Returns the size to try after the present one, which fits; the present one if there is none.
std::int64_t BatchSizeSearch::larger_size() const {
  const std::int64_t most = std::min(options_.max_batch_size, too_large_ - 1);
  const bool all_fitted = too_large_ == std::numeric_limits<std::int64_t>::max();
  if (batch_size_ >= most) return batch_size_;
  if (all_fitted) return batch_size_ > most / 2 ? most : 2 * batch_size_;
  return batch_size_ + (most - batch_size_ + 1) / 2;
}

// Returns true if the attempt succeeded on all ranks, false if another attempt is needed. Throws if
// a rank failed.
bool BatchSizeSearch::settle(Communicator& meeting, const Outcome& mine) {
  const at::Tensor endings = at::empty({meeting.size()}, at::kLong);
  meeting.all_gather(endings, at::full({1}, static_cast<std::int64_t>(mine.ending), at::kLong))
      .wait();
  const auto worst = endings.max().item<std::int64_t>();
  if (worst == kFits) return true;
  communicator_->renew();
  last_ = mine.error;
  if (worst == kOutOfMemory) return false;
  const auto texts = gather_bytes(meeting, mine.text);
  if (mine.ending == worst) std::rethrow_exception(mine.error);
  const auto rank = endings.argmax().item<std::int64_t>();
  throw CommError("the attempt with batch size " + std::to_string(batch_size_) +
                  " failed on rank " + std::to_string(rank) + ": " +
                  texts[static_cast<std::size_t>(rank)]);
}

std::int64_t BatchSizeSearch::next_size(std::int64_t size) const {
  constexpr double kShrink = 0.9;
  if (!options_.reduce_batch_size_fn) {
    return static_cast<std::int64_t>(static_cast<double>(size) * kShrink);
  }
  const std::int64_t next = options_.reduce_batch_size_fn(size);
  if (next >= 0 && next < size) return next;
  throw UsageError("reduce_batch_size_fn made " + std::to_string(next) + " of " +
                   std::to_string(size) + "; a smaller number is allowed, and 0 gives up");
}

void BatchSizeSearch::throw_nothing_fits() const {
  std::vector<std::string> tried;
  for (const auto size : tried_) tried.push_back(std::to_string(size));
  const std::string sentence =
      "no batch size fits into memory: " +
      (tried.empty() ? "an earlier call tried them all" : join(tried, ", ") + " were tried") +
      ". Make the model or a sample smaller, or use mixed precision or a larger device.";
  if (!last_) throw UsageError(sentence, error_name::kOutOfMemory);
  try {
    std::rethrow_exception(last_);
  } catch (...) {
    throw_with_context<UsageError>(sentence, error_name::kOutOfMemory);
  }
}

}  // namespace detail
}  // namespace accelerate
