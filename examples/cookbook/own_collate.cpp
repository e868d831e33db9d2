// Sequences of different lengths, padded by a collate function of your own. A recurrent network
// reads each to its true end and says which of two symbols came more often.
#include <accelerate/accelerate.h>
#include <torch/torch.h>

#include <algorithm>
#include <random>
#include <vector>

#include "examples/cookbook/rounded.h"

namespace {

struct Sample {
  std::vector<std::int64_t> symbols;  ///< 1 or 2; 0 is the padding.
  std::int64_t label;                 ///< Whether there are more twos than ones.
};

/// What the loop gets. visit_tensors() lets the library move, cut and gather it.
struct Batch {
  torch::Tensor symbols;  ///< int64 {n, longest}
  torch::Tensor lengths;  ///< int64 {n}
  torch::Tensor labels;   ///< int64 {n}
};
template <typename Fn>
void visit_tensors(Batch& batch, Fn&& fn) {
  for (auto* tensor : {&batch.symbols, &batch.lengths, &batch.labels}) fn(*tensor);
}

Batch collate(std::vector<Sample> samples) {
  std::vector<torch::Tensor> rows;
  std::vector<std::int64_t> lengths, labels;
  for (const auto& [symbols, label] : samples) {
    rows.push_back(torch::tensor(symbols));
    lengths.push_back(static_cast<std::int64_t>(symbols.size()));
    labels.push_back(label);
  }
  return {torch::nn::utils::rnn::pad_sequence(rows, /*batch_first=*/true), torch::tensor(lengths),
          torch::tensor(labels)};
}

/// Sequences of 3 to 31 symbols, of odd length, so that one symbol has the majority.
std::vector<Sample> make_samples(std::size_t n, unsigned seed) {
  std::mt19937 draw(seed);
  std::vector<Sample> samples(n);
  for (auto& [symbols, label] : samples) {
    symbols.resize(3 + 2 * (draw() % 15));
    for (auto& symbol : symbols) symbol = 1 + draw() % 2;
    label = std::ranges::count(symbols, 2) > std::ranges::count(symbols, 1);
  }
  return samples;
}

struct NetImpl : torch::nn::Module {
  /// Returns the scores of both answers, float32 {n, 2}.
  torch::Tensor forward(const Batch& batch) {
    const auto packed = torch::nn::utils::rnn::pack_padded_sequence(
        embed(batch.symbols), batch.lengths.cpu(), /*batch_first=*/true, /*enforce_sorted=*/false);
    return out(std::get<1>(gru->forward_with_packed_input(packed)).squeeze(0));
  }
  torch::nn::Embedding embed = register_module("embed", torch::nn::Embedding(3, 8));
  torch::nn::GRU gru =
      register_module("gru", torch::nn::GRU(torch::nn::GRUOptions(8, 32).batch_first(true)));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(32, 2));
};
TORCH_MODULE(Net);

void run() {
  accelerate::Accelerator accelerator;
  accelerate::set_seed(42);
  Net net;
  torch::optim::Adam adam(net->parameters(), torch::optim::AdamOptions(1e-2));
  auto train_set = accelerate::make_data_loader(make_samples(1024, 1),
                                                {.batch_size = 32, .shuffle = true}, collate);
  auto test_set = accelerate::make_data_loader(make_samples(301, 2), {.batch_size = 50}, collate);
  auto [model, optimizer, train, test] = accelerator.prepare(net, adam, train_set, test_set);
  for (int epoch = 0; epoch < 8; ++epoch) {
    for (auto& batch : train) {
      accelerator.backward(torch::cross_entropy_loss(model(batch), batch.labels));
      optimizer.step();
      optimizer.zero_grad();
    }
  }

  const torch::NoGradGuard no_grad;
  double right = 0, all = 0;
  for (auto& batch : test) {
    const auto hits = accelerator.gather_for_metrics(model(batch).argmax(1).eq(batch.labels));
    right += hits.sum().item<double>();
    all += static_cast<double>(hits.numel());
  }
  accelerator.print(all, "sequences, accuracy", rounded(right / all));
  accelerator.end_training();
}

}  // namespace

int main() {
  return accelerate::run_main(run);
}
