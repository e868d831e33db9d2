#include "accelerate/parallel/replicated/local_sgd.h"

#include <string>
#include <utility>

#include "accelerate/base/error.h"

namespace accelerate {

LocalSGD::LocalSGD(std::shared_ptr<DistributedDataParallel> engine, std::int64_t local_sgd_steps,
                   bool enabled)
    : engine_(std::move(engine)),
      local_sgd_steps_(local_sgd_steps),
      enabled_(enabled),
      synchronized_before_(engine_->synchronize()) {
  if (local_sgd_steps_ < 1) {
    throw ConfigError("local_sgd_steps is " + std::to_string(local_sgd_steps_) +
                      "; it must be at least 1 (8 is usual)");
  }
  if (enabled_) engine_->set_synchronize(false);
}

LocalSGD::~LocalSGD() noexcept(false) {
  if (!enabled_) return;
  engine_->set_synchronize(synchronized_before_);
  if (std::uncaught_exceptions() == exceptions_) engine_->average_parameters();
}

void LocalSGD::step() {
  ++num_steps_;
  if (enabled_ && num_steps_ % local_sgd_steps_ == 0) engine_->average_parameters();
}

}  // namespace accelerate
