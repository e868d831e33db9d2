#include "accelerate/transformers/trainer/create_optimizer.h"

#include <torch/csrc/jit/api/module.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/normalization.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <cmath>
#include <functional>
#include <map>
#include <regex>
#include <set>
#include <utility>

#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/optim/algorithms/adafactor.h"
#include "accelerate/optim/algorithms/lion.h"
#include "accelerate/optim/algorithms/schedule_free_adamw.h"
#include "accelerate/optim/get_scheduler.h"

namespace accelerate {
namespace {

using Group = torch::optim::OptimizerParamGroup;

// Returns the names of the parameters that nn.LayerNorm modules own.
std::set<std::string> parameters_of_layer_norms(const TrainableModel& model) {
  std::set<std::string> names;
  const auto add = [&](const std::string& path, const auto& parameters) {
    for (const auto& name : parameters) names.insert(path.empty() ? name : path + "." + name);
  };
  if (model.script()) {
    for (const auto& module : model.script()->named_modules()) {
      if (module.value.type()->name() && module.value.type()->name()->name() == "LayerNorm")
        add(module.name, std::vector<std::string>{"weight", "bias"});
    }
    return names;
  }
  for (const auto& module : model.module()->named_modules("", false)) {
    if (module.value()->as<torch::nn::LayerNormImpl>() != nullptr)
      add(module.key(), module.value()->named_parameters(false).keys());
  }
  return names;
}

bool is_name_without_decay(const std::string& name) {
  static const std::regex pattern(
      R"(bias|layernorm|rmsnorm|(^|\.)norm($|\.)|_norm($|\.))",
      std::regex::ECMAScript | std::regex::icase | std::regex::optimize);
  return std::regex_search(name, pattern);
}

// The settings of optim_args, "momentum=0.9,nesterov=true", which are taken out one by one.
class OptimArgs {
 public:
  explicit OptimArgs(const std::string& text) {
    for (const std::string& pair : split(text, ',')) {
      const auto words = split(pair, '=');
      if (trim(pair).empty()) continue;
      if (words.size() != 2)
        throw ConfigError("optim_args has '" + pair +
                          "'; allowed are pairs such as momentum=0.9, with commas between them");
      values_[std::string(trim(words[0]))] = std::string(trim(words[1]));
    }
  }

  void take(const char* name, const std::function<void(double)>& use) {
    known_.emplace_back(name);
    const auto found = values_.find(name);
    if (found == values_.end()) return;
    const auto number = parse_double(found->second);
    const auto truth = parse_bool(found->second);
    if (!number && !truth)
      throw ConfigError("optim_args: " + std::string(name) + " is '" + found->second +
                        "'; allowed is a number, or true or false");
    use(number ? *number : (*truth ? 1 : 0));
    values_.erase(found);
  }

  void refuse_the_rest(std::string_view optimizer) const {
    if (values_.empty()) return;
    const std::string& name = values_.begin()->first;
    throw ConfigError("optim_args: " + std::string(optimizer) + " has no " + name + "; it takes " +
                      (known_.empty() ? "none" : join(known_, ", ")) + "." +
                      did_you_mean(name, known_));
  }

 private:
  std::map<std::string, std::string> values_;
  std::vector<std::string> known_;
};

std::vector<at::Tensor> tensors_of(const std::vector<NamedTensor>& parameters) {
  std::vector<at::Tensor> tensors;
  for (const auto& [name, tensor] : parameters) tensors.push_back(tensor);
  return tensors;
}

// What an optimizer is made of.
struct Ingredients {
  const ParameterGroups& parameters;
  const ResolvedArguments& args;
  OptimArgs& more;

  // Returns an optimizer of both groups with `options`; the second group has no weight decay.
  template <typename Optimizer, typename Options>
  [[nodiscard]] std::shared_ptr<torch::optim::Optimizer> make(const Options& options) const {
    std::vector<Group> groups;
    for (const bool decays : {true, false}) {
      Options of_group = options;
      of_group.weight_decay(decays ? args.weight_decay : 0);
      groups.emplace_back(tensors_of(decays ? parameters.decayed : parameters.kept),
                          std::make_unique<Options>(of_group));
    }
    return std::make_shared<Optimizer>(std::move(groups), options);
  }
};

using Made = std::shared_ptr<torch::optim::Optimizer>;

Made make_adamw(const Ingredients& of) {
  return of.make<torch::optim::AdamW>(torch::optim::AdamWOptions(of.args.learning_rate)
                                          .betas({of.args.adam_beta1, of.args.adam_beta2})
                                          .eps(of.args.adam_epsilon));
}

Made make_sgd(const Ingredients& of) {
  torch::optim::SGDOptions options(of.args.learning_rate);
  of.more.take("momentum", [&](double value) { options.momentum(value); });
  of.more.take("dampening", [&](double value) { options.dampening(value); });
  of.more.take("nesterov", [&](double value) { options.nesterov(value != 0); });
  return of.make<torch::optim::SGD>(options);
}

Made make_adagrad(const Ingredients& of) {
  torch::optim::AdagradOptions options(of.args.learning_rate);
  of.more.take("lr_decay", [&](double value) { options.lr_decay(value); });
  of.more.take("eps", [&](double value) { options.eps(value); });
  return of.make<torch::optim::Adagrad>(options);
}

Made make_rmsprop(const Ingredients& of) {
  torch::optim::RMSpropOptions options(of.args.learning_rate);
  of.more.take("momentum", [&](double value) { options.momentum(value); });
  of.more.take("alpha", [&](double value) { options.alpha(value); });
  of.more.take("eps", [&](double value) { options.eps(value); });
  of.more.take("centered", [&](double value) { options.centered(value != 0); });
  return of.make<torch::optim::RMSprop>(options);
}

Made make_adafactor(const Ingredients& of) {
  return of.make<Adafactor>(
      AdafactorOptions(of.args.learning_rate).scale_parameter(false).relative_step(false));
}

Made make_lion(const Ingredients& of) {
  return of.make<Lion>(
      LionOptions(of.args.learning_rate).betas({of.args.adam_beta1, of.args.adam_beta2}));
}

Made make_schedule_free_adamw(const Ingredients& of) {
  auto options = ScheduleFreeAdamWOptions(of.args.learning_rate)
                     .betas({of.args.adam_beta1, of.args.adam_beta2})
                     .eps(of.args.adam_epsilon)
                     .warmup_steps(static_cast<std::int64_t>(of.args.warmup_steps));
  of.more.take("weight_lr_power", [&](double value) { options.weight_lr_power(value); });
  of.more.take("r", [&](double value) { options.r(value); });
  return of.make<ScheduleFreeAdamW>(options);
}

Made make_optimizer(const Ingredients& of) {
  switch (of.args.optim) {
    case OptimizerName::adamw_torch:
    case OptimizerName::adamw_torch_fused:
      return make_adamw(of);
    case OptimizerName::sgd:
      return make_sgd(of);
    case OptimizerName::adagrad:
      return make_adagrad(of);
    case OptimizerName::rmsprop:
      return make_rmsprop(of);
    case OptimizerName::adafactor:
      return make_adafactor(of);
    case OptimizerName::lion_32bit:
      return make_lion(of);
    case OptimizerName::schedule_free_adamw:
      return make_schedule_free_adamw(of);
  }
  return make_adamw(of);
}

}  // namespace

ParameterGroups parameter_groups(const TrainableModel& model) {
  const auto of_layer_norms = parameters_of_layer_norms(model);
  const ModuleView view = model.script() ? view_of(*model.script()) : view_of(*model.module());
  ParameterGroups groups;
  std::set<const at::TensorImpl*> seen;
  for (const auto& item : view.parameters) {
    if (!item.tensor.requires_grad() || !seen.insert(item.tensor.unsafeGetTensorImpl()).second)
      continue;
    const bool kept = of_layer_norms.contains(item.name) || is_name_without_decay(item.name);
    (kept ? groups.kept : groups.decayed).push_back(item);
  }
  return groups;
}

std::shared_ptr<torch::optim::Optimizer> create_optimizer(const TrainableModel& model,
                                                          const ResolvedArguments& args) {
  const auto groups = parameter_groups(model);
  if (groups.decayed.empty() && groups.kept.empty())
    throw ConfigError(model.name() +
                      " has no parameter that requires a gradient, so there is nothing to train");
  OptimArgs more(args.optim_args);
  auto optimizer = make_optimizer({groups, args, more});
  more.refuse_the_rest(args.optim.text());
  return optimizer;
}

std::int64_t warmup_steps(const ResolvedArguments& args, std::int64_t max_steps) {
  if (args.warmup_steps >= 1) return static_cast<std::int64_t>(args.warmup_steps);
  return static_cast<std::int64_t>(std::ceil(static_cast<double>(max_steps) * args.warmup_steps));
}

std::shared_ptr<LRScheduler> create_scheduler(torch::optim::Optimizer& optimizer,
                                              const ResolvedArguments& args,
                                              std::int64_t max_steps) {
  return get_scheduler(args.lr_scheduler_type, optimizer,
                       {.num_warmup_steps = warmup_steps(args, max_steps),
                        .num_training_steps = max_steps,
                        .scheduler_specific_kwargs = args.lr_scheduler_kwargs});
}

}  // namespace accelerate
