#include "accelerate/comm/shared_memory/shared_group.h"

#include <unistd.h>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "accelerate/base/error.h"
#include "accelerate/base/machine/topology.h"
#include "accelerate/base/untrusted_text.h"
#include "accelerate/comm/roll_call.h"
#include "accelerate/comm/shared_memory/kept_memory.h"
#include "accelerate/comm/shared_memory/process_fork.h"
#include "accelerate/comm/shared_memory/staged_collectives.h"

namespace accelerate::detail {
namespace {

using Clock = std::chrono::steady_clock;

// Long enough for a peer that is about to come, short compared with the cost of sleeping and
// waking.
constexpr std::chrono::microseconds kSpin{50};
// After how many looks for its peers' notes a rank that makes a group asks whether they are alive.
constexpr int kPollsBetweenLooks = 16;
// Longer than the time after which an engine checks whether its peers are alive.
constexpr std::chrono::milliseconds kSlice{150};

std::string mine_key(int rank) {
  return "shared_memory/" + std::to_string(rank);
}

void set(c10d::Store& store, const std::string& key, const nlohmann::json& value) {
  const std::string text = value.dump();
  store.set(key, std::vector<std::uint8_t>(text.begin(), text.end()));
}

// Throws CommError when some rank will never come.
void require_presence(const Founding& founding, const LocalPeers& peers) {
  if (founding.look) founding.look();
  // Of a smaller group it is not known yet which of the host's processes belong to it.
  if (founding.size != peers.size()) return;
  for (int peer = 0; peer < peers.size(); ++peer) {
    if (!peers.is_alive(peer))
      throw CommError("a rank that was to join the group has ended: " + peers.describe(peer));
  }
}

[[noreturn]] void throw_unlikely(int rank, const std::vector<std::uint8_t>& bytes) {
  throw CommError("the job's store holds an invalid memory note for rank " + std::to_string(rank) +
                  ": " + untrusted_text(bytes) + ". Does another program write to the store?");
}

// Waits for the notes of all ranks and returns them. Throws CommError when some rank will never come.
std::vector<std::vector<std::uint8_t>> notes_of_all(const Founding& founding,
                                                    const LocalPeers& peers) {
  std::vector<std::string> keys;
  for (int rank = 0; rank < founding.size; ++rank) keys.push_back(mine_key(rank));
  PollPause pause(founding.size);
  for (int polls = 1; !founding.store.check(keys); ++polls) {
    pause.rest();
    if (polls % kPollsBetweenLooks == 0) require_presence(founding, peers);
    if (!founding.times.meeting.is_over()) continue;
    const auto late = std::ranges::find_if_not(
        keys, [&](const std::string& key) { return founding.store.check({key}); });
    throw CommError("rank " + std::to_string(late - keys.begin()) +
                    " did not say where its memory is within " +
                    std::to_string(founding.times.timeout.count()) + " ms");
  }
  return read_values(founding.store, keys);
}

// Allocates the control block. On failure tells the peers, which wait for it.
SharedArena::Block memory_for(int size, LocalPeers& peers, c10d::Store& store) {
  try {
    return peers.arena()->allocate(ControlBlock::bytes_for(size));
  } catch (const CommError& error) {
    set(store, mine_key(0), {{"error", error.what()}});
    throw;
  }
}

bool is_deserted(const ControlBlock& block) {
  for (int rank = 0; rank < block.size(); ++rank) {
    if (block.lines(rank).gone.load(std::memory_order_acquire) == 0) return false;
  }
  return true;
}

class PeersOfGroup final : public GroupPeers {
 public:
  PeersOfGroup(std::shared_ptr<LocalPeers> peers, std::vector<int> index)
      : peers_(std::move(peers)), index_(std::move(index)) {}

  bool is_alive(int rank) const noexcept override { return peers_->is_alive(at(rank)); }
  std::string describe(int rank) const override { return peers_->describe(at(rank)); }
  std::byte* map(int rank, const SharedExtent& extent) override {
    return peers_->map(at(rank), extent);
  }

 private:
  int at(int rank) const { return index_[static_cast<std::size_t>(rank)]; }
  std::shared_ptr<LocalPeers> peers_;
  std::vector<int> index_;  // Place among the host's processes, by rank of the group.
};

// Whether there is a core for each of `ranks` ranks, which may run on `cores`, if every other rank
// of the host also uses one.
bool have_a_core_each(int ranks, const std::set<int>& cores, const LocalPeers& peers) {
  const auto others = peers.size() - ranks;
  return std::min<std::int64_t>(std::ssize(cores), sysconf(_SC_NPROCESSORS_ONLN) - others) >= ranks;
}

// What a rank says about itself in the store. Every value is checked when it is read.
struct Member {
  int index = 0;  // Its place among the host's processes.
  std::set<int> cores;
  std::optional<SharedExtent> block;
  std::string error;  // Why the rank has no memory for the group.
};

constexpr std::uint64_t kMostCores = 1 << 16;

std::optional<std::uint64_t> number_in(const nlohmann::json& value, std::uint64_t below) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() >= below) return std::nullopt;
  return value.get<std::uint64_t>();
}

std::optional<SharedExtent> extent_in(const nlohmann::json& value) {
  std::vector<std::uint64_t> numbers;
  for (const auto& one : value) {
    const auto number = number_in(one, std::numeric_limits<std::int64_t>::max());
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  if (!value.is_array() || numbers.size() != 4) return std::nullopt;
  return SharedExtent{numbers[0], numbers[1], numbers[2], numbers[3]};
}

std::optional<Member> member_in(const nlohmann::json& value, int processes) {
  if (!value.is_object()) return std::nullopt;
  Member member;
  if (const auto error = value.find("error"); error != value.end()) {
    if (!error->is_string() || error->get<std::string>().empty()) return std::nullopt;
    member.error = untrusted_text(error->get<std::string>());
    return member;
  }
  const auto index = number_in(value.value("index", nlohmann::json()), processes);
  const auto cores = value.value("cores", nlohmann::json());
  if (!index || !cores.is_array()) return std::nullopt;
  member.index = static_cast<int>(*index);
  for (const auto& one : cores) {
    const auto core = number_in(one, kMostCores);
    if (!core) return std::nullopt;
    member.cores.insert(static_cast<int>(*core));
  }
  if (value.contains("block")) member.block = extent_in(value.at("block"));
  return member;
}

// What all ranks of a group say about themselves.
struct Members {
  std::vector<int> index;  // Places among the host's processes, by rank of the group.
  std::set<int> cores;     // Cores that any rank may run on.
  SharedExtent block;
};

bool is_for_a_block(const std::optional<SharedExtent>& extent, int size) {
  return extent && extent->bytes >= ControlBlock::bytes_for(size) &&
         extent->offset % kCacheLine == 0;
}

Members members_of(const Founding& founding, const LocalPeers& peers) {
  Members members;
  const auto notes = notes_of_all(founding, peers);
  for (int rank = 0; rank < founding.size; ++rank) {
    const auto& bytes = notes[static_cast<std::size_t>(rank)];
    const auto theirs =
        member_in(nlohmann::json::parse(bytes.begin(), bytes.end(), nullptr, false), peers.size());
    if (!theirs) throw_unlikely(rank, bytes);
    if (!theirs->error.empty()) {
      throw CommError("rank " + std::to_string(rank) +
                      " has no memory for the group: " + theirs->error);
    }
    const bool is_new = std::ranges::find(members.index, theirs->index) == members.index.end();
    const bool is_its_own = (theirs->index == peers.index()) == (rank == founding.rank);
    if (!is_new || !is_its_own) throw_unlikely(rank, bytes);
    if (rank == 0 && !is_for_a_block(theirs->block, founding.size)) throw_unlikely(rank, bytes);
    members.index.push_back(theirs->index);
    members.cores.insert(theirs->cores.begin(), theirs->cores.end());
    if (rank == 0) members.block = *theirs->block;
  }
  return members;
}

// Returns the address of the control block. Throws CommError when something else is there.
std::byte* block_in(const Members& members, LocalPeers& peers, int size) {
  std::byte* base = peers.map(members.index.front(), members.block);
  if (ControlBlock::is_at(base, size)) return base;
  throw CommError("the job's store gives an address where there is no control block, in " +
                  peers.describe(members.index.front()) +
                  ". Does another program write to the store?");
}

}  // namespace

// Delegates to another constructor, so that the destructor runs when the rest throws.
SharedGroup::SharedGroup(const Founding& founding, std::shared_ptr<LocalPeers> peers)
    : SharedGroup(founding.rank, std::move(peers)) {
  nlohmann::json mine = {{"index", peers_->index()}, {"cores", allowed_cpus().value_or(CpuList{})}};
  if (rank_ == 0) {
    memory_ = memory_for(founding.size, *peers_, founding.store);
    ControlBlock::begin(memory_.data(), founding.size);
    const SharedExtent& extent = memory_.extent();
    mine["block"] = {extent.segment_offset, extent.segment_bytes, extent.offset, extent.bytes};
  }
  set(founding.store, mine_key(rank_), mine);
  Members members = members_of(founding, *peers_);
  const bool spins = have_a_core_each(founding.size, members.cores, *peers_);
  block_ = std::make_unique<ControlBlock>(block_in(members, *peers_, founding.size), founding.size);
  engine_ = std::make_unique<Engine>(
      *block_, rank_, std::make_unique<PeersOfGroup>(peers_, std::move(members.index)),
      spins ? std::chrono::nanoseconds(kSpin) : std::chrono::nanoseconds(0));
  wait_for_all(founding);
}

// Waits until all ranks have mapped the block. Without it, a rank that cannot map the block would
// be missed only at the timeout of the first collective.
void SharedGroup::wait_for_all(const Founding& founding) {
  const auto barrier = std::make_shared<Operation>(
      Call{}, kNobody, [](const std::vector<std::byte*>&) { return staged_barrier(); }, nullptr);
  engine_->start(barrier);
  while (const auto awaited = engine_->wait(*barrier, kSlice)) {
    if (founding.look) founding.look();
    if (founding.times.meeting.is_over()) throw CommError(engine_->describe_awaited(*awaited));
  }
}

SharedGroup::~SharedGroup() {
  if (engine_) engine_->leave();
  if (forked()) {  // The engine's destructor would wait for a thread that only the parent has.
    (void)engine_.release();
    return;
  }
  if (block_) block_->lines(rank_).gone.store(1, std::memory_order_release);
  if (!memory_) return;
  auto memory = std::make_shared<SharedArena::Block>(std::move(memory_));
  if (block_) {
    keep_until(std::move(memory), [block = *block_] { return is_deserted(block); });
  } else {
    keep_forever(std::move(memory));
  }
}

}  // namespace accelerate::detail
