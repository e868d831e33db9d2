// The steps of meet_hosts: tell how to reach us; find the ranks of this machine that we reach;
// exchange introductions; read what each rank wrote into its memory; check that all could read it.
#include <fcntl.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/keyed_checksum.h"
#include "accelerate/comm/shared_memory/host_notes.h"
#include "accelerate/comm/shared_memory/introductions.h"
#include "accelerate/comm/shared_memory/peers.h"
#include "accelerate/comm/shared_memory/process_fork.h"

namespace accelerate::detail {
namespace {

constexpr const char* kVersion = "1";

// What a rank offers to the meeting.
struct Offer {
  HostCard card;
  std::shared_ptr<SharedArena> arena;
  SharedArena::Block proof;
  Descriptor listener;
};

Offer make_offer(int size) {
  Offer offer;
  offer.card.version = kVersion;
  offer.card.boot = boot_id();
  try {
    offer.card.socket = random_name();
    offer.card.token = random_name();
    offer.card.nonce = random_name();
    offer.arena = SharedArena::create();
    offer.proof = offer.arena->allocate(offer.card.nonce.size());
    std::memcpy(offer.proof.data(), offer.card.nonce.data(), offer.card.nonce.size());
    offer.listener = listen_locally(offer.card.socket, std::max(size, 16));
  } catch (const CommError& error) {
    offer.card.why_not = error.what();
  }
  return offer;
}

[[noreturn]] void throw_unlikely(const std::string& found) {
  throw CommError("the job's store " + found + ". Does another program write to the store?");
}

// Checks a card's names, which become names of sockets and the contents looked for in memory.
void check_names(int rank, const HostCard& card) {
  for (const auto* name : {&card.socket, &card.token, &card.nonce}) {
    if (!key_from_digits(*name)) {
      throw_unlikely("holds an invalid name for rank " + std::to_string(rank));
    }
  }
}

// Returns why memory cannot be shared if the cards alone show it, or "".
std::string reason_in_cards(const std::vector<HostCard>& cards) {
  for (std::size_t rank = 0; rank < cards.size(); ++rank) {
    const std::string name = "rank " + std::to_string(rank);
    if (cards[rank].version != cards[0].version) {
      return name + " speaks version " + cards[rank].version +
             " of the shared-memory protocol and "
             "rank 0 version " +
             cards[0].version + ": build all ranks from one source";
    }
    if (!cards[rank].why_not.empty()) return name + ": " + cards[rank].why_not;
  }
  for (std::size_t rank = 0; rank < cards.size(); ++rank) {
    check_names(static_cast<int>(rank), cards[rank]);
  }
  return {};
}

// Checks that the lowest rank of each host leads it.
void check_leaders(const std::vector<HostVerdict>& verdicts) {
  for (std::size_t rank = 0; rank < verdicts.size(); ++rank) {
    const int leader = verdicts[rank].leader;
    if (leader < 0 || static_cast<std::size_t>(leader) > rank ||
        verdicts[static_cast<std::size_t>(leader)].leader != leader) {
      throw_unlikely("holds an invalid lowest rank for the host of rank " + std::to_string(rank) +
                     ": " + std::to_string(leader));
    }
  }
}

// Checks that our host has the ranks that we met.
void check_own_host(const std::vector<int>& host_of, const LocalPeers& peers, int own) {
  std::vector<int> here;
  for (int rank = 0; rank < static_cast<int>(host_of.size()); ++rank) {
    if (host_of[static_cast<std::size_t>(rank)] == host_of[static_cast<std::size_t>(own)])
      here.push_back(rank);
  }
  const auto mine = std::ranges::find(here, own) - here.begin();
  if (std::ssize(here) != peers.size() || mine != peers.index()) {
    throw_unlikely("and the meeting disagree on whether rank " + std::to_string(here.back()) +
                   " is on this host");
  }
}

std::string reason_in(const std::vector<HostVerdict>& verdicts) {
  std::string of_another;
  for (std::size_t rank = 0; rank < verdicts.size(); ++rank) {
    if (verdicts[rank].why_not.empty()) continue;
    const std::string reason = "rank " + std::to_string(rank) + ": " + verdicts[rank].why_not;
    if (!verdicts[rank].because_of_another) return reason;
    if (of_another.empty()) of_another = reason;
  }
  return of_another;
}

// The steps by which one rank finds the peers of its host.
class Meeting {
 public:
  Meeting(HostNotes& notes, Offer& offer, const std::map<int, HostCard>& cards)
      : notes_(notes), offer_(offer), cards_(cards) {}

  [[nodiscard]] HostVerdict meet() {
    HostVerdict verdict;
    verdict.leader = notes_.rank();
    try {
      find_leader();
      verdict.leader = leader_;
      auto all = leader_ == notes_.rank() ? lead() : follow();
      connection_.close();
      peers_ = make_peers(std::move(all));
      read_proofs();
    } catch (const CannotShare& reason) {
      verdict.why_not = reason.what();
      verdict.because_of_another = reason.because_of_another;
    } catch (const CommError& error) {
      if (notes_.deadline().is_over()) throw;
      verdict.why_not = error.what();
    }
    if (!verdict.why_not.empty()) leave();
    return verdict;
  }

  [[nodiscard]] std::shared_ptr<LocalPeers> take_peers() { return std::move(peers_); }

 private:
  [[nodiscard]] const HostCard& card(int rank) const {
    if (const auto known = cards_.find(rank); known != cards_.end()) return known->second;
    throw CannotShare("rank " + std::to_string(rank) + " is on another machine");
  }

  [[nodiscard]] Descriptor reach(const HostCard& card) const {
    return card.boot.empty() ? Descriptor() : connect_locally(card.socket, notes_.deadline());
  }

  // Finds the lowest rank that can be reached. All ranks listen already, and reachability is mutual
  // and transitive, so all ranks of a host find the same leader.
  void find_leader() {
    leader_ = notes_.rank();
    for (const auto& [rank, card] : cards_) {
      if (rank >= notes_.rank()) return;
      connection_ = reach(card);
      if (!connection_.valid()) continue;
      leader_ = rank;
      return;
    }
  }

  [[nodiscard]] Introduction own_introduction() const {
    Descriptor memory(::fcntl(offer_.arena->fd(), F_DUPFD_CLOEXEC, 0));
    if (!memory.valid()) {
      throw CommError("this process has reached its limit of open files: raise `ulimit -n`.",
                      error_name::kTooManyOpenFiles);
    }
    return {notes_.rank(), std::move(memory), ProcessHandle::self(), offer_.proof.extent()};
  }

  [[nodiscard]] std::vector<Introduction> lead() {
    std::vector<int> members;
    for (const auto& [rank, card] : cards_) {
      if (rank > notes_.rank() && reach(card).valid()) members.push_back(rank);
    }
    return lead_introductions(notes_, card(notes_.rank()), offer_.listener.get(), members,
                              own_introduction());
  }

  [[nodiscard]] std::vector<Introduction> follow() {
    return follow_introductions(notes_, leader_, card(leader_), connection_.get(),
                                own_introduction());
  }

  [[nodiscard]] std::shared_ptr<LocalPeers> make_peers(std::vector<Introduction> all) {
    std::vector<LocalPeers::Peer> peers;
    int index = -1;
    for (Introduction& one : all) {
      if (one.rank < 0 || one.rank >= notes_.size()) {
        throw CannotShare("rank " + std::to_string(one.rank) + " does not exist");
      }
      if (one.rank == notes_.rank()) index = static_cast<int>(peers.size());
      ranks_.push_back(one.rank);
      proofs_.push_back(one.proof);
      peers.push_back({std::move(one.memory), std::move(one.process)});
    }
    if (index < 0)
      throw CannotShare("the list of peers from its leader does not contain this rank");
    return std::make_shared<LocalPeers>(offer_.arena, std::move(peers), index);
  }

  void read_proofs() {
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      const std::string& nonce = card(ranks_[i]).nonce;
      if (proofs_[i].bytes == nonce.size() &&
          std::memcmp(peers_->map(static_cast<int>(i), proofs_[i]), nonce.data(), nonce.size()) ==
              0) {
        continue;
      }
      throw CannotShare("it cannot find the nonce of rank " + std::to_string(ranks_[i]) +
                        " in that rank's memory");
    }
  }

  // Closes connections, so that peers that wait for us do not wait until the deadline.
  void leave() {
    connection_.close();
    offer_.listener.close();
    peers_.reset();
  }

  HostNotes& notes_;
  Offer& offer_;
  const std::map<int, HostCard>& cards_;  // Of the ranks of this machine.
  int leader_ = 0;
  Descriptor connection_;
  std::shared_ptr<LocalPeers> peers_;
  std::vector<int> ranks_;
  std::vector<SharedExtent> proofs_;
};

std::vector<int> number_hosts(const std::vector<HostVerdict>& verdicts) {
  std::map<int, int> numbers;  // by leader
  std::vector<int> hosts;
  for (const HostVerdict& verdict : verdicts) {
    const int next = static_cast<int>(numbers.size());
    hosts.push_back(numbers.emplace(verdict.leader, next).first->second);
  }
  return hosts;
}

// What rank 0 makes of all verdicts.
HostNumbers judge(const std::vector<HostVerdict>& verdicts) {
  if (auto reason = reason_in(verdicts); !reason.empty()) return {{}, std::move(reason)};
  check_leaders(verdicts);
  return {number_hosts(verdicts), {}};
}

}  // namespace

Hosts meet_hosts(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                 const GroupTimes& times) {
  refuse_after_fork("meeting the ranks of this host");
  HostNotes notes(store, rank, size, times.meeting);
  Offer offer = make_offer(size);
  auto cards = notes.exchange(offer.card, reason_in_cards);
  if (!cards.why_not.empty()) return {{}, nullptr, std::move(cards.why_not)};
  for (const auto& [of, card] : cards.of_machine) check_names(of, card);
  Meeting meeting(notes, offer, cards.of_machine);
  auto numbers = notes.exchange(meeting.meet(), judge);
  if (!numbers.why_not.empty()) return {{}, nullptr, std::move(numbers.why_not)};
  auto peers = meeting.take_peers();
  check_own_host(numbers.host_of, *peers, rank);
  return {std::move(numbers.host_of), std::move(peers), {}};
}

}  // namespace accelerate::detail
