#include "accelerate/parallel/gradients/bucket_store.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <algorithm>
#include <map>
#include <utility>

namespace accelerate::detail {
namespace {

// Returns a tensor over a part of `flat` that is not a view to autograd: Optimizer::zero_grad
// detaches gradients in place, which views refuse. It has the layout of its parameter
// (channels_last, …), as autograd's own gradients have.
at::Tensor place_in(const at::Tensor& flat, std::int64_t offset, const at::Tensor& parameter) {
  at::Tensor place = at::empty({0}, flat.options());
  const auto begin = flat.storage_offset() + offset;
  if (parameter.is_non_overlapping_and_dense()) {
    place.set_(flat.storage(), begin, parameter.sizes(), parameter.strides());
  } else {
    place.set_(flat.storage(), begin, parameter.sizes());
  }
  return place;
}

// Compares memory, because zero_grad may have put a detached tensor there over the same memory.
bool grad_lies_in_place(const Slot& slot) {
  const auto& grad = slot.parameter.grad();
  return slot.place.defined() && grad.defined() && grad.data_ptr() == slot.place.data_ptr();
}

}  // namespace

BucketStore::BucketStore(const std::vector<NamedTensor>& trainable, BucketStoreOptions options)
    : options_(std::move(options)) {
  std::vector<at::Tensor> parameters;
  for (const auto& [name, parameter] : trainable) {
    slots.push_back({.name = name, .parameter = parameter});
    parameters.push_back(parameter);
  }
  for (auto& members : assign_buckets(parameters, options_.limits)) {
    Bucket bucket;
    for (const std::size_t i : members) {
      slots[i].bucket = buckets.size();
      slots[i].offset = bucket.numel;
      bucket.numel += slots[i].parameter.numel();
    }
    bucket.slots = std::move(members);
    bucket.content.index = buckets.size();
    buckets.push_back(std::move(bucket));
  }
}

void BucketStore::ready_memory(Bucket& bucket) {
  if (!bucket.content.buffer.defined() || is_kept_by_program(bucket)) renew_memory(bucket);
}

void BucketStore::leave_gradients_alone(Bucket& bucket) {
  const bool used = std::any_of(bucket.slots.begin(), bucket.slots.end(),
                                [this](std::size_t i) { return grad_lies_in_place(slots[i]); });
  if (used || !bucket.content.buffer.defined()) renew_memory(bucket);
}

// Whether the program has kept a gradient of this bucket: one that is not a leaf's grad any more but
// is still held, as a handle or as another tensor over the same memory.
bool BucketStore::is_kept_by_program(const Bucket& bucket) const {
  if (options_.gradient_as_bucket_view) return false;
  bool let_go = false;
  std::size_t owners = bucket.owners;
  for (const std::size_t i : bucket.slots) {
    if (grad_lies_in_place(slots[i])) {
      if (!slots[i].parameter.grad().is_same(slots[i].place)) ++owners;
      continue;
    }
    let_go = true;
    if (slots[i].place.use_count() > 1) return true;
  }
  return let_go && bucket.content.buffer.storage().use_count() > owners;
}

void BucketStore::renew_memory(Bucket& bucket) {
  const auto& example = slots[bucket.slots.front()].parameter;
  const auto tensor_options =
      at::TensorOptions().dtype(example.scalar_type()).device(example.device());
  auto flat = options_.allocate(bucket.numel, tensor_options);
  bucket.content.gradients.clear();
  for (const std::size_t i : bucket.slots) {
    slots[i].place = place_in(flat, slots[i].offset, slots[i].parameter);
    bucket.content.gradients.push_back(flat.as_strided(
        slots[i].place.sizes(), slots[i].place.strides(), slots[i].place.storage_offset()));
  }
  bucket.content.buffer = std::move(flat);
  bucket.owners = bucket.content.buffer.storage().use_count();
}

}  // namespace accelerate::detail

namespace accelerate {
namespace {

struct OpenBucket {
  std::vector<std::size_t> members;
  std::int64_t bytes = 0;
};

}  // namespace

std::vector<std::vector<std::size_t>> assign_buckets(const std::vector<at::Tensor>& parameters,
                                                     const BucketLimits& limits) {
  std::vector<std::vector<std::size_t>> closed;
  std::map<std::pair<int, std::string>, OpenBucket> open;
  for (std::size_t i = parameters.size(); i-- > 0;) {
    const auto& parameter = parameters[i];
    auto& bucket = open[{static_cast<int>(parameter.scalar_type()), parameter.device().str()}];
    bucket.members.push_back(i);
    bucket.bytes += static_cast<std::int64_t>(parameter.nbytes());
    if (bucket.bytes >= (closed.empty() ? limits.first_bytes : limits.cap_bytes)) {
      closed.push_back(std::exchange(bucket, {}).members);
    }
  }
  for (auto& [kind, bucket] : open) {
    if (!bucket.members.empty()) closed.push_back(std::move(bucket.members));
  }
  return closed;
}

}  // namespace accelerate
