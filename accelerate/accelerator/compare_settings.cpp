// What ranks must have alike, and when they compare it.
#include <c10/util/Type.h>
#include <torch/optim/optimizer.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <typeinfo>

#include "accelerate/accelerator/accelerator_impl.h"
#include "accelerate/base/error.h"
#include "accelerate/comm/announced_call.h"
#include "accelerate/optim/schedules/initial_rates.h"
#include "accelerate/tensor/compat/matrix_products.h"

namespace accelerate {
namespace {

std::string numbered(const char* what, std::size_t number) {
  return what + (" " + std::to_string(number));
}

// Returns the class and the rate of each parameter group: "torch::optim::SGD with lr 0.1, 0.01".
std::string words_of(torch::optim::Optimizer& optimizer) {
  std::string words = c10::demangle(typeid(optimizer).name());
  try {
    const char* before = " with lr ";
    for (const double rate : detail::group_rates(optimizer)) {
      words += before + detail::text_of(rate);
      before = ", ";
    }
  } catch (const UsageError&) {
    // The user's own options may have no rate.
  }
  return words;
}

std::string words_of(SchedulerStep step) {
  return step == SchedulerStep::once ? "once" : "per_process";
}

std::string words_of(const std::vector<RngType>& types) {
  std::string words;
  for (const RngType type : types) {
    words += words.empty() ? "" : ", ";
    words += type == RngType::torch ? "torch" : type == RngType::cuda ? "cuda" : "generator";
  }
  return words;
}

}  // namespace

detail::SettingsAgreement Accelerator::Impl::settings() const {
  detail::SettingsAgreement all;
  all.add("mixed_precision", std::string(to_string(precision)));
  all.add("autocast.enabled", options.autocast.enabled);
  if (scaler) all.add(scaler->options());
  all.add(gradient_state->accumulation);
  all.add("step_scheduler_with_optimizer", options.step_scheduler_with_optimizer);
  all.add("scheduler_step", options.scheduler_step ? words_of(*options.scheduler_step) : "");
  all.add(options.dataloader_config);
  all.add("rng_types", words_of(options.rng_types));
  if (state.device().is_cpu())
    all.add("ACCELERATE_CPU_MATMUL", to_string(compat::matrix_library()));
  if (fsdp) {
    all.add(*fsdp);
  } else {
    all.add(options.ddp);
  }
  return all;
}

// Compares where ranks communicate anyway: to make a model, or to agree on a seed.
void Accelerator::compare_before_preparing(const std::vector<detail::GivenObject>& objects) {
  if (num_processes() == 1) return;
  const auto is_model = [](const auto& given) {
    return given.kind == std::string_view(detail::kModelKind);
  };
  const bool has_model = std::ranges::any_of(objects, is_model);
  const bool has_loader =
      std::ranges::any_of(objects, [](const auto& given) { return given.loader != nullptr; });
  // Does not ask whether a seed is known: ranks may differ in data_seed, and must all compare or
  // none.
  if (!has_model && (!has_loader || impl_->compared_loaders)) return;
  impl_->compared_loaders |= has_loader;
  const detail::AnnouncedCall call("prepare()");
  detail::SettingsAgreement all = impl_->settings();
  all.add("number of objects", static_cast<int>(objects.size()));
  for (std::size_t i = 0; i < objects.size(); ++i) {
    all.add(numbered("object", i + 1), objects[i].kind);
    if (objects[i].loader != nullptr) all.add(numbered("object", i + 1) + ", ", *objects[i].loader);
  }
  all.require_same(communicator(), "prepare()");
}

void Accelerator::Impl::compare_at_first_step(const Models& backward_of) {
  if (!compares_at_first_step || state.num_processes() == 1) return;
  if (!gradient_state->sync_gradients || !joined.expired()) return;
  const auto synchronises = [](const auto& core) { return core->parallel().engine->synchronize(); };
  if (std::ranges::none_of(backward_of, synchronises)) return;
  compares_at_first_step = false;
  gradient_state->at_first_step = [this](std::string_view clipping) {
    const detail::AnnouncedCall call("the first step");
    detail::SettingsAgreement all = settings();
    const bool was_local = !clipping_before_step.empty();
    all.add("clipping", was_local ? clipping_before_step : std::string(clipping));
    std::size_t number = 0;
    for (const auto& core : live_models()) {
      all.add(numbered("prepared model", ++number), core->view().class_name);
    }
    number = 0;
    for (const auto& optimizer : live_optimizers()) {
      all.add(numbered("prepared optimizer", ++number), words_of(optimizer.optimizer()));
    }
    number = 0;
    for (const auto& loader : live_loaders()) {
      all.add(numbered("prepared loader", ++number) + ", ", loader);
    }
    all.require_same(*state.communicator(), "the first step");
  };
}

}  // namespace accelerate
