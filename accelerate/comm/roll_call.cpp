#include "accelerate/comm/roll_call.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <algorithm>
#include <exception>
#include <iterator>
#include <string_view>
#include <thread>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/untrusted_text.h"

namespace accelerate::detail {
namespace {

constexpr int kKeysAQuery = 1'000;
constexpr std::string_view kFine = "fine\n";
constexpr std::string_view kConfigError = "ConfigError\n";
constexpr std::string_view kCommError = "CommError\n";

std::vector<std::uint8_t> value_of(std::string_view text) {
  return {text.begin(), text.end()};
}

std::string text_in(const std::vector<std::uint8_t>& value) {
  return {value.begin(), value.end()};
}

// Returns the answer in a value of the store, or throws what rank 0 has thrown.
std::string answer_in(const std::string& value) {
  if (value.starts_with(kFine)) return value.substr(kFine.size());
  if (value.starts_with(kConfigError))
    throw ConfigError(untrusted_text(value.substr(kConfigError.size())));
  if (value.starts_with(kCommError))
    throw CommError(untrusted_text(value.substr(kCommError.size())));
  throw CommError("the job's store holds an invalid answer of rank 0: " + untrusted_text(value) +
                  ". Does another program write to the store?");
}

}  // namespace

RollCall::RollCall(c10::intrusive_ptr<c10d::Store> store, int rank, int size, std::string name)
    : store_(std::move(store)), rank_(rank), size_(size), name_(std::move(name)) {}

std::string RollCall::key(int rank) const {
  return name_ + "/" + std::to_string(rank);
}

std::string RollCall::answer_key() const {
  return name_ + "/answer";
}

std::vector<std::string> RollCall::keys(int begin, int end) const {
  std::vector<std::string> keys;
  for (int rank = begin; rank < end; ++rank) keys.push_back(key(rank));
  return keys;
}

void RollCall::say(const std::string& text) {
  store_->set(key(rank_), value_of(text));
}

bool RollCall::is_ready() {
  if (rank_ != 0) return store_->check({answer_key()});
  while (come_ < size_) {
    const int end = std::min(come_ + kKeysAQuery, size_);
    if (!store_->check(keys(come_, end))) return false;
    come_ = end;
  }
  return true;
}

std::vector<std::string> RollCall::all_notes() {
  std::vector<std::string> notes;
  for (const auto& value : read_values(*store_, keys(0, size_))) notes.push_back(text_in(value));
  return notes;
}

RollAnswer RollCall::answer(
    const std::function<RollAnswer(const std::vector<std::string>&)>& decide,
    const std::string* section) {
  RollAnswer answer;
  if (rank_ != 0) {
    answer.to_all = answer_in(text_in(store_->get(answer_key())));
    if (section != nullptr)
      answer.to_some[*section] = text_in(store_->get(answer_key() + "/" + *section));
    return answer;
  }
  try {
    answer = decide(all_notes());
  } catch (const ConfigError& error) {
    write(std::string(kConfigError), {error.what(), {}});
    throw;
  } catch (const std::exception& error) {
    write(std::string(kCommError), {error.what(), {}});
    throw;
  }
  write(std::string(kFine), answer);
  return answer;
}

// The answers to some come first, because ranks look only for the answer to all.
void RollCall::write(const std::string& kind, const RollAnswer& answer) {
  std::vector<std::string> keys;
  std::vector<std::vector<std::uint8_t>> values;
  for (const auto& [section, text] : answer.to_some) {
    keys.push_back(answer_key() + "/" + section);
    values.push_back(value_of(text));
  }
  if (store_->hasExtendedApi() && keys.size() > 1) {
    store_->multiSet(keys, values);
  } else {
    for (std::size_t i = 0; i < keys.size(); ++i) store_->set(keys[i], values[i]);
  }
  store_->set(answer_key(), value_of(kind + answer.to_all));
}

void RollCall::give_up(const std::exception& error) noexcept {
  if (rank_ != 0) return;
  try {
    write(std::string(kCommError), {error.what(), {}});
  } catch (...) {
    // The store is gone, so nobody could read the reason.
  }
}

std::vector<int> RollCall::missing() {
  std::vector<int> ranks;
  find_missing(0, size_, ranks);
  return ranks;
}

void RollCall::find_missing(int begin, int end, std::vector<int>& ranks) {
  if (store_->check(keys(begin, end))) return;
  if (end - begin == 1) return ranks.push_back(begin);
  const int middle = begin + (end - begin) / 2;
  find_missing(begin, middle, ranks);
  find_missing(middle, end, ranks);
}

std::vector<std::vector<std::uint8_t>> read_values(c10d::Store& store,
                                                   const std::vector<std::string>& keys) {
  std::vector<std::vector<std::uint8_t>> values;
  if (!store.hasExtendedApi()) {
    for (const auto& key : keys) values.push_back(store.get(key));
    return values;
  }
  for (std::size_t begin = 0; begin < keys.size(); begin += kKeysAQuery) {
    const auto end = std::min(begin + kKeysAQuery, keys.size());
    auto some = store.multiGet({keys.begin() + static_cast<std::ptrdiff_t>(begin),
                                keys.begin() + static_cast<std::ptrdiff_t>(end)});
    std::ranges::move(some, std::back_inserter(values));
  }
  return values;
}

PollPause::PollPause(int size)
    : longest_(std::clamp<std::chrono::microseconds>(std::chrono::microseconds(50) * size,
                                                     std::chrono::milliseconds(5),
                                                     std::chrono::milliseconds(500))) {}

void PollPause::rest() {
  std::this_thread::sleep_for(pause_);
  pause_ = std::min(pause_ * 3 / 2, longest_);
}

}  // namespace accelerate::detail
