// A scope in which the parameters of a sharded model are whole.
#pragma once

#include <exception>
#include <memory>
#include <utility>

#include "accelerate/accelerator/model_core.h"
#include "accelerate/parallel/sharded/summon_options.h"

namespace accelerate {

/// While alive, the user's leaves hold their whole values, in the type that optimizers see; the
/// model does not run meanwhile. [collective, also at its end with writeback; left by an exception
/// it keeps nothing and waits for nobody] Every rank is to change them alike. Does nothing for
/// models that every rank has whole. Throws UsageError: inside another one of the model; writeback
/// with rank0_only. Memory: the model in that type.
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
