#include "accelerate/optim/get_scheduler.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/optim/schedules/step_schedules.h"

namespace accelerate {
namespace {

using detail::WarmupSpan;
using torch::optim::Optimizer;

// The input of a factory of the library. Missing steps have been filled in or refused.
struct Request {
  std::string_view name;
  Optimizer& optimizer;
  const SchedulerSpecificOptions& kwargs;
  std::int64_t warmup = 0;
  std::optional<std::int64_t> training;

  [[nodiscard]] WarmupSpan span() const { return {warmup, *training}; }
};

using Scheduler = std::shared_ptr<LRScheduler>;

Scheduler scaled_by(const Request& request, const detail::Factor& factor) {
  return std::make_shared<LambdaLR>(request.optimizer, factor);
}

[[noreturn]] void refuse(const Request& request, const std::string& what) {
  throw ConfigError("the schedule '" + std::string(request.name) + "' " + what);
}

// --- the schedules -------------------------------------------------------------------------------

Scheduler make_linear(const Request& request) {
  return scaled_by(request, detail::linear_factor(request.span()));
}

Scheduler make_cosine(const Request& request) {
  const double cycles = request.kwargs.num_cycles.value_or(0.5);
  return scaled_by(request, detail::cosine_factor(request.span(), cycles, 0.0));
}

Scheduler make_restarts(const Request& request) {
  const double cycles = request.kwargs.num_cycles.value_or(1);
  return scaled_by(request, detail::restarts_factor(request.span(), cycles));
}

Scheduler make_polynomial(const Request& request) {
  const detail::Polynomial rates{detail::default_rate(request.optimizer),
                                 request.kwargs.lr_end.value_or(1e-7),
                                 request.kwargs.power.value_or(1.0)};
  if (rates.start <= rates.end) {
    refuse(request, "goes down to lr_end = " + c10::str(rates.end) +
                        ", which must be below the optimizer's rate, " + c10::str(rates.start));
  }
  return scaled_by(request, detail::polynomial_factor(request.span(), rates));
}

Scheduler make_constant(const Request& request) {
  return scaled_by(request, detail::constant_factor(0));
}

Scheduler make_constant_with_warmup(const Request& request) {
  return scaled_by(request, detail::constant_factor(request.warmup));
}

Scheduler make_inverse_sqrt(const Request& request) {
  const auto timescale =
      request.kwargs.timescale.value_or(request.warmup != 0 ? request.warmup : 10'000);
  if (timescale < 1) {
    refuse(request, "has timescale = " + std::to_string(timescale) + "; allowed is 1 or more");
  }
  return scaled_by(request, detail::inverse_sqrt_factor(request.warmup, timescale));
}

// Returns the lowest factor of a cosine, which is given as a rate or as a fraction.
double floor_of(const Request& request) {
  const auto& [rate, fraction] = std::pair(request.kwargs.min_lr, request.kwargs.min_lr_rate);
  if (rate.has_value() == fraction.has_value()) {
    refuse(request, rate ? "was given both min_lr and min_lr_rate: give one of them"
                         : "needs min_lr, a rate, or min_lr_rate, a fraction of the first rate");
  }
  if (fraction) return *fraction;
  if (!rate->same_for_all()) refuse(request, "takes one min_lr for all parameter groups");
  return rate->values().front() / detail::default_rate(request.optimizer);
}

Scheduler make_cosine_with_min_lr(const Request& request) {
  const double cycles = request.kwargs.num_cycles.value_or(0.5);
  return scaled_by(request, detail::cosine_factor(request.span(), cycles, floor_of(request)));
}

Scheduler make_cosine_warmup_with_min_lr(const Request& request) {
  const detail::AheadCosine wave{request.kwargs.num_cycles.value_or(0.5), floor_of(request),
                                 request.kwargs.warmup_lr_rate};
  return scaled_by(request, detail::ahead_cosine_factor(request.span(), wave));
}

Scheduler make_warmup_stable_decay(const Request& request) {
  const SchedulerSpecificOptions& kwargs = request.kwargs;
  if (!kwargs.num_decay_steps) refuse(request, "needs num_decay_steps, which is not set");
  if (!request.training && !kwargs.num_stable_steps) {
    refuse(request, "needs num_training_steps or num_stable_steps, and neither is set");
  }
  const std::int64_t decay = *kwargs.num_decay_steps;
  const std::int64_t stable = kwargs.num_stable_steps ? *kwargs.num_stable_steps
                                                      : *request.training - request.warmup - decay;
  if (stable < 0 || decay < 0) {
    refuse(request, "warms up in " + std::to_string(request.warmup) + " steps, is stable for " +
                        std::to_string(stable) + " and decays in " + std::to_string(decay) +
                        "; allowed are 0 steps or more for each, and what num_training_steps "
                        "leaves is the stable part");
  }
  return scaled_by(
      request, detail::stable_decay_factor(
                   {request.warmup, stable, decay, kwargs.warmup_type.value_or(RampType::linear),
                    kwargs.decay_type.value_or(RampType::cosine), kwargs.min_lr_ratio.value_or(0.0),
                    kwargs.num_cycles.value_or(0.5)}));
}

// Takes the options that both plateau schedules share.
template <typename Options>
void take_plateau(const SchedulerSpecificOptions& set, Options& options) {
  options.mode = set.mode.value_or(options.mode);
  options.factor = set.factor.value_or(options.factor);
  options.patience = set.patience.value_or(options.patience);
  options.threshold = set.threshold.value_or(options.threshold);
  options.threshold_mode = set.threshold_mode.value_or(options.threshold_mode);
  options.cooldown = set.cooldown.value_or(options.cooldown);
  options.min_lr = set.min_lr.value_or(options.min_lr);
  options.eps = set.eps.value_or(options.eps);
}

Scheduler make_plateau(const Request& request) {
  ReduceLROnPlateauOptions options;
  take_plateau(request.kwargs, options);
  return std::make_shared<ReduceLROnPlateau>(request.optimizer, options);
}

Scheduler make_greedy(const Request& request) {
  const SchedulerSpecificOptions& set = request.kwargs;
  GreedyLROptions options;
  take_plateau(set, options);
  options.warmup = set.warmup.value_or(options.warmup);
  options.max_lr = set.max_lr.value_or(options.max_lr);
  options.smooth = set.smooth.value_or(options.smooth);
  options.window_size = set.window_size.value_or(options.window_size);
  options.reset_start = set.reset_start.value_or(options.reset_start);
  return std::make_shared<GreedyLR>(request.optimizer, options);
}

// --- what each schedule takes --------------------------------------------------------------------

enum class Steps { none, warmup, warmup_and_training, warmup_perhaps_training };

struct Known {
  std::string name;
  Steps steps;
  std::vector<std::string> takes;  // Fields of SchedulerSpecificOptions.
  Scheduler (*make)(const Request&);
};

const std::vector<Known>& known_schedules() {
  using enum Steps;
  static const std::vector<std::string> plateau = {
      "mode", "factor", "patience", "threshold", "threshold_mode", "cooldown", "min_lr", "eps"};
  static const std::vector<std::string> greedy = [] {
    auto all = plateau;
    for (const char* own : {"warmup", "max_lr", "smooth", "window_size", "reset_start"}) {
      all.emplace_back(own);
    }
    return all;
  }();
  static const std::vector<Known> known = {
      {"linear", warmup_and_training, {}, make_linear},
      {"cosine", warmup_and_training, {"num_cycles"}, make_cosine},
      {"cosine_with_restarts", warmup_and_training, {"num_cycles"}, make_restarts},
      {"polynomial", warmup_and_training, {"lr_end", "power"}, make_polynomial},
      {"constant", none, {}, make_constant},
      {"constant_with_warmup", warmup, {}, make_constant_with_warmup},
      {"inverse_sqrt", warmup, {"timescale"}, make_inverse_sqrt},
      {"reduce_lr_on_plateau", none, plateau, make_plateau},
      {"cosine_with_min_lr",
       warmup_and_training,
       {"num_cycles", "min_lr", "min_lr_rate"},
       make_cosine_with_min_lr},
      {"cosine_warmup_with_min_lr",
       warmup_and_training,
       {"num_cycles", "min_lr", "min_lr_rate", "warmup_lr_rate"},
       make_cosine_warmup_with_min_lr},
      {"warmup_stable_decay",
       warmup_perhaps_training,
       {"num_decay_steps", "num_stable_steps", "warmup_type", "decay_type", "min_lr_ratio",
        "num_cycles"},
       make_warmup_stable_decay},
      {"greedy", none, greedy, make_greedy}};
  return known;
}

std::vector<std::string> fields_set(const SchedulerSpecificOptions& kwargs) {
  std::vector<std::string> names;
  detail::visit_fields(kwargs, [&names](const char* name, const auto& field) {
    if (field) names.emplace_back(name);
  });
  return names;
}

void require_own_kwargs(const Known& known, const Request& request) {
  for (const std::string& field : fields_set(request.kwargs)) {
    if (std::find(known.takes.begin(), known.takes.end(), field) != known.takes.end()) continue;
    refuse(request, "does not take " + field +
                        (known.takes.empty() ? ", nor any other of scheduler_specific_kwargs"
                                             : "; it takes " + join(known.takes, ", ")));
  }
}

std::int64_t required_steps(const Request& request, const char* name,
                            const std::optional<std::int64_t>& steps) {
  if (!steps) {
    refuse(request, std::string("needs ") + name +
                        ", which is not set: get_scheduler(name, optimizer, "
                        "{.num_warmup_steps = …, .num_training_steps = …})");
  }
  if (*steps < 0) {
    refuse(request, std::string("was given ") + name + " = " + std::to_string(*steps) +
                        "; allowed is 0 or more");
  }
  return *steps;
}

Scheduler make_known(const Known& known, Optimizer& optimizer, const SchedulerOptions& options) {
  Request request{known.name, optimizer, options.scheduler_specific_kwargs, 0, std::nullopt};
  require_own_kwargs(known, request);
  if (known.steps != Steps::none) {
    request.warmup = required_steps(request, "num_warmup_steps", options.num_warmup_steps);
  }
  const bool optional = known.steps == Steps::warmup_perhaps_training;
  if (known.steps == Steps::warmup_and_training || (optional && options.num_training_steps)) {
    request.training = required_steps(request, "num_training_steps", options.num_training_steps);
  }
  return known.make(request);
}

// --- registered schedules ------------------------------------------------------------------------

struct Registered {
  std::mutex mutex;
  std::vector<std::pair<std::string, SchedulerFactory>> factories;
};

Registered& registered() {
  static Registered instance;
  return instance;
}

// Returns a copy, so that a factory runs without the lock and may itself call get_scheduler.
SchedulerFactory registered_factory(std::string_view name) {
  const std::lock_guard lock(registered().mutex);
  for (const auto& [known, factory] : registered().factories) {
    if (known == name) return factory;
  }
  return nullptr;
}

}  // namespace

std::vector<std::string> scheduler_names() {
  std::vector<std::string> names;
  for (const Known& known : known_schedules()) names.push_back(known.name);
  const std::lock_guard lock(registered().mutex);
  for (const auto& [name, factory] : registered().factories) names.push_back(name);
  return names;
}

void register_scheduler(const std::string& name, SchedulerFactory factory) {
  if (name.empty() || !factory) {
    throw ConfigError("register_scheduler needs a name and a function, and one is empty");
  }
  const auto taken = scheduler_names();
  const std::lock_guard lock(registered().mutex);
  if (std::find(taken.begin(), taken.end(), name) != taken.end()) {
    throw ConfigError("there is a schedule called '" + name + "' already: take another name");
  }
  registered().factories.emplace_back(name, std::move(factory));
}

SharedScheduler get_scheduler(std::string_view name, Optimizer& optimizer,
                              const SchedulerOptions& options) {
  for (const Known& known : known_schedules()) {
    if (known.name == name) return make_known(known, optimizer, options);
  }
  if (const auto factory = registered_factory(name)) {
    auto scheduler = factory(optimizer, options);
    if (scheduler != nullptr) return scheduler;
    throw ConfigError("the function registered for the schedule '" + std::string(name) +
                      "' returned nothing");
  }
  throw ConfigError("there is no schedule called '" + std::string(name) + "'; known are " +
                    join(scheduler_names(), ", ") + "." + did_you_mean(name, scheduler_names()));
}

}  // namespace accelerate
