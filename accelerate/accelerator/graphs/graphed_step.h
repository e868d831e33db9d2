// A training step as one launch: its forward, backward, clipping and optimizer step are recorded as
// a CUDA graph, and replayed for every later batch. Worth it where the CPU cannot launch kernels as
// fast as the GPU runs them: small models, small batches.
//
//   GraphedStep step(accelerator, [&](Batch& batch) {
//     auto loss = torch::mse_loss(model(batch.x), batch.y);
//     accelerator.backward(loss);
//     accelerator.clip_grad_norm_(model.parameters(), 1.0);
//     optimizer.step();
//     optimizer.zero_grad();
//     return loss.detach();
//   });
//   for (auto& batch : loader) {
//     total += step(batch);
//     scheduler.step();                        // Outside: see below.
//   }
//
// The function runs as it is for the first batches, and once more while it is recorded. After that
// only its kernels run, on the tensors of the batch that it is given, so whatever else it does
// happens no more: printing, counting, stepping a schedule, choosing a branch. Rates of the
// optimizers' groups may change between steps: replays use the present ones.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "accelerate/accelerator/accelerator.h"
#include "accelerate/accelerator/graphs/captured_graph.h"
#include "accelerate/accelerator/graphs/step_graph.h"
#include "accelerate/tensor/nested.h"

namespace accelerate {

struct GraphedStepOptions {
  /// Batches that run as they are before the step is recorded: kernels are chosen and state is made
  /// then. At least 1.
  int warm_up = 3;
};

/// Calls `step(batch)`, by replaying a CUDA graph where that is possible. `Batch` and `Output` are
/// types with visit_tensors (tensor/nested.h); `step` takes a Batch&.
///
/// A batch whose tensors differ in shape or dtype from the recorded ones (the last batch of an
/// epoch, say) runs as it is. Members of a batch that are not tensors keep the values of the
/// recorded batch. If options of an optimizer other than its rate change, or its state is replaced,
/// as load_state() does, or its parameters are frozen, unfrozen or moved, one step runs as it is
/// and the next is recorded again. Other tensors that the step reads must stay where they are in
/// memory.
///
/// A step runs as it is, and reason() says why, while: the device is not a GPU or this library was
/// built without CUDA's headers; there are several ranks; models are sharded; gradients accumulate
/// over several batches; precision is fp16, whose scaler reads a value in each step; a tensor of
/// the batch is not on the device; or an optimizer has no kernel that reads its rate from the
/// device (all but SGD, Adam, AdamW and Adagrad). So does every step after recording failed,
/// because the step reads a value of the device (`loss.item()`) or gives backward() num_items, say.
/// Every optimizer that `step` uses must be prepared. Several GraphedSteps may share optimizers.
///
/// Results are those of the function as it is, but for the last bits: kernels read the rate in
/// fp32. Cost of a replay: a copy of each tensor of the batch and of the output, two numbers for
/// each group of an optimizer, one launch. Memory: what one step needs at its peak, kept for as
/// long as this object lives.
template <typename Batch, typename Output = at::Tensor>
class GraphedStep {
 public:
  using Function = std::function<Output(Batch&)>;

  /// `accelerator`, and what `step` refers to, must outlive this. Throws UsageError if
  /// options.warm_up is below 1.
  GraphedStep(Accelerator& accelerator, Function step, const GraphedStepOptions& options = {})
      : GraphedStep(accelerator, std::move(step), options,
                    detail::make_captured_graph(accelerator.device())) {}
  /// As above, recording into the given graph.
  GraphedStep(Accelerator& accelerator, Function step, const GraphedStepOptions& options,
              std::unique_ptr<detail::CapturedGraph> graph)
      : step_(std::move(step)), core_(accelerator, std::move(graph), options.warm_up) {}

  /// Makes one step. Returns what the function returns, in tensors that later calls do not change.
  Output operator()(Batch batch) {
    const auto inputs = collect_tensors(batch);
    switch (core_.way_for(inputs)) {
      case detail::StepGraph::Way::eager:
        return run(batch);
      case detail::StepGraph::Way::capture:
        if (!capture(batch)) return run(batch);
        core_.replay({});
        break;
      case detail::StepGraph::Way::replay:
        core_.replay(inputs);
    }
    return map_tensors(*output_, [](const at::Tensor& tensor) {
      return tensor.defined() ? tensor.detach().clone() : tensor;
    });
  }

  /// Whether the next batch of the recorded shapes is replayed.
  [[nodiscard]] bool is_captured() const { return core_.is_captured(); }
  /// Why the last step ran as it is; empty if it did so to warm up, for its shapes, or was
  /// replayed.
  [[nodiscard]] const std::string& reason() const { return core_.reason(); }

 private:
  Output run(Batch& batch) {
    std::optional<Output> output;
    core_.run([&] { output = step_(batch); });
    return std::move(*output);
  }

  bool capture(const Batch& batch) {
    held_ = map_tensors(
        batch, [](const at::Tensor& tensor) { return tensor.defined() ? tensor.clone() : tensor; });
    return core_.capture(collect_tensors(*held_), [this] { output_ = step_(*held_); });
  }

  Function step_;
  std::optional<Batch> held_;     // The batch that the graph reads.
  std::optional<Output> output_;  // What the graph writes.
  detail::StepGraph core_;
};

namespace detail {
// The batch and the output of a function object, for `GraphedStep step(accelerator, lambda)`.
template <typename Call>
struct StepSignature;
template <typename Self, typename Output, typename Batch>
struct StepSignature<Output (Self::*)(Batch)> {
  using BatchType = std::remove_cvref_t<Batch>;
  using OutputType = Output;
};
template <typename Self, typename Output, typename Batch>
struct StepSignature<Output (Self::*)(Batch) const> : StepSignature<Output (Self::*)(Batch)> {};
}  // namespace detail

template <typename Fn, typename... Options>
GraphedStep(Accelerator&, Fn, const Options&...)
    -> GraphedStep<typename detail::StepSignature<decltype(&Fn::operator())>::BatchType,
                   typename detail::StepSignature<decltype(&Fn::operator())>::OutputType>;

}  // namespace accelerate
