// A hundred steps in every combination of precision, accumulation, clipping and ranks, against
// Python Accelerate (fp32, bf16) and PyTorch's autocast with GradScaler (fp16).
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <nlohmann/json.hpp>

#include "accelerate/accelerate.h"
#include "tests/support/ranks.h"
#include "tests/support/reference.h"

namespace accelerate {
namespace {

using Json = nlohmann::json;
using testing::run_ranks_shared;

constexpr std::int64_t kSteps = 100, kBatch = 4, kInputs = 6, kHidden = 8, kClasses = 3;

// How far a run may be from the original's. The kernels are the same, so it is mostly nothing; what
// differs is the order in which two ranks' or micro-batches' numbers are added.
struct Tolerance {
  double losses, first_gradients, weights;
};

const std::map<std::string, std::pair<MixedPrecision, Tolerance>> kPrecisions = {
    {"fp32", {MixedPrecision::no, {1e-5, 1e-5, 1e-5}}},
    {"bf16", {MixedPrecision::bf16, {2e-2, 1e-3, 2e-2}}},
    {"fp16", {MixedPrecision::fp16, {2e-2, 1e-3, 2e-2}}},
};

at::Tensor waves(std::int64_t count, double start, double pace) {
  return torch::sin(torch::arange(count, at::kDouble) * pace + start).to(at::kFloat);
}

struct ReferenceNetImpl : torch::nn::Module {
  explicit ReferenceNetImpl(double seed) {
    first = register_module("first", torch::nn::Linear(kInputs, kHidden));
    second = register_module("second", torch::nn::Linear(kHidden, kClasses));
    const torch::NoGradGuard no_grad;
    double index = 0;
    for (auto& leaf : parameters()) {
      leaf.copy_(0.5 * waves(leaf.numel(), 0.3 * index++ + seed, 1.7).view(leaf.sizes()));
    }
  }
  at::Tensor forward(const at::Tensor& x) { return second(torch::tanh(first(x))); }
  torch::nn::Linear first{nullptr}, second{nullptr};
};
TORCH_MODULE(ReferenceNet);

std::pair<at::Tensor, at::Tensor> samples(std::int64_t count, double seed) {
  const auto x = waves(count * kInputs, 0.1 + seed, 0.37).view({count, kInputs});
  return {x, x.select(1, 0).gt(0).to(at::kLong) + x.select(1, 1).gt(0.5).to(at::kLong)};
}

template <typename Tensors>
std::vector<double> flat(const Tensors& tensors) {
  std::vector<double> values;
  for (const at::Tensor& tensor : tensors) {
    const auto wide = tensor.detach().to(at::kDouble).contiguous();
    values.insert(values.end(), wide.template data_ptr<double>(),
                  wide.template data_ptr<double>() + wide.numel());
  }
  return values;
}

struct TrainingRun {
  std::vector<double> losses, first_gradients, weights;
};

TrainingRun train(const Json& row, double seed, const std::shared_ptr<Communicator>& comm) {
  Accelerator accelerator({.gradient_accumulation_steps = row["accumulation"],
                           .mixed_precision = kPrecisions.at(row["precision"]).first,
                           .communicator = comm});
  const std::int64_t accumulation = row["accumulation"];
  ReferenceNet net(seed);
  torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.02).momentum(0.9));
  auto batches = make_data_loader(samples(kSteps * accumulation * kBatch * comm->size(), seed),
                                  {.batch_size = kBatch});
  auto [model, optimizer, loader] = accelerator.prepare(net, sgd, batches);
  TrainingRun run;
  double loss_of_window = 0;
  for (auto& [x, target] : loader) {
    const auto window = accelerator.accumulate(model);
    const auto loss = torch::cross_entropy_loss(model(x), target);
    accelerator.backward(loss);
    loss_of_window += loss.item<double>() / static_cast<double>(accumulation);
    if (accelerator.sync_gradients()) {
      accelerator.unscale_gradients();
      if (run.first_gradients.empty()) {
        std::vector<at::Tensor> gradients;
        for (const auto& leaf : net->parameters()) gradients.push_back(leaf.grad());
        run.first_gradients = flat(gradients);
      }
      if (row["clip"]) accelerator.clip_grad_norm_(model.parameters(), 0.25);
      run.losses.push_back(
          accelerator.reduce(torch::full({}, loss_of_window), ReduceOp::mean).item<double>());
      loss_of_window = 0;
    }
    optimizer.step();
    optimizer.zero_grad();
  }
  run.weights = flat(net->parameters());
  return run;
}

void expect_near(const std::vector<double>& ours, const std::vector<double>& theirs,
                 double tolerance, const std::string& what) {
  ASSERT_EQ(ours.size(), theirs.size()) << what;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    ASSERT_NEAR(ours[i], theirs[i], tolerance) << what << " at " << i;
  }
}

TEST(TrainingReference, AHundredStepsFollowTheOriginal) {
  const Json golden = Json::parse(testing::read_reference("training_runs.json"));
  int rows = 0;
  for (const Json& row : golden["runs"]) {
    ++rows;
    const auto& tolerance = kPrecisions.at(row["precision"]).second;
    run_ranks_shared(row["ranks"], [&](const std::shared_ptr<Communicator>& comm) {
      const TrainingRun run = train(row, golden["seed"], comm);
      ASSERT_EQ(run.losses.size(), static_cast<std::size_t>(kSteps));
      const std::string which = row["precision"].get<std::string>() + ", accumulation " +
                                row["accumulation"].dump() + ", clip " + row["clip"].dump() + ", " +
                                row["ranks"].dump() + " ranks: ";
      expect_near(run.first_gradients, row["first_gradients"], tolerance.first_gradients,
                  which + "first gradients");
      expect_near(run.losses, row["losses"], tolerance.losses, which + "losses");
      expect_near(run.weights, row["weights"], tolerance.weights, which + "weights");
    });
  }
  EXPECT_EQ(rows, 3 * 3 * 2 * 2);
}

}  // namespace
}  // namespace accelerate
