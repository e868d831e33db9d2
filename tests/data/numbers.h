// Datasets whose samples are their own indices.
#pragma once

#include <torch/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

namespace accelerate::testing {

using Values = std::vector<std::int64_t>;

inline Values values_of(const at::Tensor& batch) {
  const auto* data = batch.const_data_ptr<std::int64_t>();
  return {data, data + batch.numel()};
}

template <typename Loader>
Values read_all(const Loader& loader) {
  Values all;
  for (auto& batch : loader) {
    const Values values = values_of(batch);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

inline Values counting(std::int64_t count) {
  Values values(count);
  std::iota(values.begin(), values.end(), 0);
  return values;
}

inline at::Tensor numbers(std::int64_t count) {
  return torch::arange(count);
}

/// Sample i is i; some samples throw, all take a while.
struct Brittle {
  std::size_t count = 20;
  std::set<std::size_t> broken = {};
  std::chrono::microseconds delay{0};
  [[nodiscard]] std::size_t size() const { return count; }
  [[nodiscard]] std::int64_t get(std::size_t index) const {
    if (delay.count() > 0) std::this_thread::sleep_for(delay);
    if (broken.contains(index)) throw std::runtime_error("bad JPEG");
    return static_cast<std::int64_t>(index);
  }
};

}  // namespace accelerate::testing
