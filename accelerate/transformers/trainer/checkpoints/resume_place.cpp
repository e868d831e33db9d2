// Finds where a resumed training continues, also with other batches than the checkpoint was made
// with.
#include "accelerate/base/error_name.h"
#include "accelerate/transformers/trainer/checkpoints/checkpoints.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/transformers/trainer/ranks.h"

namespace accelerate::detail {
namespace {

// The order is known to be another one where it is made in another way.
void check_order(const LoopRecord& record, const TrainingData& data) {
  const EpochCut& now = data.plan.cut;
  if (data.plan.is_stream()) return;
  if (record.cut.strategy == now.strategy &&
      (record.loader.total_batch_size == 0) == (data.batches != nullptr))
    return;
  const auto words = [](const EpochCut& cut) {
    return "'" + cut.strategy + "'" +
           (cut.max_tokens > 0 ? " with max_tokens_per_batch" : " without max_tokens_per_batch");
  };
  const std::string before = words(record.cut);
  throw CheckpointError("the checkpoint is inside an epoch with train_sampling_strategy " + before +
                        "; now it is " + words(now) +
                        ". The order of samples differs, so the rest of the epoch is undefined. "
                        "Set " +
                        before +
                        ", set ignore_data_skip to restart the epoch, or resume "
                        "from the end of an epoch");
}

// Makes the loader go on behind the samples that were trained.
void move_loader(const LoopRecord& record, TrainingData& data, Resumed& at) {
  LoaderState place = record.loader;
  if (data.batches != nullptr) {
    EpochCut cut = record.cut;
    data.batches->go_on(record.epoch, cut, place.seed);
    if (!cut.cuts_like(data.plan.cut)) {
      const auto batches = static_cast<std::size_t>(place.batches * place.num_processes);
      cut = data.batches->rest(record.epoch, cut, batches);
      data.batches->go_on(record.epoch, cut, place.seed);
      place.batches = place.offset = 0;
      place.num_processes = cut.ranks;
    }
    at.steps.cut = cut;
  }
  data.loader.load_state_dict(place);
}

void go_on_inside(const OpenedCheckpoint& saved, TrainingData& data, Resumed& at) {
  LoopRecord& record = *at.record;
  const TrainingPlan& plan = data.plan;
  const bool same = record.cut.cuts_like(plan.cut);
  check_order(record, data);
  move_loader(record, data, at);
  at.inside = true;
  at.updates = same ? record.updates : 0;
  at.steps.begin =
      same ? record.epoch_begin : saved.state.epoch - static_cast<double>(record.epoch);
  if (plan.is_stream()) return;
  const auto left = data.trained(static_cast<std::int64_t>(data.loader.batches_left()));
  at.steps.batches = left + at.updates * plan.accumulation;
  at.steps.updates = steps_of(at.steps.batches, plan.accumulation);
  if (left > 0) return;
  record.epoch_over = true;  // What is left makes no batch.
  at = {.epoch = record.epoch + 1, .steps = plan.epoch(record.epoch + 1), .record = record};
}

// A training with max_steps makes as many epochs as these take; another one makes as many steps as
// its epochs have.
void count_steps(std::int64_t done, const Resumed& at, TrainingPlan& plan,
                 const ResolvedArguments& args) {
  const std::int64_t here = at.inside ? at.steps.updates - at.updates : 0;
  const std::int64_t behind = at.epoch + (at.inside ? 1 : 0);
  plan.extra_steps = done + here - plan.steps_before(behind);
  if (args.max_steps <= 0) {
    plan.max_steps += plan.extra_steps;
  } else {
    const std::int64_t rest = std::max<std::int64_t>(plan.max_steps - done - here, 0);
    plan.num_train_epochs = behind + plan.epochs_of(rest, behind);
  }
}

void report_change(const OpenedCheckpoint& saved, const TrainingData& data, const Resumed& at) {
  const LoopRecord& record = *saved.record;
  std::string text =
      saved.folder.filename().string() + " made steps of " + std::to_string(record.cut.samples()) +
      " samples in epochs of " + std::to_string(record.updates_per_epoch) +
      " steps, and this training makes steps of " + std::to_string(data.plan.cut.samples()) +
      " in epochs of " + std::to_string(data.plan.updates_per_epoch);
  if (at.inside)
    text += ". It continues inside epoch " + std::to_string(at.epoch) + ", of which " +
            std::to_string(at.steps.updates - at.updates) + " steps are left";
  text += ". It ends at step " + std::to_string(data.plan.max_steps) + " instead of " +
          std::to_string(saved.state.max_steps);
  trainer_logger().warning(text);
}

Resumed place_by_record(const OpenedCheckpoint& saved, TrainingData& data,
                        const ResolvedArguments& args) {
  const LoopRecord& record = *saved.record;
  TrainingPlan& plan = data.plan;
  Resumed at{.epoch = record.epoch + (record.epoch_over ? 1 : 0), .record = record};
  at.steps = plan.epoch(at.epoch);
  const bool has_other_orders = plan.batches_of && data.batches->seed() != record.loader.seed;
  if (!record.epoch_over && !args.ignore_data_skip) go_on_inside(saved, data, at);
  // The rest of the training has the checkpoint's seed where it goes on inside an epoch.
  if (has_other_orders) plan_epochs(args, plan);
  if (has_other_orders || !record.cut.cuts_like(plan.cut) ||
      (!plan.is_stream() && record.updates_per_epoch != plan.updates_per_epoch)) {
    if (!plan.is_stream()) count_steps(saved.state.global_step, at, plan, args);
    report_change(saved, data, at);
  } else if (args.max_steps <= 0) {
    plan.extra_steps = record.extra_steps;
    plan.max_steps += plan.extra_steps;
  } else if (!plan.is_stream() && saved.state.max_steps != plan.max_steps) {
    count_steps(saved.state.global_step, at, plan, args);
  } else if (!plan.is_stream()) {
    plan.num_train_epochs = saved.state.num_train_epochs;  // Some may have had other batches.
  }
  return at;
}

// Of a folder without a record, which knows steps alone. A pass over a stream may be shorter than
// the plan, so `epoch` says which pass it was. Its fraction counts micro-batches, as in the loop.
Resumed place_by_steps(const TrainerState& saved, const TrainingPlan& plan) {
  if (!plan.is_stream()) {
    Resumed at{.updates = saved.global_step};
    for (; at.updates >= plan.epoch(at.epoch).updates; ++at.epoch)
      at.updates -= plan.epoch(at.epoch).updates;
    return at;
  }
  const double pass = std::floor(saved.epoch);
  const auto batches =
      std::llround((saved.epoch - pass) * static_cast<double>(saved.max_steps * plan.accumulation));
  return {.epoch = static_cast<std::int64_t>(pass),
          .updates = steps_of(batches, plan.accumulation)};
}

// Whether the folder's steps were as large as the plan's, as far as the epoch tells.
bool has_steps_of(const TrainerState& saved, const TrainingPlan& plan) {
  const double steps = saved.epoch * static_cast<double>(plan.updates_per_epoch);
  return plan.is_stream() || plan.batches_of ||
         std::abs(steps - static_cast<double>(saved.global_step)) < 1;
}

// Of a folder without a record, whose steps had another size: only an epoch's end is a place.
Resumed place_by_epoch(const TrainerState& saved, TrainingPlan& plan,
                       const ResolvedArguments& args) {
  constexpr double kRounding = 1e-6;
  const double whole = std::round(saved.epoch);
  const bool is_end = std::abs(saved.epoch - whole) < kRounding;
  if (!is_end && !args.ignore_data_skip)
    throw CheckpointError("the checkpoint at step " + std::to_string(saved.global_step) +
                              " is inside an epoch and does not record its batch size. Steps have "
                              "another size now. Use "
                              "the old batch size, accumulation and number of processes, set "
                              "ignore_data_skip to restart "
                              "the epoch, or resume from the end of an epoch",
                          error_name::kOtherWorldSize);
  Resumed at{.epoch = static_cast<std::int64_t>(is_end ? whole : std::floor(saved.epoch))};
  count_steps(saved.global_step, at, plan, args);
  return at;
}

// For a folder of Python's Trainer, which does not say where its loaders were.
void skip_batches(PreparedLoader<Inputs>& loader, const Resumed& resumed,
                  const TrainingPlan& plan) {
  auto place = loader.state_dict();
  place.epoch = resumed.epoch;
  place.batches = resumed.updates * plan.accumulation;
  loader.load_state_dict(place);
}

}  // namespace

Resumed resume_place(const OpenedCheckpoint& saved, TrainingData& data,
                     const ResolvedArguments& args) {
  if (saved.record) return place_by_record(saved, data, args);
  Resumed at = has_steps_of(saved.state, data.plan) ? place_by_steps(saved.state, data.plan)
                                                    : place_by_epoch(saved.state, data.plan, args);
  at.steps = data.plan.epoch(at.epoch);
  if (args.ignore_data_skip) at.updates = 0;
  at.inside = at.updates > 0;
  if (saved.writer == StateWriter::python_trainer && at.inside)
    skip_batches(data.loader, at, data.plan);
  return at;
}

}  // namespace accelerate::detail
