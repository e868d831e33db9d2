// The rows of tests/reference/schedules.jsonl, and what they describe as objects of ours.
#pragma once

#include <torch/torch.h>

#include <cmath>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "accelerate/base/text.h"
#include "accelerate/optim/get_scheduler.h"
#include "accelerate/optim/schedules/one_cycle_lr.h"
#include "accelerate/optim/schedules/sequential_lr.h"
#include "accelerate/optim/schedules/step_schedules.h"
#include "tests/support/reference.h"

namespace accelerate::testing {

using Json = nlohmann::json;
using Steps = std::vector<std::int64_t>;
using Numbers = std::vector<double>;

struct ScheduleRows {
  Json header;
  std::vector<Json> rows;
};

inline ScheduleRows schedule_rows() {
  ScheduleRows result;
  for (const std::string& line : split(read_reference("schedules.jsonl"), '\n')) {
    if (line.empty()) continue;
    (result.header.is_null() ? result.header : result.rows.emplace_back()) = Json::parse(line);
  }
  return result;
}

template <typename Optimizer, typename Options>
std::unique_ptr<torch::optim::Optimizer> optimizer_with(std::size_t groups,
                                                        const Options& options) {
  std::vector<torch::optim::OptimizerParamGroup> all;
  for (std::size_t i = 0; i < groups; ++i) {
    all.emplace_back(std::vector<at::Tensor>{torch::ones({1}, torch::requires_grad())});
  }
  return std::make_unique<Optimizer>(all, options);
}

/// An optimizer of that class whose groups have these rates, the first of them as the default.
inline std::unique_ptr<torch::optim::Optimizer> make_optimizer(const std::string& name,
                                                               const Numbers& rates) {
  using namespace torch::optim;
  std::unique_ptr<Optimizer> made;
  const std::size_t n = rates.size();
  if (name == "SGD") made = optimizer_with<SGD>(n, SGDOptions(rates[0]).momentum(0.9));
  if (name == "Adam") made = optimizer_with<Adam>(n, AdamOptions(rates[0]));
  if (name == "AdamW") made = optimizer_with<AdamW>(n, AdamWOptions(rates[0]));
  if (name == "RMSprop") made = optimizer_with<RMSprop>(n, RMSpropOptions(rates[0]));
  if (name == "Adagrad") made = optimizer_with<Adagrad>(n, AdagradOptions(rates[0]));
  if (name == "LBFGS") made = optimizer_with<LBFGS>(n, LBFGSOptions(rates[0]));
  if (made == nullptr) throw std::runtime_error("no optimizer " + name);
  detail::set_group_rates(*made, rates);
  return made;
}

template <typename E>
E enum_of(const Json& text) {
  const auto& texts = EnumTexts<E>::kTexts;
  const auto found = std::find(texts.begin(), texts.end(), text.get<std::string>());
  if (found == texts.end()) throw std::runtime_error("no such value: " + text.dump());
  return static_cast<E>(found - texts.begin());
}

/// Takes options out of a row's "args"; finish() throws when one was not asked for.
class Args {
 public:
  explicit Args(Json args) : args_(std::move(args)) {}

  template <typename T>
  void take(const char* name, T& value) {
    if (const auto found = args_.find(name); found != args_.end()) {
      read(*found, value);
      args_.erase(found);
    }
  }
  template <typename T>
  T get(const char* name, T value) {
    take(name, value);
    return value;
  }
  void finish() const {
    if (!args_.empty()) throw std::runtime_error("arguments left: " + args_.dump());
  }

 private:
  template <typename T>
  static void read(const Json& json, std::optional<T>& value) {
    if constexpr (std::is_same_v<T, PerGroup>) {
      value.emplace(0.0);
      read(json, *value);
    } else {
      read(json, value.emplace());
    }
  }
  static void read(const Json& json, PerGroup& value) {
    value = json.is_array() ? PerGroup(json.get<Numbers>()) : PerGroup(json.get<double>());
  }
  template <typename T>
  static void read(const Json& json, T& value) {
    if constexpr (std::is_enum_v<T>) {
      value = enum_of<T>(json);
    } else {
      value = json.get<T>();
    }
  }

  Json args_;
};

inline SchedulerOptions scheduler_options(Args& args) {
  SchedulerOptions options;
  args.take("num_warmup_steps", options.num_warmup_steps);
  args.take("num_training_steps", options.num_training_steps);
  detail::visit_fields(options.scheduler_specific_kwargs,
                       [&args](const char* name, auto& field) { args.take(name, field); });
  return options;
}

inline OneCycleLROptions one_cycle_options(Args& args) {
  OneCycleLROptions options{.max_lr = 0.0};
  args.take("max_lr", options.max_lr);
  args.take("total_steps", options.total_steps);
  args.take("epochs", options.epochs);
  args.take("steps_per_epoch", options.steps_per_epoch);
  args.take("pct_start", options.pct_start);
  args.take("anneal_strategy", options.anneal_strategy);
  args.take("cycle_momentum", options.cycle_momentum);
  args.take("div_factor", options.div_factor);
  args.take("final_div_factor", options.final_div_factor);
  args.take("three_phase", options.three_phase);
  return options;
}

inline std::vector<LambdaLR::Factor> slowing_down(const Numbers& slopes) {
  std::vector<LambdaLR::Factor> factors;
  for (const double slope : slopes) {
    factors.emplace_back(
        [slope](std::int64_t t) { return 1.0 / (1.0 + slope * static_cast<double>(t)); });
  }
  return factors;
}

std::shared_ptr<LRScheduler> make_schedule(const Json& spec, torch::optim::Optimizer& optimizer);

inline std::shared_ptr<LRScheduler> make_sequence(Args& args, torch::optim::Optimizer& optimizer) {
  SequentialLR::Schedulers inner;
  for (const Json& one : args.get("schedulers", Json())) {
    inner.push_back(make_schedule(one, optimizer));
  }
  return std::make_shared<SequentialLR>(optimizer, inner, args.get("milestones", Steps()));
}

// The classes of torch.optim.lr_scheduler; nullptr for other names.
inline std::shared_ptr<LRScheduler> make_torch_schedule(const std::string& name, Args& args,
                                                        torch::optim::Optimizer& o) {
  if (name == "SequentialLR") return make_sequence(args, o);
  if (name == "OneCycleLR") return std::make_shared<OneCycleLR>(o, one_cycle_options(args));
  if (name == "LambdaLR") {
    return std::make_shared<LambdaLR>(o, slowing_down(args.get("slopes", Numbers())));
  }
  const auto gamma = args.get("gamma", 0.1);
  if (name == "StepLR") {
    return std::make_shared<StepLR>(o, args.get("step_size", std::int64_t{0}), gamma);
  }
  if (name == "MultiStepLR") {
    return std::make_shared<MultiStepLR>(o, args.get("milestones", Steps()), gamma);
  }
  if (name == "ExponentialLR") return std::make_shared<ExponentialLR>(o, gamma);
  if (name == "LinearLR") {
    LinearLROptions options;
    args.take("start_factor", options.start_factor);
    args.take("end_factor", options.end_factor);
    args.take("total_iters", options.total_iters);
    return std::make_shared<LinearLR>(o, options);
  }
  if (name != "CosineAnnealingLR") return nullptr;
  const auto t_max = args.get("T_max", std::int64_t{0});
  return std::make_shared<CosineAnnealingLR>(o, t_max, args.get("eta_min", 0.0));
}

inline std::shared_ptr<LRScheduler> make_schedule(const Json& spec,
                                                  torch::optim::Optimizer& optimizer) {
  const std::string name = spec.at("name");
  Args args(spec.at("args"));
  auto made = make_torch_schedule(name, args, optimizer);
  if (made == nullptr) made = get_scheduler(name, optimizer, scheduler_options(args));
  args.finish();
  return made;
}

/// The metric of a row at a step.
inline double metric_at(const Json& metric, std::int64_t step) {
  const std::int64_t a = metric.at("a"), b = metric.at("b");
  const auto phase = static_cast<double>(step * a % b);
  return metric.at("level").get<double>() +
         metric.at("noise").get<double>() * phase / static_cast<double>(b) +
         metric.at("start").get<double>() / static_cast<double>(step + 1);
}

inline StateValue state_value(const Json& json) {
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_integer()) return json.get<std::int64_t>();
  if (json.is_number()) return json.get<double>();
  if (json == "inf") return std::numeric_limits<double>::infinity();
  if (json == "-inf") return -std::numeric_limits<double>::infinity();
  if (json.is_string()) return json.get<std::string>();
  const bool whole = std::all_of(json.begin(), json.end(),
                                 [](const Json& one) { return one.is_number_integer(); });
  if (whole && !json.empty()) return json.get<Steps>();
  return json.get<Numbers>();
}

/// Python's state as one of ours.
inline SchedulerState state_of(const Json& json) {
  SchedulerState state;
  for (const auto& [key, value] : json.items()) {
    if (value.is_array() && !value.empty() && value[0].is_object()) {
      for (const Json& inner : value) state.nested[key].push_back(state_of(inner));
    } else {
      state.values[key] = state_value(value);
    }
  }
  return state;
}

}  // namespace accelerate::testing
