#include "accelerate/optim/optimizer_checks.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <sstream>

#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/text.h"

namespace accelerate::detail {
namespace {

[[noreturn]] void refuse_group(std::size_t group, const std::set<std::string>& saved,
                               const std::set<std::string>& present) {
  const auto without = [](const std::set<std::string>& from, const std::set<std::string>& minus) {
    constexpr std::size_t kShown = 8;
    std::vector<std::string> left;
    std::set_difference(from.begin(), from.end(), minus.begin(), minus.end(),
                        std::back_inserter(left));
    if (left.size() > kShown) {
      left.resize(kShown);
      left.emplace_back("…");
    }
    return left.empty() ? std::string("none") : join(left, ", ");
  };
  throw CheckpointError("parameter group " + std::to_string(group) +
                            " of the optimizer is another than the saved one: only saved: " +
                            without(saved, present) + "; only here: " + without(present, saved),
                        error_name::kOtherOptimizer);
}

[[noreturn]] void refuse_dtype(const std::string& key, const at::Tensor& tensor,
                               const std::string& name) {
  refuse_entry(key, name,
               "of " + std::string(c10::toString(tensor.scalar_type())) +
                   "; allowed are floating-point and complex dtypes");
}

// Checks that the moment under `key`, if any, has the shape `sizes`, and that it exists if
// `needed`.
void check_moment_of_shape(const StateDict& fields, const std::string& key, at::IntArrayRef sizes,
                           bool needed, const std::string& name) {
  const StateDict* value = fields.find(key);
  if (value == nullptr || value->is_null()) {
    if (needed) refuse_entry(key, name, "nothing; with the saved options it must be a tensor");
    return;
  }
  const auto tensor = value->to<at::Tensor>();
  if (tensor.sizes() != sizes) {
    std::ostringstream expected;
    expected << sizes;
    refuse_entry(key, name, value->describe() + "; the parameter asks for " + expected.str());
  }
  if (!tensor.is_floating_point()) refuse_dtype(key, tensor, name);
}

}  // namespace

void check_group(std::size_t group, const StateDict& saved,
                 const std::vector<std::string>& present) {
  std::set<std::string> names;
  for (const auto& name : saved.at("params").list()) names.insert(name.to<std::string>());
  const std::set<std::string> here(present.begin(), present.end());
  if (names != here) refuse_group(group, names, here);
}

void check_parameters(const StateDict& states,
                      const std::vector<std::vector<std::string>>& groups) {
  std::set<std::string> here;
  for (const auto& group : groups) here.insert(group.begin(), group.end());
  const StateDict::Dict& entries = states.dict();
  for (const auto& entry : entries)
    if (!here.contains(entry.first))
      throw CheckpointError("there is a state of parameter '" + entry.first +
                                "', which no group of the optimizer has",
                            error_name::kOtherOptimizer);
}

void refuse_entry(const std::string& key, const std::string& name, const std::string& what) {
  throw CheckpointError("'" + key + "' of parameter '" + name + "' is " + what);
}

void check_count(const std::string& key, const StateDict& value, const std::string& name) {
  const bool counts = key == "step" || key == "n_iter" || key == "func_evals";
  if (counts && value.holds<std::int64_t>() && value.to<std::int64_t>() < 0)
    refuse_entry(key, name, std::to_string(value.to<std::int64_t>()) + "; allowed is 0 or more");
}

void check_moment(const std::string& key, const StateDict& value, const at::Tensor& parameter,
                  const std::string& name) {
  const auto tensor = value.to<at::Tensor>();
  if (tensor.sizes() != parameter.sizes())
    refuse_entry(key, name,
                 value.describe() + ", the parameter is " + StateDict(parameter).describe());
  if (!tensor.is_floating_point() && !tensor.is_complex()) refuse_dtype(key, tensor, name);
}

void check_adafactor_moments(const StateDict& fields, const AdafactorOptions& options,
                             const at::Tensor& parameter, const std::string& name) {
  const bool factored = parameter.dim() >= 2;
  const at::IntArrayRef sizes = parameter.sizes();
  check_moment_of_shape(fields, "exp_avg", sizes, options.beta1().has_value(), name);
  check_moment_of_shape(fields, "exp_avg_sq", sizes, !factored, name);
  check_moment_of_shape(fields, "RMS", {}, /*needed=*/false, name);
  if (!factored) return;
  std::vector<std::int64_t> row = sizes.vec(), column = row;
  row.pop_back();
  column.erase(column.end() - 2);
  check_moment_of_shape(fields, "exp_avg_sq_row", row, /*needed=*/true, name);
  check_moment_of_shape(fields, "exp_avg_sq_col", column, /*needed=*/true, name);
}

}  // namespace accelerate::detail
