// Lets rank 0 read what every rank of a group says, and answer all of them. So the queries of the
// other ranks do not grow with the group.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace c10d {
class Store;
}

namespace accelerate::detail {

/// What rank 0 answers.
struct RollAnswer {
  std::string to_all;
  std::map<std::string, std::string> to_some;  ///< By the name of a section, such as a machine.
};

/// Every rank says something once, and rank 0 answers once. Cost of a rank: say() one message to the
/// store, is_ready() one query, answer() one or two. For rank 0 is_ready() costs a query for each
/// thousand ranks that have come since the last call, and answer() reads them in as many.
class RollCall {
 public:
  /// `name` begins the keys in the store.
  RollCall(c10::intrusive_ptr<c10d::Store> store, int rank, int size, std::string name);

  void say(const std::string& text);

  /// Rank 0: whether all ranks have said something. Other ranks: whether rank 0 has answered.
  [[nodiscard]] bool is_ready();

  /// To be called when is_ready(). Rank 0 answers by `decide`, which gets what the ranks said, by
  /// rank. Returns the answer to all ranks, with the answer to `section` alone, if one is asked for.
  /// When `decide` throws a ConfigError or another exception, every rank throws it, as a
  /// ConfigError or a CommError.
  [[nodiscard]] RollAnswer answer(
      const std::function<RollAnswer(const std::vector<std::string>&)>& decide,
      const std::string* section = nullptr);

  /// Lets the other ranks throw `error` as a CommError instead of waiting for an answer that will
  /// never come. Only rank 0 does something. Never throws.
  void give_up(const std::exception& error) noexcept;

  /// Returns the ranks that have said nothing yet. Cost: for each of them about two queries for each
  /// time that the group can be halved.
  [[nodiscard]] std::vector<int> missing();

 private:
  [[nodiscard]] std::string key(int rank) const;
  [[nodiscard]] std::string answer_key() const;
  [[nodiscard]] std::vector<std::string> keys(int begin, int end) const;
  [[nodiscard]] std::vector<std::string> all_notes();
  void find_missing(int begin, int end, std::vector<int>& ranks);
  void write(const std::string& kind, const RollAnswer& answer);

  c10::intrusive_ptr<c10d::Store> store_;
  int rank_;
  int size_;
  std::string name_;
  int come_ = 0;  // Of rank 0: all ranks below have said something.
};

/// Returns the values of `keys`, in few round trips where the store can.
[[nodiscard]] std::vector<std::vector<std::uint8_t>> read_values(
    c10d::Store& store, const std::vector<std::string>& keys);

/// The pauses between looks of a rank that waits. They grow, up to a length at which the store gets
/// about twenty thousand questions a second from all ranks.
class PollPause {
 public:
  explicit PollPause(int size);
  void rest();

 private:
  std::chrono::microseconds pause_{50};
  std::chrono::microseconds longest_;
};

}  // namespace accelerate::detail
