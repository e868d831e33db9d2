#include "accelerate/trainer/loop/training_loop.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/sum.h>

#include <cmath>
#include <csignal>
#include <limits>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/logger.h"
#include "accelerate/tracking/memory.h"
#include "accelerate/trainer/loop/best_metric.h"
#include "accelerate/trainer/loop/model_size.h"
#include "accelerate/trainer/loop/speed.h"

namespace accelerate::detail {
namespace {

const Logger& loop_logger() {
  static const Logger instance = get_logger("accelerate.trainer");
  return instance;
}

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
                           PreparedLoader<Inputs> loader, LoopServices services)
    : core_(core),
      plan_(plan),
      loader_(std::move(loader)),
      services_(std::move(services)),
      batch_loss_(core.options, core.args, core.model, core.accelerator.num_processes()),
      tokens_before_(core.state.num_input_tokens_seen),
      step_logged_(core.state.global_step),
      flops_per_token_(flops_per_token(core.model)) {}

void TrainingLoop::run(const Resumed& resumed) {
  const auto& step = core_.state.global_step;
  core_.optimizer->zero_grad();  // An interrupted training may have left some.
  for (auto epoch = resumed.epoch; epoch < plan_.num_train_epochs && step < plan_.max_steps;
       ++epoch) {
    core_.control.should_epoch_stop = false;
    core_.call(&TrainerCallback::on_epoch_begin);
    run_epoch(epoch, epoch == resumed.epoch ? resumed.updates : 0);
    if (core_.control.should_training_stop) break;
  }
  stop_late();
}

// A signal that came during the last step counts too.
void TrainingLoop::stop_late() {
  if (stop_signal_ != 0 ||
      !note_signal(core_.sum({static_cast<double>(signals_.received())}).front()))
    return;
  store_flops();
  services_.save();
}

// `sum`: the sum of all ranks' signals. Returns whether any rank got a signal.
bool TrainingLoop::note_signal(double sum) {
  if (sum > 0 && stop_signal_ == 0) {
    stop_signal_ = signals_.received();
    if (stop_signal_ == 0) stop_signal_ = SIGTERM;  // Another rank got it.
    core_.control.was_interrupted = true;
  }
  return sum > 0;
}

void TrainingLoop::run_epoch(std::int64_t epoch, std::int64_t updates_done) {
  if (updates_done == 0) loader_.set_epoch(epoch);
  auto update = updates_done;
  clock_.restart();
  {
    auto batches = loader_.begin();
    bool begun = false;
    for (; update < plan_.updates_per_epoch && !is_stopping(); ++update) {
      const auto group = fetch(batches, plan_.batches_of(update), begun);
      if (group.empty()) break;
      const auto done = update * plan_.accumulation + static_cast<std::int64_t>(group.size());
      run_step(group);
      end_step(static_cast<double>(epoch) +
               static_cast<double>(done) / static_cast<double>(plan_.batches_per_epoch));
    }
    if (!is_stopping() && begun && batches != loader_.end()) ++batches;  // Ends the pass.
  }
  if (update == 0 && !is_stopping()) {
    loop_logger().warning("the training dataset gave no batch in epoch " + std::to_string(epoch) +
                          ": the training ends at step " + std::to_string(core_.state.global_step) +
                          " of " + std::to_string(plan_.max_steps));
    core_.control.should_training_stop = true;
  }
  core_.call(&TrainerCallback::on_epoch_end);
  log_save_evaluate();
}

bool TrainingLoop::is_stopping() const {
  return core_.control.should_epoch_stop || core_.control.should_training_stop;
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
  core_.call(&TrainerCallback::on_step_begin);
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const bool is_last = i + 1 == batches.size();
    add_loss(micro_step(batches[i], num_items, is_last, batches.size()), batches[i]);
    if (!is_last) core_.call(&TrainerCallback::on_substep_end);
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
  const auto all = core_.sum({items, tokens, static_cast<double>(signals_.received())});
  core_.state.num_input_tokens_seen += static_cast<std::int64_t>(all[1]);
  (void)note_signal(all[2]);
  clock_.spent_on(StepPart::communication);
  if (!counts) return {};
  const double mine = core_.args.average_tokens_across_devices ? all[0] : items;
  return at::scalar_tensor(mine, at::TensorOptions(at::kFloat).device(core_.accelerator.device()));
}

double TrainingLoop::micro_step(const Inputs& batch, const at::Tensor& num_items, bool syncs,
                                std::size_t micro_batches) {
  auto& model = core_.prepared_model();
  model.train();
  core_.set_training_mode(true);
  const SyncScope scope({model.core()}, syncs);
  core_.accelerator.set_sync_gradients(syncs);
  at::Tensor loss = batch_loss_(model, batch, num_items).loss;
  const bool is_share = num_items.defined() || core_.options.compute_loss_func;
  if (!is_share && micro_batches > 1) loss = loss / static_cast<double>(micro_batches);
  clock_.spent_on(StepPart::forward);
  const auto& every = core_.args.torch_empty_cache_steps;
  if (every && core_.state.global_step % *every == 0) clear_device_cache();
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
  if (!std::exchange(explained_, true)) services_.explain_non_finite(&batch);
  const auto steps = core_.state.global_step - step_logged_;
  loss_ += core_.args.logging_nan_inf_filter ? loss_ / static_cast<double>(1 + steps) : loss;
}

void TrainingLoop::update() {
  grad_norm_ = clip();
  check_gradients(grad_norm_);
  core_.call(&TrainerCallback::on_pre_optimizer_step);
  core_.optimizer->step();
  core_.call(&TrainerCallback::on_optimizer_step);
  learning_rate_ = core_.optimizer->param_groups().front().options().get_lr();
  if (!core_.accelerator.optimizer_step_was_skipped() &&
      !core_.lr_scheduler->scheduler().needs_metric())
    core_.lr_scheduler->step();
  core_.optimizer->zero_grad();
  clock_.spent_on(StepPart::optimizer);
}

at::Tensor TrainingLoop::clip() {
  const double limit = core_.args.max_grad_norm > 0 ? core_.args.max_grad_norm
                                                    : std::numeric_limits<double>::infinity();
  return core_.accelerator.clip_grad_norm_(core_.prepared_model().parameters(), limit);
}

// In fp16 gradients overflow now and then, and the scaler takes care of it. On a GPU reading the
// norm would wait for the device.
void TrainingLoop::check_gradients(const at::Tensor& norm) {
  if (explained_ || core_.accelerator.scaler() || !norm.is_cpu()) return;
  if (std::isfinite(norm.item<double>())) return;
  explained_ = true;
  services_.explain_non_finite(nullptr);
}

void TrainingLoop::end_step(double epoch) {
  ++core_.state.global_step;
  core_.state.epoch = epoch;
  core_.call(&TrainerCallback::on_step_end);
  if (stop_signal_ != 0) {
    core_.control.should_save = true;
    core_.control.should_training_stop = true;
  }
  clock_.end_step();
  log_save_evaluate();
  clock_.restart();
}

void TrainingLoop::log_save_evaluate() {
  auto& control = core_.control;
  if (control.should_log && core_.state.global_step > step_logged_) log_losses();
  control.should_log = false;
  const bool evaluates = std::exchange(control.should_evaluate, false);
  if (evaluates && stop_signal_ == 0) {  // A process that is asked to end has no time for it.
    const LogValues metrics = services_.evaluate();
    step_plateau(metrics);
    determine_best(metrics);
  }
  if (!control.should_save) return;
  store_flops();
  services_.save();  // Writes should_save as true, as Python does.
  control.should_save = false;
}

void TrainingLoop::log_losses() {
  const auto steps = static_cast<double>(core_.state.global_step - step_logged_);
  LogValues logs;
  const double mean = total_loss() - total_loss_;
  logs.set("loss", mean / steps);
  if (grad_norm_.defined()) logs.set("grad_norm", grad_norm_.item<double>());
  if (learning_rate_) logs.set("learning_rate", *learning_rate_);
  if (core_.args.include_num_input_tokens_seen != CountedTokens::no) {
    const auto tokens = core_.state.num_input_tokens_seen - tokens_before_;
    add_speed(logs, "train", seconds_since(start_), {.tokens = static_cast<double>(tokens)});
  }
  total_loss_ += mean;
  loss_ = 0;
  step_logged_ = core_.state.global_step;
  core_.log(std::move(logs));
}

double TrainingLoop::total_loss() {
  store_flops();
  return total_loss_ + core_.sum({loss_}).front() / core_.accelerator.num_processes();
}

void TrainingLoop::store_flops() {
  core_.state.total_flos += core_.sum({std::exchange(flops_, 0)}).front();
}

void TrainingLoop::determine_best(const LogValues& metrics) {
  const auto& args = core_.args;
  if (args.metric_for_best_model.empty()) return;
  const double value = watched_metric(args, metrics);
  auto& best = core_.state.best_metric;
  // A metric that is not a number is never the best one, not even the first.
  if (!best)
    best =
        std::numeric_limits<double>::infinity() * (args.greater_is_better.value_or(false) ? -1 : 1);
  const bool is_new = is_better(args, value, *best);
  if (is_new) {
    best = value;
    if (args.save_strategy != SaveStrategy::no)
      core_.state.best_global_step = core_.state.global_step;
  }
  if (args.save_strategy == SaveStrategy::best) core_.control.should_save = is_new;
}

// A schedule that watches a metric makes a step after each evaluation.
void TrainingLoop::step_plateau(const LogValues& metrics) {
  if (core_.lr_scheduler->scheduler().needs_metric())
    core_.lr_scheduler->step(watched_metric(core_.args, metrics));
}

}  // namespace accelerate::detail
