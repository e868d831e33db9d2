#include "accelerate/data/samplers.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/randperm.h>

#include <algorithm>
#include <string>

#include "accelerate/base/error.h"

namespace accelerate {

static_assert(sizeof(std::size_t) == sizeof(std::int64_t), "indices are shared with int64 tensors");

SampleOrder::SampleOrder(Indices indices)
    : size_(indices.size()), indices_(std::make_shared<const Indices>(std::move(indices))) {}

SampleOrder SampleOrder::without_first(std::size_t count) const {
  SampleOrder rest = *this;
  rest.begin_ += std::min(count, size_);
  rest.size_ -= std::min(count, size_);
  return rest;
}

namespace {

at::Generator generator_of(std::uint64_t seed) {
  return at::make_generator<at::CPUGeneratorImpl>(seed);
}

Indices permutation(std::size_t size, const at::Generator& generator) {
  Indices indices(size);
  const auto count = static_cast<std::int64_t>(size);
  auto view = at::from_blob(indices.data(), {count}, at::kLong);
  at::randperm_out(view, count, generator);
  return indices;
}

}  // namespace

SampleOrder SeedableRandomSampler::order() const {
  const auto seed = seed_ + static_cast<std::uint64_t>(epoch_);
  return SampleOrder(permutation(size_, generator_of(seed)));
}

RandomSampler::RandomSampler(std::size_t size, std::uint64_t seed)
    : size_(size), seed_(seed), generator_(generator_of(seed)) {}

SampleOrder RandomSampler::order() {
  // Python's iterator first draws a seed for its workers. At its end, its sampler draws a second
  // permutation and uses nothing of it.
  static_cast<void>(at::empty({}, at::kLong).random_(generator_));
  Indices indices = permutation(size_, generator_);
  static_cast<void>(permutation(size_, generator_));
  ++epoch_;
  return SampleOrder(std::move(indices));
}

SampleOrder EpochOrders::of(std::uint64_t seed, std::int64_t epoch) {
  if (!kind_.shuffle) return SampleOrder(size_);
  if (!last_ || last_->seed != seed || last_->epoch != epoch) {
    last_ = Drawn{seed, epoch, draw(seed, epoch)};
  }
  return last_->order;
}

SampleOrder EpochOrders::draw(std::uint64_t seed, std::int64_t epoch) {
  if (kind_.seedable) {
    SeedableRandomSampler sampler(size_, seed);
    sampler.set_epoch(epoch);
    return sampler.order();
  }
  if (!generator_ || generator_->seed() != seed || generator_->epoch() > epoch) {
    generator_.emplace(size_, seed);
  }
  while (generator_->epoch() < epoch) static_cast<void>(generator_->order());
  return generator_->order();
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

std::size_t BatchSampler::samples_in(std::size_t position) const {
  if (batches_) return (*batches_)[position].size();
  return std::min(batch_size_, order_.size() - position * batch_size_);
}

std::optional<std::size_t> BatchSampler::batch_size() const {
  return batches_ ? std::nullopt : std::optional(batch_size_);
}

}  // namespace accelerate
