#include "accelerate/comm/shared_memory/host_notes.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <algorithm>
#include <limits>
#include <thread>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/logger.h"
#include "accelerate/base/text.h"
#include "accelerate/base/untrusted_text.h"
#include "accelerate/comm/diagnosis.h"

namespace accelerate::detail {
namespace {

constexpr HostNotes::Kind kCard{"card", "come"};
constexpr HostNotes::Kind kVerdict{"verdict", "said whether it reads its peers' memory"};

std::string to_text(const std::vector<std::uint8_t>& bytes) {
  return {bytes.begin(), bytes.end()};
}

// Puts a reason on one line, because notes consist of lines.
std::string one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

// Returns `count` lines of a note; missing lines are empty.
std::vector<std::string> lines_of(const std::string& text, std::size_t count) {
  auto lines = split(text, '\n');
  lines.resize(count);
  return lines;
}

std::string to_text(const HostCard& card) {
  return join(
      {card.version, card.boot, card.socket, card.token, card.nonce, one_line(card.why_not)}, "\n");
}

HostCard card_from(const std::string& text) {
  const auto lines = lines_of(text, 6);
  return {untrusted_text(lines[0]), lines[1], lines[2], lines[3], lines[4],
          untrusted_text(lines[5])};
}

std::string to_text(const HostVerdict& verdict) {
  return join({std::to_string(verdict.leader), one_line(verdict.why_not),
               verdict.because_of_another ? "another" : ""},
              "\n");
}

HostVerdict verdict_from(const std::string& text) {
  const auto lines = lines_of(text, 3);
  const auto leader = parse_int(lines[0]).value_or(-1);
  return {leader < 0 || leader > std::numeric_limits<int>::max() ? -1 : static_cast<int>(leader),
          untrusted_text(lines[1]), lines[2] == "another"};
}

std::string names_of(const std::vector<int>& ranks) {
  std::vector<std::string> names;
  for (const int rank : ranks) names.push_back(std::to_string(rank));
  return (names.size() == 1 ? "rank " : "ranks ") + join(names, ", ");
}

// Runs a function that uses the store, and turns its failures into a CommError that explains them.
template <typename Function>
auto through_the_store(Function&& function) {
  try {
    return function();
  } catch (const CommError&) {
    throw;
  } catch (const std::exception& error) {
    throw CommError("finding out who shares this host failed: " + first_line(error) +
                        ". The store, which rank 0 or its launcher hosts, does not answer: it has "
                        "ended or crashed.",
                    error_name::kRankLost);
  }
}

}  // namespace

HostNotes::HostNotes(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                     const Deadline& deadline)
    : store_(std::move(store)), rank_(rank), size_(size), deadline_(deadline) {}

std::string HostNotes::key(const Kind& kind, int rank) {
  return std::string("accelerate/hosts/") + kind.name + "/" + std::to_string(rank);
}

std::vector<HostCard> HostNotes::exchange(const HostCard& own) {
  std::vector<HostCard> cards;
  for (const auto& text : tell(kCard, to_text(own))) cards.push_back(card_from(text));
  return cards;
}

std::vector<HostVerdict> HostNotes::exchange(const HostVerdict& own) {
  std::vector<HostVerdict> verdicts;
  for (const auto& text : tell(kVerdict, to_text(own))) verdicts.push_back(verdict_from(text));
  return verdicts;
}

std::optional<HostVerdict> HostNotes::verdict_of(int rank) {
  return through_the_store([&]() -> std::optional<HostVerdict> {
    if (!store_->check({key(kVerdict, rank)})) return std::nullopt;
    return verdict_from(to_text(store_->get(key(kVerdict, rank))));
  });
}

std::vector<std::string> HostNotes::tell(const Kind& kind, const std::string& text) {
  return through_the_store([&] {
    store_->set(key(kind, rank_), std::vector<std::uint8_t>(text.begin(), text.end()));
    wait_for_all(kind);
    std::vector<std::string> keys;
    for (int rank = 0; rank < size_; ++rank) keys.push_back(key(kind, rank));
    std::vector<std::string> texts;
    if (store_->hasExtendedApi()) {  // one round trip for all of them
      for (const auto& bytes : store_->multiGet(keys)) texts.push_back(to_text(bytes));
    } else {
      for (const auto& each : keys) texts.push_back(to_text(store_->get(each)));
    }
    return texts;
  });
}

// Polls instead of waiting: c10d prints a warning when a wait ends early.
void HostNotes::wait_for_all(const Kind& kind) {
  constexpr std::chrono::microseconds kLongestPause{5'000};
  std::vector<std::string> keys;
  for (int rank = 0; rank < size_; ++rank) {
    if (rank != rank_) keys.push_back(key(kind, rank));
  }
  auto next_report = kWaitSlice;
  for (std::chrono::microseconds pause{50}; !keys.empty() && !store_->check(keys);
       pause = std::min(pause * 3 / 2, kLongestPause)) {
    if (deadline_.is_over()) throw_late(missing(kind), kind.deed);
    std::this_thread::sleep_for(pause);
    if (deadline_.waited() < next_report) continue;
    next_report += kWaitSlice;
    get_logger("accelerate.comm")
        .warning("rank " + std::to_string(rank_) + " waits for " + names_of(missing(kind)) +
                     " to find out who shares a host",
                 {.main_process_only = false});
  }
}

std::vector<int> HostNotes::missing(const Kind& kind) {
  std::vector<int> ranks;
  for (int rank = 0; rank < size_; ++rank) {
    if (!store_->check({key(kind, rank)})) ranks.push_back(rank);
  }
  return ranks;
}

void HostNotes::throw_late(const std::vector<int>& ranks, const std::string& what) const {
  throw CommError(
      "rank " + std::to_string(rank_) + " of " + std::to_string(size_) +
          " finds out who shares its host: " + names_of(ranks) + " had not " + what +
          " within the timeout of " + format_duration(deadline_.timeout()) +
          ". Were all ranks started, with the same MASTER_ADDR and MASTER_PORT, and do all "
          "of them still run?",
      error_name::kRanksDoNotMeet);
}

}  // namespace accelerate::detail
