#include "accelerate/parallel/engine.h"

#include <exception>

#include "accelerate/base/error.h"
#include "accelerate/tensor/compat/matrix_products.h"

namespace accelerate {
namespace {

// Returns the failure that an engine has noted, else `thrown`. The noted failure says more.
std::exception_ptr cause_of(const std::vector<ParallelEngine*>& engines,
                            std::exception_ptr thrown) {
  for (auto* engine : engines) {
    if (auto failure = engine->take_failure()) return failure;
  }
  return thrown;
}

std::string reason_of(const std::exception_ptr& cause) {
  try {
    std::rethrow_exception(cause);
  } catch (const std::exception& error) {
    return describe(error);
  } catch (...) {
    return "an exception that is not a std::exception";
  }
}

}  // namespace

void run_backward(const std::vector<ParallelEngine*>& engines, BackwardPass pass,
                  const std::function<void()>& backward) {
  pass.several_models = engines.size() > 1;
  try {
    for (auto* engine : engines) engine->begin_backward(pass);
    {
      const compat::MatrixProducts products;
      backward();
    }
    for (auto* engine : engines) engine->finish_backward();
  } catch (...) {
    const auto cause = cause_of(engines, std::current_exception());
    const auto reason = reason_of(cause);
    for (auto* engine : engines) engine->abandon_backward(pass.loss, reason);
    std::rethrow_exception(cause);
  }
}

}  // namespace accelerate
