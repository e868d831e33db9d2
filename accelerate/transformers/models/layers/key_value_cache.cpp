#include "accelerate/transformers/models/layers/key_value_cache.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/transformers/models/layers/sequences.h"

namespace accelerate {
namespace {

constexpr std::int64_t kFirstRoom = 64;

// Returns a copy of the first `used` tokens of `store`, with room for at least `tokens`.
at::Tensor with_room(const at::Tensor& store, const at::Tensor& like, std::int64_t used,
                     std::int64_t tokens) {
  std::vector<std::int64_t> shape = like.sizes().vec();
  shape[2] = std::max({kFirstRoom, tokens, 2 * (store.defined() ? store.size(2) : 0)});
  at::Tensor grown = at::empty(shape, like.options().requires_grad(false));
  if (used > 0) grown.narrow(2, 0, used).copy_(store.narrow(2, 0, used));
  return grown;
}

}  // namespace

std::pair<at::Tensor, at::Tensor> KeyValueCache::append(std::size_t layer, const at::Tensor& keys,
                                                        const at::Tensor& values) {
  const at::NoGradGuard no_grad;
  if (layers_.size() <= layer) layers_.resize(layer + 1);
  Layer& kept = layers_[layer];
  if (kept.keys.defined() && kept.keys.size(0) != keys.size(0)) {
    throw UsageError("the cache has " + std::to_string(kept.keys.size(0)) + " rows, and the call " +
                     std::to_string(keys.size(0)));
  }
  const std::int64_t added = keys.size(2), all = kept.length + added;
  if (!kept.keys.defined() || kept.keys.size(2) < all) {
    kept.keys = with_room(kept.keys, keys, kept.length, all);
    kept.values = with_room(kept.values, values, kept.length, all);
  }
  kept.keys.narrow(2, kept.length, added).copy_(keys);
  kept.values.narrow(2, kept.length, added).copy_(values);
  kept.length = all;
  length_ = all;
  return {kept.keys.narrow(2, 0, all), kept.values.narrow(2, 0, all)};
}

std::optional<std::pair<at::Tensor, at::Tensor>> KeyValueCache::read(std::size_t layer) const {
  if (layer >= read_.size() || !read_[layer].first.defined()) return std::nullopt;
  return read_[layer];
}

void KeyValueCache::keep_read(std::size_t layer, const at::Tensor& keys, const at::Tensor& values) {
  if (read_.size() <= layer) read_.resize(layer + 1);
  read_[layer] = {keys.detach().contiguous(), values.detach().contiguous()};
  read_rows_.resize(static_cast<std::size_t>(keys.size(0)));
  std::iota(read_rows_.begin(), read_rows_.end(), 0);
}

std::int64_t KeyValueCache::read_length() const {
  return read_.empty() ? 0 : read_.front().first.size(2);
}

void KeyValueCache::select_rows(const at::Tensor& rows) {
  const at::NoGradGuard no_grad;
  const auto selected = [&](const at::Tensor& store, std::int64_t used) {
    std::vector<std::int64_t> shape = store.sizes().vec();
    shape[0] = rows.numel();
    at::Tensor chosen = at::empty(shape, store.options());
    at::Tensor kept = chosen.narrow(2, 0, used);
    at::index_select_out(kept, store.narrow(2, 0, used), 0, rows.to(store.device()));
    return chosen;
  };
  for (Layer& layer : layers_) {
    layer.keys = selected(layer.keys, layer.length);
    layer.values = selected(layer.values, layer.length);
  }
  const at::Tensor chosen = rows.to(at::kCPU, at::kLong).contiguous();
  const auto* row = chosen.const_data_ptr<std::int64_t>();
  if (!read_.empty()) {
    // The beams of a row read the same text: there is nothing to copy while they change places.
    std::vector<std::int64_t> read_rows;
    for (std::int64_t i = 0; i < chosen.numel(); ++i)
      read_rows.push_back(read_rows_.at(static_cast<std::size_t>(row[i])));
    if (read_rows != read_rows_) {
      for (auto& [keys, values] : read_) {
        keys = keys.index_select(0, rows.to(keys.device()));
        values = values.index_select(0, rows.to(values.device()));
      }
      read_rows_ = std::move(read_rows);
    }
  }
  if (positions_.empty()) return;
  std::vector<std::vector<std::int64_t>> kept;
  for (std::int64_t i = 0; i < chosen.numel(); ++i)
    kept.push_back(positions_.at(static_cast<std::size_t>(row[i])));
  positions_ = std::move(kept);
}

void KeyValueCache::crop(std::int64_t length) {
  if (length < 0 || length > length_) {
    throw UsageError("the cache has " + std::to_string(length_) + " tokens and cannot be cut to " +
                     std::to_string(length));
  }
  for (Layer& layer : layers_) layer.length = length;
  length_ = length;
}

std::vector<std::vector<std::int64_t>> KeyValueCache::positions() const {
  auto positions = positions_;
  // A call that failed may have left positions of tokens that never came.
  for (auto& row : positions) row.resize(static_cast<std::size_t>(length_), detail::kNoPosition);
  return positions;
}

void KeyValueCache::set_positions(std::vector<std::vector<std::int64_t>> positions) {
  positions_ = std::move(positions);
}

}  // namespace accelerate
