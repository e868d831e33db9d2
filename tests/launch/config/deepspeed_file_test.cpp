// DeepSpeed's own JSON file, key by key.
#include "accelerate/launch/config/deepspeed_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "accelerate/base/bytes.h"
#include "accelerate/base/error.h"
#include "accelerate/launch/config/deepspeed_keys.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using detail::DeepSpeedKind;
using testing::message_of;

std::string refusal_of(const std::string& json) {
  return message_of<ConfigError>([&] { (void)read_deepspeed_file(json); });
}

// Returns a file whose only key is `path`, in sections.
std::string file_with(const std::string& path, const std::string& value) {
  const auto point = path.find('.');
  if (point == std::string::npos) return "{\"" + path + "\": " + value + "}";
  return "{\"" + path.substr(0, point) + "\": " + file_with(path.substr(point + 1), value) + "}";
}

TEST(DeepSpeedFile, ComesAsAPathAsJsonAndAsBase64) {
  const std::string json = R"({"zero_optimization": {"stage": 3}})";
  const testing::TemporaryFolder folder;
  const auto path = folder.write("zero3.json", json);
  for (const std::string& source : {path.string(), "\n " + json, detail::to_base64(json)}) {
    EXPECT_EQ(read_deepspeed_file(source).integer("zero_optimization.stage"), 3) << source;
  }
  // The alphabet for file names: - and _ in place of + and /.
  const std::string sources = R"({"wandb":{"team":"~~~>>>"}})";
  std::string url = detail::to_base64(sources);
  std::replace(url.begin(), url.end(), '+', '-');
  std::replace(url.begin(), url.end(), '/', '_');
  ASSERT_NE(url, detail::to_base64(sources));
  EXPECT_EQ(read_deepspeed_file(url).text("wandb.team"), "~~~>>>");
}

TEST(DeepSpeedFile, GivesValuesAndTellsAbsentFromAuto) {
  const auto file = read_deepspeed_file(R"({
    "gradient_clipping": "auto", "communication_data_type": null,
    "zero_optimization": {"offload_param": {"max_in_cpu": 1e9}, "overlap_comm": true},
    "optimizer": {"type": "AdamW", "params": {"betas": [0.9, 0.95], "lr": 3e-5}}})");
  EXPECT_TRUE(file.is_auto("gradient_clipping"));
  EXPECT_EQ(file.number("gradient_clipping"), std::nullopt);
  EXPECT_TRUE(file.has("communication_data_type"));
  EXPECT_EQ(file.text("communication_data_type"), std::nullopt);
  EXPECT_FALSE(file.has("train_batch_size"));
  EXPECT_EQ(file.integer("zero_optimization.offload_param.max_in_cpu"), 1'000'000'000);
  EXPECT_EQ(file.boolean("zero_optimization.overlap_comm"), true);
  EXPECT_EQ(file.numbers("optimizer.params.betas"), (std::vector<double>{0.9, 0.95}));
  EXPECT_EQ(file.number("optimizer.params.lr"), 3e-5);
  EXPECT_EQ(file.keys_of("optimizer.params"), (std::vector<std::string>{"betas", "lr"}));
  EXPECT_TRUE(file.place_of("gradient_clipping").ends_with(", line 2"));
}

TEST(DeepSpeedFile, AnswersAsHfDeepSpeedConfig) {
  HfDeepSpeedConfig file = read_deepspeed_file(R"({"gradient_clipping": "auto",
    "zero_optimization": {"stage": 3, "overlap_comm": false, "offload_param": {"device": "cpu"}},
    "optimizer": {"type": "AdamW", "params": {"lr": 0.5, "betas": [0.9, 0.95]}}})");
  EXPECT_TRUE(file.is_zero3() && !file.is_zero2() && file.is_offload());
  EXPECT_TRUE(file.is_false("zero_optimization.overlap_comm"));
  EXPECT_FALSE(file.is_true("bf16.enabled") || file.is_false("bf16.enabled"));
  EXPECT_EQ(file.get_value("gradient_clipping"), "auto");
  EXPECT_EQ(file.get_value("train_batch_size"), std::nullopt);
  std::vector<std::string> mismatches;
  file.fill_match("gradient_clipping", Node::real(2), mismatches);
  file.fill_match("optimizer.params.lr", Node::real(0.5), mismatches);
  file.fill_match("train_batch_size", Node::integer(8), mismatches);
  EXPECT_TRUE(mismatches.empty());
  EXPECT_EQ(read_deepspeed_file(file.to_json()).number("gradient_clipping"), 2);
  file.fill_match("optimizer.params.lr", Node::real(0.25), mismatches);
  ASSERT_EQ(mismatches.size(), 1U);
  EXPECT_EQ(mismatches[0],
            "optimizer.params.lr is 0.5 (the JSON of deepspeed_config_file, line 3), and the "
            "program says 0.25");
  EXPECT_FALSE(read_deepspeed_file(R"({"zero_optimization": {"stage": 1}})").is_offload());
}

// A pipe or a device would be read without end.
TEST(DeepSpeedFile, RefusesWhatIsNoFile) {
  const testing::TemporaryFolder folder;
  for (const std::string& path : {folder.path().string(), std::string("/dev/zero")})
    EXPECT_NE(refusal_of(path).find("DeepSpeed's file '" + path + "' cannot be read"),
              std::string::npos);
}

TEST(DeepSpeedFile, OlderNamesTakeThePlaceOfTheirSuccessors) {
  const auto file = read_deepspeed_file(R"({"bfloat16": {"enabled": true}, "zero_optimization": {
    "stage": 3, "cpu_offload": true, "cpu_offload_param": false,
    "stage3_gather_fp16_weights_on_model_save": true}})");
  EXPECT_EQ(file.boolean("bf16.enabled"), true);
  EXPECT_EQ(file.text("zero_optimization.offload_optimizer.device"), "cpu");
  EXPECT_EQ(file.text("zero_optimization.offload_param.device"), "none");
  EXPECT_EQ(file.boolean("zero_optimization.stage3_gather_16bit_weights_on_model_save"), true);
  const auto old = read_deepspeed_file(R"({"zero_optimization": true})");
  EXPECT_EQ(old.integer("zero_optimization.stage"), 1);
  EXPECT_NE(refusal_of(R"({"zero_optimization": {"cpu_offload": true,
    "offload_optimizer": {"device": "cpu"}}})")
                .find("cpu_offload is the older name of offload_optimizer, and the file has both"),
            std::string::npos);
}

TEST(DeepSpeedFile, RefusesWithTheLineTheKeyAndWhatIsAllowed) {
  struct Case {
    const char* json;
    const char* message;  // a part of it
  };
  const Case cases[] = {
      {"{\n\"zero_optimization\": {\n\"stage\": 5}}",
       ", line 3: zero_optimization.stage is 5; allowed is a whole number from 0 to 3, or "
       "\"auto\""},
      {R"({"zero_optimization": {"stage": "two"}})", "stage is \"two\"; allowed is a whole number"},
      {R"({"zero_optimization": {"stage": 1.5}})", "stage is 1.5; allowed is a whole number"},
      {R"({"zero_optimisation": {}})",
       "'zero_optimisation' is no key of DeepSpeed's file. Did you mean 'zero_optimization'?"},
      {R"({"zero_optimization": {"stgae": 2}})",
       "'stgae' is no key of its section 'zero_optimization'. Did you mean 'stage'? "
       "[accelerate.error/deepspeed-key]"},
      {R"({"zero_optimization": {"offload_param": {"device": "gpu"}}})",
       "offload_param.device is \"gpu\"; allowed is one of none, cpu, nvme, or \"auto\"."},
      {R"({"fp16": {"enabled": "yes"}})", "fp16.enabled is \"yes\"; allowed is true or false"},
      {R"({"fp16": true})", "fp16 is true; allowed is a map"},
      {R"({"gradient_clipping": -1})",
       "gradient_clipping is -1; allowed is a number of at least 0"},
      {R"({"train_batch_size": 0})", "train_batch_size is 0; allowed is a whole number from 1"},
      {R"({"optimizer": {"params": {"betas": [0.9, 2]}}})",
       "betas is a list; allowed is a list of"},
      {R"({"zero_allow_untested_optimizer": "auto"})", "is \"auto\"; allowed is true or false."},
      {R"({"bf16": {"enabled": true}, "bf16": {}})", "bf16"},
      {"[]", "DeepSpeed's file holds a list; allowed is a map"},
      {"nowhere/zero.json",
       "is 'nowhere/zero.json', which is neither a file, nor JSON, nor base64"},
      {"", "is '', which is neither"},
      {"/", "'/' cannot be read"},
      {"{", "line 1"},
      {"{\"a\xff\": 1}", "UTF-8"},
      {R"({"gradient_clipping": 1e999})", "1e999"},
  };
  for (const Case& bad : cases) {
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, bad.message, refusal_of(bad.json)) << bad.json;
  }
}

TEST(DeepSpeedFile, RefusesAFileThatIsTooLargeOrTooDeep) {
  const testing::TemporaryFolder folder;
  const auto path =
      folder.write("large.json", R"({"steps_per_print": 1)" + std::string(2 << 20, ' ') + "}");
  EXPECT_NE(refusal_of(path).find("large.json' cannot be read"), std::string::npos);
  const std::string wide = "{\"tensorboard\": {\"a\": \"" + std::string(100 << 20, 'x') + "\"}}";
  EXPECT_LT(refusal_of(wide).size(), 1000U);
  EXPECT_LT(refusal_of(detail::to_base64(wide.substr(0, 4 << 20))).size(), 1000U);
  std::string deep = R"({"pipeline": )";
  for (int i = 0; i < 100'000; ++i) deep += "[";
  EXPECT_LT(refusal_of(deep).size(), 1000U);
}

TEST(DeepSpeedFile, ARefusedKeyIsRefusedOnlyWhenItAsksForSomething) {
  for (const char* idle :
       {R"({"autotuning": {"enabled": false, "fast": true}})", R"({"amp": {"enabled": "auto"}})",
        R"({"tensor_parallel": {"autotp_size": 1}})", R"({"gradient_allreduce_op": "mean"})",
        R"({"compression_training": {}})", R"({"sparse_attention": null})",
        R"({"zero_optimization": {"zero_quantized_weights": false, "zenflow": null}})",
        R"({"sequence_parallel_size": 1})", R"({"curriculum_learning": {"enabled": false}})"}) {
    EXPECT_NO_THROW((void)read_deepspeed_file(idle)) << idle;
  }
  struct Case {
    const char* json;
    const char* message;
  };
  const Case cases[] = {
      {R"({"autotuning": {"enabled": true}})",
       "autotuning.enabled is true, which is refused: serves Python code (starts a Python script"},
      {R"({"zero_optimization": {"zero_quantized_weights": true}})",
       "refused: an algorithm that is not built (ZeRO++"},
      {R"({"aio": {"use_gds": true}})", "refused: serves a device that LibTorch has not"},
      {R"({"gradient_allreduce_op": "sum"})", "gradient_allreduce_op is \"sum\", which is refused"},
      {R"({"compression_training": {"weight_quantization": {}}})", "compression_training is a map"},
  };
  for (const Case& bad : cases)
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, bad.message, refusal_of(bad.json));
}

// A value of another kind than the key's.
std::string misfit_for(DeepSpeedKind kind) {
  switch (kind) {
    case DeepSpeedKind::boolean:
      return "7";
    case DeepSpeedKind::integer:
      return "1.5";
    case DeepSpeedKind::number:
      return "true";
    case DeepSpeedKind::text:
      return "12";
    case DeepSpeedKind::texts:
      return "[1]";
    case DeepSpeedKind::numbers:
      return "[\"a\"]";
    case DeepSpeedKind::section:
    case DeepSpeedKind::map:
      return "\"map\"";
    case DeepSpeedKind::anything:
      return "";
  }
  return "";
}

TEST(DeepSpeedKeys, EveryKeyRefusesAnotherKindByItsPath) {
  for (const auto& key : detail::deepspeed_keys()) {
    const std::string misfit = misfit_for(key.kind);
    if (misfit.empty()) continue;
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, key.path + " is ",
                        refusal_of(file_with(key.path, misfit)));
  }
}

TEST(DeepSpeedKeys, EveryKeyTakesAutoOnlyIfTheTableSaysSo) {
  for (const auto& key : detail::deepspeed_keys()) {
    const bool is_word = key.kind == DeepSpeedKind::anything ||
                         (key.kind == DeepSpeedKind::text && key.rules.choices.empty());
    if (is_word) continue;
    const std::string json = file_with(key.path, "\"auto\"");
    if (key.rules.may_be_auto)
      EXPECT_NO_THROW((void)read_deepspeed_file(json)) << json;
    else
      EXPECT_THROW((void)read_deepspeed_file(json), ConfigError) << json;
  }
}

TEST(DeepSpeedKeys, EveryRangeIsChecked) {
  for (const auto& key : detail::deepspeed_keys()) {
    const auto refuses = [&](double value) {
      const std::string text = Node::real(value).text;
      const std::string json = key.kind == DeepSpeedKind::numbers ? "[" + text + "]" : text;
      EXPECT_PRED_FORMAT2(::testing::IsSubstring, "allowed is a",
                          refusal_of(file_with(key.path, json)));
    };
    if (std::isfinite(key.rules.min)) refuses(key.rules.min - 1);
    if (std::isfinite(key.rules.max)) refuses(key.rules.max + std::max(1.0, key.rules.max));
  }
}

TEST(DeepSpeedKeys, AreNamedOnceAfterTheirSections) {
  std::set<std::string> seen;
  for (const auto& key : detail::deepspeed_keys()) {
    const auto point = key.path.rfind('.');
    const bool is_nested = point != std::string::npos;
    EXPECT_TRUE(!is_nested || seen.contains(key.path.substr(0, point))) << key.path;
    EXPECT_TRUE(seen.insert(key.path).second) << key.path;
    EXPECT_FALSE(key.why.empty()) << key.path;
  }
  EXPECT_GT(seen.size(), 200U);
}

std::string page_row(const detail::DeepSpeedKey& key) {
  return "| `" + key.path + "`" + (key.rules.may_be_auto ? ", auto" : "") + " | " +
         std::string(detail::words_of(key.fate)) + " | " + key.why + " |\n";
}

TEST(DeepSpeedKeys, StandInTheDocumentation) {
  std::string table = "| key | what becomes of it | how |\n|---|---|---|\n";
  for (const auto& key : detail::deepspeed_keys()) table += page_row(key);
  const std::string page = testing::file_text(ACCELERATE_SOURCE_DIR "/docs/deepspeed.md");
  const std::string begin = "<!-- keys: begin -->\n", end = "<!-- keys: end -->";
  const auto from = page.find(begin);
  ASSERT_NE(from, std::string::npos);
  const auto first = from + begin.size();
  EXPECT_EQ(page.substr(first, page.find(end) - first), table) << "put this table into the page";
}

}  // namespace
}  // namespace accelerate
