// Checks a saved optimizer state, so that the optimizer that loads it can make its next step.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <string>
#include <type_traits>
#include <vector>

#include "accelerate/optim/optimizer_fields.h"
#include "accelerate/tensor/state_dict.h"

namespace accelerate::detail {

/// Checks that parameter group `group`, saved as `saved`, has the parameters `present`, in any
/// order. Throws CheckpointError that lists the parameters which only one of the two has.
void check_group(std::size_t group, const StateDict& saved,
                 const std::vector<std::string>& present);

/// Checks that every entry of `states` is of a parameter in `groups`. Throws CheckpointError.
void check_parameters(const StateDict& states, const std::vector<std::vector<std::string>>& groups);

/// Throws CheckpointError: `key` of the parameter `name` is `what`.
[[noreturn]] void refuse_entry(const std::string& key, const std::string& name,
                               const std::string& what);

/// Checks that the number under `key` is 0 or more if it counts steps. Throws CheckpointError.
void check_count(const std::string& key, const StateDict& value, const std::string& name);

/// Checks that a moment has the shape of its parameter and a dtype with fractions. Throws
/// CheckpointError.
void check_moment(const std::string& key, const StateDict& value, const at::Tensor& parameter,
                  const std::string& name);

/// Checks that the moments of Adafactor have the shapes that the parameter requires and dtypes with
/// fractions, and that none is missing. Throws CheckpointError.
void check_adafactor_moments(const StateDict& fields, const AdafactorOptions& options,
                             const at::Tensor& parameter, const std::string& name);

/// Returns the names of the moments that a step reads with these options. For optimizers whose
/// moments all have the shape of their parameter.
template <typename Kind>
std::vector<const char*> needed_moments(const typename Kind::Options& options) {
  constexpr bool kAdam = std::is_same_v<Kind, Adam> || std::is_same_v<Kind, AdamW>;
  if constexpr (kAdam) {
    if (options.amsgrad()) return {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"};
    return {"exp_avg", "exp_avg_sq"};
  } else if constexpr (std::is_same_v<Kind, SGD>) {
    return {"momentum_buffer"};
  } else if constexpr (std::is_same_v<Kind, Adagrad>) {
    return {"sum"};
  } else if constexpr (std::is_same_v<Kind, RMSprop>) {
    std::vector<const char*> keys = {"square_avg"};
    if (options.momentum() > 0) keys.push_back("momentum_buffer");
    if (options.centered()) keys.push_back("grad_avg");
    return keys;
  } else if constexpr (std::is_same_v<Kind, Lion>) {
    return {"state1"};
  } else if constexpr (std::is_same_v<Kind, Muon>) {
    return {"momentum_buffer"};
  } else if constexpr (std::is_same_v<Kind, MuonWithAuxAdam>) {
    if (options.use_muon()) return {"momentum_buffer"};
    return {"exp_avg", "exp_avg_sq"};
  } else if constexpr (std::is_same_v<Kind, ScheduleFreeAdamW>) {
    return {"z", "exp_avg_sq"};
  } else {
    return {};
  }
}

/// Checks that `fields`, the state of the parameter `name`, fits the parameter and the options.
/// Throws CheckpointError.
template <typename Kind>
void check_state(const StateDict& fields, const typename Kind::Options& options,
                 const at::Tensor& parameter, const std::string& name) {
  // LBFGS and Adafactor keep tensors of other shapes.
  constexpr bool kMoments = !std::is_same_v<Kind, LBFGS> && !std::is_same_v<Kind, Adafactor>;
  const StateDict::Dict& entries = fields.dict();
  for (const auto& entry : entries) {
    const std::string& key = entry.first;
    const StateDict& value = entry.second;
    check_count(key, value, name);
    if (kMoments && value.holds<at::Tensor>()) check_moment(key, value, parameter, name);
  }
  if constexpr (std::is_same_v<Kind, Adafactor>)
    check_adafactor_moments(fields, options, parameter, name);
  for (const char* key : needed_moments<Kind>(options)) {
    const auto* moment = fields.find(key);
    if (moment != nullptr && moment->is_null())
      refuse_entry(key, name, "nothing; with the saved options it must be a tensor");
  }
}

}  // namespace accelerate::detail
