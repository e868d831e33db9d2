// What a file of DeepSpeed may do to whoever prepares by it: nothing but a sentence of its own.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/accelerate.h"
#include "accelerate/launch/config/deepspeed_keys.h"
#include "accelerate/optim/deepspeed_dummies.h"
#include "tests/support/errors.h"
#include "tests/support/log_capture.h"

namespace accelerate {
namespace {

const std::vector<const char*> kValues = {
    "0",    "1",     "-1",         "0.5",    "1e308",      "1e-320",     "9007199254740992",
    "true", "false", "[0.5, 0.5]", "[0, 0]", "[1, 1]",     "[0.9, 1e9]", "[]",
    "null", "{}",    "\"auto\"",   "\"\"",   "\"linear\"", "[[1]]",      "1e999"};

std::vector<std::string> options_of(const std::string& section) {
  std::vector<std::string> names;
  const std::string prefix = section + ".params.";
  for (const auto& key : detail::deepspeed_keys())
    if (key.path.starts_with(prefix)) names.push_back(key.path.substr(prefix.size()));
  return names;
}

// Runs `use` with the JSON of a section that has one option. Whatever it throws must be a
// ConfigError that names the section or the file.
template <typename Use>
void for_each_section(const std::string& section, const std::vector<const char*>& types,
                      const std::string& more, const Use& use) {
  for (const char* type : types)
    for (const auto& option : options_of(section))
      for (const char* value : kValues) {
        const std::string json = "{\"" + section + "\": {\"type\": \"" + type +
                                 "\", \"params\": {" + more + "\"" + option + "\": " + value +
                                 "}}}";
        try {
          use(json);
        } catch (const ConfigError& error) {
          const std::string text = error.what();
          EXPECT_TRUE(text.find(option) != std::string::npos ||
                      text.find(section) != std::string::npos || text.find("the JSON of") == 0 ||
                      text.find(type) == 0)
              << json << ": " << text;
        } catch (const std::exception& error) {
          ADD_FAILURE() << json << ": " << error.what();
        }
      }
}

TEST(DeepSpeedMishaps, AnOptimizerOfAFileStepsOrIsRefusedByASentence) {
  const testing::LogCapture log;
  for_each_section("optimizer", {"Adam", "AdamW", "SGD", "Adagrad", "Lion", "Muon"}, "",
                   [](const std::string& json) {
                     const auto weight = torch::ones({3, 2}).requires_grad_();
                     DummyOptim dummy({weight});
                     const auto find = [](const at::Tensor&) {
                       return std::optional(ParameterPlace{"weight", {3, 2}});
                     };
                     auto& optimizer = dummy.made_from(read_deepspeed_file(json), find);
                     weight.mutable_grad() = torch::ones({3, 2});
                     optimizer.step();
                   });
}

TEST(DeepSpeedMishaps, NesterovsMomentumNeedsAMomentumAndNoDampening) {
  for (const char* params :
       {R"({"nesterov": true})", R"({"nesterov": true, "momentum": 0.9, "dampening": 0.5})"}) {
    DummyOptim dummy({torch::ones({3}).requires_grad_()});
    const auto file = read_deepspeed_file(
        std::string(R"({"optimizer": {"type": "SGD", "params": )") + params + "}}");
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, "optimizer.params.nesterov is true",
                        testing::message_of<ConfigError>([&] { (void)dummy.made_from(file); }));
  }
}

TEST(DeepSpeedMishaps, AScheduleOfAFileHasFiniteRatesOrIsRefusedByASentence) {
  const testing::LogCapture log;
  const auto use = [](const std::string& json) {
    torch::optim::SGD sgd({torch::ones({3}).requires_grad_()}, torch::optim::SGDOptions(0.1));
    DummyScheduler dummy(sgd, {.total_num_steps = 10, .warmup_num_steps = 3});
    const auto schedule = dummy.made_from(read_deepspeed_file(json), 1);
    for (int step = 0; step < 12; ++step) {
      EXPECT_FALSE(std::isnan(schedule->get_last_lr().front())) << json;
      schedule->step();
    }
  };
  for_each_section("scheduler", {"WarmupLR", "OneCycle"}, "", use);
  for_each_section("scheduler", {"WarmupDecayLR", "WarmupCosineLR"}, R"("total_num_steps": 9, )",
                   use);
}

}  // namespace
}  // namespace accelerate
