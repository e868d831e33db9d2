// The scope in which ranks may have unequal numbers of batches.
#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <vector>

#include "accelerate/accelerator/model_core.h"
#include "accelerate/data/loader_control.h"
#include "accelerate/optim/accelerated_optimizer.h"
#include "accelerate/parallel/replicated/join.h"
#include "accelerate/precision/grad_scaler.h"

namespace accelerate {

struct JoinOptions {
  /// Replaces even_batches of all prepared loaders inside the scope; unset leaves them as they are.
  /// true: nothing has to be joined, all ranks get as many batches as one another.
  std::optional<bool> even_batches = std::nullopt;
};

namespace detail {

/// What a scope changes outside of itself, and keeps alive.
struct JoinSetting {
  std::vector<std::shared_ptr<ModelCore>> models;
  std::vector<std::shared_ptr<LoaderControl>> loaders;
  std::vector<AcceleratedOptimizer> optimizers;
  std::shared_ptr<GradScaler> scaler;  // or null
  std::shared_ptr<Communicator> communicator;
};

}  // namespace detail

/// While alive, a rank may leave its loop before the others; the scope's end waits for them all,
/// and then models and optimizers are the same everywhere again. [the end is collective] Left by an
/// exception it ends the group, so that no rank waits for this one.
class [[nodiscard]] JoinScope {
 public:
  /// `inputs`: null when all ranks have equally many batches, so that nothing has to be joined.
  JoinScope(std::shared_ptr<JoinedInputs> inputs, const JoinOptions& options,
            detail::JoinSetting setting);
  ~JoinScope() noexcept(false);
  JoinScope(const JoinScope&) = delete;
  JoinScope& operator=(const JoinScope&) = delete;

 private:
  detail::JoinSetting setting_;
  std::optional<EvenBatchesScope> even_batches_;
  std::shared_ptr<JoinedInputs> inputs_;
  bool agreement_before_ = true;
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace accelerate
