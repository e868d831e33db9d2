#include "accelerate/accelerator/join_scope.h"

#include <torch/optim.h>
#include <torch/serialize.h>

#include <sstream>
#include <string>
#include <utility>

#include "accelerate/comm/operations.h"

namespace accelerate {
namespace {

// Ranks that ran out of inputs have made fewer steps, so their optimizer state is out of date.
void copy_state(torch::optim::Optimizer& optimizer, Communicator& communicator, int source) {
  std::string bytes;
  if (communicator.rank() == source) {
    torch::serialize::OutputArchive archive;
    optimizer.save(archive);
    std::ostringstream stream;
    archive.save_to(stream);
    bytes = stream.str();
  }
  bytes = broadcast_bytes(communicator, bytes, source);
  if (communicator.rank() == source) return;
  std::istringstream stream(bytes);
  torch::serialize::InputArchive archive;
  archive.load_from(stream);
  optimizer.load(archive);
}

// Such ranks have also seen fewer steps without an overflow.
void copy_state(GradScaler& scaler, Communicator& communicator, int source) {
  auto state = scaler.state_dict();
  const auto sent =
      at::tensor({state.scale, static_cast<double>(state.growth_tracker)}, at::kDouble);
  communicator.broadcast(sent, source).wait();
  state.scale = sent[0].item<double>();
  state.growth_tracker = static_cast<std::int64_t>(sent[1].item<double>());
  scaler.load_state_dict(state);
}

}  // namespace

JoinScope::JoinScope(std::shared_ptr<JoinedInputs> inputs, const JoinOptions& options,
                     detail::JoinSetting setting)
    : setting_(std::move(setting)), inputs_(std::move(inputs)) {
  if (options.even_batches) even_batches_.emplace(setting_.loaders, *options.even_batches);
  if (!inputs_ || !setting_.scaler) return;
  // Ranks that step have the same reduced gradients, so they need not agree with the other ranks.
  agreement_before_ = setting_.scaler->agreement();
  setting_.scaler->set_agreement(false);
}

JoinScope::~JoinScope() noexcept(false) {
  if (!inputs_) return;
  if (setting_.scaler) setting_.scaler->set_agreement(agreement_before_);
  const auto inputs = std::exchange(inputs_, nullptr);
  if (std::uncaught_exceptions() > exceptions_) {
    setting_.communicator->abort("it left join_uneven_inputs because of an exception");
    return;
  }
  const auto source = inputs->finish();
  if (!source) return;
  for (const auto& optimizer : setting_.optimizers) {
    copy_state(optimizer.optimizer(), *setting_.communicator, *source);
  }
  if (setting_.scaler) copy_state(*setting_.scaler, *setting_.communicator, *source);
}

}  // namespace accelerate
