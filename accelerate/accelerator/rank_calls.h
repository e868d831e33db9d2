// The part of an Accelerator that needs no model: who am I, and what the ranks exchange.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "accelerate/accelerator/gather_for_metrics.h"
#include "accelerate/comm/operations.h"
#include "accelerate/comm/state/gradient_state.h"
#include "accelerate/comm/state/partial_state.h"
#include "accelerate/comm/tensor_checks.h"

namespace accelerate {

/// A PartialState: who am I (num_processes(), is_main_process(), device(), …), and what runs by rank
/// (on_main_process(), main_process_first(), split_between_processes(), print(), …). Adds what ranks
/// exchange.
class RankCalls : public PartialState {
 public:
  [[nodiscard]] const PartialState& state() const { return *this; }
  /// The group of all ranks; state().communicator() shares it.
  [[nodiscard]] Communicator& communicator() const { return *PartialState::communicator(); }
  [[nodiscard]] const std::shared_ptr<GradientState>& gradient_state() const {
    return gradient_state_;
  }
  /// Whether ACCELERATE_DEBUG_MODE is on (`accelerate launch --debug`). Collectives of this class
  /// then refuse tensors that are not on device(). A model on one rank then refuses what it would
  /// refuse on several. What the ranks pass to a collective is compared in any case.
  [[nodiscard]] bool debug() const { return debug_; }

  // --- between ranks ----------------------------------------------------------------------------
  /// Concatenates the ranks' values along dim 0. [collective]
  template <typename T>
  [[nodiscard]] T gather(T value) const {
    if constexpr (detail::is_nested_or_explained<T>()) {
      return accelerate::gather(communicator(), verified("gather", std::move(value)));
    }
    return value;
  }
  /// As gather, for what ranks computed from the present batch of the active loader. Every sample
  /// comes once, in the loader's order. Batches of the ranks may differ in size. Samples that were
  /// repeated to make batches equal are dropped. Vectors of non-tensors (strings) that stand beside
  /// tensors are gathered too. [collective over the ranks that have a batch]
  template <typename T>
  [[nodiscard]] T gather_for_metrics(T value) const {
    if constexpr (detail::is_nested_or_explained<T>()) {
      return detail::gather_once(communicator(), metrics_step(),
                                 verified("gather_for_metrics", std::move(value)));
    }
    return value;
  }
  /// As gather_for_metrics, for one object per sample. Objects may be of any type that can be sent
  /// (accelerate/tensor/parcel.h), including tensors of any shape. With accelerate/comm/objects.h
  /// they may also be of any type that converts to JSON.
  template <typename T>
  [[nodiscard]] std::vector<T> gather_object_for_metrics(std::vector<T> objects) const {
    static_assert(detail::Portable<T>,
                  "gather_object_for_metrics: objects of this type cannot be sent; give it to_json "
                  "and from_json and include accelerate/comm/objects.h");
    return detail::gather_objects_once(communicator(), metrics_step(), std::move(objects));
  }
  template <typename T>
    requires(!Nested<T>)
  [[nodiscard]] std::vector<T> gather_for_metrics(std::vector<T> objects) const {
    return gather_object_for_metrics(std::move(objects));
  }
  /// Returns, on all ranks, the ranks' values reduced by `op` element by element, times `scale`.
  /// [collective] Throws UsageError on all ranks for a mean of integers or bool; see
  /// accelerate/comm/operations.h.
  template <typename T>
  [[nodiscard]] T reduce(T value, ReduceOp op = ReduceOp::sum, double scale = 1.0) const {
    if constexpr (detail::is_nested_or_explained<T>()) {
      return accelerate::reduce(communicator(), verified("reduce", std::move(value)), op, scale);
    }
    return value;
  }
  /// Returns the value of rank `from_process` on all ranks. The other ranks pass a value of the
  /// same shapes. [collective]
  template <typename T>
  [[nodiscard]] T broadcast(T value, int from_process = 0) const {
    if constexpr (detail::is_nested_or_explained<T>()) {
      return accelerate::broadcast(communicator(), verified("broadcast", std::move(value)),
                                   from_process);
    }
    return value;
  }
  /// Raises a flag on this rank. check_trigger() returns true on all ranks if any rank raised it,
  /// and lowers it again. [check_trigger is collective]
  void set_trigger() { trigger_ = true; }
  [[nodiscard]] bool check_trigger();
  /// Pads every tensor along options.dim to the greatest size on any rank, so that it can be
  /// gathered. [collective]
  template <typename T>
  [[nodiscard]] T pad_across_processes(T value, const PadOptions& options = {}) const {
    if constexpr (detail::is_nested_or_explained<T>()) {
      return accelerate::pad_across_processes(
          communicator(), verified("pad_across_processes", std::move(value)), options);
    }
    return value;
  }

 protected:
  /// Joins the group of ranks. [collective] Throws as PartialState does.
  explicit RankCalls(const PartialStateOptions& options);

 private:
  /// Returns `value`. In debug mode first checks the devices of its tensors.
  template <Nested T>
  [[nodiscard]] T verified(const char* operation, T value) const {
    if (debug_) require_device(collect_tensors(value), device(), operation);
    return value;
  }
  [[nodiscard]] detail::MetricsStep metrics_step() const {
    return detail::metrics_step(*gradient_state_, communicator());
  }

  std::shared_ptr<GradientState> gradient_state_ = std::make_shared<GradientState>();
  bool debug_;
  bool trigger_ = false;
};

}  // namespace accelerate
