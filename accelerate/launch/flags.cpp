#include "accelerate/launch/flags.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
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

std::string checked_range(const std::string& text, const std::string& where) {
  const auto words = split(text, ':');
  const bool are_numbers = words.size() <= 2 && std::ranges::all_of(words, [](const auto& word) {
                             return parse_int(word).has_value();
                           });
  if (!are_numbers) refuse(where, text, "it must be a whole number, or two, such as 2:4.");
  return text;
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

// --- The command line --------------------------------------------------------------------------

// One word, read: which flag it is, and the value glued to it, if any.
struct FlagWord {
  const Flag* flag;
  std::optional<std::string> value;
};

// Returns " Did you mean '--num_processes'?" for a misspelling. Also for "--num_procs", which many
// letters separate from it, but which begins like it.
std::string suggestion(const std::string& word, const std::vector<std::string>& known) {
  const std::string near = did_you_mean(word, known);
  if (!near.empty()) return near;
  const auto shared = [&](const std::string& flag) {
    return std::ranges::mismatch(word, flag).in1 - word.begin();
  };
  const auto best = std::ranges::max_element(known, {}, shared);
  if (best == known.end() || shared(*best) * 4 < std::ssize(word) * 3) return {};
  return " Did you mean '" + *best + "'?";
}

[[noreturn]] void refuse_unknown(const std::string& word, std::span<const Flag> table) {
  std::vector<std::string> known;
  for (const auto& flag : table) known.push_back("--" + flag.name);
  throw ConfigError("there is no flag '" + word + "'." + suggestion(word, known) +
                        " `accelerate launch --help` lists all flags; flags of your own program go "
                        "after its name.",
                    error_name::kUnknownKey);
}

FlagWord read_long(const std::string& word, std::span<const Flag> table) {
  const auto equals = word.find('=');
  std::string name = word.substr(2, equals == std::string::npos ? equals : equals - 2);
  std::ranges::replace(name, '-', '_');
  const auto flag = std::ranges::find(table, name, &Flag::name);
  if (flag == table.end()) refuse_unknown("--" + name, table);
  if (equals == std::string::npos) return {&*flag, std::nullopt};
  return {&*flag, word.substr(equals + 1)};
}

FlagWord read_short(const std::string& word, std::span<const Flag> table) {
  const auto flag = std::ranges::find(table, word[1], &Flag::letter);
  if (flag == table.end()) refuse_unknown(word, table);
  if (word.size() == 2) return {&*flag, std::nullopt};
  if (flag->kind == FlagKind::toggle) refuse_unknown(word, table);
  return {&*flag, word.substr(word[2] == '=' ? 3 : 2)};
}

// Returns the value of `word`: the value glued to it, or the next word, and then moves `next` on.
std::string value_of(const FlagWord& word, const std::vector<std::string>& words,
                     std::size_t& next) {
  const std::string shown = "--" + word.flag->name;
  if (word.flag->kind == FlagKind::toggle) {
    if (word.value) {
      throw ConfigError(shown + " is a switch and takes no value, yet has '" + *word.value +
                        "': write " + shown + " alone, or leave it out.");
    }
    return "True";
  }
  if (word.value) return *word.value;
  if (next == words.size() || words[next].starts_with("--")) {
    throw ConfigError(shown + " needs a value: write " + shown + " VALUE or " + shown + "=VALUE.");
  }
  return words[next++];
}

}  // namespace

const Flag* find_flag(std::string_view name) {
  const auto flags = launch_flags();
  const auto found = std::ranges::find(flags, name, &Flag::name);
  return found == flags.end() ? nullptr : &*found;
}

std::string_view heading(FlagGroup group) {
  // In the order of FlagGroup.
  constexpr std::array<std::string_view, 13> kHeadings = {
      "General",
      "Hardware",
      "Resources",
      "Way of training",
      "How ranks meet",
      "FSDP (with --use_fsdp)",
      "DeepSpeed (with --use_deepspeed)",
      "Megatron-LM (with --use_megatron_lm)",
      "Parallelism (with --use_parallelism_config)",
      "FP8 (with --mixed_precision fp8)",
      "MPI",
      "TPU",
      "Amazon SageMaker"};
  return kHeadings.at(static_cast<std::size_t>(group));
}

std::span<const Mode> launch_modes() {
  using enum FlagGroup;
  static constexpr Mode kModes[] = {
      {fsdp, "use_fsdp", "True", "fsdp_config", "distributed_type FSDP"},
      {deepspeed, "use_deepspeed", "True", "deepspeed_config", "distributed_type DEEPSPEED"},
      {megatron, "use_megatron_lm", "True", "megatron_lm_config", "distributed_type MEGATRON_LM"},
      {parallelism, "use_parallelism_config", "True", "parallelism_config", "parallelism_config"},
      {fp8, "mixed_precision", "fp8", "fp8_config", "mixed_precision fp8"}};
  return kModes;
}

std::string variable_of(const Flag& flag) {
  if (!flag.variable.empty()) return flag.variable;
  const bool is_ours = flag.group == FlagGroup::fp8 || flag.group == FlagGroup::paradigm;
  return (is_ours ? "ACCELERATE_" : "") + upper(flag.name);
}

bool is_default(const Flag& flag, const std::string& value) {
  if (value.empty() || value == flag.fallback) return true;
  return (flag.name == "num_machines" && value == "1") ||
         (flag.name == "machine_rank" && value == "0");
}

std::string checked_value(const Flag& flag, const std::string& text, const std::string& where) {
  switch (flag.kind) {
    case FlagKind::text:
    case FlagKind::word:
      return text;
    case FlagKind::choice:
      return checked_choice(flag, text, where);
    case FlagKind::integer:
      return checked_integer(text, where);
    case FlagKind::range:
      return checked_range(text, where);
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

LaunchArguments split_arguments(const std::vector<std::string>& words,
                                std::span<const Flag> table) {
  LaunchArguments result;
  std::size_t next = 0;
  while (next < words.size()) {
    const std::string& word = words[next];
    if (word.size() < 2 || word[0] != '-') break;
    ++next;
    if (word == "--") break;
    if (word == "-h" || word == "--help") {
      result.help = true;
      continue;
    }
    const FlagWord read = word[1] == '-' ? read_long(word, table) : read_short(word, table);
    const std::string value = value_of(read, words, next);
    result.flags[read.flag->name] = checked_value(*read.flag, value, "--" + read.flag->name);
  }
  result.program.assign(words.begin() + static_cast<std::ptrdiff_t>(next), words.end());
  return result;
}

}  // namespace accelerate
