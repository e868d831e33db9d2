// Iterable datasets whose samples are numbers.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <list>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <vector>

namespace accelerate::testing {

/// 0 … count − 1, as a range that knows its size.
struct CountingRange {
  explicit CountingRange(std::int64_t count) : count(count) {}
  std::int64_t count;
  [[nodiscard]] std::vector<std::int64_t>::const_iterator begin() {
    values.resize(static_cast<std::size_t>(count));
    std::iota(values.begin(), values.end(), first);
    return values.begin();
  }
  [[nodiscard]] std::vector<std::int64_t>::const_iterator end() const { return values.end(); }
  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(count); }
  std::int64_t first = 0;
  std::vector<std::int64_t> values;
};

/// Knows its epoch: sample i of epoch e is i + 100 e.
struct EpochRange : CountingRange {
  using CountingRange::CountingRange;
  void set_epoch(std::int64_t epoch) { first = 100 * epoch; }
};

/// 0 … count − 1 by next(), of unknown number; may fail at one of them.
struct CountingReader {
  std::int64_t count = 0;
  std::int64_t broken = -1;
  std::int64_t at = 0;
  std::optional<std::int64_t> next() {
    if (at == broken) throw std::runtime_error("connection lost");
    if (at == count) return std::nullopt;
    return at++;
  }
};

/// Draws its order from a generator.
struct DrawnReader {
  explicit DrawnReader(std::int64_t count) : count(count) {}
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>();
  std::int64_t count;
  std::int64_t at = 0;
  at::Tensor order;
  std::optional<std::int64_t> next() {
    if (!order.defined()) order = torch::randperm(count, generator, at::kLong);
    if (at == count) return std::nullopt;
    return order[at++].item<std::int64_t>();
  }
};

/// torch::data's own kind.
struct TorchStream : torch::data::datasets::StreamDataset<TorchStream, std::vector<std::int64_t>> {
  explicit TorchStream(std::size_t count) : count(count) {}
  std::vector<std::int64_t> get_batch(std::size_t size) override {
    std::vector<std::int64_t> values(size);
    for (auto& value : values) value = at++;
    return values;
  }
  [[nodiscard]] std::optional<std::size_t> size() const override { return count; }
  std::size_t count;
  std::int64_t at = 0;
};

}  // namespace accelerate::testing
