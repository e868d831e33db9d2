#include "accelerate/launch/machines/job_leader.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <thread>
#include <utility>

#include "accelerate/base/error_name.h"
#include "accelerate/base/keyed_checksum.h"
#include "accelerate/base/text.h"
#include "accelerate/formats/documents/json.h"
#include "accelerate/launch/machines/job_keys.h"
#include "accelerate/launch/machines/wait_report.h"

namespace accelerate::detail {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

// How often to look who has come. Only while machines meet.
constexpr milliseconds kLook{20};

std::map<std::string, std::string> first_values(const JobTerms& terms, const std::string& challenge,
                                                const std::string& host) {
  const json job = {{"protocol", kProtocol},
                    {"challenge", challenge},
                    {"sealed", !terms.token.empty()},
                    {"elastic", terms.is_elastic},
                    {"host", host}};
  return {{"/" + kJob, json_text(job)}, {"/" + kArrivals, "0"}};
}

std::vector<int> numbers_up_to(int count) {
  std::vector<int> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

// Returns those of `launchers` of which the store has a key. Cost: one round trip.
template <typename KeyOf>
std::vector<int> those_with(const std::vector<int>& launchers, KeyOf key_of, StoreClient& store) {
  std::vector<std::string> keys;
  for (const int launcher : launchers) keys.push_back(key_of(launcher));
  const auto is_there = store.has_each(keys);
  std::vector<int> found;
  for (std::size_t i = 0; i < launchers.size(); ++i)
    if (is_there[i]) found.push_back(launchers[i]);
  return found;
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
      seal_(terms_.token, challenge_),
      store_(std::move(listener), first_values(terms_, challenge_, host)) {}

void JobLeader::begin(int number, StoreClient& store) {
  Round round;
  const std::vector<MachineCard> cards =
      terms_.is_elastic ? those_there(number, store, round) : all_of_them(number, store, round);
  if (round.error.empty()) round.token = token_of_ranks_;
  round.machines = static_cast<int>(cards.size());
  for (const auto& card : cards) round.ranks += card.ranks;
  const std::vector<RoundMember> places = places_of(cards);
  members_.clear();
  for (const auto& place : places) {
    members_.push_back(place.number);
    store.set(place_key(number, place.number), seal_.close(place.text()));
    if (terms_.is_elastic || number > 0) continue;
    store.set(ranks_key(place.number), json_text(json{place.first_rank, round.ranks,
                                                      place.first_role_rank, place.ranks_of_role}));
  }
  store.set(round_key(number), seal_.close(round.text()));
  store.set(kRound, std::to_string(number));
}

void JobLeader::await_takers(int number, StoreClient& store) const {
  if (has_torchrun_ || members_.empty()) return;
  const Deadline deadline(terms_.timeout);
  std::vector<std::string> keys;
  for (const int member : members_) keys.push_back(taken_key(number, member));
  while (!store.wait(keys, milliseconds(200)) && !deadline.is_over()) {
    const auto lost = those_with(members_, lost_key, store);
    if (lost.empty()) continue;
    EndElsewhere end = end_from(store.get(lost_key(lost.front())));
    end.machine = static_cast<int>(std::ranges::find(members_, lost.front()) - members_.begin());
    (void)store.set_if_missing(end_key(number), text_of(end));
    return;
  }
}

bool JobLeader::has_lost_members(StoreClient& store) const {
  return !those_with(members_, lost_key, store).empty();
}

// A launcher of torchrun has no card. It may take part where no token was given; the ranks are then
// told none, for torchrun's have none.
std::vector<MachineCard> JobLeader::all_of_them(int number, StoreClient& store, Round& round) {
  round.error = await_all(number, store);
  if (!round.error.empty()) return {};
  round.is_misconfigured = true;
  read_cards(numbers_up_to(terms_.most), store);
  std::vector<std::string> role_keys;
  for (int launcher = 0; launcher < terms_.most; ++launcher)
    role_keys.push_back(role_key(launcher));
  const auto roles = store.get_each(role_keys);
  std::vector<MachineCard> cards;
  for (int launcher = 0; launcher < terms_.most; ++launcher) {
    std::optional<MachineCard> card = MachineCard{};
    if (sealed_cards_.contains(launcher)) {
      card = card_of(launcher, round.error);
      if (card && launcher > 0) round.error = compare(cards.front(), *card);
    } else if (terms_.token.empty()) {
      has_torchrun_ = true;
      token_of_ranks_.clear();
    } else {
      round.error = with_name(
          "machine " + std::to_string(launcher) +
              " was started by another launcher, which knows no ACCELERATE_JOB_TOKEN. Start "
              "it by `accelerate launch`, or unset the token on all machines.",
          error_name::kTokenDiffers);
    }
    if (!round.error.empty()) return {};
    const json role = parse_json(roles[static_cast<std::size_t>(launcher)]);
    card->number = launcher;
    card->role = text_in(role, "role");
    card->ranks = number_in(role, "local_world_size");
    cards.push_back(*card);
  }
  round.is_misconfigured = false;
  return cards;
}

std::string JobLeader::await_all(int number, StoreClient& store) {
  const Deadline deadline(terms_.timeout);
  WaitReport report(terms_.report, deadline, after(terms_.doubt));
  const auto key_of = [&](int launcher) {
    return number == 0 ? role_key(launcher) : ready_key(number, launcher);
  };
  const std::vector<int> all = numbers_up_to(terms_.most);
  std::vector<std::string> keys;
  for (const int launcher : all) keys.push_back(key_of(launcher));
  while (!store.wait(keys, std::min(deadline.left(), milliseconds(200)))) {
    if (const auto lost = those_with(all, lost_key, store); !lost.empty()) {
      read_cards({lost.front()}, store);
      std::string unused;
      const auto card = card_of(lost.front(), unused);
      return with_name(
          (card ? card->name() : "machine " + std::to_string(lost.front())) +
              " left before all machines had come: its launcher was ended, or the machine is "
              "lost.",
          error_name::kMachineLost);
    }
    const auto there = those_with(all, key_of, store);
    if (there.size() == all.size()) continue;
    std::vector<int> missing;
    std::ranges::set_difference(all, there, std::back_inserter(missing));
    const std::string who = std::string(missing.size() == 1 ? "machine " : "machines ") +
                            ranges(missing) + " of " + std::to_string(terms_.most);
    if (deadline.is_over()) {
      return with_name(
          who + " did not come to " + terms_.place + " within " +
              format_duration(deadline.timeout()) +
              ". Was `accelerate launch` started there with its machine_rank and this address, and "
              "does a firewall let the port through?" +
              after(terms_.doubt),
          error_name::kMachinesDoNotMeet);
    }
    report([&] { return "waiting for " + who + " at " + terms_.place; });
  }
  return {};
}

std::vector<MachineCard> JobLeader::those_there(int number, StoreClient& store, Round& round) {
  const Deadline deadline(terms_.timeout);
  WaitReport report(terms_.report, deadline, after(terms_.doubt));
  std::optional<Deadline> last_call;
  for (;; std::this_thread::sleep_for(kLook)) {
    bool awaits_members = false;
    std::vector<MachineCard> there = look(number, store, awaits_members);
    const int count = static_cast<int>(there.size());
    const bool is_enough = count >= terms_.fewest && !awaits_members;
    // A job that has begun does not wait for more machines; they come in when they do.
    if (is_enough && !last_call)
      last_call.emplace(number == 0 ? terms_.last_call : milliseconds(0));
    if (is_enough && (count == terms_.most || last_call->is_over())) return there;
    if (!is_enough) last_call.reset();
    if (deadline.is_over()) {
      round.error = with_name(
          std::to_string(count) + " of at least " + std::to_string(terms_.fewest) +
              " machines came to " + terms_.place + " within " +
              format_duration(deadline.timeout()) +
              ". Was `accelerate launch` started on the others with this address, and does a "
              "firewall let the port through?" +
              after(terms_.doubt),
          error_name::kMachinesDoNotMeet);
      return {};
    }
    report([&] {
      return "waiting for machines at " + terms_.place + ": " + std::to_string(count) + " of " +
             std::to_string(terms_.fewest) +
             (terms_.most > terms_.fewest ? " to " + std::to_string(terms_.most) : "") +
             " are there";
    });
  }
}

// Returns the machines that can take part now, in the order of their numbers. `awaits_members`: set
// if ranks of the round before still run somewhere. Cost: four round trips.
std::vector<MachineCard> JobLeader::look(int number, StoreClient& store, bool& awaits_members) {
  const auto last = static_cast<int>(parse_int(store.get(kArrivals)).value_or(0));
  for (const int launcher : those_with(numbers_up_to(last + 1), lost_key, store))
    gone_.insert(launcher);
  std::vector<int> candidates = numbers_up_to(last + 1);
  std::erase_if(candidates, [&](int launcher) { return gone_.contains(launcher); });
  std::vector<int> members;
  std::ranges::copy_if(candidates, std::back_inserter(members), [&](int launcher) {
    return std::ranges::find(members_, launcher) != members_.end();
  });
  const auto ready =
      those_with(members, [&](int launcher) { return ready_key(number, launcher); }, store);
  awaits_members = ready.size() < members.size();
  read_cards(candidates, store);
  std::vector<MachineCard> there;
  for (const int launcher : candidates) {
    if (std::ranges::binary_search(members, launcher) &&
        !std::ranges::binary_search(ready, launcher))
      continue;
    if (!sealed_cards_.contains(launcher)) continue;  // It is about to introduce itself.
    std::string fault;
    const auto card = card_of(launcher, fault);
    if (card && !there.empty()) fault = compare(there.front(), *card);
    if (fault.empty()) {
      there.push_back(*card);
    } else {
      gone_.insert(launcher);
      store.set(refusal_key(launcher), fault);
      if (terms_.report) terms_.report(fault);
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

// Reads those cards of `launchers` that are there and were not read before.
void JobLeader::read_cards(const std::vector<int>& launchers, StoreClient& store) {
  std::vector<int> unread;
  std::ranges::copy_if(launchers, std::back_inserter(unread),
                       [&](int launcher) { return !sealed_cards_.contains(launcher); });
  const auto there = those_with(unread, card_key, store);
  std::vector<std::string> keys;
  for (const int launcher : there) keys.push_back(card_key(launcher));
  const auto texts = store.get_each(keys);
  for (std::size_t i = 0; i < there.size(); ++i) sealed_cards_[there[i]] = texts[i];
}

std::optional<MachineCard> JobLeader::card_of(int launcher, std::string& fault) const {
  const auto found = sealed_cards_.find(launcher);
  const auto text = found != sealed_cards_.end() ? seal_.open(found->second) : std::nullopt;
  if (text) return MachineCard::parse(*text);
  fault = with_name("machine " + std::to_string(launcher) +
                        " has another ACCELERATE_JOB_TOKEN than machine 0 (" + host_ + ").",
                    error_name::kTokenDiffers);
  return std::nullopt;
}

// Returns what speaks against the other one; what may be meant is only told.
std::string JobLeader::compare(const MachineCard& first, const MachineCard& other) {
  const std::string said = doubt(first, other);
  if (!said.empty() && doubts_.insert(other.number).second && terms_.report) terms_.report(said);
  const std::string found = objection(first, other);
  return found.empty() ? found : with_name(found, error_name::kMachinesDiffer);
}

}  // namespace accelerate::detail
