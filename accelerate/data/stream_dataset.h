// Makes a StreamSource of a user's iterable dataset. A dataset is iterable when it cannot be read
// by index (accelerate/data/dataset_source.h) and has one of these, tried in this order:
//
//   next()              returns optional<Sample> (or a pointer); empty at the end
//   get_batch(size_t)   a torch::data StreamDataset or StatefulDataset: returns a vector of
//                       samples, or an optional vector; empty at the end
//   begin() and end()   any range: a list, a view, a user's class
//
// Before every pass set_epoch(epoch) is called, if the dataset has it. Otherwise its `generator` (a
// member or a function that is an at::Generator) is seeded with the epoch. size(), if it exists,
// gives the number of samples.
//
// Datasets of the first two kinds have a position, so every pass reads a copy of the dataset as it
// was given. A dataset that cannot be copied, or lies behind a shared_ptr, is read by one pass at a
// time. reset() is called before such a pass, if it exists; otherwise the next pass continues where
// the last one ended.
#pragma once

#include <ATen/core/Generator.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "accelerate/data/dataset_source.h"
#include "accelerate/data/sample_stream.h"

namespace accelerate::detail {

[[noreturn]] void throw_read_twice();

template <typename D>
concept NextReader = requires(D& dataset) {
  static_cast<bool>(dataset.next());
  *dataset.next();
};
template <typename D>
concept BlockReader =
    !BatchReader<D> && requires(D& dataset) { dataset.get_batch(std::size_t{1}); };
template <typename D>
concept RangeReader = requires(D& dataset) {
  *dataset.begin();
  static_cast<bool>(dataset.begin() != dataset.end());
};
template <typename D>
concept IterableStyle = !MapStyle<D> && (NextReader<D> || BlockReader<D> || RangeReader<D>);

template <typename T>
T& block_of(std::optional<T>& block) {
  return *block;
}
template <typename T>
T& block_of(T& block) {
  return block;
}

// A place in a dataset, from which samples are read one after the other.
template <typename D>
class Cursor;

template <NextReader D>
class Cursor<D> {
 public:
  using Sample = std::remove_cvref_t<decltype(*std::declval<D&>().next())>;
  explicit Cursor(std::shared_ptr<D> dataset) : dataset_(std::move(dataset)) {}
  std::optional<Sample> next() {
    auto sample = dataset_->next();
    if (!sample) return std::nullopt;
    return std::optional<Sample>(*std::move(sample));
  }

 private:
  std::shared_ptr<D> dataset_;
};

template <typename D>
  requires(!NextReader<D> && BlockReader<D>)
class Cursor<D> {
 public:
  using Got = std::remove_cvref_t<decltype(std::declval<D&>().get_batch(std::size_t{1}))>;
  using Block = std::remove_cvref_t<decltype(block_of(std::declval<Got&>()))>;
  using Sample = typename Block::value_type;
  explicit Cursor(std::shared_ptr<D> dataset)
      : dataset_(std::move(dataset)), left_(known_size(*dataset_)) {}
  std::optional<Sample> next() {
    if (left_ && *left_ == 0) return std::nullopt;
    auto got = dataset_->get_batch(std::size_t{1});
    if constexpr (requires { got.has_value(); }) {
      if (!got) return std::nullopt;
    }
    Block& block = block_of(got);
    if (block.empty()) return std::nullopt;
    if (left_) --*left_;
    return std::optional<Sample>(std::move(block.front()));
  }

 private:
  std::shared_ptr<D> dataset_;
  std::optional<std::size_t> left_;
};

template <typename D>
  requires(!NextReader<D> && !BlockReader<D> && RangeReader<D>)
class Cursor<D> {
 public:
  using Sample = std::remove_cvref_t<decltype(*std::declval<D&>().begin())>;
  explicit Cursor(std::shared_ptr<D> dataset)
      : dataset_(std::move(dataset)), next_(dataset_->begin()), end_(dataset_->end()) {}
  std::optional<Sample> next() {
    // A single-pass iterator reads the next element when it is incremented. So increment only when
    // the next sample is asked for, not ahead.
    if (std::exchange(started_, true) && next_ != end_) ++next_;
    if (!(next_ != end_)) return std::nullopt;
    return std::optional<Sample>(*next_);
  }

 private:
  std::shared_ptr<D> dataset_;
  decltype(std::declval<D&>().begin()) next_;
  decltype(std::declval<D&>().end()) end_;
  bool started_ = false;
};

/// The window of one pass over a dataset.
template <typename Batch, typename D, typename Collation>
class DatasetStream final : public SampleStream<Batch> {
 public:
  using Sample = typename Cursor<D>::Sample;

  DatasetStream(std::shared_ptr<D> dataset, Collation collate, std::shared_ptr<void> turn)
      : turn_(std::move(turn)), cursor_(std::move(dataset)), collate_(std::move(collate)) {}

  bool read() override {
    std::optional<Sample> sample = cursor_.next();
    if (!sample) return false;
    window_.push_back(*std::move(sample));
    return true;
  }
  void keep(std::size_t count) override {
    kept_.assign(window_.begin(), window_.begin() + static_cast<std::ptrdiff_t>(count));
  }
  Batch collate(std::size_t begin, std::size_t end, std::size_t present) override {
    std::vector<Sample> samples;
    samples.reserve(end - begin);
    for (std::size_t place = begin; place < end; ++place) {
      if (place < present) {
        samples.push_back(std::move(window_[place]));
      } else {
        samples.push_back(kept_[(place - present) % kept_.size()]);
      }
    }
    return collate_(std::move(samples));
  }
  void drop(std::size_t count) override {
    window_.erase(window_.begin(), window_.begin() + static_cast<std::ptrdiff_t>(count));
  }

 private:
  std::shared_ptr<void> turn_;  // While this lives, no other pass reads the dataset.
  Cursor<D> cursor_;
  Collation collate_;
  std::deque<Sample> window_;
  std::vector<Sample> kept_;
};

template <typename Batch, typename D, typename Collation>
class DatasetStreams final : public StreamSource<Batch> {
  static constexpr bool kHasPosition = NextReader<D> || BlockReader<D>;

 public:
  DatasetStreams(std::shared_ptr<D> dataset, bool owned, Collation collate)
      : dataset_(std::move(dataset)), owned_(owned), collate_(std::move(collate)) {}

  [[nodiscard]] std::optional<std::size_t> size() const override { return known_size(*dataset_); }

  std::unique_ptr<SampleStream<Batch>> open(std::int64_t epoch) override {
    if constexpr (kHasPosition && std::copy_constructible<D>) {
      if (owned_) return open(std::make_shared<D>(*dataset_), epoch, nullptr);
    }
    if constexpr (kHasPosition) {
      if (!turn_.expired()) throw_read_twice();
      auto turn = std::make_shared<char>();
      turn_ = turn;
      if constexpr (requires { dataset_->reset(); }) dataset_->reset();
      return open(dataset_, epoch, std::move(turn));
    } else {
      return open(dataset_, epoch, nullptr);
    }
  }

  [[nodiscard]] std::optional<at::Generator> generator() const override {
    return generator_of(*dataset_);
  }

 private:
  std::unique_ptr<SampleStream<Batch>> open(std::shared_ptr<D> dataset, std::int64_t epoch,
                                            std::shared_ptr<void> turn) {
    if constexpr (requires { dataset->set_epoch(epoch); }) {
      dataset->set_epoch(epoch);
    } else if (auto generator = generator_of(*dataset)) {
      generator->set_current_seed(static_cast<std::uint64_t>(epoch));
    }
    return std::make_unique<DatasetStream<Batch, D, Collation>>(std::move(dataset), collate_,
                                                                std::move(turn));
  }

  static std::optional<at::Generator> generator_of(D& dataset) {
    if constexpr (requires { at::Generator(dataset.generator); }) {
      if (at::Generator(dataset.generator).defined()) return dataset.generator;
    } else if constexpr (requires { at::Generator(dataset.generator()); }) {
      return dataset.generator();
    }
    return std::nullopt;
  }

  std::shared_ptr<D> dataset_;
  bool owned_;
  Collation collate_;
  std::weak_ptr<void> turn_;
};

template <typename D, typename Collation>
auto stream_with(std::shared_ptr<D> dataset, bool owned, Collation collate) {
  using Samples = std::vector<typename Cursor<D>::Sample>;
  using Batch = std::remove_cvref_t<std::invoke_result_t<Collation&, Samples>>;
  return std::shared_ptr<StreamSource<Batch>>(std::make_shared<DatasetStreams<Batch, D, Collation>>(
      std::move(dataset), owned, std::move(collate)));
}

/// Returns the stream of a dataset for which the user gave no collate function.
template <typename D>
auto stream_of(std::shared_ptr<D> dataset, bool owned) {
  static_assert(Collatable<typename Cursor<D>::Sample>,
                "make_data_loader does not know how to make a batch of these samples: pass a "
                "collate function (std::vector<Sample>) -> Batch as the last argument, or give the "
                "sample type a visit_tensors (accelerate/tensor/nested.h)");
  return stream_with(std::move(dataset), owned, DefaultCollate{});
}

}  // namespace accelerate::detail
