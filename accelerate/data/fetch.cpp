#include "accelerate/data/fetch.h"

#include <ATen/record_function.h>
#include <pthread.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "accelerate/base/error_name.h"
#include "accelerate/base/process_identity.h"
#include "accelerate/base/text.h"
#include "accelerate/tensor/compat/one_core.h"

namespace accelerate::detail {
namespace {

// Lists the first indices: "4, 9, 17, …". That is enough to find the batch.
std::string list_of(std::span<const std::size_t> indices) {
  constexpr std::size_t kShown = 8;
  std::vector<std::string> parts;
  for (std::size_t index : indices.first(std::min(kShown, indices.size()))) {
    parts.push_back(std::to_string(index));
  }
  if (indices.size() > kShown) parts.emplace_back("…");
  return join(parts, ", ");
}

std::string text_of(BatchPlace place) {
  return "batch " + std::to_string(place.batch) + " of epoch " + std::to_string(place.epoch);
}

// Inside a `catch` block: as throw_with_context, for an error that carries indices.
[[noreturn]] void rethrow_with(const std::string& sentence, Indices indices) {
  std::throw_with_nested(
      SampleError(sentence + current_causes(), std::move(indices), error_name::kSampleFailed));
}

}  // namespace

void throw_sample_error(std::size_t index) {
  rethrow_with("sample " + std::to_string(index) + " of the dataset cannot be read", {index});
}

void throw_batch_error(std::span<const std::size_t> indices, std::optional<std::size_t> culprit,
                       BatchPlace place) {
  if (culprit) {
    rethrow_with("sample " + std::to_string(*culprit) + " of the dataset cannot be read (" +
                     text_of(place) + ")",
                 {*culprit});
  }
  rethrow_with("samples " + list_of(indices) + " of the dataset cannot be made into a batch (" +
                   std::to_string(indices.size()) + " samples, " + text_of(place) +
                   "); none of them fails alone",
               Indices(indices.begin(), indices.end()));
}

void throw_collate_error(BatchPlace place) {
  rethrow_with(text_of(place) + " cannot be made of the samples that were read", {});
}

std::function<void(std::size_t, const std::function<void()>&)> worker_environment() {
  return [identity = process_identity()](std::size_t number, const std::function<void()>& work) {
    const ScopedProcessIdentity scope(identity);
    const std::string name = "data-worker-" + std::to_string(number);
    pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
    at::DisableRecordFunctionGuard unobserved;
    compute_on_one_core();
    work();
  };
}

}  // namespace accelerate::detail
