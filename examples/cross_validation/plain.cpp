// Cross validation: three models, each trained without a third of the samples and validated on that
// third. The test scores are the mean of the three models' scores.
#include "examples/common/spirals.h"

namespace {

constexpr int kFolds = 3;

spirals::Samples rows(const spirals::Samples& samples, const torch::Tensor& indices) {
  return {samples.first.index_select(0, indices), samples.second.index_select(0, indices)};
}

void run() {
  torch::manual_seed(42);
  const auto all = spirals::train_samples();
  const auto [test_points, truths] = spirals::test_samples();
  const auto fold_of = torch::arange(all.second.size(0)).div(2, "floor") % kFolds;

  torch::Tensor scores = torch::zeros({truths.size(0), 2});
  for (int fold = 0; fold < kFolds; ++fold) {
    const auto [points, labels] = rows(all, fold_of.ne(fold).nonzero().flatten());
    const auto [held_out, answers] = rows(all, fold_of.eq(fold).nonzero().flatten());
    spirals::Net model;
    auto optimizer = spirals::make_optimizer(model);
    for (int epoch = 0; epoch < 60; ++epoch) {
      for (const auto& batch : torch::randperm(points.size(0)).split(32)) {
        auto loss = torch::cross_entropy_loss(model(points.index_select(0, batch)),
                                              labels.index_select(0, batch));
        loss.backward();
        optimizer.step();
        optimizer.zero_grad();
      }
    }
    std::puts(spirals::line("fold accuracy: %.3f", spirals::share_right(model(held_out), answers))
                  .c_str());
    const torch::NoGradGuard no_grad;
    scores += model(test_points) / kFolds;
  }
  std::puts(spirals::line("test accuracy: %.3f", spirals::share_right(scores, truths)).c_str());
}

}  // namespace

int main() {
  return spirals::run_program("cross_validation_plain", run);
}
