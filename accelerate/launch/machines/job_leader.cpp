#include "accelerate/launch/machines/job_leader.h"

#include <algorithm>
#include <map>
#include <thread>
#include <utility>

#include "accelerate/base/keyed_checksum.h"
#include "accelerate/base/text.h"
#include "accelerate/formats/documents/json.h"
#include "accelerate/launch/machines/job_keys.h"

namespace accelerate::detail {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

constexpr milliseconds kBetweenReports{5000};
// How often to look who has come. Only while machines meet.
constexpr milliseconds kLook{20};

std::map<std::string, std::string> first_values(const JobTerms& terms, const std::string& challenge,
                                                const std::string& host) {
  const json job = {{"protocol", 1},
                    {"challenge", challenge},
                    {"sealed", !terms.token.empty()},
                    {"elastic", terms.is_elastic},
                    {"host", host}};
  return {{"/" + kJob, json_text(job)}, {"/" + kArrivals, "0"}};
}

std::string after(const std::string& sentence) {
  return sentence.empty() ? "" : " " + sentence;
}

}  // namespace

JobLeader::JobLeader(JobTerms terms, Descriptor listener, const std::string& host)
    : terms_(std::move(terms)),
      host_(host),
      challenge_(random_digits().value_or("")),
      token_of_ranks_(terms_.token.empty() ? random_digits().value_or("") : ""),
      launch_(random_digits().value_or("")),
      seal_(terms_.token, challenge_),
      store_(std::move(listener), first_values(terms_, challenge_, host)) {}

void JobLeader::begin(int number, StoreClient& store) {
  Round round = terms_.is_elastic ? of_those_there(number, store) : of_all(number, store);
  if (round.error.empty()) round.token = token_of_ranks_;
  round.launch = launch_;
  members_.clear();
  for (const auto& member : round.members) members_.push_back(member.number);
  store.set(round_key(number), seal_.close(round.text()));
  store.set(kRound, std::to_string(number));
}

bool JobLeader::has_lost_members(StoreClient& store) const {
  return std::ranges::any_of(members_, [&](int member) { return store.has(lost_key(member)); });
}

// A launcher of torchrun has no card. It may take part where no token was given; the ranks are then
// told none, for torchrun's have none.
Round JobLeader::of_all(int number, StoreClient& store) {
  Round failed;
  failed.error = await_all(number, store);
  if (!failed.error.empty()) return failed;
  failed.is_misconfigured = true;
  std::vector<MachineCard> cards;
  for (int launcher = 0; launcher < terms_.most; ++launcher) {
    const json role = parse_json(store.get(role_key(launcher)));
    std::optional<MachineCard> card = MachineCard{};
    if (store.has(card_key(launcher))) {
      card = card_of(launcher, store, failed.error);
      if (card && launcher > 0) failed.error = compare(cards.front(), *card);
    } else if (terms_.token.empty()) {
      has_torchrun_ = true;
      token_of_ranks_.clear();
    } else {
      failed.error = "machine " + std::to_string(launcher) +
                     " was started by another launcher, which knows no ACCELERATE_JOB_TOKEN. Start "
                     "it by `accelerate launch`, or unset the token on all machines.";
    }
    if (!failed.error.empty()) return failed;
    card->number = launcher;
    card->role = text_in(role, "role");
    card->ranks = number_in(role, "local_world_size");
    cards.push_back(*card);
  }
  Round round = Round::of(cards);
  for (const auto& member : round.members) {
    store.set(ranks_key(member.number),
              json_text(json{member.first_rank, round.ranks, member.first_role_rank,
                             member.ranks_of_role}));
  }
  return round;
}

std::string JobLeader::await_all(int number, StoreClient& store) {
  const Deadline deadline(terms_.timeout);
  const auto key_of = [&](int launcher) {
    return number == 0 ? role_key(launcher) : ready_key(number, launcher);
  };
  std::vector<std::string> keys;
  for (int launcher = 0; launcher < terms_.most; ++launcher) keys.push_back(key_of(launcher));
  auto next_report = kBetweenReports;
  while (!store.wait(keys, std::min(deadline.left(), milliseconds(200)))) {
    std::vector<int> missing;
    for (int launcher = 0; launcher < terms_.most; ++launcher) {
      if (store.has(lost_key(launcher))) {
        std::string unused;
        const auto card = card_of(launcher, store, unused);
        return (card ? card->name() : "machine " + std::to_string(launcher)) +
               " left before all machines had come: its launcher was ended, or the machine is "
               "lost.";
      }
      if (!store.has(key_of(launcher))) missing.push_back(launcher);
    }
    if (missing.empty()) continue;
    const std::string who = std::string(missing.size() == 1 ? "machine " : "machines ") +
                            ranges(missing) + " of " + std::to_string(terms_.most);
    if (deadline.is_over()) {
      return who + " did not come to " + terms_.place + " within " +
             format_duration(deadline.timeout()) +
             ". Was `accelerate launch` started there with its machine_rank and this address, and "
             "does a firewall let the port through?" +
             after(terms_.doubt);
    }
    if (deadline.waited() < next_report) continue;
    report("waiting for " + who + " at " + terms_.place + " (" +
           format_duration(deadline.waited()) + " of " + format_duration(deadline.timeout()) + ")" +
           after(terms_.doubt));
    next_report = deadline.waited() + kBetweenReports;
  }
  return {};
}

Round JobLeader::of_those_there(int number, StoreClient& store) {
  const Deadline deadline(terms_.timeout);
  std::optional<Deadline> last_call;
  auto next_report = kBetweenReports;
  for (;; std::this_thread::sleep_for(kLook)) {
    bool awaits_members = false;
    const std::vector<MachineCard> there = look(number, store, awaits_members);
    const int count = static_cast<int>(there.size());
    const bool is_enough = count >= terms_.fewest && !awaits_members;
    // A job that has begun does not wait for more machines; they come in when they do.
    if (is_enough && !last_call)
      last_call.emplace(number == 0 ? terms_.last_call : milliseconds(0));
    if (is_enough && (count == terms_.most || last_call->is_over())) return Round::of(there);
    if (!is_enough) last_call.reset();
    if (deadline.is_over()) {
      Round failed;
      failed.error =
          std::to_string(count) + " of at least " + std::to_string(terms_.fewest) +
          " machines came to " + terms_.place + " within " + format_duration(deadline.timeout()) +
          ". Was `accelerate launch` started on the others with this address, and does a "
          "firewall let the port through?" +
          after(terms_.doubt);
      return failed;
    }
    if (deadline.waited() < next_report) continue;
    report("waiting for machines at " + terms_.place + ": " + std::to_string(count) + " of " +
           std::to_string(terms_.fewest) +
           (terms_.most > terms_.fewest ? " to " + std::to_string(terms_.most) : "") +
           " are there (" + format_duration(deadline.waited()) + " of " +
           format_duration(deadline.timeout()) + ")" + after(terms_.doubt));
    next_report = deadline.waited() + kBetweenReports;
  }
}

// Returns the machines that can take part now, in the order of their numbers. `awaits_members`: set
// if ranks of the round before still run somewhere.
std::vector<MachineCard> JobLeader::look(int number, StoreClient& store, bool& awaits_members) {
  std::vector<MachineCard> there;
  const auto last = parse_int(store.get(kArrivals)).value_or(0);
  for (int launcher = 0; launcher <= last; ++launcher) {
    if (store.has(lost_key(launcher)) || store.has(refusal_key(launcher))) continue;
    const bool was_member = std::ranges::find(members_, launcher) != members_.end();
    if (was_member && !store.has(ready_key(number, launcher))) {
      awaits_members = true;
      continue;
    }
    if (!store.has(card_key(launcher))) continue;  // It is about to introduce itself.
    std::string fault;
    const auto card = card_of(launcher, store, fault);
    if (card && !there.empty()) fault = compare(there.front(), *card);
    if (fault.empty()) {
      there.push_back(*card);
    } else {
      store.set(refusal_key(launcher), fault);
      report(fault);
    }
  }
  if (static_cast<int>(there.size()) <= terms_.most) return there;
  // Machines that have taken part stay before those that wait for a place.
  std::ranges::stable_partition(there, [&](const MachineCard& card) {
    return std::ranges::find(members_, card.number) != members_.end();
  });
  there.resize(static_cast<std::size_t>(terms_.most));
  std::ranges::sort(there, {}, &MachineCard::number);
  return there;
}

std::optional<MachineCard> JobLeader::card_of(int launcher, StoreClient& store,
                                              std::string& fault) {
  const auto text =
      store.has(card_key(launcher)) ? seal_.open(store.get(card_key(launcher))) : std::nullopt;
  if (text) return MachineCard::parse(*text);
  fault = "machine " + std::to_string(launcher) +
          " has another ACCELERATE_JOB_TOKEN than machine 0 (" + host_ + ").";
  return std::nullopt;
}

// Returns what speaks against the other one; what may be meant is only told.
std::string JobLeader::compare(const MachineCard& first, const MachineCard& other) {
  const std::string said = doubt(first, other);
  if (!said.empty() && doubts_.insert(other.number).second) report(said);
  return objection(first, other);
}

void JobLeader::report(const std::string& text) const {
  if (terms_.report) terms_.report(text);
}

}  // namespace accelerate::detail
