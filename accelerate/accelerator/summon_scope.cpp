#include "accelerate/accelerator/summon_scope.h"

#include "accelerate/parallel/sharded/fully_sharded_data_parallel.h"

namespace accelerate {

SummonScope::SummonScope(std::shared_ptr<detail::ModelCore> core, const SummonOptions& options)
    : core_(std::move(core)), writeback_(options.writeback) {
  if (core_->shards()) core_->shards()->begin_summon(options);
}

SummonScope::~SummonScope() noexcept(false) {
  if (!core_->shards()) return;
  core_->shards()->end_summon(writeback_ && std::uncaught_exceptions() == exceptions_);
}

}  // namespace accelerate
