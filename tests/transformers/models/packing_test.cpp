// Several sequences in one row, told apart by position_ids. golden_test.cpp compares with
// Transformers; here the sequences of a row are compared with each sequence alone.
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "accelerate/transformers/datasets/collators/data_collators.h"
#include "accelerate/transformers/models/architectures/text_model.h"
#include "tests/support/errors.h"
#include "tests/support/messages.h"
#include "tests/transformers/models/small_models.h"

namespace accelerate {
namespace {

using testing::expect_has;
using testing::message_of;
using testing::small_config;

at::Tensor longs(const std::vector<std::int64_t>& values) {
  return at::tensor(values, at::kLong);
}

const std::vector<at::Tensor> kSequences{longs({3, 4, 5, 6}), longs({7, 8, 9}), longs({10}),
                                         longs({11, 12})};

std::shared_ptr<TextModel> tiny_model(const std::string& kind) {
  at::manual_seed(5);
  auto config = small_config(kind);
  config.set("initializer_range", 0.3);
  config.set("sliding_window", std::int64_t{3});  // Where the architecture has windows.
  const Task task = testing::has_task(kind, Task::masked_lm) ? Task::masked_lm : Task::causal_lm;
  auto model = std::dynamic_pointer_cast<TextModel>(detail::model_from_config(task, config));
  model->eval();
  return model;
}

at::Tensor counted(const at::Tensor& ids, std::int64_t first) {
  return at::arange(first, first + ids.size(0), at::kLong);
}

// The logits of each sequence alone, {T, V} each.
std::vector<at::Tensor> alone(TextModel& model, std::int64_t first) {
  std::vector<at::Tensor> logits;
  for (const auto& ids : kSequences)
    logits.push_back(model
                         .forward(TextInputs{.input_ids = ids.unsqueeze(0),
                                             .position_ids = counted(ids, first).unsqueeze(0)})
                         .logits[0]);
  return logits;
}

// The sequences `which`, one behind the other in one row.
TextInputs row_of(const std::vector<std::size_t>& which, std::int64_t first) {
  std::vector<at::Tensor> ids, positions;
  for (const std::size_t i : which) {
    ids.push_back(kSequences[i]);
    positions.push_back(counted(kSequences[i], first));
  }
  return {.input_ids = at::cat(ids).unsqueeze(0), .position_ids = at::cat(positions).unsqueeze(0)};
}

at::Tensor joined(const std::vector<at::Tensor>& parts, const std::vector<std::size_t>& which) {
  std::vector<at::Tensor> chosen;
  for (const std::size_t i : which) chosen.push_back(parts[i]);
  return at::cat(chosen);
}

class EveryKind : public ::testing::TestWithParam<const char*> {
 protected:
  const at::NoGradGuard no_grad_;
  const std::string kind_ = GetParam();
  const std::int64_t first_ = testing::small_model(kind_).first_position;
  const std::shared_ptr<TextModel> model_ = tiny_model(kind_);
  const std::vector<at::Tensor> want_ = alone(*model_, first_);

  void expect_same(const at::Tensor& got, const at::Tensor& want) {
    EXPECT_TRUE(got.allclose(want, 1e-4, 1e-5)) << (got - want).abs().max().item<double>();
  }
  // Calls `check` with both attentions, packed and padded.
  template <typename Check>
  void in_all_ways(const Check& check) {
    for (const char* attention : {"sdpa", "eager"}) {
      for (const bool packs : {true, false}) {
        SCOPED_TRACE(std::string(attention) + (packs ? ", packed" : ", padded"));
        model_->set_attention(attention);
        model_->set_drops_padding(packs);
        check();
      }
    }
  }
};

TEST_P(EveryKind, GivesEachSequenceWhatItGivesAlone) {
  in_all_ways([&] {
    const TextInputs row = row_of({0, 1, 2, 3}, first_);
    expect_same(model_->forward(row).logits[0], joined(want_, {0, 1, 2, 3}));
    TextInputs rows = row;  // Another order in the second row.
    rows.input_ids = at::cat({row.input_ids, row_of({3, 0, 2, 1}, first_).input_ids});
    rows.position_ids = at::cat({row.position_ids, row_of({3, 0, 2, 1}, first_).position_ids});
    const at::Tensor logits = model_->forward(rows).logits;
    expect_same(logits[0], joined(want_, {0, 1, 2, 3}));
    expect_same(logits[1], joined(want_, {3, 0, 2, 1}));
  });
}

TEST_P(EveryKind, TellsSequencesApartBesidePadding) {
  in_all_ways([&] {
    for (const bool on_the_left : {false, true}) {
      const TextInputs whole = row_of({0, 1, 3}, first_), part = row_of({1, 2}, first_);
      const std::int64_t missing = whole.input_ids.size(1) - part.input_ids.size(1);
      const auto padded = [&](const at::Tensor& values, std::int64_t filler) {
        return at::constant_pad_nd(
            values, on_the_left ? std::vector{missing, 0L} : std::vector{0L, missing}, filler);
      };
      const TextInputs inputs{
          .input_ids = at::cat({whole.input_ids, padded(part.input_ids, 0)}),
          .attention_mask =
              at::cat({at::ones_like(whole.input_ids), padded(at::ones_like(part.input_ids), 0)}),
          .position_ids = at::cat({whole.position_ids, padded(part.position_ids, 1)})};
      const at::Tensor logits = model_->forward(inputs).logits;
      expect_same(logits[0], joined(want_, {0, 1, 3}));
      expect_same(logits[1].narrow(0, on_the_left ? missing : 0, 4), joined(want_, {1, 2}));
    }
  });
}

TEST_P(EveryKind, HasOneSequenceWherePositionsOnlyBeginLater) {
  const at::Tensor ids = longs({3, 4, 5, 6, 7}).unsqueeze(0),
                   mask = longs({0, 1, 1, 0, 1}).unsqueeze(0);
  // Positions that count padding, and positions that do not.
  for (const auto& positions : {longs({3, 4, 5, 6, 7}), longs({1, 1, 2, 1, 3})}) {
    TextInputs inputs{
        .input_ids = ids, .attention_mask = mask, .position_ids = positions.unsqueeze(0)};
    const at::Tensor before = model_->forward(inputs).logits[0][4];
    inputs.input_ids = longs({3, 9, 5, 6, 7}).unsqueeze(0);
    EXPECT_FALSE(model_->forward(inputs).logits[0][4].allclose(before));
    inputs.input_ids = longs({9, 4, 5, 9, 7}).unsqueeze(0);
    expect_same(model_->forward(inputs).logits[0][4], before);
  }
}

TEST_P(EveryKind, TakesWhatTheCollatorGivesWithAnyOption) {
  std::vector<Row> rows;
  for (const auto& ids : kSequences) {
    Row row;
    row.set("input_ids",
            std::vector<std::int64_t>(ids.const_data_ptr<std::int64_t>(),
                                      ids.const_data_ptr<std::int64_t>() + ids.size(0)));
    rows.push_back(std::move(row));
  }
  for (const bool positions : {true, false}) {
    for (const bool kwargs : {true, false}) {
      if (!positions && !kwargs) continue;
      const DataCollatorWithFlattening collator{.return_position_ids = positions,
                                                .return_flash_attn_kwargs = kwargs,
                                                .return_seq_idx = true,
                                                .position_ids_start = first_};
      expect_same(model_->forward(collator(rows)).logits[0], joined(want_, {0, 1, 2, 3}));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Packing, EveryKind, ::testing::ValuesIn(testing::small_kinds()),
                         [](const auto& info) { return testing::name_of(info.param); });

TEST(Packing, ACacheRemembersWhereSequencesBegin) {
  const at::NoGradGuard no_grad;
  for (const std::string kind : testing::small_kinds()) {
    if (!testing::has_task(kind, Task::causal_lm)) continue;
    SCOPED_TRACE(kind);
    const auto model = tiny_model(kind);
    const TextInputs whole = row_of({0, 1, 2, 3}, 0);
    const at::Tensor want = model->forward(whole).logits[0];
    for (const std::int64_t prompt : {2, 4, 6, 8}) {
      TextInputs call = whole;
      call.use_cache = true;
      std::vector<at::Tensor> logits;
      for (std::int64_t from = 0; from < want.size(0); from = from == 0 ? prompt : from + 1) {
        const std::int64_t added = from == 0 ? prompt : 1;
        call.input_ids = whole.input_ids.narrow(1, from, added);
        call.position_ids = whole.position_ids.narrow(1, from, added);
        const auto output = model->forward(call);
        call.past_key_values = output.past_key_values;
        logits.push_back(output.logits[0]);
      }
      EXPECT_TRUE(at::cat(logits).allclose(want, 1e-4, 1e-5)) << prompt;
    }
  }
}

TEST(Packing, APromptWithoutPositionsGoesOnWithOrWithoutThem) {
  const at::NoGradGuard no_grad;
  const auto model = tiny_model("llama");
  const at::Tensor ids = longs({3, 4, 5, 6}).unsqueeze(0);
  const at::Tensor want = model->forward(ids).logits[0][3];
  for (const bool positions : {true, false}) {
    const auto first =
        model->forward(TextInputs{.input_ids = ids.narrow(1, 0, 3), .use_cache = true});
    const auto next = model->forward(
        TextInputs{.input_ids = ids.narrow(1, 3, 1),
                   .position_ids = positions ? longs({3}).unsqueeze(0) : at::Tensor(),
                   .past_key_values = first.past_key_values});
    EXPECT_TRUE(next.logits[0][0].allclose(want, 1e-4, 1e-5)) << positions;
  }
}

// A row's first token is in its first sequence, and attention weights are kept whole.
TEST(Packing, HeadsAndWeightsOfPackedRows) {
  const at::NoGradGuard no_grad;
  at::manual_seed(5);
  const auto model = std::dynamic_pointer_cast<TextModel>(
      AutoModelForSequenceClassification::from_config(small_config("bert")));
  model->eval();
  const TextInputs row = row_of({1, 0, 2}, 0);
  const at::Tensor want = model->forward(kSequences[1].unsqueeze(0)).logits;
  for (const bool packs : {true, false}) {
    model->set_drops_padding(packs);
    EXPECT_TRUE(model->forward(row).logits.allclose(want, 1e-4, 1e-5)) << packs;
  }
  model->set_attention("eager");
  TextInputs asking = row;
  asking.output_attentions = true;
  const at::Tensor weights = model->forward(asking).attentions.at(0);
  EXPECT_EQ(weights.sizes(), (std::vector<std::int64_t>{1, 2, 8, 8}));
  EXPECT_EQ(weights.narrow(2, 0, 3).narrow(3, 3, 5).abs().max().item<double>(), 0);
}

TEST(Packing, RefusesPositionsOfAnotherShape) {
  const auto said = message_of<UsageError>([] {
    (void)tiny_model("llama")->forward(TextInputs{.input_ids = longs({3, 4, 5}).unsqueeze(0),
                                                  .position_ids = at::zeros({2, 3}, at::kLong)});
  });
  expect_has(said, "position_ids have the shape [2, 3]; allowed are [1, 3]");
}

}  // namespace
}  // namespace accelerate
