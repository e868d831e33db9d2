#include "accelerate/accelerator/accelerator_impl.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <torch/csrc/jit/api/module.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "accelerate/accelerator/prepared_elsewhere.h"
#include "accelerate/accelerator/resolved_settings.h"
#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/base/logger.h"
#include "accelerate/base/text.h"
#include "accelerate/comm/announced_call.h"
#include "accelerate/formats/weights/weight_index.h"
#include "accelerate/parallel/make_parallel.h"
#include "accelerate/parallel/replicated/sync_batch_norm.h"
#include "accelerate/tensor/compat/large_tensors.h"
#include "accelerate/tensor/scalar_type.h"
#include "accelerate/tensor/seed.h"
#include "accelerate/tensor/weights.h"

namespace accelerate {
namespace {

// Gathers units and computes in fp32. Gradients are still reduced in the type they would have had.
void compute_in_fp32(ResolvedFsdpOptions& settings) {
  if (!settings.reduce_dtype) settings.reduce_dtype = settings.param_dtype;
  settings.param_dtype = DType::f32;
}

std::optional<at::ScalarType> optional_type(const std::optional<DType>& type) {
  return type ? std::optional(to_scalar_type(*type)) : std::nullopt;
}

}  // namespace

RankCalls::RankCalls(const PartialStateOptions& options)
    : PartialState(options), debug_(env_flag("ACCELERATE_DEBUG_MODE", false)) {}

Accelerator::Impl::Impl(const AcceleratorOptions& accelerator_options, const RankCalls& ranks)
    : options(accelerator_options),
      state(ranks.state()),
      debug(ranks.debug()),
      deepspeeds(detail::deepspeeds_of(options, state.num_processes())),
      deepspeed(deepspeeds.empty() ? std::nullopt : std::optional(deepspeeds.front().settings)),
      precision(deepspeed ? deepspeed->mixed_precision : detail::precision_of(options)),
      gradient_state(ranks.gradient_state()),
      checkpointing(project_directory(options.project_dir, options.project_config),
                    options.project_config, disk_leader()),
      trackers(options.log_with, logging_directory(options.project_dir, options.project_config),
               state.is_main_process()) {
  compat::keep_freed_tensors();  // What a step frees, the next one needs again.
  fsdp = detail::sharding_of(options, deepspeed, precision);
  detail::warn_of_what_has_no_effect(options, fsdp.has_value());
  gradient_state->accumulation = detail::accumulation_of(options, deepspeed);
  if (autocast_dtype(precision) == at::kHalf) {
    options.grad_scaler = detail::scaling_of(options.grad_scaler, deepspeed);
    scaler =
        std::make_shared<GradScaler>(state.device(), state.communicator(), options.grad_scaler);
  }
}

// Optimizers may live longer.
Accelerator::Impl::~Impl() {
  gradient_state->at_first_step = nullptr;
  stop_clipping();
}

int Accelerator::Impl::disk_leader() const {
  return options.project_config.save_on_each_node
             ? state.process_index() - state.local_process_index()
             : 0;
}

Accelerator::Impl::Models Accelerator::Impl::live_models() {
  Models live;
  std::erase_if(models, [](const auto& weak) { return weak.expired(); });
  for (const auto& weak : models) live.push_back(weak.lock());
  return live;
}

Accelerator::Impl::Optimizers Accelerator::Impl::live_optimizers() {
  Optimizers live;
  std::erase_if(*optimizers, [](const auto& weak) { return weak.expired(); });
  for (const auto& weak : *optimizers) live.emplace_back(weak.lock());
  return live;
}

std::vector<AcceleratedScheduler> Accelerator::Impl::live_schedulers() {
  std::vector<AcceleratedScheduler> live;
  std::erase_if(schedulers, [](const auto& weak) { return weak.expired(); });
  for (const auto& weak : schedulers) live.emplace_back(weak.lock());
  return live;
}

std::vector<detail::LoaderPlan> Accelerator::Impl::live_loaders() {
  std::vector<detail::LoaderPlan> live;
  std::erase_if(loaders, [](const auto& watched) { return !watched(); });
  for (const auto& watched : loaders) live.push_back(*watched());
  return live;
}

std::shared_ptr<detail::ModelCore> Accelerator::Impl::adopt(
    const void* module, const std::function<ModuleView()>& view) {
  ModuleView seen = view();
  require_preparable(module, seen);
  for (auto& core : live_models()) {
    if (core->module() == module) return core;
  }
  if (options.device_placement && !state.device().is_cpu() && !fsdp) {
    seen.to(state.device());
    seen = view();
  }
  const StrategyOptions strategy{
      .sharding = sharding_settings(),
      .device = state.device(),
      .checkpointing = options.gradient_checkpointing,
      .ddp = options.ddp,
      .when_alone = debug ? WhenAlone::check_as_a_group : WhenAlone::train};
  const auto forward = forward_precision(strategy.sharding);
  auto core = std::make_shared<detail::ModelCore>(
      module, seen, make_parallel(seen, state.communicator(), strategy), forward);
  detail::note_prepared(core, gradient_state, scales());
  models.push_back(core);
  detail::tell_divided(core);
  ties.name_by(core->view());
  for (auto& optimizer : live_optimizers()) optimizer.shard(core->parallel().parts);
  return core;
}

at::ScalarType Accelerator::Impl::agreed_type(at::ScalarType asked) {
  return state.device().is_cpu() ? half_on_cpu.agree(asked) : asked;
}

std::optional<ResolvedFsdpOptions> Accelerator::Impl::sharding_settings() {
  if (!fsdp) return std::nullopt;
  ResolvedFsdpOptions settings = *fsdp;
  if (detail::is_hybrid(settings.sharding_strategy) && settings.shard_group_size == 0)
    settings.shard_group_size = state.local_num_processes();
  if (settings.param_dtype) {
    const auto asked = to_scalar_type(*settings.param_dtype);
    if (agreed_type(asked) != asked) compute_in_fp32(settings);
  }
  return settings;
}

detail::ForwardPrecision Accelerator::Impl::forward_precision(
    const std::optional<ResolvedFsdpOptions>& sharding) {
  detail::ForwardPrecision forward{.device = state.device().type(), .autocast = options.autocast};
  if (const auto asked = autocast_dtype(precision)) forward.dtype = agreed_type(*asked);
  if (!sharding) return forward;
  // Parameters already have the type that is computed in, so a cached copy would waste memory.
  forward.autocast.cache_enabled = false;
  // Where units compute in fp32 instead, buffers that the policy keeps in 16 bits meet fp32.
  if (sharding->param_dtype != fsdp->param_dtype) forward.dtype = at::kFloat;
  forward.input = optional_type(sharding->param_dtype);
  forward.output = optional_type(sharding->output_dtype);
  return forward;
}

Accelerator::Accelerator(const AcceleratorOptions& options)
    : RankCalls({.cpu = options.cpu,
                 .timeout = options.init_process_group.timeout,
                 .backend = options.init_process_group.backend,
                 .communicator = options.communicator}),
      impl_(std::make_unique<Impl>(options, *this)) {}
Accelerator::~Accelerator() = default;
Accelerator::Accelerator(Accelerator&&) noexcept = default;
Accelerator& Accelerator::operator=(Accelerator&&) noexcept = default;

DistributedType Accelerator::distributed_type() const {
  if (!impl_->fsdp) return state().distributed_type();
  return impl_->deepspeed ? DistributedType::DEEPSPEED : DistributedType::FSDP;
}

std::size_t Accelerator::Impl::place_of_deepspeed(const std::string& name) const {
  std::vector<std::string> names;
  for (const auto& one : deepspeeds) {
    if (one.name == name && !name.empty()) return names.size();
    if (!one.name.empty()) names.push_back(one.name);
  }
  throw UsageError("there is no DeepSpeed plugin '" + name + "'; " +
                   (names.empty()
                        ? "deepspeed_plugins of AcceleratorOptions gives them names"
                        : "the names are " + join(names, ", ") + "." + did_you_mean(name, names)));
}

const DeepSpeedPlugin* Accelerator::deepspeed_plugin() const {
  const bool is_of_program =
      impl_->options.deepspeed_plugin || !impl_->options.deepspeed_plugins.empty();
  return is_of_program ? &impl_->deepspeeds[impl_->active_deepspeed].plugin : nullptr;
}

const DeepSpeedPlugin& Accelerator::get_deepspeed_plugin(const std::string& name) const {
  return impl_->deepspeeds[impl_->place_of_deepspeed(name)].plugin;
}

void Accelerator::select_deepspeed_plugin(const std::string& name) {
  impl_->active_deepspeed = impl_->place_of_deepspeed(name);
  impl_->deepspeed = impl_->deepspeeds[impl_->active_deepspeed].settings;
  impl_->fsdp = detail::sharding_of(impl_->options, impl_->deepspeed, impl_->precision);
  impl_->gradient_state->accumulation = detail::accumulation_of(impl_->options, impl_->deepspeed);
}

Profiler Accelerator::profile() const {
  return profile(impl_->options.profile);
}

Profiler Accelerator::profile(ProfileKwargs kwargs) const {
  return Profiler(std::move(kwargs), state().communicator());
}

Trackers& Accelerator::trackers_of_rank() const {
  return impl_->trackers;
}

void Accelerator::end_training() {
  const detail::AnnouncedCall call("end_training()");
  wait_for_everyone();
  std::exception_ptr failed_save;
  try {
    impl_->checkpointing.finish(communicator());
  } catch (...) {
    failed_save = std::current_exception();
  }
  impl_->trackers.finish();
  if (failed_save) std::rethrow_exception(failed_save);
}

void Accelerator::save(const std::vector<NamedTensor>& tensors, const std::filesystem::path& file,
                       bool safe_serialization) const {
  if (!impl_->saves()) return;
  write_weights_file(weight_sources(tensors), file, {.safe_serialization = safe_serialization});
}

std::shared_ptr<detail::ModelCore> Accelerator::core_of(torch::nn::Module& module) {
  auto core = impl_->adopt(&module, [&module] { return view_of(module); });
  if (!core->sync_batch_norms()) {
    core->set_sync_batch_norms(detail::join_batch_norms(module, state().communicator()));
  }
  return core;
}

std::shared_ptr<detail::ModelCore> Accelerator::script_core_of(torch::jit::Module& module) {
  return impl_->adopt(module._ivalue().get(), [&module] { return view_of(module); });
}

AcceleratedOptimizer Accelerator::adopt_optimizer(torch::optim::Optimizer& given) {
  torch::optim::Optimizer& optimizer = impl_->real_optimizer(given, {});
  impl_->require_preparable(given, {});
  impl_->ties.list_once_in(optimizer);
  for (const auto& core : impl_->live_models()) impl_->ties.name_by(core->view());
  const auto shard = [this](AcceleratedOptimizer& prepared) {
    for (const auto& core : impl_->live_models()) prepared.shard(core->parallel().parts);
  };
  for (auto& known : impl_->live_optimizers()) {
    if (&known.optimizer() != &optimizer) continue;
    shard(known);  // It may have got parameter groups since.
    return known;
  }
  // The scaler may still know another optimizer that had this address.
  if (impl_->scaler) impl_->scaler->reset(&optimizer);
  const bool place = impl_->options.device_placement && !device().is_cpu();
  AcceleratedOptimizer prepared(optimizer, gradient_state(), impl_->scaler,
                                place ? std::optional(device()) : std::nullopt);
  prepared.share_losses(impl_->state.communicator());
  shard(prepared);
  impl_->clip_steps_of(prepared);
  impl_->optimizers->push_back(prepared.core());
  return prepared;
}

AcceleratedScheduler Accelerator::adopt_scheduler(const AcceleratedScheduler::Given& given) {
  const AcceleratorOptions& options = impl_->options;
  const int ranks = options.dataloader_config.split_batches ? 1 : num_processes();
  const auto of_file = detail::real_schedule(given, impl_->deepspeed, ranks);
  const AcceleratedScheduler::Given scheduler = of_file ? of_file : given;
  // DeepSpeed's schedules count steps of the optimizer.
  const auto pace = of_file ? std::optional(SchedulerStep::once) : options.scheduler_step;
  for (auto& known : impl_->live_schedulers()) {
    if (known.is_of(scheduler)) return known;
  }
  AcceleratedScheduler prepared(scheduler,
                                {.gradient_state = gradient_state(),
                                 .communicator = state().communicator(),
                                 .optimizers = impl_->optimizers,
                                 .step_with_optimizer = options.step_scheduler_with_optimizer,
                                 .split_batches = options.dataloader_config.split_batches,
                                 .scheduler_step = pace});
  impl_->schedulers.push_back(prepared.core());
  return prepared;
}

const DataLoaderConfiguration& Accelerator::dataloader_config() const {
  return impl_->options.dataloader_config;
}

void Accelerator::set_even_batches(bool even_batches) {
  impl_->options.dataloader_config.even_batches = even_batches;
}

void Accelerator::place(LoaderContext& context, bool on_device) const {
  context.device = on_device && !device().is_cpu() ? std::optional(device()) : std::nullopt;
}

void Accelerator::remember_loader(const detail::LoaderPlan& loader) {
  if (impl_->loaders.empty())
    detail::compare_batch(loader.total_batch_size() / num_processes(), impl_->deepspeed);
  impl_->loaders.push_back(loader.watch());
}

LoaderContext Accelerator::loader_context() const {
  LoaderContext context{.rank = process_index(),
                        .world_size = num_processes(),
                        .config = impl_->options.dataloader_config,
                        .gradient_state = gradient_state(),
                        .communicator = state().communicator(),
                        .rng_types = impl_->options.rng_types};
  place(context, impl_->options.device_placement);
  // Ranks that forgot set_seed would shuffle differently, so all take rank 0's seed.
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

}  // namespace accelerate
