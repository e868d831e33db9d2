#include "accelerate/parallel/replicated/join.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <string>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"

namespace accelerate {

// Describes the next backward: which ranks run it, and on how many of them each model takes part.
struct JoinedInputs::Announcement {
  std::vector<int> active;  // ranks, ascending
  std::vector<int> counts;  // one per model

  // Returns the highest rank that still has inputs, the one that PyTorch chooses too.
  [[nodiscard]] int buffer_source() const { return active.back(); }
  [[nodiscard]] bool takes_part(std::size_t model) const { return counts[model] > 0; }
  [[nodiscard]] BackwardPass pass(at::Tensor loss) const {
    const bool several =
        std::count_if(counts.begin(), counts.end(), [](int n) { return n > 0; }) > 1;
    return {.loss = std::move(loss), .several_models = several, .reduce_at_the_end = several};
  }
};

JoinedInputs::JoinedInputs(std::vector<DistributedDataParallel*> engines,
                           std::shared_ptr<Communicator> communicator)
    : engines_(std::move(engines)), communicator_(std::move(communicator)) {
  if (!engines_.empty()) return;
  throw UsageError(
      "join_uneven_inputs was given no model; pass the prepared models that are trained in it",
      error_name::kUnevenBatches);
}

JoinedInputs::Announcement JoinedInputs::announce(const at::Tensor& loss, bool active) {
  const auto ranks = static_cast<std::size_t>(communicator_->size());
  const auto sent = at::zeros({static_cast<std::int64_t>(ranks + engines_.size())}, at::kInt);
  int* numbers = sent.mutable_data_ptr<int>();
  if (active) {
    numbers[communicator_->rank()] = 1;
    for (std::size_t i = 0; i < engines_.size(); ++i)
      numbers[ranks + i] = engines_[i]->would_communicate(loss) ? 1 : 0;
  }
  communicator_->all_reduce(sent, ReduceOp::sum).wait();
  Announcement heard;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    if (numbers[rank] > 0) heard.active.push_back(static_cast<int>(rank));
  }
  heard.counts.assign(numbers + ranks, numbers + ranks + engines_.size());
  for (const int count : heard.counts) {
    if (count == 0 || static_cast<std::size_t>(count) == heard.active.size()) continue;
    throw UsageError("in join_uneven_inputs a backward reaches a model on " +
                         std::to_string(count) + " of the " + std::to_string(heard.active.size()) +
                         " ranks that still have inputs. Let all ranks run the same models in each "
                         "step, or pass find_unused_parameters = true.",
                     error_name::kUnevenBatches);
  }
  return heard;
}

void JoinedInputs::require_members(const std::vector<DistributedDataParallel*>& engines,
                                   const at::Tensor& loss) const {
  for (const auto* engine : engines) {
    const bool member = std::find(engines_.begin(), engines_.end(), engine) != engines_.end();
    if (member || !engine->would_communicate(loss)) continue;
    throw UsageError(
        "a backward inside join_uneven_inputs would synchronise a model that was not given to it, "
        "and ranks without inputs would not take part. Name all models that are trained in the "
        "scope: join_uneven_inputs(options, generator, discriminator).",
        error_name::kUnevenBatches);
  }
}

void JoinedInputs::run_backward(const std::vector<DistributedDataParallel*>& engines,
                                BackwardPass pass, const std::function<void()>& backward) {
  require_members(engines, pass.loss);
  const bool communicates =
      std::any_of(engines_.begin(), engines_.end(),
                  [&pass](const auto* engine) { return engine->would_communicate(pass.loss); });
  if (communicates) {
    const auto heard = announce(pass.loss, /*active=*/true);
    pass.reduce_at_the_end = heard.pass({}).reduce_at_the_end;
    for (auto* engine : engines_) engine->set_buffer_source(heard.buffer_source());
  }
  accelerate::run_backward({engines.begin(), engines.end()}, std::move(pass), backward);
}

void JoinedInputs::shadow(const Announcement& announcement) {
  std::vector<DistributedDataParallel*> members;
  for (std::size_t i = 0; i < engines_.size(); ++i) {
    if (announcement.takes_part(i)) members.push_back(engines_[i]);
  }
  for (auto* engine : members) {
    engine->set_buffer_source(announcement.buffer_source());
    engine->begin_shadow(announcement.pass({}));
  }
  for (auto* engine : members) engine->finish_shadow();
}

std::optional<int> JoinedInputs::finish() {
  bool is_last = true;
  for (;;) {
    const auto heard = announce({}, /*active=*/false);
    if (heard.active.empty()) break;
    shadow(heard);
    is_last = false;
  }
  for (auto* engine : engines_) engine->set_buffer_source(0);
  const auto source = agree_on_last(is_last);
  if (source) {
    for (auto* engine : engines_) engine->broadcast_state(*source);
  }
  return source;
}

std::optional<int> JoinedInputs::agree_on_last(bool is_last) {
  const auto sent = at::full({2}, -1, at::kInt);
  int* numbers = sent.mutable_data_ptr<int>();
  if (is_last) numbers[0] = communicator_->rank();
  if (!is_last) numbers[1] = 1;  // some rank has shadowed
  communicator_->all_reduce(sent, ReduceOp::max).wait();
  if (numbers[1] < 0) return std::nullopt;
  return numbers[0];
}

}  // namespace accelerate
