#include "accelerate/comm/shared_memory/host_notes.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <algorithm>
#include <iterator>
#include <limits>
#include <sstream>
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
constexpr const char* kAnswered = "said who shares a host";
constexpr std::size_t kLinesOfCard = 6;

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
  const auto lines = lines_of(text, kLinesOfCard);
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

// Each card stands after the number of its rank.
std::map<int, HostCard> cards_in(const std::string& text, int size) {
  std::map<int, HostCard> cards;
  const auto lines = split(text, '\n');
  for (std::size_t at = 0; at + kLinesOfCard < lines.size(); at += 1 + kLinesOfCard) {
    const auto rank = parse_int(lines[at]);
    if (!rank || *rank < 0 || *rank >= size) continue;
    const auto first = lines.begin() + static_cast<std::ptrdiff_t>(at) + 1;
    cards.emplace(static_cast<int>(*rank), card_from(join({first, first + kLinesOfCard}, "\n")));
  }
  return cards;
}

// The hosts of ranks that follow one another: "0*8 1*8" when each of two hosts has eight ranks. In
// this form a host takes a few bytes, however many ranks it has.
std::string to_text(const HostNumbers& numbers) {
  if (!numbers.why_not.empty()) return one_line(numbers.why_not);
  std::string text = "\n";
  const auto& hosts = numbers.host_of;
  for (auto begin = hosts.begin(); begin != hosts.end();) {
    const auto end = std::find_if(begin, hosts.end(), [&](int host) { return host != *begin; });
    text += std::to_string(*begin) + "*" + std::to_string(end - begin) + " ";
    begin = end;
  }
  return text;
}

HostNumbers numbers_in(const std::string& text, int size) {
  HostNumbers numbers;
  if (!text.starts_with('\n')) {
    numbers.why_not = untrusted_text(text);
    return numbers;
  }
  std::istringstream runs(text);
  char times = '*';
  for (int host = 0, count = 0; runs >> host >> times >> count;) {
    if (times != '*' || host < 0 || host >= size || count < 1) break;
    numbers.host_of.insert(numbers.host_of.end(),
                           static_cast<std::size_t>(std::min(count, size + 1)), host);
    if (std::ssize(numbers.host_of) > size) break;
  }
  if (std::ssize(numbers.host_of) == size) return numbers;
  throw CommError("the job's store does not say on which host each of " + std::to_string(size) +
                  " ranks is. Does another program write to the store?");
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

std::string HostNotes::name_of_all(const Kind& kind) {
  return std::string("accelerate/hosts/") + kind.name;
}

HostCards HostNotes::exchange(
    const HostCard& own,
    const std::function<std::string(const std::vector<HostCard>&)>& reason_in) {
  const auto decide = [&](const std::vector<std::string>& notes) {
    std::vector<HostCard> cards;
    for (const auto& text : notes) cards.push_back(card_from(text));
    RollAnswer answer{.to_all = reason_in(cards), .to_some = {}};
    for (std::size_t rank = 0; rank < cards.size(); ++rank) {
      std::string& of_machine = answer.to_some[cards[rank].boot];
      of_machine += join({std::to_string(rank), to_text(cards[rank])}, "\n") + "\n";
    }
    return answer;
  };
  auto answer = tell(kCard, to_text(own), decide, &own.boot);
  return {cards_in(answer.to_some[own.boot], size_), untrusted_text(answer.to_all)};
}

HostNumbers HostNotes::exchange(
    const HostVerdict& own,
    const std::function<HostNumbers(const std::vector<HostVerdict>&)>& decide) {
  const auto answer = tell(kVerdict, to_text(own), [&](const std::vector<std::string>& notes) {
    std::vector<HostVerdict> verdicts;
    for (const auto& text : notes) verdicts.push_back(verdict_from(text));
    return RollAnswer{.to_all = to_text(decide(verdicts)), .to_some = {}};
  });
  return numbers_in(answer.to_all, size_);
}

std::optional<HostVerdict> HostNotes::verdict_of(int rank) {
  const std::string key = name_of_all(kVerdict) + "/" + std::to_string(rank);
  return through_the_store([&]() -> std::optional<HostVerdict> {
    if (!store_->check({key})) return std::nullopt;
    return verdict_from(to_text(store_->get(key)));
  });
}

RollAnswer HostNotes::tell(const Kind& kind, const std::string& text,
                           const std::function<RollAnswer(const std::vector<std::string>&)>& decide,
                           const std::string* section) {
  return through_the_store([&] {
    RollCall call(store_, rank_, size_, name_of_all(kind));
    call.say(text);
    try {
      wait(call, kind);
    } catch (const CommError& error) {
      call.give_up(error);
      throw;
    }
    return call.answer(decide, section);
  });
}

// Polls instead of waiting: c10d prints a warning when a wait ends early.
void HostNotes::wait(RollCall& call, const Kind& kind) {
  auto next_report = kWaitSlice;
  for (PollPause pause(size_); !call.is_ready(); pause.rest()) {
    const bool is_over = deadline_.is_over();
    if (!is_over && deadline_.waited() < next_report) continue;
    const auto missing = call.missing();
    if (is_over && missing.empty()) throw_late({0}, kAnswered);
    if (is_over) throw_late(missing, kind.deed);
    next_report += kWaitSlice;
    get_logger("accelerate.comm")
        .warning("rank " + std::to_string(rank_) + " waits for " +
                     names_of(missing.empty() ? std::vector{0} : missing) +
                     " to find out who shares a host",
                 {.main_process_only = false});
  }
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
