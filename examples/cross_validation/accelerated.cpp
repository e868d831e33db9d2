// Cross validation on any number of ranks. The scores of each model are gathered, so that every
// sample has one score, in order.
#include <accelerate/accelerate.h>

#include "examples/common/spirals.h"

namespace {

constexpr int kFolds = 3;

spirals::Samples rows(const spirals::Samples& samples, const torch::Tensor& indices) {
  return {samples.first.index_select(0, indices), samples.second.index_select(0, indices)};
}

/// Returns {scores, labels} for all of `batches`, each sample once. [collective]
template <typename Model, typename Batches>
spirals::Samples predict(Model& model, Batches& batches, accelerate::Accelerator& accelerator) {
  const torch::NoGradGuard no_grad;
  std::vector<spirals::Samples> parts;
  for (auto& [points, labels] : batches)
    parts.push_back(accelerator.gather_for_metrics(std::pair{model(points), labels}));
  return accelerate::concatenate(parts);
}

void run() {
  accelerate::Accelerator accelerator;
  accelerate::set_seed(42);
  const auto all = spirals::train_samples();
  auto test_set = accelerate::make_data_loader(spirals::test_samples(), {.batch_size = 16});
  auto test = accelerator.prepare(test_set);
  const auto fold_of = torch::arange(all.second.size(0)).div(2, "floor") % kFolds;

  std::vector<torch::Tensor> scores;
  torch::Tensor truths;
  for (int fold = 0; fold < kFolds; ++fold) {
    auto others = accelerate::make_data_loader(rows(all, fold_of.ne(fold).nonzero().flatten()),
                                               {.batch_size = 32, .shuffle = true});
    auto held_out = accelerate::make_data_loader(rows(all, fold_of.eq(fold).nonzero().flatten()),
                                                 {.batch_size = 32});
    spirals::Net net;
    auto adam = spirals::make_optimizer(net);
    auto [model, optimizer, train, validation] = accelerator.prepare(net, adam, others, held_out);
    for (int epoch = 0; epoch < 60; ++epoch) {
      for (auto& [points, labels] : train) {
        auto loss = torch::cross_entropy_loss(model(points), labels);
        accelerator.backward(loss);
        optimizer.step();
        optimizer.zero_grad();
      }
    }
    const auto [guesses, answers] = predict(model, validation, accelerator);
    accelerator.print(spirals::line("fold accuracy: %.3f", spirals::share_right(guesses, answers)));
    auto [test_scores, labels] = predict(model, test, accelerator);
    scores.push_back(test_scores);
    truths = labels;
  }
  const auto mean = torch::stack(scores).mean(0);
  accelerator.print(spirals::line("test accuracy: %.3f", spirals::share_right(mean, truths)));
  accelerator.end_training();
}

}  // namespace

int main() {
  return spirals::run_program("cross_validation_accelerated", run);
}
