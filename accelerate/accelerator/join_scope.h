// The scope in which ranks may have unequal numbers of batches.
#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <vector>

#include "accelerate/accelerator/model_core.h"
#include "accelerate/data/loader_control.h"
#include "accelerate/optim/accelerated_optimizer.h"
#include "accelerate/optim/precision/grad_scaler.h"
#include "accelerate/parallel/replicated/join.h"

namespace accelerate {

struct JoinOptions {
  /// Replaces even_batches of all prepared loaders inside the scope. Unset: loaders keep their
  /// setting. If true, all ranks get equally many batches, and nothing has to be joined.
  std::optional<bool> even_batches = std::nullopt;
};

namespace detail {

/// What a scope changes outside itself and keeps alive.
struct JoinSetting {
  std::vector<std::shared_ptr<ModelCore>> models;
  std::vector<std::shared_ptr<LoaderControl>> loaders;
  std::vector<AcceleratedOptimizer> optimizers;
  std::shared_ptr<GradScaler> scaler;  // May be null.
  std::shared_ptr<Communicator> communicator;
};

}  // namespace detail

/// While alive, a rank may leave its loop before its peers. The scope's end waits for all ranks and
/// makes models and optimizers equal again on all of them. [the end is collective] If an exception
/// ends the scope, it ends the group, so that no peer waits for this rank.
class [[nodiscard]] JoinScope {
 public:
  /// `inputs` is null if all ranks have equally many batches, so that nothing has to be joined.
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
