#include "accelerate/transformers/trainer/loop/evaluation_steps.h"

#include <algorithm>
#include <utility>

#include "accelerate/base/stop_signals.h"
#include "accelerate/comm/exchange.h"
#include "accelerate/data/batch_rows.h"
#include "accelerate/transformers/trainer/ranks.h"

namespace accelerate::detail {
namespace {

std::int64_t rows_of_batch(const Inputs& batch) {
  for (const auto& [name, tensor] : batch)
    if (tensor.defined() && tensor.dim() > 0) return tensor.size(0);
  return 0;
}

}  // namespace

EvaluationSteps::EvaluationSteps(Accelerator& accelerator, const LoaderRecipe& recipe,
                                 const TrainerDataset& dataset, bool stops_on_signal)
    : accelerator_(accelerator),
      loader_(recipe.prepare(accelerator, recipe.eval_loader(dataset))),
      stops_on_signal_(stops_on_signal) {
  // With even batches every rank has as many as there are steps.
  loader_.set_even_batches(true);
  if (dataset.size()) size_ = loader_.size();
  loader_.set_even_batches(false);
}

bool EvaluationSteps::has_signal() const {
  return stops_on_signal_ && StopSignals::received() != 0;
}

std::optional<EvaluationStep> EvaluationSteps::next() {
  // What is complete is not thrown away.
  if (!has_ended_ && accelerator_.num_processes() == 1 && has_signal())
    is_stopped_ = has_ended_ = true;
  if (has_ended_) {
    batches_.reset();
    return std::nullopt;
  }
  const bool has_batch = read();
  EvaluationStep step;
  if (has_batch) {
    step.batch = **batches_;
    step.is_last = accelerator_.gradient_state()->end_of_dataloader();
    step.samples = samples_of(step.batch);
    cut_repeats(step);
  }
  ++position_;
  const bool goes_on = accelerator_.num_processes() == 1 ? has_batch : agree(step, has_batch);
  has_ended_ = !goes_on || step.is_last;
  if (!goes_on) return std::nullopt;
  return step;
}

// Reads this rank's next batch. Returns false if there is none.
bool EvaluationSteps::read() {
  if (!batches_) {
    batches_.emplace(loader_.begin());
  } else if (*batches_ != std::default_sentinel) {
    ++*batches_;
  }
  return *batches_ != std::default_sentinel;
}

// Counts by the loader's arithmetic: what a collator makes of the rows may have other rows, or all
// of them in one.
std::int64_t EvaluationSteps::samples_of(const Inputs& batch) const {
  const LoaderPlan& plan = loader_.core().plan;
  if (plan.dispatches() || plan.options().batch_sampler) return rows_of_batch(batch);
  const StepShape shape = plan.step_shape();
  const std::int64_t remainder = accelerator_.gradient_state()->remainder();
  std::size_t samples = shape.stride;  // Of all ranks in this step.
  if (plan.samples() && !plan.iterable()) {
    samples = std::min(samples, *plan.samples() - std::min(*plan.samples(), position_ * samples));
  } else if (remainder > 0) {
    samples = static_cast<std::size_t>(remainder);
  }
  const std::size_t first = static_cast<std::size_t>(plan.shard().shard_index) * shape.width;
  return static_cast<std::int64_t>(std::min(shape.width, samples - std::min(samples, first)));
}

// Rank 0 repeats rows where it deals out a step that the ranks do not divide.
void EvaluationSteps::cut_repeats(EvaluationStep& step) const {
  if (!loader_.dispatch_batches()) return;
  const LoaderProgress* progress = accelerator_.gradient_state()->progress();
  step.is_full = progress->step_samples < 0;
  if (step.is_full) return;
  const std::int64_t before = accelerator_.process_index() * step.samples;
  step.samples = std::clamp<std::int64_t>(progress->step_samples - before, 0, step.samples);
  if (step.samples > 0) step.batch = slice_batch(std::move(step.batch), 0, step.samples);
}

// Tells the ranks what each of them has in this step. Returns false if none has a batch.
// [collective]
bool EvaluationSteps::agree(EvaluationStep& step, bool has_batch) {
  const auto flag = [](bool value) { return value ? 1.0 : 0.0; };
  const int ranks = accelerator_.num_processes();
  const bool is_main = accelerator_.is_main_process();  // It has the last batch of all.
  const auto all = sum_of_ranks(
      accelerator_, {flag(has_batch), flag(is_main && step.is_last), flag(!has_batch && !before_),
                     static_cast<double>(step.samples), flag(has_signal())});
  is_stopped_ = all[4] > 0;
  if (is_stopped_) batches_.reset();
  if (all[0] == 0 || is_stopped_) return false;
  step.is_last = all[1] > 0;
  if (!loader_.dispatch_batches())
    step.is_full = all[3] == static_cast<double>(loader_.total_batch_size());
  if (all[2] > 0) {  // The set has fewer batches than there are ranks.
    Inputs mine = is_main ? step.batch : Inputs();
    Inputs first = exchange(accelerator_.communicator(), mine, ranks).front();
    for (auto& [name, tensor] : first) tensor = tensor.to(accelerator_.device());
    if (!before_) before_ = std::move(first);
  }
  if (has_batch) {
    before_ = step.batch;
  } else {
    step.batch = *before_;
  }
  return true;
}

}  // namespace accelerate::detail
