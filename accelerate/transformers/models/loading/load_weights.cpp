#include "accelerate/transformers/models/loading/load_weights.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/logger.h"
#include "accelerate/base/text.h"
#include "accelerate/tensor/compat/leaf_memory.h"
#include "accelerate/tensor/module_view.h"
#include "accelerate/tensor/scalar_type.h"
#include "accelerate/transformers/models/config/dtype_names.h"
#include "accelerate/transformers/models/config/limits.h"

namespace accelerate::detail {
namespace {

constexpr std::string_view kNew = ": newly initialised";

at::ScalarType type_of_weights(const std::string& wanted, const PretrainedConfig& config,
                               const WeightReader& weights) {
  if (wanted != "auto") {
    if (const auto type = dtype_named(wanted)) return *type;
    throw UsageError("dtype is '" + wanted +
                     "'; allowed are auto, float32, bfloat16, float16 and float64");
  }
  if (const auto type = dtype_of_weights(config)) return *type;
  for (const auto& [name, outline] : weights.outlines) {
    if (outline.is_floating_point()) return outline.scalar_type();
  }
  return at::kFloat;
}

std::string renamed(std::string name, std::string_view from, std::string_view to) {
  if (name.ends_with(from)) name.replace(name.size() - from.size(), from.size(), to);
  return name;
}

std::string shape_of(const at::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.sizes();
  return text.str();
}

// Translates the names of a file to the names of the model.
class Names {
 public:
  Names(const PreTrainedModel& model, const std::set<std::string>& of_model,
        const std::vector<NamedTensor>& in_file)
      : prefix_(model.base_model_prefix() + ".") {
    const auto has_prefix = [&](const std::string& name) { return name.starts_with(prefix_); };
    const bool file_has = std::ranges::any_of(in_file, has_prefix, &NamedTensor::name);
    const bool model_has = std::ranges::any_of(of_model, has_prefix);
    adds_ = model_has && !file_has;
    removes_ = file_has && !model_has;
    of_model_ = &of_model;
  }

  [[nodiscard]] std::string in_model(const std::string& in_file) const {
    std::string name = renamed(renamed(in_file, "LayerNorm.gamma", "LayerNorm.weight"),
                               "LayerNorm.beta", "LayerNorm.bias");
    if (removes_ && name.starts_with(prefix_)) return name.substr(prefix_.size());
    if (adds_ && of_model_->contains(prefix_ + name)) return prefix_ + name;
    return name;
  }

 private:
  std::string prefix_;
  bool adds_ = false, removes_ = false;
  const std::set<std::string>* of_model_ = nullptr;
};

class Loader {
 public:
  Loader(PreTrainedModel& model, WeightReader weights, std::string place,
         const LoadPretrainedOptions& options)
      : model_(model), place_(std::move(place)), options_(options), weights_(std::move(weights)) {
    model.untie_as(weights_);
    for (const auto& [name, tensor] : state_dict(view_of(model))) {
      names_.insert(name);
      parameters_.emplace(name, tensor);
    }
    type_ = type_of_weights(options.dtype, model.config(), weights_);
  }

  void run() {
    const at::NoGradGuard no_grad;
    take_what_fits();
    make_the_rest();
    if (report_.lines.empty()) return;
    get_logger("models").warning(model_.name() + " and the weights at " + place_ +
                                 " differ:" + report_.table());
  }

 private:
  [[nodiscard]] at::ScalarType type_of(const std::string& name) const {
    return type_ == at::kHalf && model_.stays_in_fp32(name) ? at::kFloat : type_;
  }

  void take_what_fits() {
    const Names names(model_, names_, weights_.outlines);
    check_numbers(names);
    for (const auto& [in_file, outline] : weights_.outlines) {
      const std::string name = names.in_model(in_file);
      const auto parameter = parameters_.find(name);
      if (parameter == parameters_.end()) {
        if (!model_.ignores(name))
          report_.lines.push_back({in_file, "in the files alone: not used"});
      } else if (parameter->second.sizes() != outline.sizes()) {
        report_.lines.push_back({name, shape_of(outline) + " in the files, " +
                                           shape_of(parameter->second) + " in the model" +
                                           std::string(kNew)});
        reported_.insert(name);
      } else {
        give(name, parameter->second, weights_.read(in_file));
      }
    }
    if (!reported_.empty() && !options_.ignore_mismatched_sizes) {
      std::erase_if(report_.lines,
                    [&](const auto& line) { return !reported_.contains(line.name); });
      for (auto& line : report_.lines) line.status.resize(line.status.size() - kNew.size());
      throw CheckpointError(
          "the weights at " + place_ + " do not fit " + model_.name() +
              "; .ignore_mismatched_sizes = true initialises what differs:" + report_.table(),
          error_name::kOtherModel);
    }
    if (filled_.empty()) {
      throw CheckpointError(
          "the weights at " + place_ + " have nothing of " + model_.name() +
              ": its parameters begin with '" + *names_.begin() + "', and the files with '" +
              (weights_.outlines.empty() ? "" : weights_.outlines.front().name) + "'",
          error_name::kOtherModel);
    }
  }

  // Whole numbers where the model has floating-point ones are most often another method's blocks.
  void check_numbers(const Names& names) const {
    LoadReport wrong;
    for (const auto& [in_file, outline] : weights_.outlines) {
      const auto parameter = parameters_.find(names.in_model(in_file));
      if (parameter == parameters_.end() || parameter->second.sizes() != outline.sizes()) continue;
      const auto there = outline.scalar_type(), here = parameter->second.scalar_type();
      if (are_of_one_kind(there, here)) continue;
      wrong.lines.push_back({parameter->first, python_name(there) + " " + shape_of(outline) +
                                                   " in the files, " + python_name(here) +
                                                   " in the model"});
    }
    if (wrong.lines.empty()) return;
    throw CheckpointError("the weights at " + place_ + " have other kinds of numbers than " +
                          model_.name() +
                          "; allowed are the model's: floating-point, whole or complex ones. "
                          "Convert the tensors where the files were made:" +
                          wrong.table());
  }

  void make_the_rest() {
    std::set<const at::TensorImpl*> made;
    for (const auto& [name, parameter] : state_dict(view_of(model_))) {
      if (filled_.contains(parameter.unsafeGetTensorImpl())) continue;
      if (!made.insert(parameter.unsafeGetTensorImpl()).second) continue;
      compat::materialise_(parameter,
                           at::empty(parameter.sizes(), at::TensorOptions(type_of(name))));
      if (!reported_.contains(name))
        report_.lines.push_back({name, "not in the files" + std::string(kNew)});
    }
    model_.initialise([&](const at::Tensor& parameter) {
      return made.contains(parameter.unsafeGetTensorImpl());
    });
  }

  // The files may have a tied weight under both names, but not with different values.
  void give(const std::string& name, const at::Tensor& parameter, const at::Tensor& in_file) {
    const at::Tensor values =
        in_file.to(in_file.is_floating_point() ? type_of(name) : parameter.scalar_type());
    const auto [filled, is_first] = filled_.emplace(parameter.unsafeGetTensorImpl(), name);
    if (is_first) return compat::materialise_(parameter, values);
    if (parameter.is_same(values) || parameter.equal(values)) return;
    throw CheckpointError("the weights at " + place_ + " have other values under '" + name +
                          "' than under '" + filled->second +
                          "', which the configuration ties. Set tie_word_embeddings to false in "
                          "config.json, or in .config");
  }

  PreTrainedModel& model_;
  std::string place_;
  LoadPretrainedOptions options_;
  WeightReader weights_;
  std::set<std::string> names_, reported_;
  std::map<std::string, at::Tensor> parameters_;
  at::ScalarType type_ = at::kFloat;
  std::map<const at::TensorImpl*, std::string> filled_;  // With their names in the model.
  LoadReport report_;
};

}  // namespace

void load_pretrained_weights(PreTrainedModel& model, WeightReader weights, const std::string& place,
                             const LoadPretrainedOptions& options) {
  Loader(model, std::move(weights), place, options).run();
}

namespace {

constexpr std::size_t kMostLines = 40;

// A name that is cut at its first number: "a.11.b" is "a.", 11, ".b". Without a number, all of it
// is `before`.
struct Numbered {
  std::string before, after;
  std::int64_t number = -1;
};

Numbered numbered(const std::string& name) {
  std::size_t begin = 0;
  for (const std::string& part : split(name, '.')) {
    const auto number = parse_int(part);
    if (number && *number >= 0)
      return {name.substr(0, begin), name.substr(begin + part.size()), *number};
    begin += part.size() + 1;
  }
  return {name, "", -1};
}

}  // namespace

std::string LoadReport::table() const {
  struct Group {
    Numbered first;
    std::string status;
    std::int64_t least, most;
  };
  std::vector<Group> groups;
  for (const auto& [name, status] : lines) {
    Numbered found = numbered(name);
    const auto same = std::ranges::find_if(groups, [&](const Group& group) {
      return group.status == status && group.first.before == found.before &&
             group.first.after == found.after && found.number >= 0 && group.first.number >= 0;
    });
    if (same == groups.end()) {
      groups.push_back({found, status, found.number, found.number});
    } else {
      same->least = std::min(same->least, found.number);
      same->most = std::max(same->most, found.number);
    }
  }
  std::vector<std::string> names;
  std::size_t width = 0;
  for (const Group& group : groups) {
    const std::string number =
        group.first.number < 0 ? ""
        : group.least == group.most
            ? std::to_string(group.least)
            : "{" + std::to_string(group.least) + "…" + std::to_string(group.most) + "}";
    names.push_back(group.first.before + number + group.first.after);
    width = std::max(width, names.back().size());
  }
  std::string text;
  for (std::size_t i = 0; i < std::min(groups.size(), kMostLines); ++i) {
    text += "\n  " + names[i] + std::string(width - names[i].size() + 2, ' ') + groups[i].status;
  }
  if (groups.size() > kMostLines)
    text += "\n  and " + std::to_string(groups.size() - kMostLines) + " more";
  return text;
}

}  // namespace accelerate::detail
