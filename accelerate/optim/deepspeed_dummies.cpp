#include "accelerate/optim/deepspeed_dummies.h"

#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/optim/algorithms/lion.h"
#include "accelerate/optim/schedules/deepspeed_schedules.h"
#include "accelerate/optim/schedules/initial_rates.h"

namespace accelerate {
namespace {

using Groups = std::vector<torch::optim::OptimizerParamGroup>;

const std::string kParams = "optimizer.params.";

// --- Optimizers ----------------------------------------------------------------------------------

// Reads the options of one optimizer from the file.
class OptimizerSection {
 public:
  OptimizerSection(const DeepSpeedFile& file, const DummyOptimOptions& dummy)
      : file_(file), dummy_(dummy) {}

  // Throws ConfigError if the file has an option that only other optimizers have.
  void require_only(const std::string& type, const std::vector<std::string>& known) const {
    // Options that no optimizer here needs; the table of keys says why.
    const std::vector<std::string> idle = {"torch_adam", "fused", "bias_correction", "adam_w_mode",
                                           "max_grad_norm"};
    for (const auto& key : file_.keys_of("optimizer.params")) {
      const auto is_in = [&](const auto& names) {
        return std::find(names.begin(), names.end(), key) != names.end();
      };
      if (is_in(known) || is_in(idle)) continue;
      throw ConfigError(file_.place_of(kParams + key) + ": optimizer.params." + key +
                        " is no option of " + type + "; it has " + join(known, ", ") + "." +
                        did_you_mean(key, known));
    }
  }

  // Throws ConfigError for Nesterov's momentum without a momentum, or with dampening.
  void require_fitting_nesterov() const {
    if (!flag("nesterov", false) || (number("momentum", 0) > 0 && number("dampening", 0) == 0))
      return;
    throw ConfigError(file_.place_of(kParams + "nesterov") +
                      ": optimizer.params.nesterov is true, which needs a momentum above 0 and a "
                      "dampening of 0");
  }

  [[nodiscard]] double number(const std::string& key, double fallback) const {
    return file_.number(kParams + key).value_or(fallback);
  }
  [[nodiscard]] bool flag(const std::string& key, bool fallback) const {
    return file_.boolean(kParams + key).value_or(fallback);
  }
  // Without the key it is DeepSpeed's default; "auto" is the DummyOptim's.
  [[nodiscard]] double lr(double fallback = 1e-3) const {
    return number("lr", file_.is_auto(kParams + "lr") ? dummy_.lr : fallback);
  }
  [[nodiscard]] double weight_decay() const {
    return number("weight_decay",
                  file_.is_auto(kParams + "weight_decay") ? dummy_.weight_decay : 0);
  }
  [[nodiscard]] double eps(double fallback) const {
    return number("eps", file_.is_auto(kParams + "eps") ? dummy_.eps.value_or(fallback) : fallback);
  }
  [[nodiscard]] std::tuple<double, double> betas(double second) const {
    const auto found = file_.numbers(kParams + "betas");
    if (file_.is_auto(kParams + "betas") && dummy_.betas) return *dummy_.betas;
    if (found.empty()) return {0.9, second};
    for (const double beta : found)
      if (beta >= 1)
        throw ConfigError(file_.place_of(kParams + "betas") +
                          ": optimizer.params.betas has 1; allowed are numbers from 0 to below 1");
    if (found.size() == 2) return {found[0], found[1]};
    throw ConfigError(file_.place_of(kParams + "betas") + ": optimizer.params.betas has " +
                      count_of(found.size(), "number") + "; allowed are 2");
  }

 private:
  const DeepSpeedFile& file_;
  const DummyOptimOptions& dummy_;
};

template <typename Optimizer, typename Options>
std::unique_ptr<torch::optim::Optimizer> optimizer_with(const Groups& dummies,
                                                        const Options& options) {
  Groups groups;
  for (const auto& dummy : dummies) groups.emplace_back(dummy.params());
  return std::make_unique<Optimizer>(std::move(groups), options);
}

template <typename Optimizer, typename Options>
std::unique_ptr<torch::optim::Optimizer> adam_with(const Groups& groups,
                                                   const OptimizerSection& section) {
  return optimizer_with<Optimizer>(groups, Options(section.lr())
                                               .betas(section.betas(0.999))
                                               .eps(section.eps(1e-8))
                                               .weight_decay(section.weight_decay())
                                               .amsgrad(section.flag("amsgrad", false)));
}

// "Adam" means decoupled weight decay too, unless the file says otherwise.
std::unique_ptr<torch::optim::Optimizer> make_adam(const std::string& type, const Groups& groups,
                                                   const OptimizerSection& section) {
  section.require_only(type, {"lr", "betas", "eps", "weight_decay", "amsgrad"});
  if (lower(type) == "adamw" || section.flag("adam_w_mode", true))
    return adam_with<torch::optim::AdamW, torch::optim::AdamWOptions>(groups, section);
  return adam_with<torch::optim::Adam, torch::optim::AdamOptions>(groups, section);
}

std::unique_ptr<torch::optim::Optimizer> make_sgd(const Groups& groups,
                                                  const OptimizerSection& section) {
  section.require_only("SGD", {"lr", "momentum", "dampening", "weight_decay", "nesterov"});
  section.require_fitting_nesterov();
  return optimizer_with<torch::optim::SGD>(groups, torch::optim::SGDOptions(section.lr())
                                                       .momentum(section.number("momentum", 0))
                                                       .dampening(section.number("dampening", 0))
                                                       .weight_decay(section.weight_decay())
                                                       .nesterov(section.flag("nesterov", false)));
}

std::unique_ptr<torch::optim::Optimizer> make_adagrad(const Groups& groups,
                                                      const OptimizerSection& section) {
  section.require_only("Adagrad", {"lr", "lr_decay", "eps", "weight_decay"});
  return optimizer_with<torch::optim::Adagrad>(groups,
                                               torch::optim::AdagradOptions(section.lr(1e-2))
                                                   .lr_decay(section.number("lr_decay", 0))
                                                   .eps(section.eps(1e-10))
                                                   .weight_decay(section.weight_decay()));
}

std::unique_ptr<torch::optim::Optimizer> make_lion(const Groups& groups,
                                                   const OptimizerSection& section) {
  section.require_only("Lion", {"lr", "betas", "weight_decay"});
  return optimizer_with<Lion>(
      groups,
      LionOptions(section.lr()).betas(section.betas(0.99)).weight_decay(section.weight_decay()));
}

std::unique_ptr<torch::optim::Optimizer> optimizer_from(const DeepSpeedFile& file,
                                                        const Groups& groups,
                                                        const DummyOptimOptions& dummy) {
  const std::string type = file.text("optimizer.type").value_or("");
  const OptimizerSection section(file, dummy);
  const std::string word = lower(type);
  if (word == "adam" || word == "adamw") return make_adam(type, groups, section);
  if (word == "sgd") return make_sgd(groups, section);
  if (word == "adagrad") return make_adagrad(groups, section);
  if (word == "lion") return make_lion(groups, section);
  if (word == "muon") {
    throw ConfigError(file.place_of("optimizer.type") +
                      ": optimizer.type is 'Muon', which in DeepSpeed steps some parameters by "
                      "Adam. Leave the section out, and prepare two optimizers: Muon over the "
                      "matrices, AdamW over the rest");
  }
  const std::vector<std::string> known = {"Adam", "AdamW", "SGD", "Adagrad", "Lion"};
  throw ConfigError(file.place_of("optimizer.type") + ": optimizer.type is '" + type +
                    "', an algorithm that is not built; allowed is one of " + join(known, ", ") +
                    "." + did_you_mean(type, known));
}

// --- Schedules -----------------------------------------------------------------------------------

std::optional<std::int64_t> whole(const DeepSpeedFile& file, const std::string& key) {
  return file.integer("scheduler.params." + key);
}

void take_cycle(const DeepSpeedFile& file, DeepSpeedScheduleOptions& options) {
  const auto number = [&](const char* key, double& field) {
    field = file.number(std::string("scheduler.params.") + key).value_or(field);
  };
  number("cycle_min_lr", options.cycle_min_lr);
  number("cycle_max_lr", options.cycle_max_lr);
  number("decay_lr_rate", options.decay_lr_rate);
  number("cycle_min_mom", options.cycle_min_mom);
  number("cycle_max_mom", options.cycle_max_mom);
  number("decay_mom_rate", options.decay_mom_rate);
  options.cycle_first_step_size =
      whole(file, "cycle_first_step_size").value_or(options.cycle_first_step_size);
  options.cycle_second_step_size = whole(file, "cycle_second_step_size");
  options.cycle_first_stair_count = whole(file, "cycle_first_stair_count").value_or(0);
  options.cycle_second_stair_count = whole(file, "cycle_second_stair_count");
  options.decay_step_size = whole(file, "decay_step_size").value_or(0);
  options.cycle_momentum = file.boolean("scheduler.params.cycle_momentum").value_or(true);
}

// `lr`: what "auto" means for warmup_max_lr.
DeepSpeedScheduleOptions schedule_in(const DeepSpeedFile& file, const DummySchedulerOptions& dummy,
                                     double lr, int ranks) {
  const std::string params = "scheduler.params.";
  DeepSpeedScheduleOptions options;
  options.total_num_steps = whole(file, "total_num_steps");
  if (file.is_auto(params + "total_num_steps") && dummy.total_num_steps)
    options.total_num_steps = (*dummy.total_num_steps + ranks - 1) / ranks;
  options.warmup_min_lr = file.number(params + "warmup_min_lr").value_or(0);
  options.warmup_max_lr = file.number(params + "warmup_max_lr");
  if (file.is_auto(params + "warmup_max_lr")) options.warmup_max_lr = lr;
  options.warmup_num_steps = whole(file, "warmup_num_steps").value_or(options.warmup_num_steps);
  if (file.is_auto(params + "warmup_num_steps"))
    options.warmup_num_steps = std::max<std::int64_t>(1, dummy.warmup_num_steps);
  if (lower(file.text(params + "warmup_type").value_or("log")) == "linear")
    options.warmup_type = WarmupType::linear;
  options.warmup_min_ratio = file.number(params + "warmup_min_ratio").value_or(0);
  options.cos_min_ratio = file.number(params + "cos_min_ratio").value_or(options.cos_min_ratio);
  take_cycle(file, options);
  return options;
}

}  // namespace

DummyOptim::DummyOptim(std::vector<at::Tensor> parameters, const DummyOptimOptions& options)
    : DummyOptim(Groups{torch::optim::OptimizerParamGroup(std::move(parameters))}, options) {}

DummyOptim::DummyOptim(Groups groups, const DummyOptimOptions& options)
    : Optimizer(std::move(groups), std::make_unique<torch::optim::AdamWOptions>(options.lr)),
      options_(options) {}

at::Tensor DummyOptim::step(LossClosure) {
  throw UsageError(
      "DummyOptim has no steps: it stands for the optimizer of DeepSpeed's file until prepare() "
      "makes it. Step the optimizer that prepare() returns");
}

torch::optim::Optimizer& DummyOptim::made_from(const DeepSpeedFile& file) {
  if (!made_) made_ = optimizer_from(file, param_groups(), options_);
  return *made_;
}

DummyScheduler::DummyScheduler(torch::optim::Optimizer& optimizer, DummySchedulerOptions options)
    : optimizer_(optimizer), options_(options) {}

void DummyScheduler::step() {
  throw UsageError(
      "DummyScheduler has no steps: it stands for the schedule of DeepSpeed's file until prepare() "
      "makes it. Step the schedule that prepare() returns");
}

std::vector<double> DummyScheduler::get_last_lr() const {
  throw UsageError("DummyScheduler has no rates: ask the schedule that prepare() returns");
}

std::shared_ptr<LRScheduler> DummyScheduler::made_from(const DeepSpeedFile& file, int ranks) {
  if (made_) return made_;
  torch::optim::Optimizer* optimizer = &optimizer_;
  // The stand-in's rate counts, even if the file gives its optimizer another.
  double lr = detail::default_rate(optimizer_);
  if (const auto* dummy = dynamic_cast<const DummyOptim*>(optimizer)) {
    lr = dummy->dummy_options().lr;
    optimizer = dummy->made();
  }
  if (optimizer == nullptr)
    throw UsageError(
        "a DummyScheduler was given to prepare() before its DummyOptim: prepare both together, the "
        "DummyOptim first");
  made_ = make_deepspeed_schedule(file.text("scheduler.type").value_or(""), *optimizer,
                                  schedule_in(file, options_, lr, ranks));
  return made_;
}

}  // namespace accelerate
