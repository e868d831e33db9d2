#include "accelerate/optim/deepspeed_optimizers.h"

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
#include "accelerate/optim/algorithms/muon_with_aux_adam.h"

namespace accelerate {
namespace {

using Groups = std::vector<torch::optim::OptimizerParamGroup>;

const std::string kParams = "optimizer.params.";

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
  [[nodiscard]] std::tuple<double, double> betas(std::tuple<double, double> fallback) const {
    const auto found = file_.numbers(kParams + "betas");
    if (file_.is_auto(kParams + "betas") && dummy_.betas) return *dummy_.betas;
    if (found.empty()) return fallback;
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
                                               .betas(section.betas({0.9, 0.999}))
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
  return optimizer_with<Lion>(groups, LionOptions(section.lr())
                                          .betas(section.betas({0.9, 0.99}))
                                          .weight_decay(section.weight_decay()));
}

// --- Muon ----------------------------------------------------------------------------------------

// Makes groups of Muon and groups of Adam, as DeepSpeed's engine does.
class MuonSection {
 public:
  MuonSection(const DeepSpeedFile& file, const OptimizerSection& section,
              const detail::ModelsOfOptimizer& models)
      : file_(file), section_(section), models_(models) {
    section.require_only("Muon", {"lr", "muon_lr", "adam_lr", "weight_decay", "momentum",
                                  "ns_method", "betas", "eps"});
  }

  [[nodiscard]] std::unique_ptr<torch::optim::Optimizer> optimizer_of(const Groups& dummies) const {
    Groups groups;
    for (const auto& dummy : dummies)
      for (const bool use_muon : {true, false}) {
        std::vector<at::Tensor> half;
        for (const auto& parameter : dummy.params())
          if (parameter.requires_grad() && is_for_muon(parameter) == use_muon)
            half.push_back(parameter);
        if (!half.empty())
          groups.emplace_back(std::move(half),
                              std::make_unique<MuonWithAuxAdamOptions>(options(use_muon)));
      }
    auto optimizer = std::make_unique<MuonWithAuxAdam>(groups);
    optimizer->clip_updates(models_.clips_updates);
    return optimizer;
  }

 private:
  // Embeddings and the output layer, told by their names, are Adam's.
  [[nodiscard]] bool is_for_muon(const at::Tensor& parameter) const {
    const auto place = models_.find ? models_.find(parameter) : std::nullopt;
    if (!place)
      throw UsageError(
          "optimizer.type of DeepSpeed's file is Muon, which names of parameters divide into its "
          "own and Adam's, and a DummyOptim has a parameter of no prepared model: prepare the "
          "model before its DummyOptim, or both in one call");
    const std::string name = lower(place->name);
    const auto has = [&](const char* word) { return name.find(word) != std::string::npos; };
    return place->shape.size() >= 2 && !has("embed") && !has("lm_head");
  }

  [[nodiscard]] MuonWithAuxAdamOptions options(bool use_muon) const {
    MuonWithAuxAdamOptions options(use_muon);
    const double shared = section_.lr(options.lr());
    options.lr(section_.number(use_muon ? "muon_lr" : "adam_lr", shared))
        .weight_decay(section_.weight_decay())
        .momentum(section_.number("momentum", options.momentum()))
        .ns_method(file_.text(kParams + "ns_method").value_or(options.ns_method()))
        .betas(section_.betas(options.betas()))
        .eps(section_.eps(options.eps()))
        .adam_w_mode(section_.flag("adam_w_mode", true));
    return options;
  }

  const DeepSpeedFile& file_;
  const OptimizerSection& section_;
  const detail::ModelsOfOptimizer& models_;
};

}  // namespace

std::unique_ptr<torch::optim::Optimizer> detail::optimizer_from(const DeepSpeedFile& file,
                                                                const Groups& groups,
                                                                const DummyOptimOptions& dummy,
                                                                const ModelsOfOptimizer& models) {
  const std::string type = file.text("optimizer.type").value_or("");
  const OptimizerSection section(file, dummy);
  const std::string word = lower(type);
  if (word == "adam" || word == "adamw") return make_adam(type, groups, section);
  if (word == "sgd") return make_sgd(groups, section);
  if (word == "adagrad") return make_adagrad(groups, section);
  if (word == "lion") return make_lion(groups, section);
  if (word == "muon") return MuonSection(file, section, models).optimizer_of(groups);
  const std::vector<std::string> known = {"Adam", "AdamW", "SGD", "Adagrad", "Lion", "Muon"};
  throw ConfigError(file.place_of("optimizer.type") + ": optimizer.type is '" + type +
                    "', an algorithm that is not built; allowed is one of " + join(known, ", ") +
                    "." + did_you_mean(type, known));
}

}  // namespace accelerate
