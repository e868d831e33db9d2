#include "accelerate/transformers/trainer/loop/training_loop.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/sum.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "accelerate/base/stop_signals.h"
#include "accelerate/transformers/trainer/callbacks/best_metric.h"
#include "accelerate/transformers/trainer/callbacks/speed.h"
#include "accelerate/transformers/trainer/model_size.h"
#include "accelerate/transformers/trainer/ranks.h"
#include "accelerate/watch/profiler/memory_meter.h"

namespace accelerate::detail {
namespace {

// Counts the tokens of a batch; `counted` says which tokens count.
double input_tokens(const Inputs& batch, CountedTokens counted) {
  if (counted == CountedTokens::no) return 0;
  const at::Tensor mask = batch.get("attention_mask");
  if (counted == CountedTokens::non_padding && mask.defined())
    return mask.ne(0).sum().item<double>();
  const at::Tensor ids = batch.get("input_ids");
  return ids.defined() ? static_cast<double>(ids.numel()) : 0;
}

}  // namespace

TrainingLoop::TrainingLoop(TrainerCore& core, const TrainingPlan& plan,
                           PreparedLoader<Inputs> loader, Checkpoints* checkpoints)
    : core_(core),
      plan_(plan),
      loader_(std::move(loader)),
      checkpoints_(checkpoints),
      batch_loss_(core.options, core.recipe, core.accelerator.num_processes()),
      first_step_(core.record.state.global_step),
      tokens_before_(core.record.state.num_input_tokens_seen),
      step_logged_(core.record.state.global_step),
      flops_per_token_(flops_per_token(core.trained.model())),
      explained_(checkpoints == nullptr) {}

void TrainingLoop::run(const Resumed& resumed) {
  const auto& step = core_.record.state.global_step;
  if (agree_to_stop()) return;
  core_.trained.optimizer()->zero_grad();  // An interrupted training may have left some.
  Resumed at = resumed;
  if (resumed.record) {
    take_up(*resumed.record);
    if (resumed.inside) enter_epoch(resumed);
    make_up(*resumed.record);
    if (at.inside && record_.epoch_ended && record_.epoch_over)
      at = {.epoch = at.epoch + 1, .steps = plan_.epoch(at.epoch + 1)};
  }
  const auto stops = [&] { return core_.record.control.should_training_stop || stop_signal_ != 0; };
  while (at.epoch < plan_.num_train_epochs && step < plan_.max_steps && !stops()) {
    run_epoch(at);
    at = {.epoch = at.epoch + 1, .steps = plan_.epoch(at.epoch + 1)};
  }
  stop_late();
}

// With another number of ranks each gets an equal share of the losses.
void TrainingLoop::take_up(const LoopRecord& record) {
  record_ = record;
  evaluated_ = {.sets = record.evaluated_sets, .metrics = record.evaluated};
  if (!record.is_extra) step_due_ = core_.record.state.global_step;
  step_logged_ = record.step_logged;
  const auto rank = static_cast<std::size_t>(core_.accelerator.process_index());
  const auto ranks = static_cast<std::size_t>(core_.accelerator.num_processes());
  const double sum = std::accumulate(record.losses.begin(), record.losses.end(), 0.0);
  const auto saved_ranks = static_cast<double>(std::max<std::size_t>(record.losses.size(), 1));
  loss_ = record.losses.size() == ranks ? record.losses[rank] : sum / saved_ranks;
  total_loss_ = record.total_loss;
  if (record.interrupted) {
    loss_before_ = record.loss_before;
    first_step_ = record.first_step;
  } else {
    loss_before_ = record.total_loss + sum / saved_ranks;
  }
  if (record.grad_norm) grad_norm_ = at::scalar_tensor(*record.grad_norm, at::kDouble);
  learning_rate_ = record.learning_rate;
}

// Does what the step of the checkpoint asked for, and what follows the last step of an epoch.
void TrainingLoop::make_up(const LoopRecord& record) {
  auto& control = core_.record.control;
  const TrainerControl asked = control;  // By callbacks in on_train_begin, for the first step.
  control.should_log = false;
  control.should_evaluate = record.evaluate_due;
  control.should_save = record.save_due;
  control.should_training_stop |=
      record.stop_due || core_.record.state.global_step >= plan_.max_steps;
  log_save_evaluate();
  if (stop_signal_ != 0) return;
  if (!record.epoch_ended && (record.epoch_over || is_stopping())) end_epoch();
  control.should_log |= asked.should_log;
  control.should_evaluate |= asked.should_evaluate;
  control.should_save |= asked.should_save;
}

// A signal that came during the last step counts too.
void TrainingLoop::stop_late() {
  if (stop_signal_ == 0 && agree_to_stop()) save();
}

double TrainingLoop::weight_of_signal() const {
  return detail::weight_of_signal(StopSignals::received(), core_.accelerator.num_processes());
}

// `sum`: the sum of all ranks' weights.
void TrainingLoop::note_signal(double sum) {
  if (stop_signal_ != 0) return;
  stop_signal_ = signal_of_weights(sum, core_.accelerator.num_processes());
  core_.record.control.was_interrupted |= stop_signal_ != 0;
}

// Returns whether any rank got a signal. [collective]
bool TrainingLoop::agree_to_stop() {
  if (stop_signal_ == 0) note_signal(sum_of_ranks(core_.accelerator, {weight_of_signal()}).front());
  return stop_signal_ != 0;
}

void TrainingLoop::enter_epoch(const Resumed& at) {
  record_.epoch = at.epoch;
  record_.updates = at.updates;
  record_.cut = at.steps.cut;
  record_.epoch_begin = at.steps.begin;
}

void TrainingLoop::begin_epoch(const Resumed& at) {
  enter_epoch(at);
  record_.epoch_over = record_.epoch_ended = false;
  core_.record.control.should_epoch_stop = false;
  core_.record.call(&TrainerCallback::on_epoch_begin);
  if (!at.inside) loader_.set_epoch(at.epoch);
  clock_.restart();
}

void TrainingLoop::run_epoch(const Resumed& at) {
  begin_epoch(at);
  auto& updates = record_.updates;
  {
    auto batches = loader_.begin();
    bool begun = false;
    while (updates < at.steps.updates && !is_stopping()) {
      const auto group = fetch(batches, at.steps.batches_of(updates), begun);
      if (group.empty()) break;
      const auto done = updates * plan_.accumulation + static_cast<std::int64_t>(group.size());
      run_step(group);
      record_.epoch_over = ++updates == at.steps.updates;
      end_step(static_cast<double>(at.epoch) + at.steps.share(done));
    }
    if (!is_stopping() && begun && batches != loader_.end()) ++batches;  // Ends the pass.
  }
  if (stop_signal_ != 0) return;  // A resumed training ends the epoch.
  if (updates == 0 && !is_stopping()) {
    trainer_logger().warning("the training dataset gave no batch in epoch " +
                             std::to_string(at.epoch) + ": the training ends at step " +
                             std::to_string(core_.record.state.global_step) + " of " +
                             std::to_string(plan_.max_steps));
    core_.record.control.should_training_stop = true;
  }
  end_epoch();
}

// A training that stops inside an epoch can go on there.
void TrainingLoop::end_epoch() {
  const auto& control = core_.record.control;
  record_.epoch_over |= control.should_epoch_stop || !control.should_training_stop;
  record_.epoch_ended = true;
  core_.record.call(&TrainerCallback::on_epoch_end);
  log_save_evaluate();
}

bool TrainingLoop::is_stopping() const {
  return core_.record.control.should_epoch_stop || core_.record.control.should_training_stop ||
         stop_signal_ != 0;
}

// A loader's position is the batch that it gave last, so the batch after the group is not fetched
// yet.
TrainingLoop::Batches TrainingLoop::fetch(Iterator& batches, std::int64_t count, bool& begun) {
  Batches group;
  while (static_cast<std::int64_t>(group.size()) < count) {
    if (begun) ++batches;
    begun = true;
    if (batches == loader_.end()) break;
    group.push_back(*batches);
  }
  clock_.spent_on(StepPart::data);
  return group;
}

void TrainingLoop::run_step(const Batches& batches) {
  const at::Tensor num_items = agree_on_step(batches);
  core_.record.call(&TrainerCallback::on_step_begin);
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const bool is_last = i + 1 == batches.size();
    add_loss(micro_step(batches[i], num_items, is_last, batches.size()), batches[i]);
    if (!is_last) core_.record.call(&TrainerCallback::on_substep_end);
  }
  update();
}

// Exchanges what ranks must know before a step: labels, tokens, and whether a signal came.
at::Tensor TrainingLoop::agree_on_step(const Batches& batches) {
  const bool counts = batch_loss_.counts_items(batches.front());
  double items = 0, tokens = 0;
  for (const auto& batch : batches) {
    if (counts) items += static_cast<double>(batch_loss_.items(batch));
    tokens += input_tokens(batch, core_.args.include_num_input_tokens_seen);
  }
  const auto all = sum_of_ranks(core_.accelerator, {items, tokens, weight_of_signal()});
  core_.record.state.num_input_tokens_seen += static_cast<std::int64_t>(all[1]);
  note_signal(all[2]);
  clock_.spent_on(StepPart::communication);
  if (!counts) return {};
  const double mine = core_.args.average_tokens_across_devices ? all[0] : items;
  return at::scalar_tensor(mine, at::TensorOptions(at::kFloat).device(core_.accelerator.device()));
}

// The Accelerator's own accumulation divides each loss by gradient_accumulation_steps. Here a loss is
// already a share of the labels in the whole step, or is divided by the micro-batches of this step,
// which are fewer at the end of an epoch. So the Accelerator counts each micro-batch as a step, and
// the loop says which one exchanges gradients.
double TrainingLoop::micro_step(const Inputs& batch, const at::Tensor& num_items, bool syncs,
                                std::size_t micro_batches) {
  auto& model = core_.trained.prepared_model();
  model.train();
  core_.trained.set_training_mode(true);
  const SyncScope scope({model.core()}, syncs);
  core_.accelerator.set_sync_gradients(syncs);
  at::Tensor loss = batch_loss_(model, batch, num_items).loss;
  const bool is_share = num_items.defined() || core_.options.compute_loss_func;
  if (!is_share && micro_batches > 1) loss = loss / static_cast<double>(micro_batches);
  clock_.spent_on(StepPart::forward);
  const auto& every = core_.args.torch_empty_cache_steps;
  if (every && core_.record.state.global_step % *every == 0) clear_device_cache();
  core_.accelerator.backward(loss);
  const double value = loss.detach().item<double>();
  clock_.spent_on(StepPart::backward);
  return value;
}

void TrainingLoop::add_loss(double loss, const Inputs& batch) {
  const at::Tensor ids = batch.get("input_ids");
  if (ids.defined()) flops_ += flops_per_token_ * static_cast<double>(ids.numel());
  if (std::isfinite(loss)) {
    loss_ += loss;
    return;
  }
  explain(&batch);
  const auto steps = core_.record.state.global_step - step_logged_;
  loss_ += core_.args.logging_nan_inf_filter ? loss_ / static_cast<double>(1 + steps) : loss;
}

void TrainingLoop::update() {
  grad_norm_ = clip();
  check_gradients(grad_norm_);
  core_.record.call(&TrainerCallback::on_pre_optimizer_step);
  core_.trained.optimizer()->step();
  core_.record.call(&TrainerCallback::on_optimizer_step);
  learning_rate_ = core_.trained.optimizer()->param_groups().front().options().get_lr();
  if (!core_.accelerator.optimizer_step_was_skipped() &&
      !core_.trained.lr_scheduler()->scheduler().needs_metric())
    core_.trained.lr_scheduler()->step();
  core_.trained.optimizer()->zero_grad();
  clock_.spent_on(StepPart::optimizer);
}

at::Tensor TrainingLoop::clip() {
  const double limit = core_.args.max_grad_norm > 0 ? core_.args.max_grad_norm
                                                    : std::numeric_limits<double>::infinity();
  return core_.accelerator.clip_grad_norm_(core_.trained.prepared_model().parameters(), limit);
}

// In fp16 gradients overflow now and then, and the scaler takes care of it. On a GPU reading the
// norm would wait for the device.
void TrainingLoop::check_gradients(const at::Tensor& norm) {
  if (core_.accelerator.scaler() || !norm.is_cpu()) return;
  if (!std::isfinite(norm.item<double>())) explain(nullptr);
}

// Says where the first non-finite value comes from: the loss of `batch`, or, with null, gradients.
void TrainingLoop::explain(const Inputs* batch) {
  if (!std::exchange(explained_, true)) core_.record.warn(explain_non_finite(core_, batch));
}

void TrainingLoop::end_step(double epoch) {
  ++core_.record.state.global_step;
  core_.record.state.epoch = epoch;
  core_.record.call(&TrainerCallback::on_step_end);
  clock_.end_step();
  log_save_evaluate();
  clock_.restart();
}

// A process that is asked to end has no time for an evaluation. It saves, and the resumed training
// makes up what record() says is due. One process asks for signals at each step. Several agree where
// something is due, which costs far more than the exchange, and else before their next step. With
// enable_jit_checkpoint they agree behind each step.
void TrainingLoop::log_save_evaluate() {
  auto& control = core_.record.control;
  const bool asks = control.should_log || control.should_evaluate || control.should_save ||
                    core_.accelerator.num_processes() == 1 || core_.args.enable_jit_checkpoint;
  if (control.should_log && core_.record.state.global_step > step_logged_) log_losses();
  control.should_log = false;
  if (asks ? agree_to_stop() : stop_signal_ != 0) return save();
  if (std::exchange(control.should_evaluate, false)) {
    const LogValues metrics = evaluate(core_, {}, "eval", &evaluated_);
    if (evaluated_.is_broken_off) return save_in_evaluation();
    evaluated_ = {};
    step_plateau(metrics);
    note_if_best(core_.args, metrics, core_.record.state, control);
    if (agree_to_stop()) return save();
  }
  if (!control.should_save) return;
  save();
  if (agree_to_stop()) save();  // The checkpoint says then that the training was interrupted.
}

// The resumed training evaluates the sets that are left.
void TrainingLoop::save_in_evaluation() {
  (void)agree_to_stop();
  core_.record.control.should_evaluate = true;
  save();
}

void TrainingLoop::save() {
  if (checkpoints_ == nullptr) return;
  store_flops();
  const LoopRecord now = record();
  core_.record.control.should_save = true;  // Is written as true, as Python does.
  core_.record.control.should_evaluate = false;
  if (!now.is_extra) step_due_ = core_.record.state.global_step;
  checkpoints_->save(now);
  saved_at_stop_ = now.interrupted;
  core_.record.control.should_save = false;
}

// The record of the present step. [collective]
LoopRecord TrainingLoop::record() {
  const auto& control = core_.record.control;
  LoopRecord now = record_;
  now.epoch_over |= control.should_epoch_stop;
  now.loader = loader_.state_dict();
  now.updates_per_epoch = plan_.updates_per_epoch;
  now.extra_steps = plan_.extra_steps;
  now.interrupted = stop_signal_ != 0;
  now.is_extra =
      now.interrupted && !control.should_save && step_due_ != core_.record.state.global_step;
  now.evaluate_due = now.interrupted && control.should_evaluate;
  now.save_due = now.evaluate_due && control.should_save;
  now.stop_due = now.interrupted && control.should_training_stop &&
                 core_.record.state.global_step < plan_.max_steps;
  std::vector<double> mine(static_cast<std::size_t>(core_.accelerator.num_processes()), 0.0);
  mine[static_cast<std::size_t>(core_.accelerator.process_index())] = loss_;
  now.evaluated_sets = evaluated_.sets;
  now.evaluated = evaluated_.metrics;
  now.losses = sum_of_ranks(core_.accelerator, mine);
  now.total_loss = total_loss_;
  now.loss_before = loss_before_;
  now.first_step = first_step_;
  now.step_logged = step_logged_;
  now.grad_norm.reset();
  if (grad_norm_.defined()) now.grad_norm = grad_norm_.item<double>();
  now.learning_rate = learning_rate_;
  return now;
}

void TrainingLoop::log_losses() {
  const auto steps = static_cast<double>(core_.record.state.global_step - step_logged_);
  LogValues logs;
  const double mean = total_loss() - total_loss_;
  logs.set("loss", mean / steps);
  if (grad_norm_.defined()) logs.set("grad_norm", grad_norm_.item<double>());
  if (learning_rate_) logs.set("learning_rate", *learning_rate_);
  if (core_.args.include_num_input_tokens_seen != CountedTokens::no) {
    const auto tokens = core_.record.state.num_input_tokens_seen - tokens_before_;
    add_speed(logs, "train", seconds_since(start_), {.tokens = static_cast<double>(tokens)});
  }
  total_loss_ += mean;
  loss_ = 0;
  step_logged_ = core_.record.state.global_step;
  core_.record.log(std::move(logs));
}

double TrainingLoop::mean_loss() {
  const auto steps = core_.record.state.global_step - first_step_;
  const double sum = total_loss() - loss_before_;
  return steps > 0 ? sum / static_cast<double>(steps) : std::numeric_limits<double>::quiet_NaN();
}

double TrainingLoop::total_loss() {
  store_flops();
  return total_loss_ +
         sum_of_ranks(core_.accelerator, {loss_}).front() / core_.accelerator.num_processes();
}

void TrainingLoop::store_flops() {
  core_.record.state.total_flos +=
      sum_of_ranks(core_.accelerator, {std::exchange(flops_, 0)}).front();
}

// A schedule that watches a metric makes a step after each evaluation.
void TrainingLoop::step_plateau(const LogValues& metrics) {
  if (core_.trained.lr_scheduler()->scheduler().needs_metric())
    core_.trained.lr_scheduler()->step(watched_metric(core_.args, metrics));
}

}  // namespace accelerate::detail
