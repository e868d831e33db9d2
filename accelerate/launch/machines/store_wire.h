// The bytes between a c10d::TCPStore and its clients, as LibTorch 2.11 to 2.15 write them. Numbers
// are little-endian. A query is one byte, its kind, and its arguments; a text is its length in eight
// bytes and its bytes.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace accelerate::detail {

enum class StoreQuery : std::uint8_t {
  validate = 0,       ///< kStoreMagic: the first query of every client.
  set = 1,            ///< key, value. No answer.
  compare_set = 2,    ///< key, expected, wanted. Answers the value that is there then.
  get = 3,            ///< key. Answers the value.
  add = 4,            ///< key, number of eight bytes. Answers the sum.
  check = 5,          ///< count, keys. Answers kReady or kNotReady.
  wait = 6,           ///< count, keys. Answers kStopWaiting once all are there.
  count_keys = 7,     ///< Answers a number of eight bytes.
  delete_key = 8,     ///< key. Answers how many keys that removed.
  append = 9,         ///< key, value. No answer.
  multi_get = 10,     ///< count, keys. Answers the values.
  multi_set = 11,     ///< count, keys and values in turns. No answer.
  cancel_wait = 12,   ///< Answers kWaitCancelled.
  ping = 13,          ///< Four bytes, which are the answer.
  queue_push = 14,    ///< key, value. No answer.
  queue_pop = 15,     ///< key. Answers 1 and a value, or 0.
  queue_length = 16,  ///< key. Answers a number of eight bytes.
  list_keys = 17,     ///< Answers the count and the keys.
  barrier = 18,       ///< key, count. Answers kStopWaiting once so many wait.
};

inline constexpr std::uint32_t kStoreMagic = 0x3C85F7CE;
inline constexpr char kReady = 0, kNotReady = 1;
inline constexpr char kStopWaiting = 0, kWaitCancelled = 1;

/// After this time without a sign of life a launcher, or the store, counts as lost.
inline constexpr std::chrono::milliseconds kLostAfter{4000};

/// What a store accepts; the limits are c10d's.
struct StoreLimits {
  static constexpr std::size_t kKeys = std::size_t{128} << 10;  ///< Keys in one query.
  static constexpr std::size_t kKeyBytes = std::size_t{8} << 10;
  static constexpr std::size_t kValueBytes = std::size_t{8} << 20;
};

/// Appends the eight, four or one bytes of a number.
template <typename Number>
void append_number(std::string& out, Number number) {
  static_assert(std::is_integral_v<Number>);
  char bytes[sizeof number];
  std::memcpy(bytes, &number, sizeof number);
  out.append(bytes, sizeof number);
}

/// Appends the length of a text and the text.
inline void append_text(std::string& out, std::string_view text) {
  append_number<std::uint64_t>(out, text.size());
  out += text;
}

/// Reads arguments from bytes that may not have arrived completely. After the first argument that
/// is not there all others are empty, and `state` says why.
class StoreArguments {
 public:
  enum class State { complete, incomplete, beyond_limits };

  explicit StoreArguments(std::string_view bytes) : bytes_(bytes) {}

  template <typename Number>
  [[nodiscard]] Number number() {
    Number value{};
    const std::string_view raw = take(sizeof value);
    if (raw.size() == sizeof value) std::memcpy(&value, raw.data(), sizeof value);
    return value;
  }

  [[nodiscard]] std::string_view text(std::size_t limit) {
    const auto length = number<std::uint64_t>();
    if (length > limit) {
      state_ = State::beyond_limits;
      return {};
    }
    return take(static_cast<std::size_t>(length));
  }
  [[nodiscard]] std::string_view key() { return text(StoreLimits::kKeyBytes); }
  [[nodiscard]] std::string_view value() { return text(StoreLimits::kValueBytes); }

  /// Reads a count and so many keys, each followed by a value if `values`.
  [[nodiscard]] std::vector<std::string_view> keys(bool values = false) {
    const auto count = number<std::uint64_t>();
    if (count > StoreLimits::kKeys) state_ = State::beyond_limits;
    std::vector<std::string_view> all;
    for (std::uint64_t i = 0; i < count && state_ == State::complete; ++i) {
      all.push_back(key());
      if (values) all.push_back(value());
    }
    return all;
  }

  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] std::size_t used() const { return used_; }

 private:
  std::string_view take(std::size_t count) {
    if (state_ != State::complete) return {};
    if (bytes_.size() - used_ < count) {
      state_ = State::incomplete;
      return {};
    }
    used_ += count;
    return bytes_.substr(used_ - count, count);
  }

  std::string_view bytes_;
  std::size_t used_ = 0;
  State state_ = State::complete;
};

}  // namespace accelerate::detail
