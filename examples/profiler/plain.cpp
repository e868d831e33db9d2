// Records a trace of some steps by LibTorch's own profiler of function calls: trace_plain.json.
#include <torch/csrc/autograd/profiler.h>

#include "examples/common/spirals.h"

namespace {

void run() {
  torch::manual_seed(42);
  spirals::Net model;
  auto optimizer = spirals::make_optimizer(model);
  const auto [points, labels] = spirals::train_samples();
  const auto step = [&, &points = points, &labels = labels](const torch::Tensor& batch) {
    auto scores = model(points.index_select(0, batch));
    torch::cross_entropy_loss(scores, labels.index_select(0, batch)).backward();
    optimizer.step();
    optimizer.zero_grad();
  };

  const auto batches = torch::randperm(points.size(0)).split(32);
  for (std::size_t i = 0; i < 2; ++i) step(batches[i]);  // Warms up.
  {
    const torch::autograd::profiler::RecordProfile recorder("trace_plain.json");
    for (std::size_t i = 2; i < 5; ++i) step(batches[i]);
  }
  std::puts("3 steps recorded");
}

}  // namespace

int main() {
  return spirals::run_program("profiler_plain", run);
}
