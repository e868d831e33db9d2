#include "accelerate/accelerator/graphs/step_graph.h"

#include <ATen/TensorOperators.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

#include "accelerate/accelerator/accelerator.h"
#include "accelerate/base/error.h"
#include "accelerate/base/logger.h"
#include "accelerate/base/text.h"
#include "accelerate/comm/communicable_tensors.h"
#include "accelerate/comm/diagnosis.h"
#include "accelerate/optim/fused_step.h"
#include "accelerate/tensor/step_recording.h"

namespace accelerate::detail {
namespace {

bool is_alike(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() && a.device() == b.device();
}

std::string shapes_of(const std::vector<at::Tensor>& tensors) {
  std::vector<std::string> shapes;
  for (const auto& tensor : tensors) shapes.push_back(describe_tensor(tensor));
  return join(shapes, ", ");
}

}  // namespace

StepGraph::StepGraph(Accelerator& accelerator, std::unique_ptr<CapturedGraph> graph, int warm_up)
    : accelerator_(&accelerator), graph_(std::move(graph)), warm_up_(warm_up) {
  if (warm_up < 1) {
    throw UsageError("GraphedStep: warm_up is " + std::to_string(warm_up) +
                     "; allowed is 1 or more, because the first step makes what later ones use");
  }
}

StepGraph::~StepGraph() = default;
StepGraph::StepGraph(StepGraph&&) noexcept = default;
StepGraph& StepGraph::operator=(StepGraph&&) noexcept = default;

StepGraph::Way StepGraph::way_for(const std::vector<at::Tensor>& inputs) {
  if (failed_) return Way::eager;
  const auto optimizers = accelerator_->optimizers();
  if (const auto found = obstacle(inputs, optimizers); !found.empty()) {
    if (found != reason_) warn_of(found);
    return Way::eager;
  }
  reason_.clear();
  if (captured_ && !hold(optimizers)) {
    drop();
    warm_up_ = 1;  // A step that is recorded must not make the state that later ones change.
  }
  if (warm_up_ > 0) {
    --warm_up_;
    return Way::eager;
  }
  if (!captured_) return Way::capture;
  if (fits(inputs)) {
    for (std::size_t i = 0; i < recordings_.size(); ++i)
      recordings_[i]->advance(optimizers_[i].optimizer());
    return Way::replay;
  }
  if (!std::exchange(told_of_shapes_, true)) {
    get_logger("accelerate.graphs")
        .info("GraphedStep: a batch of " + shapes_of(inputs) +
              " runs as it is, because the step was recorded with " + shapes_of(inputs_));
  }
  return Way::eager;
}

// Looked for before every step: an optimizer may be prepared, and accumulation set, at any time.
std::string StepGraph::obstacle(const std::vector<at::Tensor>& inputs,
                                const Optimizers& optimizers) const {
  const c10::Device device = accelerator_->device();
  if (graph_ == nullptr) {
    return device.is_cuda()
               ? "this library was built without CUDA's headers (cmake says what to install)"
               : "the device is " + device.str() + ", and graphs are for GPUs";
  }
  if (accelerator_->num_processes() > 1) {
    return std::to_string(accelerator_->num_processes()) +
           " ranks take part, and graphs hold no communication";
  }
  if (accelerator_->distributed_type() == DistributedType::FSDP ||
      accelerator_->distributed_type() == DistributedType::DEEPSPEED) {
    return "models are sharded";
  }
  if (accelerator_->gradient_accumulation_steps() > 1) {
    return "gradients accumulate over " +
           std::to_string(accelerator_->gradient_accumulation_steps()) +
           " batches, and a graph holds one step";
  }
  if (accelerator_->scaler() && accelerator_->scaler()->is_enabled()) {
    return "precision is fp16, whose loss scaler reads a value of the device in each step; bf16 "
           "needs none";
  }
  for (const auto& input : inputs) {
    if (!input.defined() || input.device() == device) continue;
    return "a tensor of the batch is on " + input.device().str() + ", and a graph reads those on " +
           device.str() + ": prepare the loader, or move the batch";
  }
  for (const auto& optimizer : optimizers) {
    if (optimizer.fused_step() != nullptr) continue;
    return "an optimizer reads its rate on the CPU; SGD, Adam, AdamW and Adagrad read it on the "
           "device";
  }
  return {};
}

void StepGraph::warn_of(const std::string& reason) {
  reason_ = reason;
  get_logger("accelerate.graphs").warning("GraphedStep runs the step as it is: " + reason);
}

void StepGraph::drop() {
  captured_ = false;
  recordings_.clear();
  inputs_.clear();
}

bool StepGraph::fits(const std::vector<at::Tensor>& inputs) const {
  return std::ranges::equal(inputs, inputs_, is_alike);
}

void StepGraph::run(const std::function<void()>& step) {
  const bool warms_up = graph_ != nullptr && !captured_ && reason_.empty();
  warms_up ? graph_->warm_up(step) : step();
}

std::vector<double> StepGraph::rates() const {
  std::vector<double> found;
  for (const auto& optimizer : optimizers_) {
    for (const auto& group : optimizer.optimizer().param_groups())
      found.push_back(group.options().get_lr());
  }
  return found;
}

void StepGraph::set_rates(const std::vector<double>& rates) {
  auto rate = rates.begin();
  for (const auto& optimizer : optimizers_) {
    for (auto& group : optimizer.optimizer().param_groups()) group.options().set_lr(*rate++);
  }
}

bool StepGraph::capture(const std::vector<at::Tensor>& inputs, const std::function<void()>& step) {
  optimizers_ = accelerator_->optimizers();
  const auto before = rates();
  for (const auto& optimizer : optimizers_)
    optimizer.fused_step()->begin_recording(optimizer.optimizer());
  // Weights that a scope outside of the step has converted are not this graph's to keep.
  at::autocast::clear_cache();
  try {
    {
      const StepRecording recording;
      graph_->capture(step);
    }
    end_recording(before);
  } catch (const std::exception& error) {
    take_back(before);
    drop();
    failed_ = true;
    warn_of("recording it failed: " + first_line(error) +
            ". A step that reads a value of the device, by item() or a copy to the CPU, cannot be "
            "recorded");
    graph_.reset();
    return false;
  }
  for (const auto& recording : recordings_) recording->begin();
  inputs_ = inputs;
  captured_ = true;
  return true;
}

// Throws UsageError if what was recorded is not a step that can be repeated.
void StepGraph::end_recording(const std::vector<double>& rates_before) {
  if (rates() != rates_before) {
    throw UsageError(
        "a learning rate changed inside the recorded step. Step schedules outside of it, because a "
        "replay does not run them");
  }
  for (const auto& optimizer : optimizers_) {
    recordings_.push_back(optimizer.fused_step()->end_recording(optimizer.optimizer()));
    if (recordings_.back() != nullptr) continue;
    throw UsageError(
        "an optimizer made a step that cannot be repeated: of a gradient that no fused kernel "
        "takes (sparse, 16-bit), or the first step of a parameter");
  }
}

// Undoes what the CPU did in a step that was not recorded.
void StepGraph::take_back(const std::vector<double>& rates_before) {
  recordings_.resize(optimizers_.size());
  for (std::size_t i = 0; i < optimizers_.size(); ++i) {
    auto& optimizer = optimizers_[i];
    if (recordings_[i] == nullptr)
      recordings_[i] = optimizer.fused_step()->end_recording(optimizer.optimizer());
    if (recordings_[i] != nullptr) recordings_[i]->take_back(optimizer.optimizer());
    optimizer.zero_grad();
  }
  if (rates().size() == rates_before.size()) set_rates(rates_before);
}

bool StepGraph::hold(const Optimizers& optimizers) const {
  if (optimizers.size() != optimizers_.size()) return false;
  for (std::size_t i = 0; i < optimizers.size(); ++i) {
    if (optimizers[i].core() != optimizers_[i].core()) return false;
    if (!recordings_[i]->holds(optimizers[i].optimizer())) return false;
  }
  return true;
}

void StepGraph::replay(const std::vector<at::Tensor>& inputs) {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].defined()) inputs_[i].copy_(inputs[i], /*non_blocking=*/true);
  }
  graph_->replay();
}

}  // namespace accelerate::detail
