#include "accelerate/transformers/trainer/trainer.h"

#include <torch/optim/optimizer.h>

#include <cmath>
#include <csignal>
#include <utility>

#include "accelerate/accelerator/batch_size/batch_size_finder.h"
#include "accelerate/base/heap.h"
#include "accelerate/base/stop_signals.h"
#include "accelerate/launch/supervisor.h"
#include "accelerate/transformers/trainer/callbacks/progress_callback.h"
#include "accelerate/transformers/trainer/callbacks/speed.h"
#include "accelerate/transformers/trainer/checkpoints/checkpoints.h"
#include "accelerate/transformers/trainer/hub/trainer_hub.h"
#include "accelerate/transformers/trainer/loop/evaluation.h"
#include "accelerate/transformers/trainer/loop/training_loop.h"
#include "accelerate/transformers/trainer/preflight.h"
#include "accelerate/transformers/trainer/ranks.h"
#include "accelerate/transformers/trainer/trainer_core.h"

namespace accelerate {
namespace {

using Clock = std::chrono::steady_clock;

// Turns a share of all steps into a number of steps; a number stays as it is.
std::int64_t resolved_steps(double steps, std::int64_t max_steps) {
  return static_cast<std::int64_t>(steps < 1 ? std::ceil(static_cast<double>(max_steps) * steps)
                                             : steps);
}

}  // namespace

struct Trainer::Impl {
  /// The checkpoint to resume from, if any.
  using CheckpointFolder = std::optional<std::filesystem::path>;

  explicit Impl(TrainerOptions options);

  TrainOutput train(const ResumeOption& asked);
  TrainOutput train_from(const ResumeOption& asked);
  TrainOutput train_with(std::int64_t batch_size, const CheckpointFolder& from);
  void begin_state(const detail::TrainingPlan& plan);
  TrainOutput run_loop(detail::TrainingData data, const std::optional<detail::Resumed>& resumed,
                       const CheckpointFolder& from);
  void leave(const std::string& reason, const LogValues& metrics);
  void leave_with_error() noexcept;
  TrainOutput finish(const detail::TrainingPlan& plan, double seconds, std::int64_t first_step,
                     double mean_loss);
  [[nodiscard]] bool is_asked_to_stop();
  void evaluate_at_start();
  std::string leave_on_signal(int signal);
  [[noreturn]] void interrupt(int signal);
  [[noreturn]] void interrupt_before_a_step(int signal, const CheckpointFolder& from);
  void save_model(const std::filesystem::path& folder);

  detail::TrainerCore core;
  detail::TrainerHub hub{core};
  detail::Checkpoints checkpoints{core, hub};
  std::optional<StopSignals> signals;  // While train() runs, but for what follows the last step.
  bool has_trained = false;            // If so, what is in output_dir belongs to this run.
};

Trainer::Impl::Impl(TrainerOptions options) : core(std::move(options)) {
  auto& callbacks = core.record.callbacks;
  callbacks.add(std::make_shared<DefaultFlowCallback>());
  if (!core.args.report_to.empty()) callbacks.add(std::make_shared<TrackingCallback>());
  callbacks.add(core.record.run_log);
  if (core.args.disable_tqdm.value_or(false)) {
    callbacks.add(std::make_shared<PrinterCallback>());
  } else {
    callbacks.add(std::make_shared<ProgressCallback>());
  }
  for (const auto& callback : core.options.callbacks) callbacks.add(callback);
  core.record.call(&TrainerCallback::on_init_end);
}

// --- preparing -----------------------------------------------------------------------------------

void Trainer::Impl::begin_state(const detail::TrainingPlan& plan) {
  auto& state = core.record.state;
  state = {.train_batch_size = core.recipe.train_batch_size,
           .is_local_process_zero = state.is_local_process_zero,
           .is_world_process_zero = state.is_world_process_zero};
  state.logging_steps = resolved_steps(core.args.logging_steps, plan.max_steps);
  state.save_steps = resolved_steps(core.args.save_steps, plan.max_steps);
  if (core.args.eval_steps)
    state.eval_steps = resolved_steps(*core.args.eval_steps, plan.max_steps);
  core.record.control = {};
}

// --- training ------------------------------------------------------------------------------------

TrainOutput Trainer::Impl::train(const ResumeOption& asked) {
  signals.emplace();
  try {
    if (core.args.enable_jit_checkpoint && !StopSignals::catches(SIGTERM))
      throw ConfigError(
          "enable_jit_checkpoint is set, but this program handles or ignores SIGTERM itself, so "
          "the "
          "Trainer never gets it. Leave SIGTERM alone before train(), or leave the argument out");
    return train_from(asked);
  } catch (...) {
    signals.reset();
    throw;
  }
}

TrainOutput Trainer::Impl::train_from(const ResumeOption& asked) {
  // All ranks have the same arguments and data, so all find the same mistakes.
  detail::check_training(core);
  detail::make_output_dir(core);
  const auto lock = detail::lock_output_dir(core);
  checkpoints.settle();
  CheckpointFolder from = has_trained ? std::nullopt : checkpoints.of_this_launch();
  if (from) {
    detail::say(core.accelerator, "all ranks were started again: going on from " + from->string());
  } else {
    from = checkpoints.find(asked.empty() ? core.args.resume_from_checkpoint : asked);
  }
  if (!has_trained) checkpoints.begin_run(from);
  hub.make_repository();
  if (!core.args.auto_find_batch_size) return train_with(core.recipe.train_batch_size, from);
  TrainOutput output;
  find_executable_batch_size(
      core.accelerator, [&](std::int64_t batch_size) { output = train_with(batch_size, from); },
      {.starting_batch_size = core.args.per_device_train_batch_size})();
  return output;
}

TrainOutput Trainer::Impl::train_with(std::int64_t batch_size, const CheckpointFolder& from) {
  core.recipe.train_batch_size = batch_size;
  // With model_init each training begins with a new model.
  if (core.options.model_init && has_trained) core.trained.remake();
  has_trained = true;
  auto data = detail::prepare_training(core.accelerator, core.recipe, core.options.train_dataset);
  std::optional<detail::OpenedCheckpoint> opened;
  if (from) opened = checkpoints.open(*from);
  std::optional<detail::Resumed> resumed;
  if (opened) resumed = detail::resume_place(*opened, data, core.args);
  core.trained.prepare_optimizer(data.plan.max_steps);
  core.trained.check_half_weights();
  detail::try_evaluation(core);
  begin_state(data.plan);
  if (core.args.verify_resume)
    detail::say(core.accelerator, detail::verify_resume(core, data.plan, data.loader));
  if (opened) checkpoints.load(*opened);
  core.record.state.max_steps = data.plan.max_steps;
  core.record.state.num_train_epochs = data.plan.num_train_epochs;
  detail::warn_if_never_evaluated(core);
  detail::say(core.accelerator, detail::describe_training(core, data.plan));
  return run_loop(std::move(data), resumed, from);
}

TrainOutput Trainer::Impl::run_loop(detail::TrainingData data,
                                    const std::optional<detail::Resumed>& resumed,
                                    const CheckpointFolder& from) {
  const auto start = Clock::now();
  const auto first_step = core.record.state.global_step;
  core.record.is_training = true;
  std::optional<std::string> resumed_from;
  if (resumed) resumed_from = checkpoints.folder_of(first_step).filename().string();
  core.record.run_log->begin(core.record.event(), data.plan, resumed_from);
  return_freed_memory();  // From tokenizing and loading.
  int signal = 0;
  bool saved = false;
  double mean_loss = 0;
  try {
    core.record.call(&TrainerCallback::on_train_begin);
    if (core.args.eval_on_start && !resumed && !is_asked_to_stop()) evaluate_at_start();
    detail::TrainingLoop loop(core, data.plan, std::move(data.loader), &checkpoints);
    core.record.run_log->set_clock(&loop.clock());
    loop.run(resumed.value_or(detail::Resumed{.steps = data.plan.epoch(0)}));
    signal = loop.stop_signal();
    saved = loop.saved_at_stop();
    if (signal == 0) mean_loss = loop.mean_loss();
  } catch (...) {
    leave_with_error();
    throw;
  }
  // A launcher may ask again while this rank ends.
  if (signal != 0) saved ? interrupt(signal) : interrupt_before_a_step(signal, from);
  signals.reset();  // From here on nobody asks for them.
  return finish(data.plan, detail::seconds_since(start), first_step, mean_loss);
}

// Ends the training, for whatever reason.
void Trainer::Impl::leave(const std::string& reason, const LogValues& metrics) {
  core.record.run_log->end(core.record.event(), reason, metrics);
  core.record.is_training = false;
  core.record.call(&TrainerCallback::on_train_end);
}

// The caller rethrows the error that ended the training. What callbacks throw is only logged.
void Trainer::Impl::leave_with_error() noexcept {
  try {
    leave("error", {});
  } catch (const std::exception& error) {
    detail::trainer_logger().warning(error.what());
  }
}

TrainOutput Trainer::Impl::finish(const detail::TrainingPlan& plan, double seconds,
                                  std::int64_t first_step, double mean_loss) {
  const auto steps = static_cast<double>(core.record.state.global_step - first_step);
  if (steps == 0) detail::trainer_logger().warning(detail::why_nothing_was_trained(core, plan));
  TrainOutput output{.global_step = core.record.state.global_step, .training_loss = mean_loss};
  const double share = steps / static_cast<double>(std::max<std::int64_t>(plan.max_steps, 1));
  detail::add_speed(output.metrics, "train", seconds,
                    {.samples = plan.num_train_samples * share, .steps = steps});
  output.metrics.set("total_flos", core.record.state.total_flos);
  if (steps > 0 || !std::isnan(mean_loss)) output.metrics.set("train_loss", mean_loss);
  output.metrics = core.record.log(std::move(output.metrics));
  if (core.args.load_best_model_at_end) checkpoints.load_best();
  checkpoints.end_run();
  const bool finished = core.record.state.global_step >= core.record.state.max_steps;
  leave(finished ? "finished" : "stopped", output.metrics);
  hub.push_at_end();
  return output;
}

// Whether any rank got a signal. [collective]
bool Trainer::Impl::is_asked_to_stop() {
  const double mine =
      detail::weight_of_signal(StopSignals::received(), core.accelerator.num_processes());
  return detail::sum_of_ranks(core.accelerator, {mine}).front() > 0;
}

// A signal breaks it off; the loop then ends before its first step.
void Trainer::Impl::evaluate_at_start() {
  detail::EvaluationProgress progress;
  (void)detail::evaluate(core, {}, "eval", &progress);
}

// Returns the signal's name.
std::string Trainer::Impl::leave_on_signal(int signal) {
  const std::string name = signal_name(signal);
  leave(name, {});
  hub.wait();
  return name;
}

void Trainer::Impl::interrupt_before_a_step(int signal, const CheckpointFolder& from) {
  const std::string text =
      leave_on_signal(signal) + " stopped the training before it made a step; nothing is lost. ";
  throw TrainingInterrupted(
      signal, from.value_or(""),
      text + (from ? "Resume from " + from->string() + " again, by resume_from_checkpoint"
                   : std::string("Start it again")));
}

void Trainer::Impl::interrupt(int signal) {
  const std::string name = leave_on_signal(signal);
  const auto folder = checkpoints.folder_of(core.record.state.global_step);
  throw TrainingInterrupted(
      signal, folder,
      name + " stopped the training at step " + std::to_string(core.record.state.global_step) +
          " of " + std::to_string(core.record.state.max_steps) + "; " + folder.string() +
          " is saved. Resume with resume_from_checkpoint = true (--resume_from_checkpoint true)");
}

void Trainer::Impl::save_model(const std::filesystem::path& folder) {
  const auto chosen = folder.empty() ? std::filesystem::path(core.args.output_dir) : folder;
  auto& model = core.trained.prepared_model();
  core.trained.set_training_mode(false);
  core.accelerator.save_model(model, chosen, "50GB");
  if (core.accelerator.is_main_process()) detail::write_model_files(core, chosen);
}

// --- the public face -----------------------------------------------------------------------------

Trainer::Trainer(TrainerOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Trainer::~Trainer() = default;
Trainer::Trainer(Trainer&&) noexcept = default;
Trainer& Trainer::operator=(Trainer&&) noexcept = default;

TrainOutput Trainer::train(const ResumeOption& resume_from_checkpoint) {
  return impl_->train(resume_from_checkpoint);
}

LogValues Trainer::evaluate(const EvalDatasets& eval_dataset,
                            const std::string& metric_key_prefix) {
  return detail::evaluate(impl_->core, eval_dataset, metric_key_prefix);
}

PredictionOutput Trainer::predict(const TrainerDataset& test_dataset,
                                  const std::string& metric_key_prefix) {
  const auto half = detail::half_weights(impl_->core);
  auto result = detail::run_evaluation(impl_->core, test_dataset,
                                       {.prefix = metric_key_prefix, .keeps_predictions = true});
  impl_->core.record.call(&TrainerCallback::on_predict, result.metrics);
  return {.predictions = result.prediction.predictions,
          .label_ids = result.prediction.label_ids,
          .outputs = std::move(result.prediction.outputs),
          .metrics = std::move(result.metrics)};
}

void Trainer::save_model(const std::filesystem::path& folder) {
  impl_->save_model(folder);
}

void Trainer::save_state() {
  if (!impl_->core.accelerator.is_main_process()) return;
  detail::write_state(impl_->core.args.output_dir, impl_->core.record.saved_state());
}

void Trainer::log(LogValues logs) {
  impl_->core.record.log(std::move(logs));
}

void Trainer::log_metrics(const std::string& split, const LogValues& metrics) const {
  detail::say(impl_->core.accelerator, detail::metrics_table(split, metrics));
}

void Trainer::save_metrics(const std::string& split, const LogValues& metrics,
                           bool combined) const {
  if (impl_->core.accelerator.is_main_process())
    detail::write_results(impl_->core.args.output_dir, split, metrics, combined);
}

CommitInfo Trainer::push_to_hub(const std::string& commit_message) {
  return impl_->hub.push(commit_message);
}

void Trainer::end() {
  impl_->core.accelerator.end_training();
}

void Trainer::add_callback(std::shared_ptr<TrainerCallback> callback) {
  impl_->core.record.callbacks.add(std::move(callback));
}

std::shared_ptr<TrainerCallback> Trainer::pop_callback(std::string_view name) {
  return impl_->core.record.callbacks.pop(name);
}

const ResolvedArguments& Trainer::args() const {
  return impl_->core.args;
}
const TrainerState& Trainer::state() const {
  return impl_->core.record.state;
}
const TrainableModel& Trainer::model() const {
  return impl_->core.trained.model();
}
Accelerator& Trainer::accelerator() {
  return impl_->core.accelerator;
}
bool Trainer::is_world_process_zero() const {
  return impl_->core.accelerator.is_main_process();
}
bool Trainer::is_local_process_zero() const {
  return impl_->core.accelerator.is_local_main_process();
}

}  // namespace accelerate
