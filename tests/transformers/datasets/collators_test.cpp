// What collators refuse, and how their batches travel. tests/reference/collators_live.py compares
// what they make with Transformers.
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "accelerate/transformers.h"
#include "tests/support/errors.h"
#include "tests/support/messages.h"
#include "tests/support/ranks.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::expect_has;
using testing::message_of;
using testing::run_ranks_shared;
using Group = std::shared_ptr<Communicator>;
using Numbers = std::vector<std::int64_t>;

constexpr const char* kTokenizerJson =
    R"({"version": "1.0", "model": {"type": "WordLevel", "unk_token": "[UNK]",
  "vocab": {"[PAD]": 0, "[UNK]": 1, "[MASK]": 2, "a": 3, "b": 4}}, "pre_tokenizer": {"type": "WhitespaceSplit"},
  "normalizer": null, "post_processor": null, "decoder": null, "truncation": null, "padding": null, "added_tokens": []})";

PreTrainedTokenizer tokenizer(
    const char* config =
        R"({"pad_token": "[PAD]", "unk_token": "[UNK]", "mask_token": "[MASK]"})") {
  const testing::TemporaryFolder folder;
  folder.write("tokenizer.json", kTokenizerJson);
  folder.write("tokenizer_config.json", config);
  return AutoTokenizer::from_pretrained(folder.path().string());
}

std::vector<Row> ragged() {
  return {Row{{"input_ids", Numbers{3, 4, 3}}, {"label", 1}},
          Row{{"input_ids", Numbers{4}}, {"label", 0}}};
}

std::string refusal(const DataCollator& collator, const std::vector<Row>& rows) {
  return message_of<UsageError>([&] { (void)collator(rows); });
}

TEST(Collators, TextsOfOneLengthAreTensorsAtOnce) {
  const auto words = tokenizer();
  const Inputs inputs = to_inputs(words({"a b a", "b"}, {.padding = true}));
  EXPECT_TRUE(inputs["input_ids"].equal(at::tensor({3, 4, 3, 4, 0, 0}, at::kLong).view({2, 3})));
  EXPECT_TRUE(
      inputs["attention_mask"].equal(at::tensor({1, 1, 1, 1, 0, 0}, at::kLong).view({2, 3})));
  expect_has(message_of<UsageError>([&] { (void)to_inputs(words({"a b a", "b"})); }),
             "Ask for padding");
}

TEST(Collators, NameTheColumnThatMakesNoTensor) {
  expect_has(refusal(default_data_collator, ragged()), "'input_ids' has lists of unequal lengths");
  expect_has(refusal(default_data_collator, {}), "a collator got no rows");
  expect_has(refusal(default_data_collator, {Row{{"a", 1}}, Row{{"b", 1}}}),
             "there is no column 'a'");
  expect_has(refusal(default_data_collator, {Row{{"a", 1}}, Row{{"a", "text"}}}), "'a'");
  expect_has(refusal(default_data_collator, {Row{{"a", 1}}, Row{{"a", Value()}}}), "'a'");
  const auto lists = [](const Numbers& one, const Numbers& other) {
    return std::vector<Row>{Row{{"a", Value::List{one, other}}}};
  };
  expect_has(refusal(default_data_collator, lists({1, 2}, {3})), "'a' has lists of unequal");
  expect_has(refusal(default_data_collator, {Row{{"a", Value::List{Numbers{1}, 2}}}}), "'a' has");
  const DataCollatorWithPadding padding{.tokenizer = tokenizer()};
  expect_has(refusal(padding, {Row{{"input_ids", Value::List{1, 2.5}}}}),
             "'input_ids' has a list; allowed are lists of integers");
  expect_has(refusal(padding, {Row{{"input_ids", Numbers{1}}, {"text", "x"}}}),
             "'text' has a string, which cannot become a tensor");
  expect_has(refusal(default_data_collator, {Row{{"x", 1.5}}, Row{{"x", Value()}}}),
             "'x' has nothing, which cannot become a tensor. Leave out rows without a value");
  expect_has(refusal(padding, {Row{{"input_ids", Numbers{1}}, {"label", "x"}}}),
             "class_encode_column(\"label\")");
  expect_has(refusal(default_data_collator, {Row{{"label", "x"}}}),
             "class_encode_column(\"label\")");
  const auto ragged_column = [](const char* name) {
    return std::vector<Row>{Row{{"input_ids", Numbers{1}}, {name, Numbers{1}}},
                            Row{{"input_ids", Numbers{1, 2}}, {name, Numbers{1, 2}}}};
  };
  expect_has(refusal(padding, ragged_column("labels")), "DataCollatorForTokenClassification");
  expect_has(refusal(default_data_collator, ragged_column("attention_mask")),
             "DataCollatorWithPadding pads it; a Trainer takes that where it has processing_class");
  expect_has(refusal(padding, {Row{{"input_ids", "x"}}}),
             "'input_ids' has a string; allowed are lists of integers");
  EXPECT_THROW((void)padding({Row{{"other", 1}}}), UsageError);
  EXPECT_THROW((void)DataCollatorWithPadding{.tokenizer = tokenizer("{}")}(ragged()), UsageError);
  expect_has(refusal(DataCollatorForTokenClassification{.tokenizer = tokenizer()},
                     {Row{{"input_ids", Numbers{1}}, {"labels", Numbers{1, 2}}}}),
             "a row has 2 labels and 1 tokens");
}

TEST(Collators, GiveNumbersTheTypeOfTorchTensor) {
  const auto type_of = [](const Value& one, const Value& other) {
    return default_data_collator({Row{{"a", one}}, Row{{"a", other}}})["a"].scalar_type();
  };
  EXPECT_EQ(type_of(true, false), at::kBool);
  EXPECT_EQ(type_of(true, 1), at::kLong);
  EXPECT_EQ(type_of(true, 1.5), at::kFloat);
  EXPECT_EQ(type_of(1, 1.5), at::kFloat);
  EXPECT_EQ(type_of(Value::List{1, 2.5}, Value::List{true, 2}), at::kFloat);
  EXPECT_EQ(type_of(Numbers{}, Numbers{}), at::kFloat);
  const Inputs ids = DataCollatorWithPadding{.tokenizer = tokenizer()}(
      {Row{{"input_ids", Value::List{3, 4}}}, Row{{"input_ids", Numbers{3}}}});
  EXPECT_EQ(ids["input_ids"].numel(), 4);
}

TEST(LanguageModeling, RefusesWhatItCannotDo) {
  expect_has(
      refusal(DataCollatorForLanguageModeling{.tokenizer = tokenizer(R"({"pad_token": "[PAD]"})")},
              ragged()),
      "no mask token");
  expect_has(
      refusal(DataCollatorForLanguageModeling{.tokenizer = tokenizer(), .mlm_probability = 1.5},
              ragged()),
      "mlm_probability is 1.5");
  expect_has(refusal(DataCollatorForLanguageModeling{.tokenizer = tokenizer(),
                                                     .mask_replace_prob = 0.8,
                                                     .random_replace_prob = 0.3},
                     ragged()),
             "1.1");
}

TEST(LanguageModeling, DrawsAnewForEachBatchAndAgainForTheSeed) {
  const auto batches = [](std::uint64_t seed) {
    const DataCollatorForLanguageModeling collator{
        .tokenizer = tokenizer(), .mlm_probability = 0.5, .seed = seed};
    const DataCollatorForLanguageModeling copy = collator;  // as a loader's worker has one
    const std::vector<Row> rows(8, Row{{"input_ids", Numbers(20, 3)}});
    return std::pair(collator(rows)["labels"], copy(rows)["labels"]);
  };
  const auto [first, second] = batches(1);
  EXPECT_FALSE(at::equal(first, second));
  EXPECT_TRUE(at::equal(first, batches(1).first));
  EXPECT_TRUE(at::equal(second, batches(1).second));
  EXPECT_FALSE(at::equal(first, batches(2).first));
}

Dataset dataset(std::int64_t rows) {
  std::vector<std::vector<std::int64_t>> ids;
  Numbers labels;
  for (std::int64_t i = 0; i < rows; ++i) {
    ids.emplace_back(static_cast<std::size_t>(i % 3 + 1), i);
    labels.push_back(i);
  }
  return Dataset::from_columns({{"input_ids", ids}, {"label", labels}});
}

LoaderContext context_of(const Group& group, bool dispatch) {
  return {.rank = group->rank(),
          .world_size = group->size(),
          .config = {.dispatch_batches = dispatch},
          .communicator = group};
}

Numbers values_of(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<std::int64_t>(),
          tensor.const_data_ptr<std::int64_t>() + tensor.numel()};
}

TEST(LoaderOfRows, CollatesInWorkersAndKeepsTheOrder) {
  for (const int workers : {0, 3}) {
    auto loader = make_data_loader(dataset(10), {.batch_size = 4, .num_workers = workers},
                                   DataCollatorWithPadding{.tokenizer = tokenizer()});
    Numbers labels;
    for (auto& batch : loader) {
      EXPECT_EQ(batch.keys(), (std::vector<std::string>{"input_ids", "attention_mask", "labels"}));
      for (const auto label : values_of(batch["labels"])) labels.push_back(label);
    }
    EXPECT_EQ(labels, (Numbers{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  }
  auto plain = make_data_loader(dataset(4).select_columns({"label"}), {.batch_size = 2});
  for (auto& batch : plain) EXPECT_EQ(batch["labels"].size(0), 2);
}

TEST(LoaderOfRows, ReadsAStream) {
  const testing::TemporaryFolder folder;
  const auto file = folder.write("data.csv", "n\n1\n2\n3\n");
  auto loader =
      make_data_loader(stream_dataset("csv", {.data_files = file}).only(), {.batch_size = 2});
  Numbers seen;
  for (auto& batch : loader) {
    for (const auto value : values_of(batch["n"])) seen.push_back(value);
  }
  EXPECT_EQ(seen, (Numbers{1, 2, 3}));
}

TEST(LoaderOfRows, IsSharedOutAndDispatchedByName) {
  // Dispatched batches are joined first, so all must be equally long.
  const DataCollatorWithPadding collator{
      .tokenizer = tokenizer(), .padding = "max_length", .max_length = 4};
  for (const bool dispatch : {false, true}) {
    run_ranks_shared(2, [&](const Group& group) {
      auto loader = prepare_data_loader(make_data_loader(dataset(8), {.batch_size = 2}, collator),
                                        context_of(group, dispatch));
      Numbers labels;
      for (auto& batch : loader) {
        EXPECT_EQ(batch.keys(),
                  (std::vector<std::string>{"input_ids", "attention_mask", "labels"}));
        for (const auto label : values_of(batch["labels"])) labels.push_back(label);
      }
      EXPECT_EQ(labels, group->rank() == 0 ? (Numbers{0, 1, 4, 5}) : (Numbers{2, 3, 6, 7}));
    });
  }
}

TEST(Flattening, CannotBeDispatchedOrSplit) {
  const DataCollator collator = DataCollatorWithFlattening{.return_flash_attn_kwargs = true};
  run_ranks_shared(2, [&](const Group& group) {
    auto own = prepare_data_loader(
        make_data_loader(dataset(8).select_columns({"input_ids"}), {.batch_size = 2}, collator),
        context_of(group, false));
    std::size_t batches = 0;
    for (auto& batch : own) {
      EXPECT_TRUE(batch.is_flattened());
      ++batches;
    }
    EXPECT_EQ(batches, 2U);
    auto dispatched = prepare_data_loader(
        make_data_loader(dataset(8).select_columns({"input_ids"}), {.batch_size = 2}, collator),
        context_of(group, true));
    try {
      for (auto& batch : dispatched) (void)batch;
      ADD_FAILURE() << "a flattened batch was dispatched on rank " << group->rank();
    } catch (const Error& error) {
      expect_has(describe(error),
                 "a batch of DataCollatorWithFlattening has all its samples in one row");
      EXPECT_TRUE(group->rank() != 0 || error.kind() == std::string("UsageError")) << error.kind();
    }
  });
  Inputs batch = collator({Row{{"input_ids", Numbers{1, 2}}}});
  expect_has(message_of<UsageError>([&] { (void)detail::slice_batch(batch, 0, 1); }),
             "dispatch_batches = false");
}

// Three rows for two ranks: one is repeated, and the one row of a batch has no place for a cut.
TEST(Flattening, RowsThatWereRepeatedAreRefusedWhereTheyWouldBeCounted) {
  run_ranks_shared(2, [&](const Group& group) {
    for (const bool even : {true, false}) {
      Accelerator accelerator({.dataloader_config = {.even_batches = even}, .communicator = group});
      auto loader =
          accelerator.prepare(make_data_loader(dataset(3).select_columns({"input_ids"}),
                                               {.batch_size = 1}, DataCollatorWithFlattening{}));
      std::int64_t rows = 0;
      const auto count = [&] {
        for (auto& batch : loader) {
          rows += accelerator.gather_for_metrics(at::ones({1})).numel();
          (void)batch;
        }
      };
      if (even) {
        expect_has(message_of<UsageError>(count), "even_batches = false");
      } else {
        count();
        EXPECT_EQ(rows, group->rank() == 0 ? 3 : 2);
      }
    }
  });
}

TEST(InputsTest, NamesWhatIsNotThere) {
  Inputs inputs{{"input_ids", at::Tensor()}};
  expect_has(message_of<UsageError>([&] { (void)inputs["input_id"]; }),
             "there are: input_ids. Did you mean 'input_ids'?");
  EXPECT_FALSE(inputs.get("labels").defined());
  EXPECT_TRUE(inputs.erase("input_ids"));
  EXPECT_FALSE(inputs.erase("input_ids"));
  EXPECT_EQ(inputs.size(), 0U);
}

}  // namespace
}  // namespace accelerate
