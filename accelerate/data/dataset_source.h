// Makes a BatchSource of a user's dataset. The first row that fits a type decides how it is read:
//
//   get_batch(ArrayRef<size_t>), size()     a torch::data dataset, also a mapped one (not an
//                                           iterable one)
//   get(index) or [index], and size()       any type of samples: a user's class, a vector
//   tensors of equal first dimension        a tensor, or a tuple, Example, map or struct of tensors
//
// Each may also come as a shared_ptr. The dataset is then shared, not copied.
//
// Threads. A dataset that can be read through a const reference is shared by all workers. As in the
// standard library, const access must then be safe from several threads. A dataset that cannot
// (torch::data declares get_batch non-const) is copied for each worker, as torch::data's own loader
// does; copies of tensors share memory. Behind a shared_ptr it cannot be copied, so workers take
// turns to call it.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>

#include <concepts>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/data/batch_source.h"
#include "accelerate/data/collate.h"
#include "accelerate/tensor/nested.h"

namespace accelerate::detail {

using BatchRequest = c10::ArrayRef<std::size_t>;

template <typename D>
concept BatchReader = requires(D& dataset, BatchRequest request) {
  dataset.get_batch(request);
  dataset.size();
};
template <typename D>
concept Getter = requires(D& dataset, std::size_t index) { dataset.get(index); };
template <typename D>
concept Subscript = requires(D& dataset, std::size_t index) { dataset[index]; };
// Maps have size() and [] too, but they hold named columns, not samples.
template <typename T>
inline constexpr bool kNamed = false;
template <typename Key, typename T, typename C, typename A>
inline constexpr bool kNamed<std::map<Key, T, C, A>> = true;
template <typename Key, typename T>
inline constexpr bool kNamed<torch::OrderedDict<Key, T>> = true;

template <typename D>
concept SampleReader = !std::same_as<std::remove_const_t<D>, at::Tensor> &&
                       !kNamed<std::remove_const_t<D>> && requires(const D& dataset) {
                         { dataset.size() } -> std::convertible_to<std::size_t>;
                       } && (Getter<D> || Subscript<D>);
template <typename D>
concept Columns = Nested<D> && !BatchReader<D> && !SampleReader<D>;

template <SampleReader D>
decltype(auto) read_sample(D& dataset, std::size_t index) {
  if constexpr (Getter<D>) {
    return dataset.get(index);
  } else {
    return dataset[index];
  }
}

/// Returns the number of samples if the dataset knows it. torch::data declares it as optional.
template <typename D>
std::optional<std::size_t> known_size(const D& dataset) {
  if constexpr (requires { dataset.size().has_value(); }) {
    const auto size = dataset.size();
    return size ? std::optional(static_cast<std::size_t>(*size)) : std::nullopt;
  } else if constexpr (requires { static_cast<std::size_t>(dataset.size()); }) {
    return static_cast<std::size_t>(dataset.size());
  } else {
    return std::nullopt;
  }
}

/// Returns the number of samples. Throws DataError when the dataset does not know it.
template <typename D>
std::size_t samples_of(const D& dataset) {
  if (const auto size = known_size(dataset)) return *size;
  throw DataError(
      "the dataset has no size, but is to be read by index; give it a size, or read it from "
      "its beginning by next() or begin() and end().",
      error_name::kNoLength);
}

/// Leaves samples, or a dataset's own batches, as they are.
struct NoCollate {
  template <typename T>
  T operator()(T value) const {
    return value;
  }
};
struct DefaultCollate {
  template <typename Sample>
  auto operator()(std::vector<Sample> samples) const {
    return default_collate(std::move(samples));
  }
};

// One thread's access to a dataset. D is const when all threads may read the same object.
template <typename D>
struct Access {
  std::shared_ptr<D> dataset;
  // Held during every read of an object that is shared and not const.
  std::shared_ptr<std::mutex> turn;

  [[nodiscard]] std::unique_lock<std::mutex> lock() const {
    return turn ? std::unique_lock(*turn) : std::unique_lock<std::mutex>();
  }
  [[nodiscard]] Access for_worker() const {
    if constexpr (!std::is_const_v<D> && std::copy_constructible<D>) {
      if (!turn) return {std::make_shared<D>(*dataset), nullptr};
    }
    return *this;
  }
};

template <typename Batch, typename D, typename Collation>
class DatasetSource final : public BatchSource<Batch> {
 public:
  DatasetSource(Access<D> access, Collation collate)
      : access_(std::move(access)), collate_(std::move(collate)) {}

  [[nodiscard]] std::size_t size() const override { return samples_of(*access_.dataset); }

  Batch fetch(std::span<const std::size_t> indices) override {
    auto held = access_.lock();
    if constexpr (BatchReader<D>) {
      return collate_(access_.dataset->get_batch(BatchRequest(indices.data(), indices.size())));
    } else {
      return collate_(read_samples(indices));
    }
  }

  [[nodiscard]] std::unique_ptr<BatchSource<Batch>> for_worker() const override {
    return std::make_unique<DatasetSource>(access_.for_worker(), collate_);
  }

 private:
  auto read_samples(std::span<const std::size_t> indices) {
    std::vector<std::remove_cvref_t<decltype(read_sample(*access_.dataset, 0))>> samples;
    samples.reserve(indices.size());
    for (std::size_t index : indices) {
      try {
        samples.push_back(read_sample(*access_.dataset, index));
      } catch (...) {
        throw_sample_error(index);
      }
    }
    return samples;
  }

  Access<D> access_;
  Collation collate_;
};

/// Reads columns of tensors: a batch takes the same rows of each tensor.
template <Nested Batch>
class ColumnSource final : public BatchSource<Batch> {
 public:
  explicit ColumnSource(std::shared_ptr<Batch> columns)
      : columns_(std::move(columns)), rows_(common_rows(collect_tensors(*columns_))) {}

  [[nodiscard]] std::size_t size() const override { return rows_; }
  Batch fetch(std::span<const std::size_t> indices) override {
    return map_tensors(*columns_, [&](at::Tensor& column) { return gather_rows(column, indices); });
  }
  [[nodiscard]] std::unique_ptr<BatchSource<Batch>> for_worker() const override {
    return std::make_unique<ColumnSource>(*this);
  }

 private:
  std::shared_ptr<Batch> columns_;
  std::size_t rows_;
};

template <typename Batch, typename D, typename Collation>
std::shared_ptr<BatchSource<Batch>> make_source(std::shared_ptr<D> dataset, bool owned,
                                                Collation collate) {
  constexpr bool shareable = [] {
    if constexpr (BatchReader<D>) {
      return BatchReader<const D>;
    } else {
      return SampleReader<const D>;
    }
  }();
  if constexpr (shareable) {
    return std::make_shared<DatasetSource<Batch, const D, Collation>>(
        Access<const D>{std::move(dataset), nullptr}, std::move(collate));
  } else {
    const bool copied = owned && std::copy_constructible<D>;
    auto turn = copied ? nullptr : std::make_shared<std::mutex>();
    return std::make_shared<DatasetSource<Batch, D, Collation>>(
        Access<D>{std::move(dataset), std::move(turn)}, std::move(collate));
  }
}

// The argument of collate: the samples of a batch, or what get_batch returns.
template <typename D>
struct Raw {
  using Sample = std::remove_cvref_t<decltype(read_sample(std::declval<D&>(), 0))>;
  using Type = std::vector<Sample>;
};
template <BatchReader D>
struct Raw<D> {
  using Type = std::remove_cvref_t<decltype(std::declval<D&>().get_batch(BatchRequest()))>;
};

template <typename T>
inline constexpr bool kDefaultCollated = false;
template <Collatable Sample>
inline constexpr bool kDefaultCollated<std::vector<Sample>> = true;

template <typename D, typename Collation>
auto source_with(std::shared_ptr<D> dataset, bool owned, Collation collate) {
  using Batch = std::remove_cvref_t<std::invoke_result_t<Collation&, typename Raw<D>::Type>>;
  return make_source<Batch>(std::move(dataset), owned, std::move(collate));
}

/// Returns the source of a dataset for which the user gave no collate function.
template <typename D>
auto source_of(std::shared_ptr<D> dataset, bool owned) {
  if constexpr (Columns<D>) {
    return std::shared_ptr<BatchSource<D>>(std::make_shared<ColumnSource<D>>(std::move(dataset)));
  } else if constexpr (kDefaultCollated<typename Raw<D>::Type>) {
    return source_with(std::move(dataset), owned, DefaultCollate{});
  } else {
    static_assert(
        BatchReader<D>,
        "make_data_loader does not know how to make a batch of these samples: pass a collate "
        "function (std::vector<Sample>) -> Batch as the last argument, or give the sample "
        "type a visit_tensors (accelerate/tensor/nested.h)");
    return source_with(std::move(dataset), owned, NoCollate{});
  }
}

// A class that would be a dataset if its size() were const.
template <typename D>
concept HasMutableSize =
    !SampleReader<D> && !BatchReader<D> && (Getter<D> || Subscript<D>) &&
    requires(D& dataset) { dataset.size(); } && !requires(const D& dataset) { dataset.size(); };

/// Whether `Collation` makes a batch of what a worker hands to it, a temporary.
template <typename Collation, typename D>
concept CollatesFor = std::invocable<Collation&, typename Raw<D>::Type>;

template <typename D>
concept MapStyle = BatchReader<D> || SampleReader<D> || Columns<D>;

template <typename T>
struct Pointee {
  using Type = T;
  static constexpr bool kOwned = true;
  static std::shared_ptr<T> share(T dataset) { return std::make_shared<T>(std::move(dataset)); }
};
template <typename T>
struct Pointee<std::shared_ptr<T>> {
  using Type = T;
  static constexpr bool kOwned = false;
  static std::shared_ptr<T> share(std::shared_ptr<T> dataset) {
    if (!dataset)
      throw UsageError("make_data_loader was given a null shared_ptr instead of a dataset.");
    return dataset;
  }
};

}  // namespace accelerate::detail
