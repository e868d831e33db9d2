// Models call the library that ACCELERATE_CPU_MATMUL names, however they are called. The library is
// chosen once a process, so this is tested in a process of its own.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <functional>

#include "accelerate/tensor/compat/matrix_products.h"
#include "accelerate/transformers/models/architectures/text_model.h"
#include "tests/support/ranks.h"
#include "tests/transformers/models/small_models.h"

namespace accelerate {
namespace {

std::shared_ptr<TextModel> small_classifier() {
  at::manual_seed(5);
  auto config = testing::small_bert_config();
  config.set("hidden_size", std::int64_t{128});
  config.set("intermediate_size", std::int64_t{256});
  config.set_num_labels(2);
  return std::dynamic_pointer_cast<TextModel>(
      detail::model_from_config(Task::sequence_classification, config));
}

const at::Tensor kManyIds = (at::arange(64 * 12).view({64, 12}) * 7) % 28 + 1;
const at::Tensor kWholeMask = at::ones({64, 12}, at::kLong);

using Pass = std::function<ModelOutput(TextModel&)>;

std::vector<at::Tensor> gradients_of(const Pass& pass, bool recomputes = false) {
  const auto model = small_classifier();
  if (recomputes) model->gradient_checkpointing_enable();
  pass(*model).logits.square().sum().backward();
  std::vector<at::Tensor> gradients;
  for (const auto& parameter : model->parameters()) gradients.push_back(parameter.grad());
  return gradients;
}

bool are_equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  return std::ranges::equal(a, b, [](const auto& x, const auto& y) { return x.equal(y); });
}

RANK_MAIN(models_by_onednn) {
  const Pass by_name = [](TextModel& model) {
    return model.forward(Inputs{{"input_ids", kManyIds}, {"attention_mask", kWholeMask}});
  };
  std::vector<at::Tensor> within;
  {
    const compat::MatrixProducts products;
    within = gradients_of(by_name);
  }
  at::globalContext().setUserEnabledMkldnn(false);
  EXPECT_FALSE(are_equal(gradients_of(by_name), within)) << "were the products oneDNN's?";
  at::globalContext().setUserEnabledMkldnn(true);

  EXPECT_TRUE(are_equal(gradients_of(by_name), within));
  EXPECT_TRUE(are_equal(
      gradients_of([](TextModel& model) { return model.forward(kManyIds, kWholeMask); }), within));
  EXPECT_TRUE(are_equal(gradients_of([](TextModel& model) {
                          return model.forward(
                              TextInputs{.input_ids = kManyIds, .attention_mask = kWholeMask});
                        }),
                        within));
  EXPECT_TRUE(are_equal(gradients_of(by_name, /*recomputes=*/true), within));
  EXPECT_FALSE(compat::MatrixProducts::are_wanted());
  return ::testing::Test::HasFailure() ? 1 : 0;
}

TEST(ModelProducts, AreOneDnnsHoweverAModelIsCalled) {
  if (!this_processor().avx512) GTEST_SKIP() << "needs cores with AVX-512";
  const auto results =
      testing::run_processes(1, "models_by_onednn", {.env = {{"ACCELERATE_CPU_MATMUL", "onednn"}}});
  EXPECT_EQ(results[0].exit_code, 0) << results[0].out << results[0].err;
}

}  // namespace
}  // namespace accelerate
