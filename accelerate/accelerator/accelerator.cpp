#include "accelerate/accelerator/accelerator.h"

#include <ATen/ATen.h>
#include <unistd.h>

#include <algorithm>

#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/base/heap.h"
#include "accelerate/base/live_lines.h"
#include "accelerate/base/logger.h"
#include "accelerate/tensor/seed.h"
#include "accelerate/tensor/weights.h"

namespace accelerate {
namespace {

// Set by the launcher or the user for features of later versions: refused, not ignored.
void refuse_unbuilt_options() {
  const auto precision = env("ACCELERATE_MIXED_PRECISION").value_or("no");
  if (precision != "no") {
    throw ConfigError(
        "ACCELERATE_MIXED_PRECISION asks for '" + precision +
        "', which this version does not have; allowed is 'no'. Set mixed_precision: 'no' in "
        "the configuration file or pass --mixed_precision no.");
  }
  const auto steps = env_int("ACCELERATE_GRADIENT_ACCUMULATION_STEPS").value_or(1);
  if (steps != 1) {
    throw ConfigError("ACCELERATE_GRADIENT_ACCUMULATION_STEPS is " + std::to_string(steps) +
                      ", and this version accumulates by no_sync() only; allowed is 1");
  }
}

}  // namespace

struct Accelerator::Impl {
  explicit Impl(const AcceleratorOptions& accelerator_options)
      : options(accelerator_options),
        state({options.cpu, options.init_process_group.timeout, options.communicator}) {
    keep_freed_memory();  // what a step frees, the next one needs
  }

  // The live cores; models that went out of scope drop out.
  std::vector<std::shared_ptr<detail::ModelCore>> live_models() {
    std::vector<std::shared_ptr<detail::ModelCore>> live;
    std::erase_if(models, [](const auto& weak) { return weak.expired(); });
    for (const auto& weak : models) live.push_back(weak.lock());
    return live;
  }

  std::shared_ptr<detail::ModelCore> adopt(const void* module,
                                           const std::function<ModuleView()>& view) {
    for (auto& core : live_models()) {
      if (core->module() == module) return core;
    }
    ModuleView seen = view();
    if (options.device_placement && !state.device().is_cpu()) {
      seen.to(state.device());
      seen = view();
    }
    auto core = std::make_shared<detail::ModelCore>(module, std::move(seen), state.communicator(),
                                                    options.ddp);
    models.push_back(core);
    return core;
  }

  AcceleratorOptions options;
  PartialState state;
  std::shared_ptr<GradientState> gradient_state = std::make_shared<GradientState>();
  std::vector<std::weak_ptr<detail::ModelCore>> models;
  std::optional<std::uint64_t> data_seed;  // rank 0's, once it has been agreed on
  bool trigger = false;
};

Accelerator::Accelerator(const AcceleratorOptions& options) {
  refuse_unbuilt_options();
  impl_ = std::make_unique<Impl>(options);
}
Accelerator::~Accelerator() = default;
Accelerator::Accelerator(Accelerator&&) noexcept = default;
Accelerator& Accelerator::operator=(Accelerator&&) noexcept = default;

const PartialState& Accelerator::state() const {
  return impl_->state;
}

const std::shared_ptr<GradientState>& Accelerator::gradient_state() const {
  return impl_->gradient_state;
}

void Accelerator::backward(const at::Tensor& loss, const BackwardOptions& options) {
  const auto models = impl_->live_models();
  for (const auto& core : models) core->parallel().begin_backward(options.retain_graph);
  try {
    loss.backward({}, options.retain_graph, options.create_graph);
  } catch (const std::exception& error) {
    for (const auto& core : models) core->parallel().abandon_backward(describe(error));
    throw;
  }
  for (const auto& core : models) core->parallel().finish_backward();
}

ProcessFirst Accelerator::main_process_first() const {
  return {state().communicator(), is_main_process()};
}

ProcessFirst Accelerator::local_main_process_first() const {
  return {state().communicator(), is_local_main_process()};
}

void Accelerator::set_trigger() {
  impl_->trigger = true;
}

bool Accelerator::check_trigger() {
  const at::Tensor raised = at::full({1}, impl_->trigger ? 1 : 0, at::kInt);
  communicator().all_reduce(raised, ReduceOp::sum).wait();
  impl_->trigger = false;
  return raised.item<int>() > 0;
}

void Accelerator::print(const std::string& line) const {
  if (is_local_main_process()) print_above_live_lines(STDOUT_FILENO, line + "\n");
}

void Accelerator::end_training() {
  wait_for_everyone();
}

void Accelerator::save(const std::vector<NamedTensor>& tensors,
                       const std::filesystem::path& file) const {
  if (is_main_process()) save_tensors(tensors, file);
}

void Accelerator::save_module(const ModuleView& view,
                              const std::filesystem::path& directory) const {
  save(without_duplicates(state_dict(view)), directory / "model.safetensors");
}

std::shared_ptr<detail::ModelCore> Accelerator::core_of(torch::nn::Module& module) {
  return impl_->adopt(&module, [&module] { return view_of(module); });
}

std::shared_ptr<detail::ModelCore> Accelerator::script_core_of(torch::jit::Module& module) {
  return impl_->adopt(&module, [&module] { return view_of(module); });
}

AcceleratedOptimizer Accelerator::adopt_optimizer(torch::optim::Optimizer& optimizer) {
  const bool place = impl_->options.device_placement && !device().is_cpu();
  return {optimizer, gradient_state(), place ? std::optional(device()) : std::nullopt};
}

LoaderContext Accelerator::loader_context() const {
  LoaderContext context{process_index(), num_processes(), impl_->options.dataloader_config,
                        gradient_state()};
  if (impl_->options.device_placement && !device().is_cpu()) context.device = device();
  // Ranks that forgot set_seed would shuffle differently: everyone takes rank 0's seed.
  if (!context.config.data_seed) {
    if (!impl_->data_seed) {
      const auto mine = at::full({1}, static_cast<std::int64_t>(initial_seed()), at::kLong);
      communicator().broadcast(mine, 0).wait();
      impl_->data_seed = static_cast<std::uint64_t>(mine.item<std::int64_t>());
    }
    context.config.data_seed = impl_->data_seed;
  }
  return context;
}

namespace {

// The ranks' tensors without padding, when their sizes along dim 0 differ.
detail::Tensors gather_ragged(Communicator& communicator, const detail::Tensors& tensors) {
  const auto padded = detail::pad_across_processes(communicator, tensors, {});
  const auto gathered = detail::gather(communicator, padded);
  detail::Tensors sizes;
  for (const auto& tensor : tensors)
    sizes.push_back(at::full({1}, tensor.dim() == 0 ? 1 : tensor.size(0), at::kLong));
  const auto all_sizes = detail::gather(communicator, sizes);
  detail::Tensors results;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto longest = gathered[i].size(0) / communicator.size();
    detail::Tensors parts;
    for (int rank = 0; rank < communicator.size(); ++rank) {
      parts.push_back(
          gathered[i].narrow(0, rank * longest, all_sizes[i][rank].item<std::int64_t>()));
    }
    results.push_back(at::cat(parts));
  }
  return results;
}

}  // namespace

detail::Tensors Accelerator::gather_tensors_for_metrics(const detail::Tensors& tensors) const {
  if (!gradient_state()->end_of_dataloader()) return detail::gather(communicator(), tensors);
  const auto all = impl_->options.dataloader_config.even_batches
                       ? detail::gather(communicator(), tensors)
                       : gather_ragged(communicator(), tensors);
  const auto remainder = gradient_state()->remainder();
  return remainder > 0 ? detail::slice(all, 0, remainder) : all;
}

}  // namespace accelerate
