// should_stop() and what it does: the ranks agree on a signal, save, and know with which code to end.
#include <ATen/ops/tensor.h>

#include <string>

#include "accelerate/accelerator/accelerator_impl.h"
#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/logger.h"

namespace accelerate {
namespace {

Logger stop_log() {
  return get_logger("accelerate.accelerator");
}

void refuse_unlike_saves(double saving, int ranks) {
  if (saving == 0 || saving == ranks) return;
  throw UsageError(
      "should_stop(): " + std::to_string(static_cast<int>(saving)) + " of " +
      std::to_string(ranks) +
      " ranks have called save_on_signal(), which saves on all ranks together: call it "
      "on all of them or on none");
}

}  // namespace

bool RankCalls::check_trigger() {
  const at::Tensor raised = at::tensor({trigger_ ? 1 : 0}, at::kInt);
  communicator().all_reduce(raised, ReduceOp::sum).wait();
  trigger_ = false;
  return raised.item<int>() > 0;
}

// An earlier save in the background may have failed. That may not keep this one from being made.
void Accelerator::Impl::finish_earlier_save() {
  try {
    checkpointing.wait(*state.communicator());
  } catch (const CheckpointError& error) {
    stop_log().warning("a save that was under way failed: " + describe(error));
  }
}

bool Accelerator::Impl::agree_to_stop() {
  if (!joined.expired())
    throw UsageError(
        "should_stop() inside join_uneven_inputs: ranks that have run out of batches do not call "
        "it. Call it behind the scope",
        error_name::kUnevenBatches);
  if (!stop_signals) stop_signals.emplace();
  const int ranks = state.num_processes();
  const double mine[] = {detail::weight_of_signal(StopSignals::received(), ranks),
                         save_on_signal ? 1.0 : 0.0};
  const at::Tensor all = at::tensor(at::ArrayRef<double>(mine), at::kDouble);
  state.communicator()->all_reduce(all, ReduceOp::sum).wait();
  refuse_unlike_saves(all[1].item<double>(), ranks);
  stopped_by = detail::signal_of_weights(all[0].item<double>(), ranks);
  return stopped_by != 0;
}

bool Accelerator::should_stop() {
  if (impl_->stopped_by != 0) return true;
  if (!impl_->agree_to_stop()) return false;
  impl_->finish_earlier_save();
  if (const auto& save = impl_->save_on_signal) {
    const auto folder = save_state(save->folder, save->options);
    if (is_main_process())
      stop_log().info("a signal asked the training to end; the state is in " + folder.string());
  }
  return true;
}

int Accelerator::stop_code() const {
  return impl_->stopped_by == 0 ? 0 : 128 + impl_->stopped_by;
}

void Accelerator::save_on_signal(const std::filesystem::path& output_dir,
                                 const SaveStateOptions& options) {
  if (options.asynchronous)
    throw UsageError(
        "save_on_signal() with options.asynchronous: a process that is asked to end has to wait "
        "for "
        "its save. Leave the option out");
  impl_->checkpointing.check_folder(output_dir, "save_on_signal()");
  if (!impl_->stop_signals) impl_->stop_signals.emplace();
  impl_->save_on_signal = {output_dir, options};
}

}  // namespace accelerate
