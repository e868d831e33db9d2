// How the ranks of a group come together: each leaves its process card, and rank 0 says when all
// have come.
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/base/logger.h"
#include "accelerate/base/text.h"
#include "accelerate/comm/diagnosis.h"
#include "accelerate/comm/roll_call.h"

namespace accelerate::detail {
namespace {

constexpr std::size_t kLinesOfCard = 3;

// Returns the first lines of `text`, as many as a process card has; "" if there are fewer.
std::string card_in(std::string_view text) {
  auto lines = split(text, '\n');
  if (lines.size() < kLinesOfCard) return "";
  lines.resize(kLinesOfCard);
  return join(lines, "\n");
}

// Processes of one machine have the same last line, and can see whether the others live.
std::string machine_of(const std::string& card) {
  return card.substr(card.rfind('\n') + 1);
}

// Returns the cards by machine, each after the number of its rank.
RollAnswer cards_by_machine(const std::vector<std::string>& notes) {
  RollAnswer answer;
  for (std::size_t rank = 0; rank < notes.size(); ++rank) {
    const std::string card = card_in(notes[rank]);
    if (card.empty()) continue;
    std::string& cards = answer.to_some[machine_of(card)];
    cards += (cards.empty() ? "" : "\n") + std::to_string(rank) + "\n" + card;
  }
  return answer;
}

std::string names_of_missing(const std::vector<int>& ranks) {
  if (ranks.empty()) return "rank 0 to say that all have joined";
  std::vector<std::string> names;
  for (const int rank : ranks) names.push_back(std::to_string(rank));
  return "rank " + join(names, ", ") + " to join";
}

}  // namespace

void GroupDiagnosis::wait_for_everyone_to_join(const Deadline& deadline,
                                               const std::function<void()>& look,
                                               const JoinTerms& terms) {
  RollCall call(store_, rank_, size_, "accelerate/joined");
  const std::string card = own_process_card();
  const std::string machine = machine_of(card);
  try {
    call.say(terms.own.empty() ? card : card + "\n" + terms.own);
    await(call, deadline, look);
    const auto answer = call.answer(
        [&](const std::vector<std::string>& notes) {
          if (terms.judge) terms.judge(notes);
          return cards_by_machine(notes);
        },
        &machine);
    keep_cards(answer.to_some.at(machine));
  } catch (const CommError& error) {
    call.give_up(error);
    throw;
  } catch (const ConfigError&) {
    throw;
  } catch (const std::exception& error) {
    throw_failure("joining the group", error);
  }
}

// Polls instead of waiting: c10d prints a warning when a wait ends early.
void GroupDiagnosis::await(RollCall& call, const Deadline& deadline,
                           const std::function<void()>& look) {
  Waiting waiting([] { return "joining the group"; }, *this, deadline);
  for (PollPause pause(size_); !call.is_ready(); pause.rest()) {
    if (look) look();
    if (!waiting.report_is_due()) continue;
    get_logger("accelerate.comm")
        .warning(who() + " waits for " + names_of_missing(call.missing()),
                 {.main_process_only = false});
  }
}

void GroupDiagnosis::keep_cards(const std::string& text) {
  const auto lines = split(text, '\n');
  for (std::size_t at = 0; at + kLinesOfCard < lines.size(); at += 1 + kLinesOfCard) {
    const auto rank = parse_int(lines[at]);
    if (!rank || *rank < 0 || *rank >= size_) continue;
    cards_[static_cast<int>(*rank)] = lines[at + 1] + "\n" + lines[at + 2] + "\n" + lines[at + 3];
  }
}

std::string GroupDiagnosis::name_of(int rank) const noexcept {
  const std::string name = "rank " + std::to_string(rank);
  try {
    const auto known = cards_.find(rank);
    std::string card = known != cards_.end() ? known->second : "";
    if (const auto left = key("joined", rank); card.empty() && !cards_.empty() && has_store()) {
      const auto bytes = store_->check({left}) ? store_->get(left) : std::vector<std::uint8_t>();
      card = card_in(std::string(bytes.begin(), bytes.end()));
    }
    const std::string process = describe_process(card);
    return name + (process.empty() ? "" : " (" + process + ")");
  } catch (const std::exception&) {
    return name;  // The store does not answer.
  }
}

}  // namespace accelerate::detail
