// Arguments that Transformers 5 removed: tests/reference/removed_arguments.py wrote their names.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "accelerate/base/error.h"
#include "accelerate/transformers/trainer/arguments/argument_table.h"
#include "accelerate/transformers/trainer/arguments/parse_args.h"
#include "tests/support/log_capture.h"
#include "tests/support/reference.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

// What a flag, and a file in YAML and in JSON, say about the argument: an error or a warning.
std::vector<std::string> sayings(const std::string& name) {
  const testing::TemporaryFolder folder;
  const auto yaml = folder.write("args.yaml", "seed: 1\n" + name + ": true\n");
  const auto json = folder.write("args.json", "{\"" + name + "\": true}");
  const std::string flag = "--" + name;
  const std::vector<const char*> argv{"program", flag.c_str(), "true"};
  const std::function<void()> ways[] = {
      [&] { (void)parse_args<TrainingArguments>(3, argv.data()); },
      [&] { (void)parse_file<TrainingArguments>(yaml); },
      [&] { (void)parse_file<TrainingArguments>(json); }};
  std::vector<std::string> all;
  for (const auto& way : ways) {
    const testing::LogCapture log;
    std::string error;
    try {
      way();
    } catch (const ConfigError& caught) {
      error = describe(caught);
    }
    for (const auto& line : log.lines()) error += line;
    all.push_back(error);
  }
  return all;
}

TEST(RemovedArguments, EachNamesWhatToUse) {
  const auto golden = nlohmann::json::parse(testing::read_reference("removed_arguments.json"));
  const std::set<std::string> ours{"overwrite_output_dir", "warmup_ratio"};
  for (const std::string name : golden["removed"]) {
    if (ours.contains(name)) {
      EXPECT_NE(detail::argument_table().find(name), nullptr) << name;
      continue;
    }
    for (const std::string& said : sayings(name))
      EXPECT_NE(said.find(name + "' was removed in Transformers 5; "), std::string::npos)
          << name << ": " << said;
  }
}

TEST(RemovedArguments, TheCuresAreArgumentsThatAreThere) {
  for (const auto& [name, cure] : std::map<std::string, std::string>{
           {"logging_dir", "output_dir"},
           {"group_by_length", "train_sampling_strategy"},
           {"half_precision_backend", "bf16"},
           {"per_gpu_train_batch_size", "per_device_train_batch_size"}}) {
    EXPECT_NE(sayings(name).front().find("`" + cure), std::string::npos) << name;
    EXPECT_NE(detail::argument_table().find(cure), nullptr) << cure;
  }
}

}  // namespace
}  // namespace accelerate
