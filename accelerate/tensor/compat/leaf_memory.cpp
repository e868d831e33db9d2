#include "accelerate/tensor/compat/leaf_memory.h"

#include <c10/core/ScalarType.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>
#include <sstream>
#include <string>
#include <utility>

#include "accelerate/base/error.h"

namespace accelerate::compat {
namespace {

using torch::autograd::AutogradMeta;

std::string described(const at::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.dtype() << ' ' << tensor.sizes() << " on " << tensor.device();
  return text.str();
}

// Throws unless the tensor is a plain TensorImpl: other kinds keep more than sizes and a storage.
void check_plain(const at::Tensor& tensor, const std::string& what) {
  const auto refuse = [&](const std::string& found) {
    throw UsageError(what + " is " + found +
                     "; only dense tensors can be given other memory. Use " +
                     "a dense, strided tensor made outside c10::InferenceMode.");
  };
  if (!tensor.defined()) refuse("undefined");
  if (tensor.layout() != at::kStrided || tensor.is_nested() || tensor.is_quantized())
    refuse("sparse, quantised or nested: " + described(tensor));
  if (tensor.is_inference()) refuse("an inference tensor: " + described(tensor));
}

void check(const at::Tensor& leaf, const at::Tensor& data) {
  check_plain(leaf, "the tensor to materialise");
  check_plain(data, "the data to materialise a tensor with");
  if (!leaf.is_leaf())
    throw UsageError("the tensor to materialise is the result of an operation (" + described(leaf) +
                     "); only leaves can be given other memory: parameters and buffers.");
  if (leaf.requires_grad() && !c10::isFloatingType(data.scalar_type()) &&
      !c10::isComplexType(data.scalar_type()))
    throw UsageError("a tensor that requires gradients (" + described(leaf) + ") cannot hold " +
                     described(data) + ": give it floating-point data, or call " +
                     "requires_grad_(false) first.");
}

// Makes a view a leaf without a base. Otherwise in-place operations would be forwarded to the old
// memory.
void leave_base(const at::Tensor& leaf) {
  auto& view = *torch::autograd::impl::get_autograd_meta(leaf);
  auto own = std::make_unique<AutogradMeta>(leaf.unsafeGetTensorImpl(), leaf.requires_grad());
  own->name_ = view.name_;
  own->grad_ = std::move(view.grad_);
  own->hooks_ = std::move(view.hooks_);
  own->cpp_hooks_list_ = std::move(view.cpp_hooks_list_);
  own->post_acc_grad_hooks_ = std::move(view.post_acc_grad_hooks_);
  own->grad_dtype_ = view.grad_dtype_;
  own->allow_grad_dtype_mismatch_ = view.allow_grad_dtype_mismatch_;
  const auto version = leaf._version();
  leaf.unsafeGetTensorImpl()->set_autograd_meta(std::move(own));
  leaf.unsafeGetTensorImpl()->set_version_counter(
      c10::VariableVersion(static_cast<std::uint32_t>(version)));
}

// Drops what autograd remembers of the old shape, dtype and device, because it would reject
// gradients of the new ones.
void forget_metadata(const at::Tensor& leaf, const at::Tensor& data) {
  auto* autograd = torch::autograd::impl::get_autograd_meta(leaf);
  if (autograd == nullptr) return;
  const std::lock_guard lock(autograd->mutex_);
  const bool same_place = leaf.device() == data.device() && leaf.sizes() == data.sizes();
  if (!same_place || leaf.scalar_type() != data.scalar_type()) autograd->grad_accumulator_.reset();
  if (!same_place) autograd->grad_.reset();
}

}  // namespace

void materialise_(const at::Tensor& leaf, const at::Tensor& data) {
  check(leaf, data);
  if (leaf.is_view()) leave_base(leaf);
  forget_metadata(leaf, data);
  leaf.unsafeGetTensorImpl()->shallow_copy_from(data.getIntrusivePtr());
}

}  // namespace accelerate::compat
