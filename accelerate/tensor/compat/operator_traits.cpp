#include "accelerate/tensor/compat/operator_traits.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace accelerate::compat {
namespace {

// These operators do not touch the elements, although their schemas say that they write or read.
constexpr std::array<std::string_view, 24> kHarmless = {
    "aten::requires_grad_", "aten::detach_",     "aten::retain_grad",
    "aten::set_data",       "aten::_backward",   "aten::_has_compatible_shallow_copy_type",
    "aten::empty_like",     "aten::zeros_like",  "aten::ones_like",
    "aten::full_like",      "aten::rand_like",   "aten::randn_like",
    "aten::randint_like",   "aten::new_empty",   "aten::new_zeros",
    "aten::new_ones",       "aten::new_full",    "aten::new_empty_strided",
    "aten::is_same_size",   "aten::_version",    "aten::output_nr",
    "aten::is_pinned",      "aten::result_type", "aten::can_cast"};

bool returns_views(const c10::FunctionSchema& schema) {
  const auto& returns = schema.returns();
  return !returns.empty() && std::ranges::all_of(returns, [](const c10::Argument& result) {
    return result.alias_info() != nullptr && !result.alias_info()->isWrite();
  });
}

// Norms in training write their running statistics, although most of their schemas hide it.
bool is_statistic(const c10::FunctionSchema& schema, const c10::Argument& argument) {
  return (argument.name() == "running_mean" || argument.name() == "running_var") &&
         schema.name().find("_norm") != std::string::npos;
}

}  // namespace

OperatorTraits read_traits(const c10::FunctionSchema& schema) {
  if (std::ranges::find(kHarmless, schema.name()) != kHarmless.end())
    return {.only_makes_views = true};
  OperatorTraits traits{.only_makes_views = returns_views(schema)};
  const auto& arguments = schema.arguments();
  for (std::size_t i = 0; i < std::min<std::size_t>(arguments.size(), 64); ++i) {
    const auto* alias = arguments[i].alias_info();
    if ((alias != nullptr && alias->isWrite()) || is_statistic(schema, arguments[i]))
      traits.written |= std::uint64_t{1} << i;
  }
  return traits;
}

}  // namespace accelerate::compat
