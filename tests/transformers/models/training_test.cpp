// Every architecture in every way of training: replicated and sharded, in bf16, in micro-batches,
// recomputed, gone on from a checkpoint.
#include <gtest/gtest.h>
#include <torch/optim/sgd.h>

#include <memory>

#include "accelerate/accelerate.h"
#include "accelerate/tensor/weights.h"
#include "tests/support/ranks.h"
#include "tests/support/support.h"
#include "tests/transformers/models/small_models.h"

namespace accelerate {
namespace {

using std::filesystem::path;
using testing::run_ranks_shared;
using testing::TemporaryFolder;

// What differs from one way of training to another.
struct Way {
  const char* name;
  bool sharded = false, recomputes = false;
  MixedPrecision precision = MixedPrecision::no;
  int micro_batches = 1, resumes_after = 0;
  double tolerance = 1e-5;  // Beside the replicated way.
};

constexpr int kSteps = 3, kRanks = 2;
constexpr Way kWays[] = {
    {"recomputed", false, true, MixedPrecision::no, 1, 0, 0.0},
    {"bf16", false, false, MixedPrecision::bf16, 1, 0, 2e-2},
    {"micro_batches", false, false, MixedPrecision::no, 2, 0},
    {"resumed", false, false, MixedPrecision::no, 1, 2, 0.0},
    {"sharded", true},
    {"sharded_recomputed", true, true},
    {"sharded_bf16", true, false, MixedPrecision::bf16, 1, 0, 2e-2},
    {"sharded_micro_batches", true, false, MixedPrecision::no, 2, 0},
    {"sharded_resumed", true, false, MixedPrecision::no, 1, 2},
};

// Without random numbers: ranks are threads, which share LibTorch's generator.
Inputs batch_of(int rank, int step) {
  const at::Tensor ids = (at::arange(24).view({4, 6}) * (7 + rank + 2 * step)) % 28 + 1;
  at::Tensor mask = at::ones({4, 6}, at::kLong);
  mask.select(0, 1).narrow(0, 4, 2).zero_();
  at::Tensor positions = at::arange(6).expand({4, 6}).clone();
  positions.select(0, 2).narrow(0, 2, 4).copy_(at::arange(4));  // Two sequences in one row.
  return Inputs{{"input_ids", ids},
                {"attention_mask", mask},
                {"position_ids", positions},
                {"labels", at::arange(4) % 2}};
}

// As batch_of(), with a text to write for each text to read.
Inputs seq2seq_batch_of(int rank, int step) {
  const Inputs batch = batch_of(rank, step);
  at::Tensor labels = (at::arange(20).view({4, 5}) * (5 + rank + step)) % 28 + 1;
  labels.select(1, 4).fill_(-100);  // As many in each row, so that parts of a batch weigh alike.
  return Inputs{{"input_ids", batch["input_ids"]},
                {"attention_mask", batch["attention_mask"]},
                {"labels", labels}};
}

Task task_of(const std::string& kind) {
  return testing::has_task(kind, Task::seq2seq_lm) ? Task::seq2seq_lm
                                                   : Task::sequence_classification;
}

Inputs rows_of(const Inputs& batch, int part, int parts) {
  Inputs rows;
  for (const auto& [name, tensor] : batch) rows.set(name, at::chunk(tensor, parts).at(part));
  return rows;
}

AcceleratorOptions options_of(const Way& way, const std::shared_ptr<Communicator>& comm) {
  AcceleratorOptions options;
  options.communicator = comm;
  options.mixed_precision = way.precision;
  options.gradient_accumulation_steps = way.micro_batches;
  if (!way.sharded) return options;
  options.fsdp_plugin = FullyShardedDataParallelPlugin{};
  options.fsdp_plugin->auto_wrap_policy = AutoWrapPolicy::TRANSFORMER_BASED_WRAP;
  return options;
}

// Trains from step `first` to `last`, from the checkpoint in `state` if `first` is not 0, and
// leaves one there if it does not come to the end.
void train_steps(const Way& way, const path& start, const path& state, const path& out, int first,
                 int last) {
  run_ranks_shared(kRanks, [&](const std::shared_ptr<Communicator>& comm) {
    Accelerator accelerator(options_of(way, comm));
    const Task task = task_of(AutoConfig::from_pretrained(start.string()).model_type());
    const auto net = detail::model_from_pretrained(task, start.string(), {});
    net->train();
    if (way.recomputes) net->gradient_checkpointing_enable();
    torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    auto [model, optimizer] = accelerator.prepare(net, sgd);
    if (first > 0) accelerator.load_state(state);
    for (int step = first; step < last; ++step) {
      for (int part = 0; part < way.micro_batches; ++part) {
        const auto window = accelerator.accumulate(model);
        const Inputs batch = task == Task::seq2seq_lm ? seq2seq_batch_of(comm->rank(), step)
                                                      : batch_of(comm->rank(), step);
        const ModelOutput outputs = model(rows_of(batch, part, way.micro_batches));
        accelerator.backward(outputs.loss);
        optimizer.step();
        optimizer.zero_grad();
      }
    }
    if (last < kSteps)
      accelerator.save_state(state);
    else
      accelerator.unwrap_model(model)->save_pretrained(
          out, {.is_main_process = accelerator.is_main_process()});
  });
}

void train(const Way& way, const path& start, const path& state, const path& out) {
  if (way.resumes_after > 0) train_steps(way, start, state, out, 0, way.resumes_after);
  train_steps(way, start, state, out, way.resumes_after, kSteps);
}

class Training : public ::testing::TestWithParam<const char*> {};

TEST_P(Training, ComesToTheSameWeightsInEveryWay) {
  const TemporaryFolder folder;
  const path start = folder.path() / "start", plain = folder.path() / "plain";
  at::manual_seed(5);
  detail::model_from_config(task_of(GetParam()), testing::small_config(GetParam()))
      ->save_pretrained(start);
  train({"plain"}, start, {}, plain);
  const auto before = map_weights(start), expected = map_weights(plain);
  double moved = 0;
  for (const auto& [name, outline] : expected.outlines)
    moved += (expected.read(name) - before.read(name)).abs().sum().item<double>();
  EXPECT_GT(moved, 0.1);
  // A norm behind what it norms magnifies the rounding of small values.
  const double more = GetParam() == std::string("olmo2") ? 5 : 1;
  for (const Way& way : kWays) {
    const path out = folder.path() / way.name;
    train(way, start, folder.path() / (std::string(way.name) + "_state"), out);
    const auto found = map_weights(out);
    ASSERT_EQ(found.outlines.size(), expected.outlines.size()) << way.name;
    for (const auto& [name, outline] : expected.outlines) {
      const double off = (found.read(name) - expected.read(name)).abs().max().item<double>();
      EXPECT_LE(off, way.tolerance * more) << way.name << ": " << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Architectures, Training,
                         ::testing::ValuesIn(testing::small_kinds(Task::sequence_classification)),
                         [](const auto& info) { return testing::name_of(info.param); });

INSTANTIATE_TEST_SUITE_P(EncoderDecoders, Training, ::testing::Values("t5", "bart"),
                         [](const auto& info) { return testing::name_of(info.param); });

}  // namespace
}  // namespace accelerate
