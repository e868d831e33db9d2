#include "accelerate/optim/fused_step.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <typeinfo>
#include <utility>
#include <vector>

#include "accelerate/optim/fused_buckets.h"
#include "accelerate/optim/fused_rules.h"
#include "accelerate/optim/offloaded_state.h"
#include "accelerate/parallel/offload/slice_stream.h"

namespace accelerate::detail {
namespace {

using torch::optim::Optimizer;

template <typename Rule>
const typename Rule::Options* options_of(const Optimizer& optimizer, std::size_t group) {
  return dynamic_cast<const typename Rule::Options*>(&optimizer.param_groups()[group].options());
}

template <typename Rule>
void note_update(const FusedBucket& bucket) {
  if constexpr (Rule::kMovesVersion) {
    for (const auto& leaf : bucket.tensors.parameters) leaf.unsafeGetTensorImpl()->bump_version();
  }
}

// What a graph knows of each parameter by its address alone.
struct SeenParameter {
  explicit SeenParameter(const at::Tensor& parameter)
      : tensor(parameter),
        gradient(parameter.grad()),
        data(parameter.const_data_ptr()),
        is_trained(parameter.requires_grad()) {}
  [[nodiscard]] bool is(const at::Tensor& parameter) const {
    return tensor.is_same(parameter) && parameter.const_data_ptr() == data &&
           parameter.requires_grad() == is_trained;
  }

  at::Tensor tensor;
  at::Tensor gradient;  // Kept for its memory: the recorded step may add to it.
  const void* data;
  bool is_trained;
};

template <typename Rule>
class FusedRecordingOf final : public FusedRecording {
 public:
  using Options = typename Rule::Options;

  explicit FusedRecordingOf(const Optimizer& optimizer) {
    std::vector<at::Tensor> parameters;
    for (const auto& group : optimizer.param_groups())
      parameters.insert(parameters.end(), group.params().begin(), group.params().end());
    for (const auto& parameter : parameters) seen_.emplace_back(parameter);
    numbers_.reserve(parameters);
  }

  // Returns the copy of `bucket` that the kernels are to read.
  FusedBucket& add(std::size_t group, const FusedBucket& bucket, const Options& options) {
    // A first step makes the state, which later steps must not repeat.
    is_complete_ = is_complete_ && bucket.number != 1;
    calls_.push_back({group, bucket, options});
    calls_.back().bucket.be_recorded(numbers_);
    return calls_.back().bucket;
  }

  void be_incomplete() { is_complete_ = false; }
  [[nodiscard]] bool is_complete() const { return is_complete_; }

  void begin() override {
    for (auto& call : calls_) call.bucket.fill(call.options.lr());
  }

  bool holds(Optimizer& optimizer) const override {
    auto seen = seen_.begin();
    for (const auto& group : optimizer.param_groups()) {
      for (const auto& parameter : group.params()) {
        if (seen == seen_.end() || !(seen++)->is(parameter)) return false;
      }
    }
    return seen == seen_.end() &&
           std::ranges::all_of(calls_, [&](const Call& call) { return holds(optimizer, call); });
  }

  void advance(Optimizer& optimizer) override {
    move(optimizer, 1);
    for (auto& call : calls_) {
      call.bucket.number = Rule::steps_of(optimizer, call.bucket.tensors.parameters.front());
      call.bucket.fill(options_of<Rule>(optimizer, call.group)->lr());
      note_update<Rule>(call.bucket);
    }
  }

  void take_back(Optimizer& optimizer) override { move(optimizer, -1); }

 private:
  struct Call {
    std::size_t group;  // Index among the optimizer's groups.
    FusedBucket bucket;
    Options options;
  };

  static bool holds(Optimizer& optimizer, const Call& call) {
    const Options* options = options_of<Rule>(optimizer, call.group);
    if (options == nullptr) return false;
    Options at_recorded_rate = *options;
    at_recorded_rate.lr(call.options.lr());
    if (!(at_recorded_rate == call.options)) return false;
    const auto& parameters = call.bucket.tensors.parameters;
    for (std::size_t k = 0; k < parameters.size(); ++k) {
      if (!Rule::holds(optimizer, call.bucket, k)) return false;
    }
    // The kernels read one step number for all of them.
    const std::int64_t steps = Rule::steps_of(optimizer, parameters.front());
    return steps + 1 < compat::kLastFusedStep &&
           std::ranges::all_of(parameters, [&](const at::Tensor& parameter) {
             return Rule::steps_of(optimizer, parameter) == steps;
           });
  }

  void move(Optimizer& optimizer, std::int64_t steps) const {
    for (const auto& call : calls_) {
      for (const auto& parameter : call.bucket.tensors.parameters)
        Rule::move(optimizer, parameter, steps);
    }
  }

  std::vector<SeenParameter> seen_;  // Of all groups.
  RecordedNumbers numbers_;
  std::vector<Call> calls_;
  bool is_complete_ = true;
};

template <typename Rule>
class FusedStepOf final : public FusedStep {
 public:
  explicit FusedStepOf(const Optimizer& optimizer) {
    for (std::size_t i = 0; i < optimizer.param_groups().size(); ++i) {
      const auto* options = options_of<Rule>(optimizer, i);
      for (const auto& parameter : optimizer.param_groups()[i].params()) {
        const auto& states = optimizer.state();
        const bool has_state = states.find(parameter.unsafeGetTensorImpl()) != states.end();
        if (options != nullptr && parameter.is_cpu() && parameter.requires_grad() && !has_state)
          places_.keep(parameter, Rule::places_of(*options));
      }
    }
  }

  void run(Optimizer& optimizer) override {
    const at::NoGradGuard no_grad;
    const ClearFusedBuckets clear{buckets_};
    move_state(optimizer);
    bool some_left = false;
    for (std::size_t i = 0; i < optimizer.param_groups().size(); ++i)
      some_left |= run_group(optimizer, i);
    for (auto& store : stores()) update_stored(optimizer, *store);
    places_.drop();
    if (!some_left) return;
    if (recording_) recording_->be_incomplete();
    const HiddenGradients hidden(buckets_);
    optimizer.step();
  }

  void drop_places() override { places_.drop(); }

  void begin_recording(const Optimizer& optimizer) override {
    recording_ = std::make_unique<FusedRecordingOf<Rule>>(optimizer);
  }

  std::unique_ptr<FusedRecording> end_recording(Optimizer& optimizer) override {
    auto recording = std::move(recording_);
    if (recording == nullptr || recording->is_complete()) return recording;
    recording->take_back(optimizer);
    return nullptr;
  }

 private:
  // Returns whether a gradient is left for the optimizer's step().
  bool run_group(Optimizer& optimizer, std::size_t index) {
    const auto& group = optimizer.param_groups()[index];
    const auto* options = options_of<Rule>(optimizer, index);
    bool some_left = false;
    for (const auto& parameter : group.params()) {
      if (!parameter.grad().defined()) continue;
      const bool taken = options != nullptr && compat::can_fuse(Rule::kWhich, parameter) &&
                         compat::accompanies(parameter, parameter.grad()) &&
                         Rule::take(buckets_, optimizer, *options, parameter, places_);
      some_left |= !taken;
    }
    for (auto& bucket : buckets_.close_group(index)) {
      if (bucket.store != nullptr) continue;
      FusedBucket& updated = recording_ ? recording_->add(index, bucket, *options) : bucket;
      Rule::update(updated, *options);
      note_update<Rule>(updated);
      if (recording_) updated.tensors.gradients.clear();  // Not to be kept from step to step.
    }
    return some_left;
  }

  // Returns the stores of the buckets, each once.
  std::vector<std::shared_ptr<OffloadStore>> stores() {
    std::vector<std::shared_ptr<OffloadStore>> found;
    for (const auto& bucket : buckets_.all()) {
      if (bucket.store && std::ranges::find(found, bucket.store) == found.end())
        found.push_back(bucket.store);
    }
    return found;
  }

  // Updates the buckets whose state lives in `store`.
  void update_stored(Optimizer& optimizer, OffloadStore& store) {
    std::vector<StoredRow> rows;
    std::vector<const FusedBucket*> bucket_of;  // By row.
    for (const auto& bucket : buckets_.all()) {
      if (bucket.store.get() != &store) continue;
      for (std::size_t k = 0; k < bucket.tensors.parameters.size(); ++k) {
        rows.push_back({bucket.row(k)});
        bucket_of.push_back(&bucket);
      }
    }
    static const std::vector<SliceUse> uses = {SliceUse::update, SliceUse::read, SliceUse::update,
                                               SliceUse::update, SliceUse::update};
    for_each_slice(store, rows, uses, [&](const std::vector<RowPart>& parts) {
      std::map<const FusedBucket*, FusedBucket> here;
      for (const auto& part : parts) {
        const FusedBucket* whole = bucket_of[part.row];
        here.try_emplace(whole).first->second.add_row(part.tensors);
      }
      for (auto& [whole, bucket] : here) {
        bucket.number = whole->number;
        Rule::update(bucket, *options_of<Rule>(optimizer, whole->group));
      }
    });
    for (const auto& bucket : buckets_.all()) {
      if (bucket.store.get() == &store) note_update<Rule>(bucket);
    }
  }

  FusedBuckets buckets_;
  FusedPlaces places_;
  std::unique_ptr<FusedRecordingOf<Rule>> recording_;
};

}  // namespace

std::unique_ptr<FusedStep> FusedStep::of(const Optimizer& optimizer) {
  const auto& type = typeid(optimizer);
  if (type == typeid(torch::optim::SGD))
    return std::make_unique<FusedStepOf<FusedSgdRule>>(optimizer);
  if (type == typeid(torch::optim::Adam))
    return std::make_unique<FusedStepOf<FusedAdam>>(optimizer);
  if (type == typeid(torch::optim::AdamW))
    return std::make_unique<FusedStepOf<FusedAdamW>>(optimizer);
  if (type == typeid(torch::optim::Adagrad))
    return std::make_unique<FusedStepOf<FusedAdagradRule>>(optimizer);
  return nullptr;
}

}  // namespace accelerate::detail
