#include "accelerate/base/write_behind.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "accelerate/base/aligned_bytes.h"
#include "accelerate/base/bytes.h"
#include "accelerate/base/signal_guards.h"

namespace accelerate {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{8} << 20;
constexpr std::size_t kLongBytes = std::size_t{1} << 20;        // Shorter pieces are gathered.
constexpr std::uint64_t kLargeBytes = std::uint64_t{32} << 20;  // Smaller: not worth a bypass.

// A cache that takes fewer bytes a second than this does not help.
constexpr std::size_t kJudgedBytes = std::size_t{32} << 20;
constexpr double kLeastBytesPerSecond = 512.0 * (1 << 20);

}  // namespace

class WriteBehind::Buffer {
 public:
  /// Takes at most `room` of `bytes`; returns how much that is.
  std::size_t append(std::string_view bytes, std::size_t room) {
    const std::size_t taken = std::min(bytes.size(), room);
    std::memcpy(data_.data() + size_, bytes.data(), taken);
    size_ += taken;
    return taken;
  }
  void clear() { size_ = 0; }
  [[nodiscard]] std::string_view content() const {
    return detail::byte_text(data_.bytes().first(size_));
  }

 private:
  AlignedBytes data_{kBufferBytes};
  std::size_t size_ = 0;
};

WriteBehind::WriteBehind(WritableFile& file, Options options)
    : file_(file),
      options_(std::move(options)),
      filling_(std::make_unique<Buffer>()),
      writing_(std::make_unique<Buffer>()) {
  file_.reserve(options_.size_bytes);
  bypasses_ = options_.durable && options_.size_bytes >= kLargeBytes;
  if (bypasses_) file_.bypass_cache();
}

WriteBehind::~WriteBehind() = default;

void WriteBehind::append(std::string_view bytes) {
  while (!bytes.empty()) {
    if (takes_at_once(bytes)) {
      flush();
      const auto piece = bytes.substr(0, kBufferBytes);
      begun_bytes_ += piece.size();
      put(piece);
      bytes.remove_prefix(piece.size());
      continue;
    }
    bytes.remove_prefix(filling_->append(bytes, room()));
    if (room() == 0) begin_write();
  }
}

void WriteBehind::finish() {
  flush();
}

// A write into the page cache is only a copy, so copying into a buffer first would double the work.
bool WriteBehind::takes_at_once(std::string_view bytes) const {
  return !options_.durable && !bypasses_ && bytes.size() >= kLongBytes;
}

// Returns the room in the buffer that is being filled. A full buffer ends at an aligned file
// offset, which a write past the cache needs.
std::size_t WriteBehind::room() const {
  const std::uint64_t begins = begun_bytes_ % WritableFile::kDirectAlignment;
  return kBufferBytes - begins - filling_->content().size();
}

void WriteBehind::flush() {
  await_write();
  begun_bytes_ += filling_->content().size();
  put(filling_->content());
  filling_->clear();
}

void WriteBehind::begin_write() {
  await_write();
  std::swap(filling_, writing_);
  begun_bytes_ += writing_->content().size();
  const BlockedSignals blocked;
  write_ = std::async(std::launch::async, [this] {
    put(writing_->content());
    writing_->clear();
  });
}

void WriteBehind::await_write() {
  if (write_.valid()) write_.get();
}

// Writes `bytes`. If the file will be synced, their way to the disk begins now.
void WriteBehind::put(std::string_view bytes) {
  if (bytes.empty()) return;
  const auto start = Clock::now();
  file_.write(bytes);
  judge_cache(bytes.size(), Clock::now() - start);
  if (options_.durable) file_.start_writeback(written_bytes_, bytes.size());
  written_bytes_ += bytes.size();
  if (options_.counter) options_.counter(bytes.size());
}

void WriteBehind::judge_cache(std::size_t bytes, Clock::duration taken) {
  judged_bytes_ += bytes;
  judged_time_ += taken;
  if (bypasses_ || judged_bytes_ < kJudgedBytes) return;
  const double seconds = std::chrono::duration<double>(judged_time_).count();
  bypasses_ = static_cast<double>(judged_bytes_) < kLeastBytesPerSecond * seconds;
  if (bypasses_) file_.bypass_cache();
  judged_bytes_ = 0;
  judged_time_ = {};
}

}  // namespace accelerate
