// Tracking by hand: a row for each epoch in a file of comma-separated values.
#include <fstream>

#include "examples/common/spirals.h"

namespace {

void run() {
  torch::manual_seed(42);
  spirals::Net model;
  auto optimizer = spirals::make_optimizer(model);
  const auto [points, labels] = spirals::train_samples();
  std::ofstream metrics("metrics.csv");
  metrics << "epoch,loss\n";

  constexpr int kEpochs = 60;
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    auto sum = torch::zeros({}, torch::kDouble);
    const auto batches = torch::randperm(points.size(0)).split(32);
    for (const auto& batch : batches) {
      auto scores = model(points.index_select(0, batch));
      auto loss = torch::cross_entropy_loss(scores, labels.index_select(0, batch));
      loss.backward();
      optimizer.step();
      optimizer.zero_grad();
      sum += loss.detach();
    }
    metrics << epoch << ',' << sum.item<double>() / static_cast<double>(batches.size()) << '\n';
  }
  if (!metrics.flush()) throw std::runtime_error("metrics.csv could not be written");
  const auto [test_points, truths] = spirals::test_samples();
  std::printf("%d epochs logged\n", kEpochs);
  std::puts(spirals::line("test accuracy: %.3f", spirals::share_right(model(test_points), truths))
                .c_str());
}

}  // namespace

int main() {
  return spirals::run_program("tracking_plain", run);
}
