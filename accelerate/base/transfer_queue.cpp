#include "accelerate/base/transfer_queue.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "accelerate/base/bytes.h"
#include "accelerate/base/error.h"
#include "accelerate/base/signal_guards.h"

namespace accelerate {
namespace {

// The system takes no more than about 2 GiB a call anyway.
constexpr std::size_t kMostPieceBytes = std::size_t{1} << 30;

}  // namespace

/// What the caller's Transfer and the threads share.
class Transfer::State {
 public:
  /// Moves the bytes [first, first + size) of the transfer.
  using Move = std::function<void(std::size_t first, std::size_t size)>;

  State(std::uint64_t offset, std::size_t size, Move move)
      : offset_(offset), size_(size), move_(std::move(move)), left_(size) {}

  struct Piece {
    std::size_t first, size;
    bool is_last;
  };
  /// Returns the next piece. Calls must not overlap, nor follow the last piece.
  Piece next_piece(std::size_t piece_bytes) {
    const std::size_t first = begun_;
    begun_ += std::min(size_ - first, piece_bytes - (offset_ + first) % piece_bytes);
    return {first, begun_ - first, begun_ == size_};
  }

  /// Moves the piece unless another one failed, and adds its size to `moved`.
  void run(const Piece& piece, std::atomic<std::uint64_t>& moved) {
    std::exception_ptr failure;
    if (!has_failed_) {
      try {
        move_(piece.first, piece.size);
        moved += piece.size;
      } catch (...) {
        failure = std::current_exception();
      }
    }
    const std::lock_guard lock(mutex_);
    if (failure && !failure_) failure_ = failure;
    if (failure) has_failed_ = true;
    left_ -= piece.size;
    if (left_ == 0) done_.notify_all();
  }

  /// Returns the first failure, null if there was none.
  std::exception_ptr await() {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return left_ == 0; });
    return failure_;
  }
  bool is_done() {
    const std::lock_guard lock(mutex_);
    return left_ == 0;
  }

 private:
  const std::uint64_t offset_;
  const std::size_t size_;
  const Move move_;
  std::size_t begun_ = 0;  // Guarded by the mutex of the lane.
  std::atomic<bool> has_failed_ = false;
  std::mutex mutex_;  // Guards all below.
  std::condition_variable done_;
  std::size_t left_;  // Bytes of pieces that have not ended.
  std::exception_ptr failure_;
};

Transfer::Transfer() = default;

Transfer::Transfer(std::shared_ptr<State> state) : state_(std::move(state)) {}

Transfer::Transfer(Transfer&& other) noexcept = default;

Transfer& Transfer::operator=(Transfer&& other) noexcept {
  if (this == &other) return *this;
  finish();
  state_ = std::move(other.state_);
  return *this;
}

Transfer::~Transfer() {
  finish();
}

void Transfer::finish() noexcept {
  if (state_) state_->await();
}

void Transfer::wait() {
  if (!state_) return;
  if (const std::exception_ptr failure = state_->await()) std::rethrow_exception(failure);
}

bool Transfer::is_done() const {
  return !state_ || state_->is_done();
}

/// Transfers in one direction, and the threads that carry them out.
class TransferQueue::Lane {
 public:
  Lane(const Options& options, const char* name)
      : threads_wanted_(options.threads),
        piece_bytes_(detail::round_up(std::min(options.piece_bytes, kMostPieceBytes),
                                      DirectFile::kAlignment)),
        name_(name) {}
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  void add(std::shared_ptr<Transfer::State> transfer);
  [[nodiscard]] std::uint64_t bytes_moved() const { return bytes_moved_; }

 private:
  void start_threads();
  void work();

  const std::size_t threads_wanted_, piece_bytes_;
  const char* const name_;
  std::atomic<std::uint64_t> bytes_moved_ = 0;
  std::mutex mutex_;  // Guards all below.
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Transfer::State>> waiting_;  // They have pieces that have not begun.
  bool is_closing_ = false;
  std::vector<std::thread> threads_;
};

TransferQueue::Lane::~Lane() {
  {
    const std::lock_guard lock(mutex_);
    is_closing_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void TransferQueue::Lane::add(std::shared_ptr<Transfer::State> transfer) {
  const std::lock_guard lock(mutex_);
  if (threads_.empty()) start_threads();
  waiting_.push_back(std::move(transfer));
  changed_.notify_all();
}

void TransferQueue::Lane::start_threads() {
  const BlockedSignals blocked;
  threads_.reserve(threads_wanted_);
  try {
    while (threads_.size() < threads_wanted_) threads_.emplace_back([this] { work(); });
  } catch (const std::system_error&) {
    if (threads_.empty()) throw;
    // The threads that were started do the work.
  }
}

void TransferQueue::Lane::work() {
  ::pthread_setname_np(::pthread_self(), name_);
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return is_closing_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const std::shared_ptr<Transfer::State> transfer = waiting_.front();
    const auto piece = transfer->next_piece(piece_bytes_);
    if (piece.is_last) waiting_.pop_front();
    lock.unlock();
    transfer->run(piece, bytes_moved_);
    lock.lock();
  }
}

TransferQueue::TransferQueue() : TransferQueue(Options{}) {}

TransferQueue::TransferQueue(Options options) {
  if (options.threads == 0 || options.piece_bytes == 0) {
    throw UsageError("TransferQueue needs at least one thread and pieces of at least one byte");
  }
  reading_ = std::make_unique<Lane>(options, "file-read");
  writing_ = std::make_unique<Lane>(options, "file-write");
}

TransferQueue::~TransferQueue() = default;

Transfer TransferQueue::read(const DirectFile& file, std::uint64_t offset,
                             std::span<std::byte> into) {
  if (into.empty()) return {};
  auto state = std::make_shared<Transfer::State>(
      offset, into.size(), [&file, offset, into](std::size_t first, std::size_t size) {
        file.read(offset + first, into.subspan(first, size));
      });
  reading_->add(state);
  return Transfer(std::move(state));
}

Transfer TransferQueue::write(const DirectFile& file, std::uint64_t offset,
                              std::span<const std::byte> bytes) {
  if (bytes.empty()) return {};
  auto state = std::make_shared<Transfer::State>(
      offset, bytes.size(), [&file, offset, bytes](std::size_t first, std::size_t size) {
        file.write(offset + first, bytes.subspan(first, size));
      });
  writing_->add(state);
  return Transfer(std::move(state));
}

std::uint64_t TransferQueue::bytes_read() const {
  return reading_->bytes_moved();
}

std::uint64_t TransferQueue::bytes_written() const {
  return writing_->bytes_moved();
}

}  // namespace accelerate
