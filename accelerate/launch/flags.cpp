#include "accelerate/launch/flags.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/base/text.h"

namespace accelerate {
namespace {

[[noreturn]] void refuse(const std::string& where, const std::string& text,
                         const std::string& allowed) {
  throw ConfigError(where + " is '" + text + "'; " + allowed);
}

std::string checked_choice(const Flag& flag, const std::string& text, const std::string& where) {
  for (const auto& choice : flag.choices) {
    if (lower(choice) == lower(text)) return text;
  }
  refuse(where, text,
         "it can be " + join(flag.choices, ", ") + "." + did_you_mean(text, flag.choices));
}

bool checked_bool(const std::string& text, const std::string& where) {
  const auto value = parse_bool(text);
  if (!value) refuse(where, text, "it can be true or false (also yes, no, on, off, 1, 0).");
  return *value;
}

std::string checked_integer(const std::string& text, const std::string& where) {
  const auto value = parse_int(text);
  if (!value) refuse(where, text, "it must be a whole number.");
  return std::to_string(*value);
}

std::string checked_number(const std::string& text, const std::string& where) {
  const auto value = parse_double(text);
  if (!value || !std::isfinite(*value)) refuse(where, text, "it must be a number.");
  return python_float(*value);
}

std::string checked_bits(const std::string& text, const std::string& where) {
  std::vector<std::string> bits;
  for (const auto& part : split(text, ',')) {
    bits.push_back(checked_bool(std::string(trim(part)), where) ? "1" : "0");
  }
  if (bits.size() != 3) refuse(where, text, "it must be three booleans, as true,false,false.");
  return join(bits, ",");
}

}  // namespace

const Flag* find_flag(std::string_view name) {
  const auto flags = launch_flags();
  const auto found = std::ranges::find(flags, name, &Flag::name);
  return found == flags.end() ? nullptr : &*found;
}

std::string_view heading(FlagGroup group) {
  switch (group) {
    case FlagGroup::general:
      return "General";
    case FlagGroup::hardware:
      return "Hardware";
    case FlagGroup::resources:
      return "Resources";
    case FlagGroup::paradigm:
      return "Way of training";
    case FlagGroup::rendezvous:
      return "How ranks meet";
    case FlagGroup::fsdp:
      return "FSDP (with --use_fsdp)";
    case FlagGroup::deepspeed:
      return "DeepSpeed (with --use_deepspeed)";
    case FlagGroup::megatron:
      return "Megatron-LM (with --use_megatron_lm)";
    case FlagGroup::parallelism:
      return "Parallelism (with --use_parallelism_config)";
    case FlagGroup::fp8:
      return "FP8 (with --mixed_precision fp8)";
    case FlagGroup::mpi:
      return "MPI";
    case FlagGroup::tpu:
      return "TPU";
    case FlagGroup::aws:
      return "Amazon SageMaker";
  }
  return "";
}

std::string checked_value(const Flag& flag, const std::string& text, const std::string& where) {
  switch (flag.kind) {
    case FlagKind::text:
      return text;
    case FlagKind::choice:
      return checked_choice(flag, text, where);
    case FlagKind::integer:
      return checked_integer(text, where);
    case FlagKind::number:
      return checked_number(text, where);
    case FlagKind::truth:
      return (void)checked_bool(text, where), text;
    case FlagKind::toggle:
    case FlagKind::boolean:
      return checked_bool(text, where) ? "True" : "False";
    case FlagKind::bit:
      return checked_bool(text, where) ? "1" : "0";
    case FlagKind::bits:
      return checked_bits(text, where);
  }
  return text;
}

std::string python_float(double value) {
  std::array<char, 400> buffer;
  const double size = std::fabs(value);
  const bool scientific = size != 0 && (size < 1e-4 || size >= 1e16);
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                    scientific ? std::chars_format::scientific : std::chars_format::fixed)
          .ptr;
  std::string text(buffer.data(), end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

}  // namespace accelerate
