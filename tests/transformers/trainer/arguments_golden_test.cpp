// What we make of arguments against what Transformers makes of them;
// tests/reference/training_arguments_golden.py wrote the expectations.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "accelerate/base/error.h"
#include "accelerate/formats/documents/json.h"
#include "accelerate/transformers/trainer/arguments/accelerator_options.h"
#include "accelerate/transformers/trainer/arguments/argument_table.h"
#include "accelerate/transformers/trainer/arguments/parse_args.h"
#include "tests/launch/config/fsdp_environment.h"
#include "tests/support/files.h"
#include "tests/support/log_capture.h"
#include "tests/support/reference.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using Json = nlohmann::json;

const Json& golden_arguments() {
  static const Json json = Json::parse(testing::read_reference("training_arguments.json"));
  return json;
}

Json json_of(const TrainingArguments& args) {
  return Json::parse(write_json(to_node(args)));
}

TrainingArguments arguments_of_json(const Json& json) {
  return training_arguments_of(read_json(json.dump(), "row.json"), "row.json");
}

// --- Where we differ on purpose ------------------------------------------------------------------

// Null is "as the launcher says", where Python writes its default; the run has the name of its
// folder, as it had before version 5; and what has no effect is not kept.
Json as_python_writes(Json ours, const Json& python) {
  if (ours["gradient_accumulation_steps"].is_null()) ours["gradient_accumulation_steps"] = 1;
  for (const char* name : {"bf16", "fp16", "disable_tqdm"}) {
    if (ours[name].is_null()) ours[name] = false;
  }
  if (python["run_name"].is_null() && ours["run_name"] == ours["output_dir"]) {
    ours["run_name"] = nullptr;
  }
  if (python["lr_scheduler_kwargs"] == Json::object()) ours["lr_scheduler_kwargs"] = Json::object();
  for (const char* name : {"gradient_checkpointing_kwargs", "activation_checkpointing_kwargs"}) {
    ours[name] = python[name];
  }
  return ours;
}

bool is_broken_count(const Json& arguments, const char* name) {
  const double value =
      arguments.value(name, Json()).is_number() ? arguments[name].get<double>() : 0;
  return value > 1 && value != std::trunc(value);
}

// Why we refuse what Python accepts; "" when there is no reason to.
std::string stricter_here(const Json& arguments) {
  for (const char* name : {"logging_steps", "eval_steps", "save_steps"}) {
    if (is_broken_count(arguments, name)) return "Python looks at it with strategy 'steps' alone";
  }
  if (arguments.value("save_strategy", "") == "best") {
    if (arguments.value("eval_strategy", "no") == "no") return "nothing would ever be saved";
    return "Python's Trainer refuses it later: no metric_for_best_model";
  }
  if (arguments.value("logging_steps", Json()) == 0) return "eval_steps of 0";
  return "";
}

// --- The comparisons -----------------------------------------------------------------------------

template <typename Make>
std::string refusal_of(Make make) {
  try {
    (void)make();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

void expect_as_python(const TrainingArguments& args, const Json& changed, const Json& row) {
  Json python = golden_arguments()["base"];  // The same whatever the seed is.
  python.update(changed);
  const Json ours = as_python_writes(json_of(resolved(args)), python);
  for (const auto& [name, value] : python.items()) {
    ASSERT_TRUE(ours.contains(name)) << name;
    EXPECT_EQ(ours[name], value) << name << " of " << row.dump();
  }
}

// How many rows came out as Python has them.
int compare_accepted(const Json& golden) {
  const testing::ScopedEnv home("HOME", "/home/somebody");
  int compared = 0;
  for (const Json& row : golden["rows"]) {
    if (!row.contains("changed")) continue;
    Json arguments = row["arguments"];
    arguments["use_cpu"] = true;
    const std::string refused = refusal_of([&] { return arguments_of_json(arguments); });
    if (!refused.empty()) {
      EXPECT_NE(stricter_here(arguments), "") << row.dump() << "\n" << refused;
      continue;
    }
    ++compared;
    expect_as_python(arguments_of_json(arguments), row["changed"], row);
  }
  return compared;
}

int compare_refused(const Json& golden) {
  int refused = 0;
  for (const Json& row : golden["rows"]) {
    if (!row.contains("error")) continue;
    ++refused;
    EXPECT_NE(refusal_of([&] { return arguments_of_json(row["arguments"]); }), "") << row.dump();
  }
  return refused;
}

TEST(ArgumentsGolden, MakesOfArgumentsWhatTransformersMakes) {
  EXPECT_GT(compare_accepted(golden_arguments()), 300);
}

TEST(ArgumentsGolden, RefusesWhatTransformersRefuses) {
  EXPECT_GT(compare_refused(golden_arguments()), 100);
}

TEST(ArgumentsLive, RowsOfAnotherSeedAreAsTransformersHasThem) {
  ACCELERATE_NEED_REFERENCE_PYTHON();
  const std::string seed = std::to_string(std::random_device()() % 1'000'000);
  SCOPED_TRACE("training_arguments_golden.py with seed " + seed);
  const testing::TemporaryFolder folder;
  const auto file = folder.path() / "training_arguments.json";
  const auto script = testing::reference_path("training_arguments_golden.py");
  const auto run = testing::run_program(
      {testing::reference_python(), script, file, seed},
      {.env = {}, .timeout = std::chrono::minutes(5), .working_directory = {}});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Json rows = Json::parse(testing::file_text(file));
  EXPECT_GT(compare_accepted(rows), 250);
  EXPECT_GT(compare_refused(rows), 90);
}

TEST(ArgumentsGolden, ReadsCommandLinesAsHfArgumentParserDoes) {
  for (const Json& row : golden_arguments()["command_lines"]) {
    std::vector<const char*> argv = {"program"};
    for (const auto& word : row["argv"]) argv.push_back(word.get_ref<const std::string&>().c_str());
    const auto parse = [&] {
      return parse_args<TrainingArguments>(static_cast<int>(argv.size()), argv.data());
    };
    // A count in a float's spelling is read here: 1e1 is 10.
    const bool wider = row["argv"].back() == "1e1";
    EXPECT_EQ(refusal_of(parse).empty(), row.contains("changed") || wider) << row.dump();
    if (row.contains("changed")) expect_as_python(parse(), row["changed"], row);
  }
}

// --- Names and defaults --------------------------------------------------------------------------

// Whether our table has Python's default, or the reason why not.
std::string other_default(const std::string& name) {
  static const std::map<std::string, std::string> kReasons = {
      {"output_dir", "Python sets it when it is absent"},
      {"report_to", "none is an empty list"},
      {"accelerator_config", "its fields have defaults of their own"},
      {"gradient_checkpointing", "Python sets it when it is absent"},
      {"gradient_accumulation_steps", "absent: as the launcher says"},
      {"bf16", "absent: as the launcher says"},
      {"fp16", "absent: as the launcher says"},
      {"debug", "an empty text is an empty list"},
  };
  const auto found = kReasons.find(name);
  return found == kReasons.end() ? "" : found->second;
}

TEST(ArgumentsGolden, HasEveryArgumentOfTransformersWithItsDefault) {
  const Json ours = json_of(TrainingArguments());
  EXPECT_EQ(golden_arguments()["fields"].size(), ours.size());
  for (const Json& field : golden_arguments()["fields"]) {
    const std::string name = field["name"];
    ASSERT_TRUE(ours.contains(name)) << name;
    if (name == "hub_token") continue;  // Never written.
    EXPECT_EQ(ours[name] == field["default"], other_default(name).empty())
        << name << ": " << ours[name] << " and " << field["default"];
  }
}

TEST(ArgumentsGolden, NoArgumentIsInBothTables) {
  for (const auto& argument : detail::python_arguments()) {
    EXPECT_EQ(detail::argument_table().find(argument.name), nullptr) << argument.name;
    EXPECT_TRUE(argument.is_harmless(argument.fallback)) << argument.name;
  }
}

// --- Sharding and precision ----------------------------------------------------------------------

std::string text_in(const Json& plugin, const char* key) {
  return plugin.contains(key) ? plugin[key].get<std::string>() : "";
}

ShardingStrategy strategy_in(const Json& plugin) {
  const Json& reshard = plugin["reshard_after_forward"];
  if (reshard.is_string()) return parse_enum<ShardingStrategy>(reshard.get<std::string>()).value();
  return reshard ? ShardingStrategy::FULL_SHARD : ShardingStrategy::SHARD_GRAD_OP;
}

void expect_sharding(const ResolvedFsdpOptions& settings, const Json& plugin,
                     const std::string& row) {
  EXPECT_EQ(settings.version, plugin["fsdp_version"].get<int>()) << row;
  EXPECT_EQ(settings.sharding_strategy, strategy_in(plugin)) << row;
  EXPECT_EQ(settings.cpu_offload, plugin.value("cpu_offload", false)) << row;
  EXPECT_EQ(to_string(settings.auto_wrap_policy), text_in(plugin, "auto_wrap_policy")) << row;
  EXPECT_EQ(join(settings.transformer_cls_names_to_wrap, ","),
            text_in(plugin, "transformer_cls_names_to_wrap"))
      << row;
  EXPECT_EQ(settings.min_num_params, plugin.value("min_num_params", 0)) << row;
  EXPECT_EQ(to_string(settings.state_dict_type), text_in(plugin, "state_dict_type")) << row;
  EXPECT_EQ(settings.cpu_ram_efficient_loading, plugin["cpu_ram_efficient_loading"].get<bool>());
  if (settings.version == 2) return;
  EXPECT_EQ(settings.forward_prefetch, plugin["forward_prefetch"].get<bool>()) << row;
  EXPECT_EQ(to_string(settings.backward_prefetch), text_in(plugin, "backward_prefetch")) << row;
  const bool sync = plugin["sync_module_states"].get<bool>() || settings.cpu_ram_efficient_loading;
  EXPECT_EQ(settings.sync_module_states, sync) << row;
}

TEST(ArgumentsGolden, ShardsAsTransformersDoes) {
  const testing::FsdpEnvironment environment;
  const testing::LogCapture quiet;
  for (const Json& row : golden_arguments()["sharding"]) {
    const auto settings = [&] {
      const Json arguments = {{"fsdp", row["fsdp"]}, {"fsdp_config", row["fsdp_config"]}};
      const auto options = accelerator_options(resolved(arguments_of_json(arguments)));
      return resolve(options.fsdp_plugin.value(), MixedPrecision::no);
    };
    EXPECT_EQ(refusal_of(settings).empty(), row.contains("plugin")) << row << refusal_of(settings);
    if (row.contains("plugin")) expect_sharding(settings(), row["plugin"], row.dump());
  }
}

TEST(ArgumentsGolden, TakesThePrecisionThatTransformersTakes) {
  for (const Json& row : golden_arguments()["precision"]) {
    const std::string launcher = row["launcher"].is_null() ? "" : row["launcher"];
    const testing::ScopedEnv environment("ACCELERATE_MIXED_PRECISION",
                                         launcher.empty() ? nullptr : launcher.c_str());
    const auto options = accelerator_options(resolved(arguments_of_json(row["arguments"])));
    EXPECT_EQ(to_string(options.mixed_precision.value()), row["mixed_precision"]) << row;
  }
}

}  // namespace
}  // namespace accelerate
