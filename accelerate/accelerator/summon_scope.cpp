#include "accelerate/accelerator/summon_scope.h"

namespace accelerate {

SummonScope::SummonScope(std::shared_ptr<detail::ModelCore> core, const SummonOptions& options)
    : core_(std::move(core)), writeback_(options.writeback) {
  core_->parallel().begin_summon(options);
}

SummonScope::~SummonScope() noexcept(false) {
  core_->parallel().end_summon(writeback_ && std::uncaught_exceptions() == exceptions_);
}

}  // namespace accelerate
