#include "accelerate/transformers/models/architectures/text_model.h"

#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/support/messages.h"
#include "tests/transformers/models/small_models.h"

namespace accelerate {
namespace {

using testing::expect_has;
using testing::message_of;
using testing::small_bert_config;
using testing::small_config;

at::Tensor ids(const std::vector<std::vector<std::int64_t>>& rows) {
  std::vector<at::Tensor> made;
  for (const auto& row : rows) made.push_back(at::tensor(row, at::kLong));
  return at::stack(made);
}

const at::Tensor kIds = ids({{1, 2, 3, 4}, {5, 6, 0, 0}});
const at::Tensor kMask = ids({{1, 1, 1, 1}, {1, 1, 0, 0}});

std::shared_ptr<PreTrainedModel> classifier() {
  at::manual_seed(1);
  return AutoModelForSequenceClassification::from_config(small_bert_config());
}

TEST(TextModel, DropsPaddingAndComputesTheSame) {
  for (const auto& make : {&classifier}) {
    const auto model = make();
    const Inputs inputs{
        {"input_ids", kIds}, {"attention_mask", kMask}, {"labels", at::tensor({1, 0})}};
    const auto dropped = model->forward(inputs);
    model->set_drops_padding(false);
    const auto padded = model->forward(inputs);
    EXPECT_TRUE(dropped.logits.allclose(padded.logits, 1e-5, 1e-6));
    EXPECT_NEAR(dropped.loss.item<double>(), padded.loss.item<double>(), 1e-6);
  }
}

TEST(TextModel, HasZerosWherePaddingWas) {
  const auto model = AutoModel::from_config(small_bert_config());
  const auto output = model->forward(Inputs{{"input_ids", kIds}, {"attention_mask", kMask}});
  EXPECT_EQ(output.last_hidden_state.sizes(), (std::vector<std::int64_t>{2, 4, 16}));
  EXPECT_EQ(output.last_hidden_state[1][2].abs().sum().item<double>(), 0);
  EXPECT_GT(output.last_hidden_state[1][1].abs().sum().item<double>(), 0);
}

TEST(TextModel, PaddingHasNoSay) {
  const auto model = classifier();
  for (const bool drops : {true, false}) {
    model->set_drops_padding(drops);
    const auto one = model->forward(Inputs{{"input_ids", kIds}, {"attention_mask", kMask}});
    const auto other =
        model->forward(Inputs{{"input_ids", kIds + (1 - kMask) * 7}, {"attention_mask", kMask}});
    EXPECT_TRUE(one.logits.allclose(other.logits, 1e-5, 1e-6));
  }
}

TEST(TextModel, RefusesWhatItCannotCompute) {
  const auto model = classifier();
  const auto said = [&](const Inputs& inputs) {
    return message_of<UsageError>([&] { (void)model->forward(inputs); });
  };
  expect_has(said({{"input_ids", kIds + 26}}), "input_ids has 30; allowed are 0 to 29");
  expect_has(said({{"input_ids", kIds - 1}}), "-1");
  expect_has(said({{"input_ids", at::ones({1, 13}, at::kLong)}}), "13 tokens");
  expect_has(said({{"input_ids", kIds}, {"token_type_ids", kIds}}), "token_type_ids");
  expect_has(said({{"input_ids", kIds}, {"attention_mask", kMask.narrow(1, 0, 3)}}), "[2, 3]");
  expect_has(said({{"input_ids", kIds}, {"labels", at::tensor({1, 2})}}), "the label 2");
  expect_has(said({{"input_ids", kIds}, {"labels", at::tensor({-1, 0})}}), "the label -1");
  // Classes of a row as whole numbers.
  expect_has(said({{"input_ids", kIds}, {"labels", at::ones({2, 2}, at::kLong)}}),
             "4 labels were given for 2 rows");
  expect_has(said({{"input_ids", kIds}, {"sentence", kIds}}), "remove_columns");
  expect_has(said({{"attention_mask", kMask}}), "no input_ids");
  expect_has(said({{"input_ids", kIds[0]}}), "input_ids are [4]");
}

TEST(TextModel, KnowsItsLossesByTheirLabels) {
  auto config = small_bert_config();
  config.set_num_labels(3);
  const auto model = AutoModelForSequenceClassification::from_config(config);
  const Inputs several{{"input_ids", kIds}, {"labels", at::ones({2, 3})}};
  EXPECT_GT(model->forward(several).loss.item<double>(), 0);
  const auto said = message_of<UsageError>(
      [&] { (void)model->forward(Inputs{{"input_ids", kIds}, {"labels", at::ones({2})}}); });
  expect_has(said, "shape of the logits");
  config.set_num_labels(1);
  const auto number = AutoModelForSequenceClassification::from_config(config);
  expect_has(message_of<UsageError>([&] {
               (void)number->forward(Inputs{{"input_ids", kIds}, {"labels", at::ones({3})}});
             }),
             "labels of shape [3] were given for logits of shape [2, 1]");
}

TEST(TextModel, FreezesByName) {
  const auto model = classifier();
  model->freeze("bert.");
  std::vector<std::string> trained;
  for (const auto& item : model->named_parameters())
    if (item.value().requires_grad()) trained.push_back(item.key());
  EXPECT_EQ(trained, (std::vector<std::string>{"classifier.weight", "classifier.bias"}));
  expect_has(message_of<UsageError>([&] { model->freeze("bort"); }), "'bort'");
}

TEST(TextModel, ResizesEmbeddingsAndWhatIsTied) {
  const auto model = AutoModelForCausalLM::from_config(small_config("llama"));
  const auto before = model->input_embeddings()->weight.detach().clone();
  model->resize_token_embeddings(33, {.pad_to_multiple_of = 8});
  EXPECT_EQ(model->input_embeddings()->weight.size(0), 40);
  EXPECT_TRUE(model->input_embeddings()->weight.narrow(0, 0, 30).equal(before));
  EXPECT_EQ(model->config().get<std::int64_t>("vocab_size"), 40);
  const auto output = model->forward(Inputs{{"input_ids", kIds + 32}, {"labels", kIds + 32}});
  EXPECT_EQ(output.logits.size(-1), 40);
  output.loss.backward();
  EXPECT_TRUE(model->input_embeddings()->weight.grad().defined());
  EXPECT_THROW(model->resize_token_embeddings(0), UsageError);
  EXPECT_THROW(model->resize_token_embeddings(3, {.pad_to_multiple_of = 0}), UsageError);
}

TEST(TextModel, NamesTheLayersThatStayWhole) {
  EXPECT_EQ(classifier()->no_split_modules(),
            (std::vector<std::string>{"BertEmbeddings", "BertLayer"}));
  const auto decoder = AutoModelForCausalLM::from_config(small_config("llama"));
  EXPECT_EQ(view_of(*decoder).divisible->no_split_modules(),
            std::vector<std::string>{"LlamaDecoderLayer"});
}

TEST(TextModel, WordsAreRowsOfWholeNumbers) {
  for (const char* kind : testing::small_kinds()) {
    for (const Task task : {Task::base, Task::sequence_classification, Task::causal_lm}) {
      if (!testing::has_task(kind, task)) continue;
      const auto model = detail::model_from_config(task, small_config(kind));
      for (const at::Tensor& wrong :
           {at::ones({2, 0}, at::kLong), at::ones({0, 3}, at::kLong), at::ones({3}, at::kLong),
            at::ones({1, 2, 3}, at::kLong), at::ones({2, 3})}) {
        EXPECT_THROW((void)model->forward(Inputs{{"input_ids", wrong}}), UsageError)
            << kind << " " << wrong.sizes() << " " << wrong.dtype();
      }
    }
  }
  expect_has(message_of<UsageError>([] {
               (void)classifier()->forward(Inputs{{"input_ids", at::ones({2, 0}, at::kLong)}});
             }),
             "input_ids are [2, 0] of type Long; allowed are int64 or int32, {rows, tokens}");
}

TEST(TextModel, TypesOfTokensHaveTheShapeOfTheWords) {
  for (const char* kind : {"bert", "albert", "gpt2"}) {
    const auto model = AutoModel::from_config(small_config(kind));
    const Inputs inputs{{"input_ids", kIds}, {"token_type_ids", at::zeros({2, 3}, at::kLong)}};
    expect_has(message_of<UsageError>([&] { (void)model->forward(inputs); }),
               "token_type_ids are [2, 3], and input_ids are [2, 4]");
  }
}

TEST(TextModel, DebertaLeavesOutRowsWithALabelBelowZero) {
  const auto model = AutoModelForSequenceClassification::from_config(small_config("deberta-v2"));
  model->eval();
  const auto loss_of = [&](const at::Tensor& words, const at::Tensor& labels) {
    return model->forward(Inputs{{"input_ids", words}, {"labels", labels}}).loss;
  };
  const at::Tensor first = loss_of(kIds.narrow(0, 0, 1), at::tensor({1}, at::kLong));
  EXPECT_NEAR(loss_of(kIds, at::tensor({1, -1}, at::kLong)).item<double>(), first.item<double>(),
              1e-6);
  EXPECT_NEAR(loss_of(kIds, at::tensor({1.0, -100.0})).item<double>(), first.item<double>(), 1e-6);
  const at::Tensor none = loss_of(kIds, at::tensor({-100, -100}, at::kLong));
  EXPECT_EQ(none.item<double>(), 0);
  none.backward();
}

TEST(TextModel, LossOfMaskedWordsIsFp32WhereTransformersHasItSo) {
  for (const auto& [kind, type] : {std::pair("bert", at::kBFloat16), {"modernbert", at::kFloat}}) {
    const auto model = AutoModelForMaskedLM::from_config(small_config(kind));
    model->to(at::kBFloat16);
    EXPECT_EQ(model->forward(Inputs{{"input_ids", kIds}, {"labels", kIds}}).loss.scalar_type(),
              type)
        << kind;
  }
}

TEST(TextModel, TakesSequencesEndToEnd) {
  const auto model = AutoModelForCausalLM::from_config(small_config("llama"));
  const Inputs flat{{"input_ids", ids({{1, 2, 3, 4, 5, 6}})},
                    {"cu_seq_lens_q", at::tensor({0, 4, 6}, at::kInt)}};
  const auto together = model->forward(flat).logits;
  const auto first = model->forward(Inputs{{"input_ids", kIds.narrow(0, 0, 1)}}).logits;
  EXPECT_TRUE(together.narrow(1, 0, 4).allclose(first, 1e-5, 1e-6));
}

}  // namespace
}  // namespace accelerate
