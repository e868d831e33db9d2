#include "accelerate/data/samplers.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/randperm.h>

#include <algorithm>
#include <string>

#include "accelerate/base/error.h"

namespace accelerate {

static_assert(sizeof(std::size_t) == sizeof(std::int64_t), "indices are shared with int64 tensors");

SampleOrder::SampleOrder(Indices indices)
    : size_(indices.size()), indices_(std::make_shared<const Indices>(std::move(indices))) {}

SampleOrder SeedableRandomSampler::order() const {
  auto generator =
      at::make_generator<at::CPUGeneratorImpl>(seed_ + static_cast<std::uint64_t>(epoch_));
  Indices permutation(size_);
  const auto count = static_cast<std::int64_t>(size_);
  auto view = at::from_blob(permutation.data(), {count}, at::kLong);
  at::randperm_out(view, count, generator);
  return SampleOrder(std::move(permutation));
}

BatchSampler::BatchSampler(SampleOrder order, std::int64_t batch_size, bool drop_last)
    : order_(std::move(order)),
      batch_size_(static_cast<std::size_t>(batch_size)),
      drop_last_(drop_last) {
  if (batch_size < 1) {
    throw ConfigError("batch_size is " + std::to_string(batch_size) +
                      "; it must be at least 1 sample a batch.");
  }
}

BatchSampler::BatchSampler(BatchList batches, bool drop_last)
    : order_(0),
      drop_last_(drop_last),
      batches_(std::make_shared<const BatchList>(std::move(batches))) {
  for (std::size_t i = 0; i < batches_->size(); ++i) {
    if ((*batches_)[i].empty()) {
      throw DataError("batch " + std::to_string(i) +
                      " of the batch sampler is empty; every one of its " +
                      std::to_string(batches_->size()) + " batches must name at least one sample.");
    }
  }
}

std::size_t BatchSampler::size() const {
  if (batches_) return batches_->size();
  const std::size_t full = order_.size() / batch_size_;
  return full + (!drop_last_ && order_.size() % batch_size_ != 0 ? 1 : 0);
}

Indices BatchSampler::batch(std::size_t position) const {
  if (batches_) return (*batches_)[position];
  const std::size_t begin = position * batch_size_;
  Indices indices(std::min(batch_size_, order_.size() - begin));
  for (std::size_t i = 0; i < indices.size(); ++i) indices[i] = order_[begin + i];
  return indices;
}

std::optional<std::size_t> BatchSampler::batch_size() const {
  return batches_ ? std::nullopt : std::optional(batch_size_);
}

}  // namespace accelerate
