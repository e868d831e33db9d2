// What we make of environments and arguments against what Python Accelerate's plugin makes of them;
// tests/reference/fsdp_plugin.py wrote the expectations. Rows "launch: …" have the environment that
// Python's launcher exports for every key of fsdp_config.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/launch/config/fsdp_plugin.h"
#include "tests/launch/config/fsdp_environment.h"
#include "tests/support/log_capture.h"
#include "tests/support/reference.h"

namespace accelerate {
namespace {

using Json = nlohmann::json;
using Plugin = FullyShardedDataParallelPlugin;

const Json& golden_plugins() {
  static const Json json = Json::parse(testing::read_reference("fsdp_plugin.json"));
  return json;
}

// --- Python's words in our types -----------------------------------------------------------------

DType dtype_of(const std::string& name) {
  if (name == "float16") return DType::f16;
  if (name == "bfloat16") return DType::bf16;
  return name == "float32" ? DType::f32 : DType::i64;
}

std::optional<DType> dtype_in(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return std::nullopt;
  return dtype_of(*found);
}

MixedPrecisionPolicy policy_in(const Json& object) {
  return {.param_dtype = dtype_in(object, "param_dtype"),
          .reduce_dtype = dtype_in(object, "reduce_dtype"),
          .buffer_dtype = dtype_in(object, "buffer_dtype"),
          .output_dtype = dtype_in(object, "output_dtype")};
}

template <typename Enum>
void take(const Json& arguments, const char* key, std::optional<Word<Enum>>& field) {
  if (arguments.contains(key)) field = Word<Enum>(arguments[key].get<std::string>());
}

void take_flag(const Json& arguments, const char* key, std::optional<bool>& field) {
  if (arguments.contains(key)) field = arguments[key].get<bool>();
}

void take_words(const Json& arguments, Plugin& plugin) {
  take(arguments, "sharding_strategy", plugin.sharding_strategy);
  take(arguments, "backward_prefetch", plugin.backward_prefetch);
  take(arguments, "auto_wrap_policy", plugin.auto_wrap_policy);
  take(arguments, "state_dict_type", plugin.state_dict_type);
  const Json reshard = arguments.value("reshard_after_forward", Json());
  if (reshard.is_boolean()) plugin.reshard_after_forward = reshard.get<bool>();
  if (reshard.is_string()) {
    plugin.reshard_after_forward = parse_enum<ShardingStrategy>(reshard.get<std::string>()).value();
  }
  const Json policy = arguments.value("mixed_precision_policy", Json());
  if (policy.is_string()) plugin.mixed_precision_policy = policy.get<std::string>();
  if (policy.is_object()) plugin.mixed_precision_policy = policy_in(policy);
}

Plugin plugin_of(const Json& arguments) {
  Plugin plugin;
  take_words(arguments, plugin);
  take_flag(arguments, "cpu_offload", plugin.cpu_offload);
  take_flag(arguments, "use_orig_params", plugin.use_orig_params);
  take_flag(arguments, "sync_module_states", plugin.sync_module_states);
  take_flag(arguments, "forward_prefetch", plugin.forward_prefetch);
  take_flag(arguments, "activation_checkpointing", plugin.activation_checkpointing);
  take_flag(arguments, "activation_checkpointing_offload", plugin.activation_checkpointing_offload);
  take_flag(arguments, "cpu_ram_efficient_loading", plugin.cpu_ram_efficient_loading);
  plugin.limit_all_gathers = arguments.value("limit_all_gathers", true);
  if (arguments.contains("fsdp_version")) plugin.fsdp_version = arguments["fsdp_version"];
  if (arguments.contains("min_num_params")) plugin.min_num_params = arguments["min_num_params"];
  if (arguments.contains("transformer_cls_names_to_wrap")) {
    plugin.transformer_cls_names_to_wrap = arguments["transformer_cls_names_to_wrap"];
  }
  if (arguments.contains("ignored_modules")) {
    plugin.ignored_modules = {{arguments["ignored_modules"].get<std::string>()}};
  }
  return plugin;
}

// --- Its fields in our settings ------------------------------------------------------------------

template <typename Enum>
Enum enum_in(const Json& word, Enum absent) {
  return word.is_null() ? absent : parse_enum<Enum>(word.get<std::string>()).value();
}

template <typename T>
T value_in(const Json& value, T absent) {
  return value.is_null() ? absent : value.get<T>();
}

// Where version 2 has no choice the original says None; our settings say what it then does.
void expect_choices(const Json& fields, ResolvedFsdpOptions& expected) {
  using enum ShardingStrategy;
  const bool second = fields["fsdp_version"] == 2;
  const bool sync = second && fields["cpu_ram_efficient_loading"].get<bool>();
  expected.version = fields["fsdp_version"];
  expected.sharding_strategy = second
                                   ? (fields["reshard_after_forward"] ? FULL_SHARD : SHARD_GRAD_OP)
                                   : enum_in(fields["sharding_strategy"], FULL_SHARD);
  expected.backward_prefetch =
      enum_in(fields["backward_prefetch"],
              second ? BackwardPrefetch::BACKWARD_PRE : BackwardPrefetch::NO_PREFETCH);
  expected.use_orig_params = value_in(fields["use_orig_params"], second);
  expected.sync_module_states = value_in(fields["sync_module_states"], sync);
  expected.forward_prefetch = value_in(fields["forward_prefetch"], false);
}

ResolvedFsdpOptions settings_of(const Json& fields) {
  ResolvedFsdpOptions expected;
  expect_choices(fields, expected);
  const MixedPrecisionPolicy policy = policy_in(fields);
  expected.param_dtype = policy.param_dtype;
  expected.reduce_dtype = policy.reduce_dtype;
  expected.buffer_dtype = policy.buffer_dtype;
  expected.output_dtype = policy.output_dtype;
  expected.auto_wrap_policy = enum_in(fields["auto_wrap_policy"], AutoWrapPolicy::NO_WRAP);
  expected.cpu_offload = fields["cpu_offload"];
  expected.activation_checkpointing = fields["activation_checkpointing"];
  expected.activation_checkpointing_offload =
      value_in(fields["activation_checkpointing_offload"], false);
  expected.state_dict_type = enum_in(fields["state_dict_type"], StateDictType::FULL_STATE_DICT);
  expected.limit_all_gathers = fields["limit_all_gathers"];
  expected.cpu_ram_efficient_loading = fields["cpu_ram_efficient_loading"];
  expected.transformer_cls_names_to_wrap =
      value_in(fields["transformer_cls_names_to_wrap"], std::vector<std::string>());
  expected.min_num_params = value_in<std::int64_t>(fields["min_num_params"], 0);
  if (!fields["ignored_modules"].is_null()) expected.ignored_modules = {fields["ignored_modules"]};
  return expected;
}

// --- Where we differ on purpose ------------------------------------------------------------------

bool is_strategy(const Json& word) {
  return word.is_string() && parse_enum<ShardingStrategy>(word.get<std::string>()).has_value();
}

// The strategy that version 1 keeps under reshard_after_forward, where Python's own questionnaire
// writes it, counts here; there FULL_SHARD wins without a word.
std::optional<ShardingStrategy> renamed_strategy(const Json& row) {
  if (row["fields"]["fsdp_version"] != 1) return std::nullopt;
  Json word = row["arguments"].value("reshard_after_forward", Json());
  const bool from_env = word.is_null() && !row["arguments"].contains("sharding_strategy");
  if (from_env) word = row["environment"].value("FSDP_RESHARD_AFTER_FORWARD", "");
  if (!is_strategy(word)) return std::nullopt;
  return parse_enum<ShardingStrategy>(word.get<std::string>());
}

// What we refuse and the original takes.
std::string refused_here_alone(const Json& row) {
  const auto& fields = row["fields"];
  const std::string name = row["name"];
  if (name.ends_with("FSDP_MIN_NUM_PARAMS=-5")) return "allowed is an integer of at least 0";
  // Variables that version 2 does not read are read here all the same.
  if (name.starts_with("version 2: ") && name.ends_with("=perhaps")) return "true or false";
  for (const char* word : {"0", "6", "FULL"})
    if (name == std::string("version 2: FSDP_SHARDING_STRATEGY=") + word)
      return "one of FULL_SHARD";
  if (name == "version 1: FSDP_RESHARD_AFTER_FORWARD=maybe")
    return "is 'maybe'; allowed is true, false or one of";
  const auto& arguments = row["arguments"];
  if (arguments.contains("sharding_strategy") && fields["fsdp_version"] == 1 &&
      is_strategy(arguments.value("reshard_after_forward", Json())) &&
      arguments["sharding_strategy"] != arguments["reshard_after_forward"]) {
    return "two names of the same setting";
  }
  return "";
}

ResolvedFsdpOptions expected_here(const Json& row) {
  ResolvedFsdpOptions expected = settings_of(row["fields"]);
  if (const auto strategy = renamed_strategy(row)) expected.sharding_strategy = *strategy;
  for (auto& name : expected.transformer_cls_names_to_wrap) name = trim(name);  // "A, B"
  return expected;
}

// --- The comparison ------------------------------------------------------------------------------

ResolvedFsdpOptions resolved(const Json& row) {
  const testing::FsdpEnvironment environment(row["environment"]);
  const testing::LogCapture quiet;
  const auto precision = parse_enum<MixedPrecision>(row["mixed_precision"].get<std::string>());
  return resolve(plugin_of(row["arguments"]), precision.value());
}

std::string refusal(const Json& row) {
  try {
    (void)resolved(row);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(FsdpPluginGolden, DecidesEveryFieldAsPythonAccelerateDoes) {
  int compared = 0;
  for (const Json& row : golden_plugins()["rows"]) {
    if (row.contains("error") || !refused_here_alone(row).empty()) continue;
    ++compared;
    EXPECT_EQ(refusal(row), "") << row["name"];
    if (refusal(row).empty()) {
      EXPECT_TRUE(resolved(row) == expected_here(row)) << row.dump(1);
    }
  }
  EXPECT_EQ(compared, 328);
}

TEST(FsdpPluginGolden, RefusesWhatPythonAccelerateRefusesAndSaysWhereItIsStricter) {
  int refused = 0;
  for (const Json& row : golden_plugins()["rows"]) {
    const bool here_alone = !row.contains("error");
    const std::string part = here_alone ? refused_here_alone(row) : "";
    if (here_alone && part.empty()) continue;
    ++refused;
    EXPECT_NE(refusal(row), "") << row["name"] << ": " << row.value("error", "");
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, part, refusal(row)) << row["name"];
  }
  EXPECT_EQ(refused, 72);
}

TEST(FsdpPluginGolden, HasARowForEveryFieldAndEveryVariable) {
  EXPECT_EQ(golden_plugins()["rows"].size(), golden_plugins()["count"].get<std::size_t>());
  std::map<std::string, int> variables;
  int launched = 0;
  for (const Json& row : golden_plugins()["rows"]) {
    for (const auto& [name, value] : row["environment"].items()) ++variables[name];
    launched += row["name"].get<std::string>().starts_with("launch: ");
  }
  EXPECT_EQ(variables.size(), 16U);
  EXPECT_EQ(launched, 45);
}

}  // namespace
}  // namespace accelerate
