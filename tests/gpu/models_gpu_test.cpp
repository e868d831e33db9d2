// Models of Hugging Face, generation and the Trainer on a GPU, beside the same on the CPU.
#include <cmath>
#include <memory>
#include <string>

#include "accelerate/optim/precision/autocast.h"
#include "accelerate/tensor/compat/varlen_attention.h"
#include "tests/gpu/gpu.h"
#include "tests/support/support.h"
#include "tests/transformers/models/small_models.h"
#include "tests/transformers/trainer/small_training.h"

namespace accelerate {
namespace {

using testing::test_device;

// --- Attention of sequences that stand one behind the other ---

struct Attended {
  at::Tensor result, query_gradient, key_gradient, value_gradient;
};

template <typename Attention>
Attended attended_by(const std::vector<at::Tensor>& given, const Attention& attention) {
  std::vector<at::Tensor> leaves;
  for (const auto& tensor : given) leaves.push_back(tensor.detach().clone().requires_grad_());
  const at::Tensor result = attention(leaves[0], leaves[1], leaves[2]);
  (result.to(at::kFloat) * torch::arange(result.size(-1), result.device()).sin()).sum().backward();
  return {result.detach(), leaves[0].grad(), leaves[1].grad(), leaves[2].grad()};
}

at::Tensor one_by_one(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                      const std::vector<std::int64_t>& lengths, bool is_causal) {
  std::vector<at::Tensor> rows;
  const auto queries = query.split_with_sizes(lengths), keys = key.split_with_sizes(lengths),
             values = value.split_with_sizes(lengths);
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const auto as_row = [](const at::Tensor& tokens) {
      return tokens.unsqueeze(0).transpose(1, 2);
    };
    rows.push_back(at::scaled_dot_product_attention(as_row(queries[i]), as_row(keys[i]),
                                                    as_row(values[i]), {}, 0.0, is_causal, {},
                                                    /*enable_gqa=*/true)
                       .transpose(1, 2)
                       .squeeze(0));
  }
  return at::cat(rows);
}

struct VarlenCase {
  at::ScalarType dtype;
  std::int64_t heads, key_heads, dim;
  bool is_causal;
};

class VarlenAttention : public ::testing::TestWithParam<VarlenCase> {};

TEST_P(VarlenAttention, GivesEachSequenceWhatItGivesAlone) {
  NEED_GPU();
  const auto& c = GetParam();
  const std::vector<std::int64_t> lengths{5, 1, 130, 64, 7};
  const auto options = at::TensorOptions(c.dtype).device(test_device());
  at::manual_seed(2);
  const std::vector<at::Tensor> given{torch::randn({207, c.heads, c.dim}, options),
                                      torch::randn({207, c.key_heads, c.dim}, options),
                                      torch::randn({207, c.key_heads, c.dim}, options)};
  const compat::SequenceBounds bounds{
      at::tensor({0, 5, 6, 136, 200, 207}, at::kInt).to(test_device()), 130};
  const Attended found = attended_by(given, [&](auto& query, auto& key, auto& value) {
    const auto all =
        compat::varlen_attention(query, key, value, bounds, bounds, {.is_causal = c.is_causal});
    EXPECT_TRUE(all) << "LibTorch has no kernel for this";
    return all.value_or(query * 1);
  });
  const Attended wanted = attended_by(given, [&](auto& query, auto& key, auto& value) {
    return one_by_one(query, key, value, lengths, c.is_causal);
  });
  const double tolerance = c.dtype == at::kFloat ? 1e-4 : 3e-2;
  for (const auto field : {&Attended::result, &Attended::query_gradient, &Attended::key_gradient,
                           &Attended::value_gradient}) {
    const at::Tensor a = (found.*field).to(at::kFloat), b = (wanted.*field).to(at::kFloat);
    EXPECT_LE((a - b).norm().item<double>(), tolerance * b.norm().item<double>());
  }
}

TEST_P(VarlenAttention, LetsTheFirstTokensAloneAsk) {
  NEED_GPU();
  const auto& c = GetParam();
  const auto options = at::TensorOptions(c.dtype).device(test_device());
  at::manual_seed(3);
  const at::Tensor query = torch::randn({3, c.heads, c.dim}, options),
                   key = torch::randn({40, c.key_heads, c.dim}, options),
                   value = torch::randn({40, c.key_heads, c.dim}, options);
  const auto starts = [](const std::vector<int>& values) {
    return at::tensor(values, at::kInt).to(test_device());
  };
  const auto found = compat::varlen_attention(query, key, value, {starts({0, 1, 2, 3}), 1},
                                              {starts({0, 8, 17, 40}), 23}, {});
  ASSERT_TRUE(found);
  const std::vector<std::int64_t> lengths{8, 9, 23};
  const auto keys = key.split_with_sizes(lengths), values = value.split_with_sizes(lengths);
  for (int row = 0; row < 3; ++row) {
    const auto as_row = [](const at::Tensor& tokens) {
      return tokens.unsqueeze(0).transpose(1, 2);
    };
    const at::Tensor wanted =
        at::scaled_dot_product_attention(as_row(query.narrow(0, row, 1)), as_row(keys[row]),
                                         as_row(values[row]), {}, 0.0, false, {}, true)
            .transpose(1, 2)
            .squeeze(0);
    const double tolerance = c.dtype == at::kFloat ? 1e-4 : 3e-2;
    EXPECT_LE((found->narrow(0, row, 1) - wanted).norm().item<double>(),
              tolerance * wanted.norm().item<double>());
  }
}

INSTANTIATE_TEST_SUITE_P(OnGpu, VarlenAttention,
                         ::testing::Values(VarlenCase{at::kFloat, 2, 2, 32, false},
                                           VarlenCase{at::kFloat, 4, 2, 64, true},
                                           VarlenCase{at::kBFloat16, 2, 2, 32, false},
                                           VarlenCase{at::kBFloat16, 4, 2, 64, true},
                                           VarlenCase{at::kHalf, 2, 2, 64, true}),
                         [](const auto& info) {
                           return std::string(c10::toString(info.param.dtype)) +
                                  (info.param.is_causal ? "Causal" : "");
                         });

TEST(VarlenAttentionOfTheCpu, IsNotThere) {
  const at::Tensor x = torch::ones({3, 2, 8});
  EXPECT_FALSE(compat::varlen_attention(x, x, x, {}, {}, {}));
}

// --- Models ---

// With `is_wide`, dimensions that all kernels take; without, smaller ones.
std::shared_ptr<PreTrainedModel> model_of(const std::string& kind, Task task, bool is_wide) {
  at::manual_seed(5);
  auto config = testing::small_config(kind);
  config.set("initializer_range", 0.2);
  if (is_wide) {
    for (const char* name : {"hidden_size", "dim", "n_embd"})
      if (config.contains(name)) config.set(name, std::int64_t{64});
  }
  if (task == Task::sequence_classification) config.set_num_labels(2);
  auto model = detail::model_from_config(task, config);
  model->train();
  return model;
}

Inputs on(c10::Device device, const Inputs& inputs) {
  Inputs moved;
  for (const auto& [name, tensor] : inputs) moved.set(name, tensor.to(device));
  return moved;
}

// Rows of unequal lengths; with `has_sequences`, several in the last row.
Inputs batch_for(Task task, bool has_sequences) {
  const at::Tensor ids = (at::arange(24).view({4, 6}) * 7) % 28 + 1;
  at::Tensor mask = at::ones({4, 6}, at::kLong);
  mask.select(0, 1).narrow(0, 4, 2).zero_();
  mask.select(0, 2).narrow(0, 1, 5).zero_();
  Inputs batch{{"input_ids", ids}, {"attention_mask", mask}};
  if (has_sequences) {
    at::Tensor positions = at::arange(6).expand({4, 6}).clone() + 1;
    positions.select(0, 3).narrow(0, 2, 4).copy_(at::arange(4) + 1);
    batch.set("position_ids", positions);
  }
  batch.set("labels", task == Task::sequence_classification ? at::arange(4) % 2
                                                            : ids.masked_fill(mask.eq(0), -100));
  return batch;
}

struct Passed {
  double loss;
  std::vector<at::Tensor> gradients;
};

Passed pass(PreTrainedModel& model, const Inputs& batch, c10::Device device, bool in_bf16) {
  model.to(device);
  model.zero_grad();
  at::Tensor loss;
  {
    const AutocastScope scope(device.type(), in_bf16 ? std::optional(at::kBFloat16) : std::nullopt,
                              {});
    loss = model.forward(on(device, batch)).loss;
  }
  loss.backward();
  Passed passed{loss.item<double>(), {}};
  for (const auto& parameter : model.parameters())
    if (parameter.grad().defined()) passed.gradients.push_back(parameter.grad().cpu().clone());
  return passed;
}

double length_of(const std::vector<at::Tensor>& tensors) {
  double sum = 0;
  for (const auto& tensor : tensors) sum += tensor.pow(2).sum().item<double>();
  return std::sqrt(sum);
}

class GpuModels : public ::testing::TestWithParam<const char*> {};

TEST_P(GpuModels, GiveTheLossAndGradientsOfTheCpu) {
  NEED_DEVICE();
  const std::string kind = GetParam();
  for (const Task task : {Task::sequence_classification, Task::masked_lm, Task::causal_lm}) {
    if (!testing::has_task(kind, task)) continue;
    for (const bool is_wide : {false, true}) {
      for (const bool has_sequences : {false, true}) {
        for (const bool in_bf16 : {false, true}) {
          SCOPED_TRACE(std::to_string(static_cast<int>(task)) + (is_wide ? " wide" : "") +
                       (has_sequences ? " sequences" : "") + (in_bf16 ? " bf16" : ""));
          const auto model = model_of(kind, task, is_wide);
          const Inputs batch = batch_for(task, has_sequences);
          const Passed wanted = pass(*model, batch, at::kCPU, false);
          const Passed found = pass(*model, batch, test_device(), in_bf16);
          // Qwen 3 norms heads of few numbers.
          const double tolerance = !in_bf16 ? 1e-4 : kind == "qwen3" ? 0.1 : 0.06;
          EXPECT_NEAR(found.loss, wanted.loss, tolerance * std::abs(wanted.loss));
          ASSERT_EQ(found.gradients.size(), wanted.gradients.size());
          std::vector<at::Tensor> differences;
          for (std::size_t i = 0; i < found.gradients.size(); ++i)
            differences.push_back(found.gradients[i] - wanted.gradients[i]);
          EXPECT_LE(length_of(differences), tolerance * length_of(wanted.gradients));
        }
      }
    }
  }
}

TEST_P(GpuModels, ContinueATextAsOnTheCpu) {
  NEED_DEVICE();
  const std::string kind = GetParam();
  if (!testing::has_task(kind, Task::causal_lm)) return;
  for (const bool is_wide : {false, true}) {
    const auto model = model_of(kind, Task::causal_lm, is_wide);
    const Inputs prompt{{"input_ids", at::tensor({3, 9, 4, 0, 5, 9}, at::kLong).view({2, 3})},
                        {"attention_mask", at::tensor({1, 1, 1, 0, 1, 1}, at::kLong).view({2, 3})}};
    for (const int beams : {1, 2}) {
      const GenerationConfig asked{.max_new_tokens = 6, .num_beams = beams};
      model->to(at::kCPU);
      const at::Tensor wanted = model->generate(prompt, asked);
      model->to(test_device());
      const at::Tensor found = model->generate(on(test_device(), prompt), asked);
      EXPECT_EQ(found.device(), test_device());
      EXPECT_TRUE(found.cpu().equal(wanted)) << beams << "\n" << found << "\n" << wanted;
    }
  }
}

TEST_P(GpuModels, RefuseATextThatIsTooLongBeforeTheDeviceReadsBeyondATable) {
  NEED_DEVICE();
  const std::string kind = GetParam();
  const std::string_view config = testing::small_model(kind).config;
  for (const char* of_rotations : {"num_key_value_heads", "local_attention"})
    if (config.find(of_rotations) != config.npos) return;  // They compute positions.
  const auto model = model_of(kind, Task::base, false);
  model->to(test_device());
  const at::Tensor ids = at::full({1, 13}, 3, at::TensorOptions(at::kLong).device(test_device()));
  EXPECT_THROW(model->forward(Inputs{{"input_ids", ids}}), UsageError);
}

INSTANTIATE_TEST_SUITE_P(EveryKind, GpuModels, ::testing::ValuesIn(testing::small_kinds()),
                         [](const auto& info) { return testing::name_of(info.param); });

// --- The Trainer ---

std::vector<at::Tensor> trained(bool on_cpu, bool in_bf16, double* eval_loss) {
  const testing::TemporaryFolder folder;
  TrainingArguments args = testing::quiet_arguments(folder.path());
  args.use_cpu = on_cpu;
  args.bf16 = in_bf16;
  args.num_train_epochs = 2;
  Trainer trainer(testing::small_training(args));
  trainer.train();
  *eval_loss = *trainer.evaluate().find("eval_loss");
  auto weights = testing::weights_of(trainer.model());
  for (auto& weight : weights) weight = weight.cpu();
  return weights;
}

TEST(GpuTrainer, TrainsAndEvaluatesAsOnTheCpu) {
  NEED_DEVICE();
  double wanted_loss = 0, found_loss = 0, bf16_loss = 0;
  const auto wanted = trained(/*on_cpu=*/true, false, &wanted_loss);
  const auto found = trained(testing::is_rehearsal(), false, &found_loss);
  EXPECT_LE(testing::distance(found, wanted), 2e-3);
  EXPECT_NEAR(found_loss, wanted_loss, 1e-3);
  trained(testing::is_rehearsal(), true, &bf16_loss);
  EXPECT_NEAR(bf16_loss, wanted_loss, 0.1);
}

}  // namespace
}  // namespace accelerate
