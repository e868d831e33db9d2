// Makes items ahead of use in several threads and hands them out in order. Needs no LibTorch, so it
// can be tested under ThreadSanitizer.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace accelerate::detail {

struct PrefetchOptions {
  std::size_t count = 0;     ///< Total number of items.
  std::size_t workers = 1;   ///< Threads.
  std::size_t capacity = 1;  ///< Items being made, or made and not yet taken, at any time.
};

/// Makes items 0 … count - 1 with `produce(worker, item)` on its own threads, at most `capacity`
/// ahead of the consumer. Item k waits in slot k mod capacity, so keeping the order needs no
/// sorting, and memory is bounded. Only one thread may consume. `produce` runs on many threads
/// simultaneously, each with its own `worker` number.
template <typename T>
class OrderedPrefetch {
 public:
  using Produce = std::function<T(std::size_t worker, std::size_t item)>;
  /// Called once on each thread with that thread's work. It may set up guards around the work.
  using AroundWorker = std::function<void(std::size_t worker, const std::function<void()>& work)>;

  /// Starts the threads. Throws std::system_error when the system refuses to start one.
  OrderedPrefetch(PrefetchOptions options, Produce produce, AroundWorker around = nullptr)
      : options_(options),
        produce_(std::move(produce)),
        around_(std::move(around)),
        slots_(options.capacity) {
    try {
      for (std::size_t worker = 0; worker < options_.workers; ++worker) {
        threads_.emplace_back([this, worker] { run(worker); });
      }
    } catch (...) {
      stop();
      throw;
    }
  }

  /// Starts no further item and waits for items being made.
  ~OrderedPrefetch() { stop(); }

  OrderedPrefetch(const OrderedPrefetch&) = delete;
  OrderedPrefetch& operator=(const OrderedPrefetch&) = delete;

  /// Returns the next item, waiting for it if necessary, or nullopt after the last. An exception
  /// that `produce` threw for this item is rethrown here, in its turn.
  std::optional<T> next() {
    std::unique_lock lock(mutex_);
    if (taken_ == options_.count) return std::nullopt;
    Slot& slot = slots_[taken_ % options_.capacity];
    ready_.wait(lock, [&] { return slot.full(); });
    Slot item = std::exchange(slot, Slot{});
    ++taken_;
    lock.unlock();
    room_.notify_one();
    if (item.error) std::rethrow_exception(item.error);
    return std::move(item.value);
  }

 private:
  struct Slot {
    std::optional<T> value;
    std::exception_ptr error;
    [[nodiscard]] bool full() const { return value.has_value() || error; }
  };

  void run(std::size_t worker) {
    const std::function<void()> work = [this, worker] {
      while (auto item = claim()) store(*item, make(worker, *item));
    };
    around_ ? around_(worker, work) : work();
  }

  // Waits until there is room for another item and returns its number. Returns nullopt if no work
  // is left.
  std::optional<std::size_t> claim() {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [this] {
      return stopping_ || claimed_ == options_.count || claimed_ < taken_ + options_.capacity;
    });
    if (stopping_ || claimed_ == options_.count) return std::nullopt;
    // The worker that claims the last item wakes the idle workers, so that they end.
    if (++claimed_ == options_.count) room_.notify_all();
    return claimed_ - 1;
  }

  Slot make(std::size_t worker, std::size_t item) noexcept {
    Slot slot;
    try {
      slot.value.emplace(produce_(worker, item));
    } catch (...) {
      slot.error = std::current_exception();
    }
    return slot;
  }

  void store(std::size_t item, Slot made) {
    bool awaited = false;
    {
      std::lock_guard lock(mutex_);
      slots_[item % options_.capacity] = std::move(made);
      awaited = item == taken_;
    }
    if (awaited) ready_.notify_one();
  }

  void stop() noexcept {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    room_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  const PrefetchOptions options_;
  const Produce produce_;
  const AroundWorker around_;

  std::mutex mutex_;
  std::condition_variable room_;   // Workers wait for room in the ring.
  std::condition_variable ready_;  // The consumer waits for its item.
  std::vector<Slot> slots_;        // Item k in slot k mod capacity.
  std::size_t claimed_ = 0;        // Items given to workers.
  std::size_t taken_ = 0;          // Items given to the consumer.
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace accelerate::detail
