// A scope in which the parameters of a sharded model are whole.
#pragma once

#include <exception>
#include <memory>
#include <utility>

#include "accelerate/accelerator/model_core.h"
#include "accelerate/parallel/engine.h"

namespace accelerate {

/// While alive, the user's parameters hold their whole values, in the type that optimizers see. The
/// model must not run meanwhile. Every rank must change them alike. Does nothing for a model that
/// every rank has whole. Memory: the model in that type. [collective, also at its end with
/// writeback] If an exception ends the scope, changes are dropped and no rank is waited for. Throws
/// UsageError inside another such scope of the model, and for writeback together with rank0_only.
class [[nodiscard]] SummonScope {
 public:
  SummonScope(std::shared_ptr<detail::ModelCore> core, const SummonOptions& options);
  ~SummonScope() noexcept(false);
  SummonScope(const SummonScope&) = delete;
  SummonScope& operator=(const SummonScope&) = delete;

 private:
  std::shared_ptr<detail::ModelCore> core_;
  bool writeback_;
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace accelerate
