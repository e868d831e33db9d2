// Optimizers of every kind and setting, and twins of them to compare with.
#pragma once

#include <ATen/record_function.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace accelerate::testing {

using Optimizer = torch::optim::Optimizer;
using Groups = std::vector<torch::optim::OptimizerParamGroup>;

/// A way to make an optimizer.
struct OptimizerCase {
  std::string name;
  std::function<std::unique_ptr<Optimizer>(const Groups&)> make;
};

template <typename T, typename Options>
OptimizerCase case_of(std::string name, const Options& options) {
  return {std::move(name),
          [options](const Groups& groups) { return std::make_unique<T>(groups, options); }};
}

/// "name: a b …"
template <typename... Values>
std::string label(const std::string& name, const Values&... values) {
  std::ostringstream text;
  text << name << ':';
  ((text << ' ' << values), ...);
  return text.str();
}

inline void add_sgd(std::vector<OptimizerCase>& all) {
  using torch::optim::SGDOptions;
  for (const double momentum : {0.0, 0.9}) {
    for (const double dampening : {0.0, 0.3}) {
      for (const double decay : {0.0, 0.1}) {
        for (const bool nesterov : {false, true}) {
          if (nesterov && (momentum == 0 || dampening != 0)) continue;  // refused by torch::optim
          all.push_back(case_of<torch::optim::SGD>(
              label("SGD", momentum, dampening, decay, nesterov),
              SGDOptions(0.05).momentum(momentum).dampening(dampening).weight_decay(decay).nesterov(
                  nesterov)));
        }
      }
    }
  }
}

template <typename T, typename Options>
void add_adam(const std::string& name, std::vector<OptimizerCase>& all) {
  for (const double decay : {0.0, 0.1}) {
    for (const bool amsgrad : {false, true}) {
      for (const double eps : {1e-8, 1e-3}) {
        for (const auto& [beta1, beta2] : {std::pair{0.9, 0.999}, {0.0, 0.5}, {0.5, 0.9}}) {
          all.push_back(
              case_of<T>(label(name, decay, amsgrad, eps, beta1, beta2),
                         Options(0.02).weight_decay(decay).amsgrad(amsgrad).eps(eps).betas(
                             std::make_tuple(beta1, beta2))));
        }
      }
    }
  }
}

inline void add_adagrad(std::vector<OptimizerCase>& all) {
  for (const double lr_decay : {0.0, 0.1}) {
    for (const double decay : {0.0, 0.1}) {
      for (const double sum : {0.0, 0.5}) {
        all.push_back(case_of<torch::optim::Adagrad>(label("Adagrad", lr_decay, decay, sum),
                                                     torch::optim::AdagradOptions(0.1)
                                                         .lr_decay(lr_decay)
                                                         .weight_decay(decay)
                                                         .initial_accumulator_value(sum)));
      }
    }
  }
}

/// The settings of the four optimizers that have fused kernels.
inline std::vector<OptimizerCase> fused_cases() {
  std::vector<OptimizerCase> all;
  add_sgd(all);
  add_adam<torch::optim::Adam, torch::optim::AdamOptions>("Adam", all);
  add_adam<torch::optim::AdamW, torch::optim::AdamWOptions>("AdamW", all);
  add_adagrad(all);
  return all;
}

/// One setting of each: with momentum, and with weight decay and amsgrad or `plain`.
inline std::vector<OptimizerCase> four_cases(bool plain = false) {
  using namespace torch::optim;
  const double decay = plain ? 0 : 0.1;
  return {case_of<SGD>("SGD", SGDOptions(0.05).momentum(0.9).weight_decay(decay)),
          case_of<Adam>("Adam", AdamOptions(0.02).weight_decay(decay).amsgrad(!plain)),
          case_of<AdamW>("AdamW", AdamWOptions(0.02).weight_decay(decay).amsgrad(!plain)),
          case_of<Adagrad>("Adagrad", AdagradOptions(0.1).lr_decay(0.1).weight_decay(decay))};
}

/// Every optimizer of torch::optim.
inline std::vector<OptimizerCase> all_cases() {
  using namespace torch::optim;
  auto all = four_cases();
  all.push_back(case_of<RMSprop>("RMSprop", RMSpropOptions(0.02).momentum(0.9).centered(true)));
  all.push_back(case_of<LBFGS>("LBFGS", LBFGSOptions(0.5).max_iter(4)));
  return all;
}

/// A class of the user's own, which has options of the user's own and steps nowhere.
template <typename Options>
struct OwnOptimizer final : torch::optim::Optimizer {
  OwnOptimizer()
      : Optimizer(std::vector<at::Tensor>{torch::ones({1}, torch::requires_grad())},
                  std::make_unique<Options>()) {}
  at::Tensor step(LossClosure /*closure*/) override { return {}; }
};

/// Leaves with the values and strides of `tensors`.
inline std::vector<at::Tensor> leaves_of(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> leaves;
  for (const auto& tensor : tensors) {
    leaves.push_back(tensor.detach().clone().set_requires_grad(true));
  }
  return leaves;
}

/// Gives every leaf of both the same new gradient of normal numbers, laid out as the leaf is.
inline void set_gradients(std::vector<at::Tensor>& ours, std::vector<at::Tensor>& theirs) {
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const auto gradient = torch::randn_like(ours[i].detach());
    ours[i].mutable_grad() = gradient;
    theirs[i].mutable_grad() = gradient.clone();
  }
}

/// The greatest |a - b| / max(1, |b|) over all elements; infinite where only one is a number.
inline double distance(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].numel() == 0) continue;
    const auto x = a[i].detach().to(at::kDouble), y = b[i].detach().to(at::kDouble);
    const auto apart = (x - y).abs() / y.abs().clamp_min(1.0);
    const auto same = x.eq(y) | (x.isnan() & y.isnan());
    const auto error = at::where(same, at::zeros_like(apart), apart).nan_to_num(1e300);
    worst = std::max(worst, error.max().item<double>());
  }
  return worst;
}

/// Names of the operations that this thread runs while alive.
class Operations {
 public:
  Operations() {
    seen().clear();
    handle_ = at::addThreadLocalCallback(
        at::RecordFunctionCallback([](const at::RecordFunction& fn)
                                       -> std::unique_ptr<at::ObserverContext> {
          seen().insert(fn.name());
          return nullptr;
        }).scopes({at::RecordScope::FUNCTION}));
  }
  ~Operations() { at::removeCallback(handle_); }
  Operations(const Operations&) = delete;
  Operations& operator=(const Operations&) = delete;

  static std::multiset<std::string>& seen() {
    static thread_local std::multiset<std::string> names;
    return names;
  }

 private:
  at::CallbackHandle handle_ = 0;
};

/// Every tensor of the optimizer's state, in the order of the parameters, and the step numbers.
std::vector<at::Tensor> state_tensors(Optimizer& optimizer);

}  // namespace accelerate::testing
