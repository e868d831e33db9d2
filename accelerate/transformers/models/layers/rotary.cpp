#include "accelerate/transformers/models/layers/rotary.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/transformers/models/config/limits.h"

namespace accelerate::detail {
namespace {

constexpr Range<double> kTheta{1, 1e15}, kFactor{1e-6, 1e6}, kScale{0, 1e6}, kPositions{1, 1e12};
constexpr const char* kPart = "partial_rotary_factor";

// The value of `key`; `otherwise` if it is missing or null.
double value_or(const PretrainedConfig& values, const char* key, const Range<double>& range,
                double otherwise) {
  return values.json_of(key) == "null" ? otherwise : value_in(values, key, range);
}

// As value_or(), but the key may not be null.
double theta_or(const PretrainedConfig& values, const char* key, double otherwise) {
  return values.contains(key) ? value_in(values, key, kTheta) : otherwise;
}

std::string rope_type_of(const PretrainedConfig& values) {
  return values.get<std::string>("rope_type", values.get<std::string>("type", "default"));
}

// Throws ConfigError if the key, which the type of the rotary embedding needs, is missing.
void check_given(const PretrainedConfig& values, const char* key) {
  if (values.json_of(key) != "null") return;
  throw ConfigError(values.name() + ": '" + key + "' is missing, which rope_type '" +
                    rope_type_of(values) + "' needs");
}

double required(const PretrainedConfig& values, const char* key) {
  check_given(values, key);
  return value_in(values, key, kFactor);
}

std::vector<double> factors_in(const PretrainedConfig& values, const char* key,
                               std::int64_t count) {
  check_given(values, key);
  auto factors = values.get_if<std::vector<double>>(key);
  const auto is_allowed = [](double factor) {
    return factor >= kFactor.least && factor <= kFactor.most;
  };
  if (factors && std::cmp_equal(factors->size(), count) &&
      std::ranges::all_of(*factors, is_allowed))
    return *std::move(factors);
  values.refuse(key, "a list of " + std::to_string(count) +
                         " numbers, one for each rotated pair, " + "each " + in_words(kFactor));
}

// Returns how many numbers of a head are rotated.
std::int64_t rotated_part(const PretrainedConfig& config,
                          const std::optional<PretrainedConfig>& values, std::int64_t head_dim) {
  double part = value_or(config, kPart, limits::kShare, 1);
  if (values) part = value_or(*values, kPart, limits::kShare, part);
  return static_cast<std::int64_t>(static_cast<double>(head_dim) * part);
}

double mscale_of(double factor, double mscale = 1) {
  return factor <= 1 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

bool is_object(const PretrainedConfig& values, const std::string& key) {
  return values.json_of(key).starts_with('{');
}

// Throws ConfigError unless `values` has an object for each type of layer, and nothing else.
void check_entries(const PretrainedConfig& values, const std::set<std::string>& layer_types) {
  for (const std::string& key : values.keys()) {
    const bool is_known = key == "full_attention" || key == "sliding_attention";
    if (is_known && (is_object(values, key) || values.json_of(key) == "null")) continue;
    values.refuse(key,
                  "the keys of one rotary embedding, or objects for full_attention and "
                  "sliding_attention alone");
  }
  for (const std::string& type : layer_types) {
    if (is_object(values, type)) continue;
    throw ConfigError(values.name() + ": '" + type +
                      "' is missing, and the model has layers of that type");
  }
}

// Returns the keys of the one rotary embedding that all layers have. The file may have an entry
// for each type of layer.
std::optional<PretrainedConfig> entry_of(const PretrainedConfig& values,
                                         const std::set<std::string>& layer_types) {
  const auto keys = values.keys();
  if (std::ranges::none_of(keys, [&](const auto& key) { return is_object(values, key); }))
    return values;
  check_entries(values, layer_types);
  std::optional<PretrainedConfig> entry;
  for (const std::string& type : layer_types) {
    auto next = values.section(type);
    if (entry && entry->to_json_string() != next->to_json_string()) {
      throw ConfigError(values.name() +
                        ": 'full_attention' and 'sliding_attention' differ, and the model has "
                        "layers of both types; allowed is the same rotary embedding for all");
    }
    entry = std::move(next);
  }
  return entry;
}

}  // namespace

Rotary::Rotary(const PretrainedConfig& config, const Model& model)
    : dim_(model.head_dim),
      max_positions_(model.max_positions),
      theta_(theta_or(config, model.theta_key, model.default_theta)) {
  auto values = config.section("rope_parameters");
  if (!values) values = config.section("rope_scaling");
  if (values) values = entry_of(*values, model.layer_types);
  const bool is_phi3 = model.phi3_original_positions.has_value();
  if (is_phi3) dim_ = rotated_part(config, values, model.head_dim);
  if (!values) return;
  theta_ = theta_or(*values, "rope_theta", theta_);
  type_ = type_of(*values, is_phi3);
  if (!is_phi3) {
    constexpr Range<double> kWhole{1, 1};  // Other models here rotate whole heads.
    (void)value_or(*values, kPart, kWhole, 1);
    (void)value_or(config, kPart, kWhole, 1);
  }
  if (type_ == Type::usual) return;
  const char* const original = "original_max_position_embeddings";
  original_positions_ =
      is_phi3
          ? static_cast<double>(*model.phi3_original_positions)
          : value_or(config, original, kPositions,
                     value_or(*values, original, kPositions, static_cast<double>(max_positions_)));
  if (type_ == Type::yarn) {
    read_yarn(*values);
  } else if (type_ == Type::longrope) {
    read_longrope(*values);
  } else {
    factor_ = required(*values, "factor");
  }
  if (type_ == Type::llama3) {
    low_freq_factor_ = required(*values, "low_freq_factor");
    high_freq_factor_ = required(*values, "high_freq_factor");
  }
}

Rotary::Type Rotary::type_of(const PretrainedConfig& values, bool is_phi3) {
  constexpr std::array<std::pair<std::string_view, Type>, 6> kTypes{{
      {"default", Type::usual},
      {"linear", Type::linear},
      {"dynamic", Type::dynamic},
      {"yarn", Type::yarn},
      {"longrope", Type::longrope},
      {"llama3", Type::llama3},
  }};
  const std::string said = rope_type_of(values);
  const std::string type = is_phi3 && (said == "su" || said == "yarn") ? "longrope" : said;
  const auto found = std::ranges::find(kTypes, type, &std::pair<std::string_view, Type>::first);
  const bool is_known = found != kTypes.end() && (!is_phi3 || found->second == Type::usual ||
                                                  found->second == Type::longrope);
  if (is_known) return found->second;
  throw ConfigError(values.name() + ": rope_type is '" + said + "'; allowed are " +
                    (is_phi3 ? "default, longrope, and the older names su and yarn"
                             : "default, linear, dynamic, yarn, longrope and llama3"));
}

void Rotary::read_yarn(const PretrainedConfig& values) {
  factor_ = values.json_of("factor") == "null"
                ? static_cast<double>(max_positions_) / original_positions_
                : required(values, "factor");
  const double mscale = value_or(values, "mscale", kScale, 0),
               all = value_or(values, "mscale_all_dim", kScale, 0);
  const double usual = mscale != 0 && all != 0
                           ? mscale_of(factor_, mscale) / mscale_of(factor_, all)
                           : mscale_of(factor_);
  attention_factor_ = value_or(values, "attention_factor", kScale, usual);
  const auto unless_zero = [&](const char* key, double otherwise) {
    const double value = value_or(values, key, kScale, otherwise);
    return value == 0 ? otherwise : value;
  };
  beta_fast_ = unless_zero("beta_fast", beta_fast_);
  beta_slow_ = unless_zero("beta_slow", beta_slow_);
  truncates_ = values.get<bool>("truncate", true);
}

void Rotary::read_longrope(const PretrainedConfig& values) {
  factor_ = value_or(values, "factor", kFactor,
                     static_cast<double>(max_positions_) / original_positions_);
  if (factor_ > 1 && original_positions_ < 2) {
    throw ConfigError(values.name() + ": rope_type 'longrope' divides by the logarithm of " +
                      "'original_max_position_embeddings', which is 1; allowed is 2 or more");
  }
  const double usual =
      factor_ <= 1 ? 1 : std::sqrt(1 + std::log(factor_) / std::log(original_positions_));
  attention_factor_ = value_or(values, "attention_factor", kScale, usual);
  short_factors_ = factors_in(values, "short_factor", pairs());
  long_factors_ = factors_in(values, "long_factor", pairs());
}

at::Tensor Rotary::yarn(const at::Tensor& powers) const {
  const auto dim = static_cast<double>(dim_);
  const auto place = [&](double rotations) {
    return dim * std::log(original_positions_ / (rotations * 2 * std::numbers::pi)) /
           (2 * std::log(theta_));
  };
  double low = place(beta_fast_), high = place(beta_slow_);
  if (truncates_) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dim - 1);
  if (low == high) high += 0.001;
  const at::Tensor ramp =
      ((at::arange(dim_ / 2, powers.options()) - low) / (high - low)).clamp(0, 1);
  const at::Tensor kept = 1 - ramp;
  return 1.0 / (factor_ * powers) * (1 - kept) + 1.0 / powers * kept;
}

at::Tensor Rotary::longrope(const at::Tensor& powers, const at::Tensor& positions) const {
  const auto frequencies = [&](const std::vector<double>& factors) {
    return 1.0 / (at::tensor(factors, powers.options()) * powers);
  };
  return at::where(positions.max() + 1 > original_positions_, frequencies(long_factors_),
                   frequencies(short_factors_));
}

at::Tensor Rotary::llama3(const at::Tensor& frequencies) const {
  const double low_wavelength = original_positions_ / low_freq_factor_,
               high_wavelength = original_positions_ / high_freq_factor_;
  const at::Tensor wavelengths = 2 * std::numbers::pi / frequencies;
  const at::Tensor is_low = wavelengths > low_wavelength;
  const at::Tensor scaled = at::where(is_low, frequencies / factor_, frequencies);
  const at::Tensor smooth = (original_positions_ / wavelengths - low_freq_factor_) /
                            (high_freq_factor_ - low_freq_factor_);
  const at::Tensor smoothed = (1 - smooth) * scaled / factor_ + smooth * scaled;
  const at::Tensor is_between =
      (wavelengths < high_wavelength).logical_not().logical_and(is_low.logical_not());
  return at::where(is_between, smoothed, scaled);
}

at::Tensor Rotary::inverse_frequencies(const at::Tensor& all_positions) const {
  double base = theta_;
  if (type_ == Type::dynamic) {
    const double length = std::max<double>(static_cast<double>(max_positions_),
                                           all_positions.max().item<double>() + 1);
    const auto dim = static_cast<double>(dim_);
    base *= std::pow(factor_ * length / static_cast<double>(max_positions_) - (factor_ - 1),
                     dim / (dim - 2));
  }
  const auto options = at::TensorOptions(at::kFloat).device(all_positions.device());
  const at::Tensor powers = at::pow(base, at::arange(0, dim_, 2, options) / dim_);
  if (type_ == Type::yarn) return yarn(powers);
  if (type_ == Type::longrope) return longrope(powers, all_positions);
  const at::Tensor frequencies = 1.0 / powers;
  if (type_ == Type::linear) return frequencies / factor_;
  return type_ == Type::llama3 ? llama3(frequencies) : frequencies;
}

Rotary::Angles Rotary::angles(const at::Tensor& positions, const at::Tensor& all_positions,
                              at::ScalarType type) const {
  const at::Tensor half =
      positions.unsqueeze(-1).to(at::kFloat) * inverse_frequencies(all_positions);
  const at::Tensor all = at::cat({half, half}, -1).unsqueeze(-2);  // The same for all heads.
  const auto scaled = [&](const at::Tensor& values) {
    return (attention_factor_ == 1 ? values : values * attention_factor_).to(type);
  };
  return {scaled(all.cos()), scaled(all.sin())};
}

namespace {

// The most numbers that one thread rotates faster than LibTorch calls its operators.
constexpr std::int64_t kFewNumbers = 1 << 15;

// Whether each token has a position of its own, or all have one, as when rows are generated.
bool is_rotated_at_once(const at::Tensor& heads, const Rotary::Angles& angles) {
  const auto type = heads.scalar_type();
  const std::int64_t dim = heads.size(-1), positions = angles.cos.numel() / dim;
  const auto fits = [&](const at::Tensor& values) {
    return values.scalar_type() == type && values.is_contiguous() && values.size(-1) == dim;
  };
  return c10::InferenceMode::is_enabled() && heads.device().is_cpu() &&
         (type == at::kFloat || type == at::kBFloat16) && heads.numel() <= kFewNumbers &&
         fits(heads) && fits(angles.cos) && fits(angles.sin) &&
         (positions == 1 || positions * heads.size(-2) * dim == heads.numel());
}

// One pass instead of seven operators, which takes as long as reading a small matrix. Rounds each
// product and each sum to T, as the operators do: compiled with -ffp-contract=off.
template <typename T>
at::Tensor rotate_at_once(const at::Tensor& heads, const Rotary::Angles& angles) {
  at::Tensor rotated = at::empty_like(heads);
  const std::int64_t dim = heads.size(-1), half = dim / 2, count = heads.size(-2),
                     positions = angles.cos.numel() / dim;
  const T *from = heads.const_data_ptr<T>(), *cosines = angles.cos.const_data_ptr<T>(),
          *sines = angles.sin.const_data_ptr<T>();
  T* to = rotated.mutable_data_ptr<T>();
  for (std::int64_t head = 0; head < heads.numel() / dim; ++head, from += dim, to += dim) {
    const std::int64_t position = head / count % positions;
    const T *cos = cosines + position * dim, *sin = sines + position * dim;
    for (std::int64_t i = 0; i < half; ++i) {
      const T first = from[i], second = from[i + half];
      to[i] = first * cos[i] + -second * sin[i];
      to[i + half] = second * cos[i + half] + first * sin[i + half];
    }
  }
  return rotated;
}

}  // namespace

at::Tensor rotate(const at::Tensor& heads, const Rotary::Angles& angles) {
  if (is_rotated_at_once(heads, angles)) {
    return heads.scalar_type() == at::kFloat ? rotate_at_once<float>(heads, angles)
                                             : rotate_at_once<c10::BFloat16>(heads, angles);
  }
  const std::int64_t rotated = angles.cos.size(-1), rest = heads.size(-1) - rotated;
  if (rest > 0) {
    return at::cat({rotate(heads.narrow(-1, 0, rotated), angles), heads.narrow(-1, rotated, rest)},
                   -1);
  }
  const std::int64_t half = heads.size(-1) / 2;
  const at::Tensor turned =
      at::cat({-heads.narrow(-1, half, heads.size(-1) - half), heads.narrow(-1, 0, half)}, -1);
  return heads * angles.cos + turned * angles.sin;
}

}  // namespace accelerate::detail
