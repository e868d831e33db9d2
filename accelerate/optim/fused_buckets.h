// What the kernels of a fused optimizer step are given.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/parallel/offload/offload_store.h"
#include "accelerate/tensor/compat/fused_optimizers.h"

namespace accelerate::detail {

// Numbers that recorded kernels read and that are set before each replay. Their memory is taken
// before the recording. Memory that a recorded step takes by itself serves one tensor after the
// other, so that a replay would overwrite what was set before it.
class RecordedNumbers {
 public:
  // Reserves what the buckets of these parameters need, of which each has one or more.
  void reserve(const std::vector<at::Tensor>& parameters) {
    std::vector<std::pair<c10::Device, std::int64_t>> counts;
    for (const auto& parameter : parameters) {
      const auto is_there = [&](const auto& count) { return count.first == parameter.device(); };
      auto found = std::ranges::find_if(counts, is_there);
      if (found == counts.end()) found = counts.insert(found, {parameter.device(), 0});
      found->second += kPerBucket;
    }
    for (const auto& [device, count] : counts)
      free_.push_back(at::empty({count}, at::TensorOptions(at::kFloat).device(device)));
  }

  [[nodiscard]] at::Tensor take(c10::Device device) {
    at::Tensor& rest = *std::ranges::find(free_, device, &at::Tensor::device);
    if (rest.size(0) == 0)
      throw UsageError("an optimizer steps more than once in the recorded step; allowed is once");
    const at::Tensor number = rest.select(0, 0);
    rest = rest.narrow(0, 1, rest.size(0) - 1);
    return number;
  }

 private:
  static constexpr std::int64_t kPerBucket = 2;
  std::vector<at::Tensor> free_;  // One for each device.
};

// The parameters that one kernel call updates: of one group, device, dtype and step number. The
// state of all of them lives in memory, or in one store.
struct FusedBucket {
  [[nodiscard]] bool holds(const at::Tensor& parameter, std::int64_t step_number,
                           const OffloadStore* owner) const {
    const auto& first = tensors.parameters.front();
    return number == step_number && store.get() == owner &&
           first.scalar_type() == parameter.scalar_type() && first.device() == parameter.device();
  }

  // The lists of tensors that correspond element by element, in the order of a row.
  [[nodiscard]] static auto lists_of(auto& of) {
    return std::array{&of.parameters, &of.gradients, &of.first, &of.second, &of.third};
  }
  // Returns the tensors of parameter k, as far as the optimizer has them.
  [[nodiscard]] std::vector<at::Tensor> row(std::size_t k) const {
    std::vector<at::Tensor> found;
    for (const auto* list : lists_of(tensors)) {
      if (!list->empty()) found.push_back((*list)[k]);
    }
    return found;
  }
  void add_row(const std::vector<at::Tensor>& row) {
    const auto lists = lists_of(tensors);
    for (std::size_t i = 0; i < row.size(); ++i) lists[i]->push_back(row[i]);
  }

  // Sets the step number as the kernels expect it: one tensor per parameter, here the same for all.
  void count_steps() {
    const auto device = tensors.parameters.front().device();
    if (!counter.defined() || counter.device() != device) counter = number_on(device);
    if (!is_recorded) counter.fill_(number);
    tensors.steps.assign(tensors.parameters.size(), counter);
  }

  // Makes the kernels read the step number and the rate from tensors of this bucket alone, which
  // fill() sets before each replay.
  void be_recorded(RecordedNumbers& numbers) {
    const auto device = tensors.parameters.front().device();
    counter = numbers.take(device);
    tensors.rate = numbers.take(device);
    is_recorded = true;
  }

  void fill(double lr) {
    if (!tensors.steps.empty()) counter.fill_(number);  // SGD's kernel reads none.
    if (rate != lr) tensors.rate.fill_(lr);
    rate = lr;
  }

  static at::Tensor number_on(c10::Device device) {
    return at::empty({}, at::TensorOptions(at::kFloat).device(device));
  }

  void clear() {
    for (auto* list : {&tensors.parameters, &tensors.gradients, &tensors.first, &tensors.second,
                       &tensors.third, &tensors.steps}) {
      list->clear();
    }
    store = nullptr;
  }

  std::int64_t number = 0;
  std::size_t group = 0;                // Index among the optimizer's groups.
  std::shared_ptr<OffloadStore> store;  // Where its state lives; null: in memory.
  compat::FusedTensors tensors;
  at::Tensor counter;
  bool is_recorded = false;
  std::optional<double> rate = std::nullopt;  // What tensors.rate holds.
};

// The buckets of a step. clear() keeps their memory for the next step.
class FusedBuckets {
 public:
  compat::FusedTensors& find(const at::Tensor& parameter, std::int64_t number) {
    const auto store = OffloadStore::keeping_state_of(parameter);
    for (std::size_t i = used_; i-- > group_;) {
      if (all_[i].holds(parameter, number, store.get())) return all_[i].tensors;
    }
    if (used_ == all_.size()) all_.emplace_back();
    all_[used_].number = number;
    all_[used_].store = store;
    return all_[used_++].tensors;
  }

  // Returns the buckets since the last call, of group number `index`.
  [[nodiscard]] std::span<FusedBucket> close_group(std::size_t index) {
    const auto begin = std::exchange(group_, used_);
    const std::span<FusedBucket> group(all_.data() + begin, used_ - begin);
    for (auto& bucket : group) bucket.group = index;
    return group;
  }

  [[nodiscard]] std::span<FusedBucket> all() { return {all_.data(), used_}; }

  template <typename Fn>
  void for_each(Fn&& fn) {
    for (std::size_t i = 0; i < used_; ++i) {
      auto& tensors = all_[i].tensors;
      for (std::size_t k = 0; k < tensors.parameters.size(); ++k) {
        fn(tensors.parameters[k], tensors.gradients[k]);
      }
    }
  }

  void clear() {
    for (std::size_t i = 0; i < used_; ++i) all_[i].clear();
    group_ = used_ = 0;
  }

 private:
  std::vector<FusedBucket> all_;
  std::size_t group_ = 0;  // The first bucket of the present group.
  std::size_t used_ = 0;
};

struct ClearFusedBuckets {
  FusedBuckets& buckets;
  ~ClearFusedBuckets() { buckets.clear(); }
};

// While alive, hides the gradients of the parameters that the kernels have updated, so that the
// optimizer's step() skips these parameters.
class HiddenGradients {
 public:
  explicit HiddenGradients(FusedBuckets& buckets) : buckets_(buckets) {
    buckets_.for_each([](at::Tensor& leaf, at::Tensor&) { leaf.mutable_grad() = at::Tensor(); });
  }
  ~HiddenGradients() {
    buckets_.for_each([](at::Tensor& leaf, at::Tensor& grad) { leaf.mutable_grad() = grad; });
  }
  HiddenGradients(const HiddenGradients&) = delete;
  HiddenGradients& operator=(const HiddenGradients&) = delete;

 private:
  FusedBuckets& buckets_;
};

}  // namespace accelerate::detail
