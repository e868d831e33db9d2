#include "accelerate/parallel/gradients/gradient_hook.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>
#include <utility>

namespace accelerate::detail {
namespace {

namespace impl = torch::autograd::impl;

// A leaf has room for one hook, so this one also calls the hook that it replaced.
struct ChainedHook final : torch::autograd::PostAccumulateGradHook {
  ChainedHook(std::function<void()> own, std::unique_ptr<PostAccumulateGradHook> earlier_hook)
      : hook(std::move(own)), earlier(std::move(earlier_hook)) {}

  void operator()(const at::Tensor& leaf) override {
    if (earlier) (*earlier)(leaf);
    hook();
  }

  std::function<void()> hook;
  std::unique_ptr<PostAccumulateGradHook> earlier;
};

}  // namespace

GradientHook::GradientHook(at::Tensor leaf, std::function<void()> hook) : leaf_(std::move(leaf)) {
  auto earlier = std::move(impl::post_acc_grad_hooks(leaf_));
  auto own = std::make_unique<ChainedHook>(std::move(hook), std::move(earlier));
  own_ = own.get();
  impl::set_post_acc_grad_hooks(leaf_, std::move(own));
}

GradientHook::GradientHook(GradientHook&& other) noexcept
    : leaf_(std::exchange(other.leaf_, {})), own_(std::exchange(other.own_, nullptr)) {}

// Hooks may be removed in any order, so this one is looked up in the chain.
GradientHook::~GradientHook() {
  if (own_ == nullptr) return;
  auto* link = &impl::post_acc_grad_hooks(leaf_);
  while (auto* chained = dynamic_cast<ChainedHook*>(link->get())) {
    if (chained == own_) {
      auto earlier = std::move(chained->earlier);
      *link = std::move(earlier);
      return;
    }
    link = &chained->earlier;
  }
}

}  // namespace accelerate::detail
