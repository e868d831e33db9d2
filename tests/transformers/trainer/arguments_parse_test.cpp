// Arguments from command lines and files.
#include <gtest/gtest.h>

#include <random>

#include "accelerate/base/error.h"
#include "accelerate/formats/documents/json.h"
#include "accelerate/transformers/trainer/arguments/parse_args.h"
#include "tests/support/errors.h"
#include "tests/support/log_capture.h"
#include "tests/support/messages.h"
#include "tests/support/support.h"

namespace accelerate {

// A program's own struct; in its namespace, where the call of visit_arguments looks.
struct ScriptArguments {
  std::string model = "bert-base-cased";
  std::int64_t max_length = 128;
  bool lower_case = true;
  bool dry_run = false;
  std::optional<double> dropout = {};
  std::vector<std::string> columns = {"text"};
  Word<MixedPrecision> precision = MixedPrecision::no;
  std::filesystem::path cache = "cache";
  std::uint64_t salt = 3;
  float scale = 0.5F;
};

template <typename Visit>
void visit_arguments(ScriptArguments& mine, Visit&& argument) {
  argument("model", mine.model, "Name or folder of the model.");
  argument("max_length", mine.max_length, "Tokens that a text is cut to.");
  argument("lower_case", mine.lower_case, "Whether case is ignored.");
  argument("dry_run", mine.dry_run);
  argument("dropout", mine.dropout, "Of the head.");
  argument("columns", mine.columns, "Columns of text.");
  argument("precision", mine.precision, "Of the model.");
  argument("cache", mine.cache, "Where models are kept.");
  argument("salt", mine.salt);
  argument("scale", mine.scale);
}

struct LongerArguments : TrainingArguments {
  int patience = 1;
};

template <typename Visit>
void visit_arguments(LongerArguments& mine, Visit&& argument) {
  argument("patience", mine.patience, "Evaluations without improvement.");
}

struct ClashingArguments {
  int seed = 0;
};

template <typename Visit>
void visit_arguments(ClashingArguments& mine, Visit&& argument) {
  argument("seed", mine.seed, "Another seed.");
}

namespace {

using testing::expect_has;
using testing::message_of;

template <typename... Sections>
auto parsed(std::vector<const char*> words) {
  words.insert(words.begin(), "path/to/program");
  return parse_args<Sections...>(static_cast<int>(words.size()), words.data());
}

template <typename... Sections>
std::string refusal_of_words(const std::vector<const char*>& words) {
  return message_of<ConfigError>([&] { (void)parsed<Sections...>(words); });
}

// --- Command lines -------------------------------------------------------------------------------

TEST(ParseArgs, GivesTheBareStructForOneAndATupleForMore) {
  const TrainingArguments args = parsed<TrainingArguments>({"--learning_rate", "2e-5"});
  EXPECT_EQ(args.learning_rate, 2e-5);
  const auto [training, mine] = parsed<TrainingArguments, ScriptArguments>(
      {"--num-train-epochs=2", "--max-length", "64", "--output_dir", "out"});
  EXPECT_EQ(training.num_train_epochs, 2);
  EXPECT_EQ(training.output_dir, "out");
  EXPECT_EQ(mine.max_length, 64);
  EXPECT_EQ(mine.model, "bert-base-cased");
}

TEST(ParseArgs, BooleansStandAloneOrTakeAWord) {
  EXPECT_TRUE(parsed<TrainingArguments>({"--push_to_hub"}).push_to_hub);
  EXPECT_FALSE(parsed<TrainingArguments>({"--push_to_hub", "false"}).push_to_hub);
  EXPECT_FALSE(parsed<TrainingArguments>({"--no_remove_unused_columns"}).remove_unused_columns);
  EXPECT_FALSE(parsed<TrainingArguments>({"--no-remove-unused-columns"}).remove_unused_columns);
  EXPECT_EQ(parsed<TrainingArguments>({"--bf16", "--seed", "3"}).bf16, true);
  EXPECT_EQ(parsed<TrainingArguments>({"--bf16=no"}).bf16, false);
  EXPECT_FALSE(parsed<ScriptArguments>({"--no_lower_case"}).lower_case);
  expect_has(refusal_of_words<TrainingArguments>({"--no_push_to_hub"}), "unknown flag");
  expect_has(refusal_of_words<TrainingArguments>({"--no_remove_unused_columns=1"}), "no value");
}

TEST(ParseArgs, ListsTakeAllWordsUpToTheNextFlag) {
  const auto args = parsed<TrainingArguments>(
      {"--report_to", "tensorboard", "csv", "--fsdp", "full_shard", "offload", "--label_names=y"});
  EXPECT_EQ(args.report_to, (Words{"tensorboard", "csv"}));
  EXPECT_EQ(args.fsdp, FsdpOption("full_shard offload"));
  EXPECT_EQ(args.label_names, Words("y"));
  EXPECT_EQ(parsed<TrainingArguments>({"--fsdp"}).fsdp, FsdpOption(true));
  EXPECT_EQ(parsed<ScriptArguments>({"--columns", "a", "b"}).columns,
            (std::vector<std::string>{"a", "b"}));
}

TEST(ParseArgs, TheLastOfTheSameFlagCounts) {
  EXPECT_EQ(parsed<TrainingArguments>({"--seed", "1", "--seed=2"}).seed, 2U);
  EXPECT_EQ(parsed<TrainingArguments>({"--report_to", "csv", "--report_to", "none"}).report_to,
            Words("none"));
}

TEST(ParseArgs, NegativeNumbersAreValues) {
  EXPECT_EQ(parsed<TrainingArguments>({"--max_steps", "-1"}).max_steps, -1);
  expect_has(refusal_of_words<TrainingArguments>({"--learning_rate", "-1"}),
             "--learning_rate is '-1'; allowed is a number of at least 0.0.");
}

TEST(ParseArgs, ReadsEveryTypeOfAProgram) {
  const auto mine =
      parsed<ScriptArguments>({"--dropout", "0.1", "--precision", "BF16", "--cache", "/tmp/x",
                               "--salt", "12", "--scale=0.25", "--dry_run"});
  EXPECT_EQ(mine.dropout, 0.1);
  EXPECT_EQ(mine.precision, MixedPrecision::bf16);
  EXPECT_EQ(mine.cache, "/tmp/x");
  EXPECT_EQ(mine.salt, 12U);
  EXPECT_EQ(mine.scale, 0.25F);
  EXPECT_TRUE(mine.dry_run);
  expect_has(refusal_of_words<ScriptArguments>({"--salt", "-1"}), "--salt is '-1'; allowed is");
  expect_has(refusal_of_words<ScriptArguments>({"--precision", "bf1"}), "Did you mean 'bf16'?");
}

TEST(ParseArgs, AStructMayDeriveFromTheArguments) {
  const auto args = parsed<LongerArguments>({"--patience", "4", "--seed", "9"});
  EXPECT_EQ(args.patience, 4);
  EXPECT_EQ(args.seed, 9U);
}

TEST(ParseArgs, TwoArgumentsOfOneNameAreABugOfTheProgram) {
  const auto message = message_of<UsageError>(
      [] { (void)parsed<TrainingArguments, ClashingArguments>({"--seed", "1"}); });
  expect_has(message, "'seed'");
}

TEST(ParseArgs, RefusesWithTheFlagAndTheNearest) {
  expect_has(refusal_of_words<TrainingArguments>({"--learning_rat", "1"}),
             "unknown flag '--learning_rat'. Did you mean '--learning_rate'?");
  expect_has(refusal_of_words<TrainingArguments>({"--seed"}), "--seed needs a value; allowed is");
  expect_has(
      refusal_of_words<TrainingArguments>({"--eval_strategy", "epochs"}),
      "--eval_strategy is 'epochs'; allowed is one of no, steps, epoch. Did you mean 'epoch'?");
  expect_has(refusal_of_words<TrainingArguments>({"words"}), "stands where a flag belongs");
  expect_has(refusal_of_words<TrainingArguments>({"--load_best_model_at_end"}), "save_strategy");
}

TEST(ParseArgs, MapsAreTextsInJson) {
  const auto args = parsed<TrainingArguments>(
      {"--lr_scheduler_kwargs",
       R"({"num_cycles": 3, "min_lr": [0.1, 0.2], "decay_type": "1-sqrt"})", "--accelerator_config",
       R"({"split_batches": true, "dispatch_batches": false})", "--fsdp_config",
       R"({"fsdp_version": 2, "cpu_offload": "true", "xla": false})"});
  EXPECT_EQ(args.lr_scheduler_kwargs.num_cycles, 3);
  EXPECT_EQ(args.lr_scheduler_kwargs.min_lr->values(), (std::vector<double>{0.1, 0.2}));
  EXPECT_EQ(args.lr_scheduler_kwargs.decay_type, RampType::one_minus_sqrt);
  EXPECT_TRUE(args.accelerator_config.split_batches);
  EXPECT_EQ(args.accelerator_config.dispatch_batches, false);
  const auto& config = std::get<FullyShardedDataParallelPlugin>(args.fsdp_config.value());
  EXPECT_EQ(config.fsdp_version, 2);
  EXPECT_EQ(config.cpu_offload, true);
}

TEST(ParseArgs, FaultsInsideAMapAreNamed) {
  expect_has(refusal_of_words<TrainingArguments>({"--lr_scheduler_kwargs", R"({"num_cycle": 3})"}),
             "unknown key 'num_cycle'. Did you mean 'num_cycles'?");
  expect_has(refusal_of_words<TrainingArguments>({"--fsdp_config", R"({"version": 3})"}),
             "line 1: 'fsdp_version' is '3'; allowed is an integer from 1 to 2");
  expect_has(refusal_of_words<TrainingArguments>({"--fsdp_config", R"({"xla": true})"}), "no TPU");
  expect_has(refusal_of_words<TrainingArguments>(
                 {"--accelerator_config", R"({"gradient_accumulation_kwargs": {"num_steps": 2}})"}),
             "gradient_accumulation_steps");
  expect_has(refusal_of_words<TrainingArguments>({"--accelerator_config", "{"}), "line 1");
}

TEST(ParseArgs, HelpIsForTheProgramToPrint) {
  for (const char* flag : {"--help", "-h"}) {
    try {
      (void)parsed<TrainingArguments, ScriptArguments>({"--seed", "1", flag});
      ADD_FAILURE() << "no help";
    } catch (const HelpRequested& help) {
      const std::string text = help.what();
      expect_has(text, "Usage: program ");
      expect_has(text, "--max_length <integer>\n      Tokens that a text is cut to. Default: 128.");
      expect_has(text, "\nThe training:\n  --output_dir <text>");
      expect_has(text, "  --remove_unused_columns, --no_remove_unused_columns\n");
      expect_has(text, "One of: no, steps, epoch. Default: \"no\".");
      EXPECT_EQ(text.find("torch_compile"), std::string::npos);
    }
  }
}

// --- Arguments of Python alone -------------------------------------------------------------------

TEST(PythonArguments, AreAcceptedWithTheirDefault) {
  const testing::LogCapture log;
  (void)parsed<TrainingArguments>({"--torch_compile", "false", "--local_rank=3",
                                   "--dataloader_in_order", "--gradient_checkpointing_kwargs",
                                   R"({"use_reentrant": false})"});
  EXPECT_TRUE(log.lines().empty());
}

TEST(PythonArguments, AreWarnedOfWhenTheyChangeNoResult) {
  const testing::LogCapture log;
  (void)parsed<TrainingArguments>({"--dataloader_persistent_workers", "--no_skip_memory_metrics"});
  ASSERT_EQ(log.lines().size(), 2U);
  expect_has(log.lines()[0], "dataloader_persistent_workers has no effect");
}

TEST(PythonArguments, AreRefusedWithACureOtherwise) {
  expect_has(refusal_of_words<TrainingArguments>({"--optim_target_modules", "all-linear"}),
             "--optim_target_modules is 'all-linear'; only Python's Trainer has it.");
}

TEST(PythonArguments, AreAcceptedWhereTheirEffectIsThereAlways) {
  const testing::LogCapture log;
  (void)parsed<TrainingArguments>({"--enable_jit_checkpoint"});
  (void)parsed<TrainingArguments>({"--enable_jit_checkpoint", "true"});
  EXPECT_TRUE(log.lines().empty());
}

// --- Files ---------------------------------------------------------------------------------------

TEST(ParseFile, ReadsYamlAndJson) {
  const testing::TemporaryFolder folder;
  const auto yaml = folder.write("a.yaml",
                                 "learning_rate: 2e-5\neval_strategy: no\nreport_to: [csv, jsonl]\n"
                                 "fsdp_config: {reshard_after_forward: false}\nbf16: null\n");
  const auto args = parse_file<TrainingArguments>(yaml);
  EXPECT_EQ(args.learning_rate, 2e-5);
  EXPECT_EQ(args.eval_strategy, IntervalStrategy::no);
  EXPECT_EQ(args.report_to, (Words{"csv", "jsonl"}));
  EXPECT_EQ(args.bf16, std::nullopt);
  const auto json = folder.write("a.json", R"({"max_length": 32, "seed": 5, "push_to_hub": true})");
  const auto [training, mine] = parse_file<TrainingArguments, ScriptArguments>(json);
  EXPECT_EQ(training.seed, 5U);
  EXPECT_TRUE(training.push_to_hub);
  EXPECT_EQ(mine.max_length, 32);
}

TEST(ParseFile, OnACommandLineIsTheFirstWordAndFlagsCountMore) {
  const testing::TemporaryFolder folder;
  const auto file = folder.write("args.yml", "seed: 5\nlearning_rate: 0.1\n").string();
  EXPECT_EQ(parsed<TrainingArguments>({file.c_str()}).seed, 5U);
  const auto args = parsed<TrainingArguments>({file.c_str(), "--seed", "6"});
  EXPECT_EQ(args.seed, 6U);
  EXPECT_EQ(args.learning_rate, 0.1);
}

std::string refusal_of_file(const std::string& text) {
  const testing::TemporaryFolder folder;
  const auto file = folder.write("args.yaml", text);
  return message_of<ConfigError>([&] { (void)parse_file<TrainingArguments>(file); });
}

TEST(ParseFile, FaultsHaveFileAndLine) {
  expect_has(refusal_of_file("seed: 1\nlearning_rat: 1\n"),
             "args.yaml, line 2: unknown argument 'learning_rat'. Did you mean 'learning_rate'?");
  expect_has(refusal_of_file("seed: x\n"), "args.yaml, line 1: 'seed' is 'x'");
  expect_has(refusal_of_file("eval_strategy: no\nevaluation_strategy: no\n"),
             "which the file has already");
  expect_has(refusal_of_file("\n\nlr_scheduler_kwargs: {a: 1}\n"), "line 3");
  expect_has(refusal_of_file("- a\n"), "allowed are names and values");
  expect_has(refusal_of_file("optim_target_modules: [a]\n"), "only Python's Trainer has it");
  expect_has(message_of<ConfigError>([] { (void)parse_file<TrainingArguments>("none.json"); }),
             "'none.json', cannot be read");
}

// Every outcome is arguments, which then survive a round trip, or a ConfigError.
TEST(ParseFile, SurvivesMutations) {
  const testing::LogCapture quiet;
  const std::string whole =
      R"({"seed": 3, "learning_rate": 2e-5, "fsdp": "full_shard offload", "eval_steps": 0.25,
 "fsdp_config": {"fsdp_version": 2, "min_num_params": 100}, "report_to": ["csv", "jsonl"],
 "lr_scheduler_kwargs": {"num_cycles": 2, "min_lr": [0.1, 1]}, "bf16": true, "tf32": null,
 "accelerator_config": {"split_batches": true}, "resume_from_checkpoint": true, "debug": "",
 "optim_args": "a=1,b=2", "save_strategy": "no", "warmup_steps": 10, "run_name": "x"})";
  std::mt19937 random(7);
  int accepted = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text = whole;
    for (auto edits = 1 + random() % 3; edits > 0; --edits) {
      const std::size_t at = random() % (text.size() - 8);
      if (random() % 2 == 0) {
        text.erase(at, 1 + random() % 8);
      } else {
        text[at] = "{}[]\",: 019-.etx\n\xff"[random() % 20];
      }
    }
    std::optional<TrainingArguments> args;
    try {
      args = training_arguments_of(read_json(text, "args.json"), "args.json");
    } catch (const ConfigError&) {
      continue;
    }
    ++accepted;
    const std::string written = write_json(to_node(*args));
    const auto back = training_arguments_of(read_json(written, "back.json"), "back.json");
    EXPECT_EQ(write_json(to_node(back)), written) << text;
  }
  EXPECT_GT(accepted, 30);
  EXPECT_LT(accepted, 2900);
}

// --- Writing -------------------------------------------------------------------------------------

TrainingArguments unusual_arguments() {
  return {.output_dir = "o",
          .learning_rate = 1.0 / 3,
          .fsdp_config =
              FullyShardedDataParallelPlugin{.fsdp_version = 2, .reshard_after_forward = false},
          .fsdp = "shard_grad_op offload",
          .eval_strategy = "steps",
          .save_strategy = "best",
          .gradient_accumulation_steps = 4,
          .lr_scheduler_kwargs = {.num_cycles = 2, .min_lr = PerGroup{0.1, 0.2}},
          .warmup_ratio = 0.1,
          .seed = 1234567890123,
          .bf16 = true,
          .report_to = {"csv", "jsonl"},
          .include_num_input_tokens_seen = "non_padding",
          .metric_for_best_model = "f1",
          .resume_from_checkpoint = "o/checkpoint-1",
          .max_tokens_per_batch = 4096,
          .accelerator_config = {.split_batches = true, .dispatch_batches = true},
          .hub_token = "secret",
          .verify_resume = true};
}

TEST(ToNode, RoundTripsEverythingButTheToken) {
  const std::string text = write_json(to_node(unusual_arguments()));
  EXPECT_EQ(text.find("secret"), std::string::npos);
  expect_has(text, "\"hub_token\": \"<HUB_TOKEN>\"");
  const auto back =
      training_arguments_of(read_json(text, "training_args.json"), "training_args.json");
  EXPECT_EQ(write_json(to_node(back)), text);
  EXPECT_EQ(back.learning_rate, 1.0 / 3);
  EXPECT_EQ(back.seed, 1234567890123U);
  EXPECT_EQ(back.hub_token, "");
  EXPECT_TRUE(back.verify_resume);
}

TEST(ToNode, LeavesOutWhatPythonDoesNotHave) {
  const Node node = to_node({});
  for (const char* name :
       {"verify_resume", "warmup_ratio", "fsdp_strategy", "max_tokens_per_batch"}) {
    EXPECT_EQ(node.find(name), nullptr) << name;
    EXPECT_NE(to_node(unusual_arguments()).find("verify_resume"), nullptr);
  }
  EXPECT_NE(node.find("torch_compile"), nullptr);
}

TEST(ToNode, WritesAPluginByTheKeysOfItsFields) {
  const TrainingArguments args{.fsdp_config = FullyShardedDataParallelPlugin{
                                   .auto_wrap_policy = AutoWrapPolicy::TRANSFORMER_BASED_WRAP,
                                   .transformer_cls_names_to_wrap = {{"BertLayer", "Head"}}}};
  const Node node = to_node(args);
  EXPECT_EQ(node.find("fsdp_config")->find("transformer_layer_cls_to_wrap")->text,
            "BertLayer,Head");
  EXPECT_EQ(node.find("fsdp_config")->entries.size(), 2U);
}

}  // namespace
}  // namespace accelerate
