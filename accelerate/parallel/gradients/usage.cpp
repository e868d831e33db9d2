#include "accelerate/parallel/gradients/usage.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>
#include <algorithm>
#include <unordered_set>
#include <utility>

namespace accelerate::detail {

void Usage::ask(Communicator& communicator, const std::vector<bool>& mine) {
  sent_ = at::zeros({static_cast<std::int64_t>(mine.size())}, at::kInt);
  std::copy(mine.begin(), mine.end(), sent_.mutable_data_ptr<int>());
  work_ = communicator.all_reduce(sent_, ReduceOp::sum);
  pending_ = true;
}

void Usage::wait() {
  if (!std::exchange(pending_, false)) return;
  work_.wait();
  const int* counts = sent_.const_data_ptr<int>();
  counts_.assign(counts, counts + sent_.numel());
}

bool Usage::any() const {
  return std::any_of(counts_.begin(), counts_.end(), [](int count) { return count > 0; });
}

bool Usage::is_unanimous() const {
  return std::all_of(counts_.begin(), counts_.end(),
                     [this](int count) { return count == 0 || count == ranks_; });
}

namespace {

using torch::autograd::Node;

std::unordered_set<Node*> nodes_below(Node* root) {
  std::unordered_set<Node*> seen;
  std::vector<Node*> open;
  const auto visit = [&](Node* node) {
    if (node != nullptr && seen.insert(node).second) open.push_back(node);
  };
  visit(root);
  while (!open.empty()) {
    Node* node = open.back();
    open.pop_back();
    for (const auto& edge : node->next_edges()) visit(edge.function.get());
  }
  return seen;
}

}  // namespace

std::vector<bool> reached_leaves(const at::Tensor& root, const std::vector<at::Tensor>& leaves) {
  std::vector<bool> reached(leaves.size(), false);
  if (!root.requires_grad()) return reached;
  const auto start = torch::autograd::impl::gradient_edge(root).function;
  const auto nodes = nodes_below(start.get());
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    // A leaf that no graph uses has no accumulator.
    const auto accumulator = torch::autograd::impl::try_get_grad_accumulator(leaves[i]);
    reached[i] = accumulator != nullptr && nodes.contains(accumulator.get());
  }
  return reached;
}

std::unordered_set<const void*> all_reached_leaves(const at::Tensor& root) {
  std::unordered_set<const void*> reached;
  if (!root.requires_grad()) return reached;
  const auto start = torch::autograd::impl::gradient_edge(root).function;
  for (const Node* node : nodes_below(start.get())) {
    const auto* accumulator = dynamic_cast<const torch::autograd::AccumulateGrad*>(node);
    if (accumulator != nullptr) reached.insert(accumulator->variable.unsafeGetTensorImpl());
  }
  return reached;
}

}  // namespace accelerate::detail
