#include "accelerate/comm/shared_memory/introductions.h"

#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <iterator>
#include <map>
#include <type_traits>
#include <utility>

#include "accelerate/base/error.h"

namespace accelerate::detail {
namespace {

// One rank in a message. Its descriptors are sent with the message: the memory, then the process.
struct Entry {
  std::int32_t rank = 0;
  std::int32_t pid = 0;
  std::uint64_t process_namespace = 0;
  SharedExtent proof{};
  std::uint32_t has_pidfd = 0;
  std::uint32_t of = 0;  // number of ranks on the host
};
static_assert(std::is_trivially_copyable_v<Entry> &&
              std::has_unique_object_representations_v<Entry>);

constexpr std::size_t kEntriesAMessage = kMostDescriptors / 2;
static_assert(kEntriesAMessage * sizeof(Entry) <= kMostMessageBytes);

std::string name_of(int rank) {
  return "rank " + std::to_string(rank);
}

std::string too_few_descriptors() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return "it could not take the file descriptors of its peers, two for each rank of the host; the "
         "limit (RLIMIT_NOFILE) is " +
         std::to_string(limit.rlim_cur) + ": raise `ulimit -n`";
}

Entry entry_for(const Introduction& one, std::uint64_t process_namespace, std::size_t of) {
  return {one.rank,
          one.process.pid(),
          process_namespace,
          one.proof,
          one.process.pidfd() >= 0 ? 1U : 0U,
          static_cast<std::uint32_t>(of)};
}

void append(std::string& bytes, const Entry& entry) {
  bytes.append(reinterpret_cast<const char*>(&entry), sizeof entry);
}

// Returns no entries if the bytes are not a whole number of them.
std::vector<Entry> entries_in(std::string_view bytes) {
  if (bytes.size() % sizeof(Entry) != 0) return {};
  std::vector<Entry> entries(bytes.size() / sizeof(Entry));
  std::memcpy(entries.data(), bytes.data(), bytes.size());
  return entries;
}

// Without a descriptor the process ID must do, which has a meaning only in its process namespace.
ProcessHandle process_of(const Entry& entry, Descriptor pidfd) {
  if (!pidfd.valid() && entry.process_namespace != process_namespace()) {
    throw CannotShare(name_of(entry.rank) +
                      " lives in another process namespace, and this kernel or sandbox has no "
                      "pidfd_open (Linux 5.3): its end could not be seen");
  }
  return {std::move(pidfd), entry.pid};
}

// Returns the introductions in a message, each with its descriptors.
std::vector<Introduction> introductions_in(const std::vector<Entry>& entries,
                                           SocketMessage& message) {
  std::vector<Introduction> all;
  auto next = message.descriptors.begin();
  const auto take = [&] {
    if (next == message.descriptors.end()) throw CannotShare(too_few_descriptors());
    return std::move(*next++);
  };
  for (const Entry& entry : entries) {
    Descriptor memory = take();
    Descriptor pidfd = entry.has_pidfd != 0 ? take() : Descriptor();
    all.push_back(
        {entry.rank, std::move(memory), process_of(entry, std::move(pidfd)), entry.proof});
  }
  return all;
}

void add_descriptors(std::vector<int>& descriptors, const Introduction& one) {
  descriptors.push_back(one.memory.get());
  if (one.process.pidfd() >= 0) descriptors.push_back(one.process.pidfd());
}

// The lowest rank of a host, while it waits for the introductions of the other ranks.
class Reception {
 public:
  Reception(HostNotes& notes, const HostCard& card, int listener, const std::vector<int>& members)
      : notes_(notes), card_(card), listener_(listener), missing_(members) {}

  void wait_for_all() {
    while (!missing_.empty()) {
      if (notes_.deadline().is_over()) notes_.throw_late(missing_, "introduced themselves");
      if (wait_a_while()) {
        admit_whoever_knocks();
        hear_whoever_spoke();
        throw_if_a_member_left();
      } else {
        throw_if_a_missing_one_gave_up();
      }
    }
  }

  [[nodiscard]] std::vector<Introduction> take_introductions() { return std::move(introduced_); }

  void send_to_all(const std::vector<Introduction>& all, const std::vector<Entry>& entries) {
    for (std::size_t first = 0; first < all.size(); first += kEntriesAMessage) {
      std::string bytes;
      std::vector<int> descriptors;
      for (std::size_t i = first; i < std::min(first + kEntriesAMessage, all.size()); ++i) {
        append(bytes, entries[i]);
        add_descriptors(descriptors, all[i]);
      }
      for (const auto& [rank, member] : members_) {
        if (send_message(member.get(), bytes, descriptors, notes_.deadline())) continue;
        throw CannotShare(name_of(rank) + " left before it had heard of its peers", true);
      }
    }
  }

  [[nodiscard]] const std::map<int, Entry>& entries() const { return entries_; }

 private:
  // Returns false if nothing has happened for a moment.
  bool wait_a_while() {
    constexpr std::chrono::milliseconds kMoment{50};
    std::vector<pollfd> all{{listener_, POLLIN, 0}};
    for (const auto& guest : guests_) all.push_back({guest.get(), POLLIN, 0});
    for (const auto& [rank, member] : members_) all.push_back({member.get(), POLLIN, 0});
    const auto limit = std::min(kMoment, notes_.deadline().left());
    return ::poll(all.data(), all.size(), static_cast<int>(limit.count())) > 0;
  }

  // Connections that send nothing must not keep members out. If there are too many, closes the one
  // that has been silent longest.
  void admit_whoever_knocks() {
    const std::size_t room = missing_.size() + 64;
    while (auto guest = accept_locally(listener_)) {
      if (user_behind(guest->get()) != ::geteuid()) continue;
      guests_.push_back(std::move(*guest));
      if (guests_.size() > room) guests_.pop_front();
    }
  }

  void hear_whoever_spoke() {
    for (auto guest = guests_.begin(); guest != guests_.end();) {
      auto message = receive_message(guest->get());
      if (message && !message->closed) hear(*guest, *message);
      // A guest that has sent a message is now a member, or a stranger to be disconnected.
      guest = message ? guests_.erase(guest) : std::next(guest);
    }
  }

  void hear(Descriptor& guest, SocketMessage& message) {
    const std::string_view bytes = message.bytes;
    if (!bytes.starts_with(card_.token)) return;
    const auto entries = entries_in(bytes.substr(card_.token.size()));
    if (entries.size() != 1) return;
    const auto who = std::ranges::find(missing_, entries[0].rank);
    if (who == missing_.end()) return;
    if (!message.is_complete) throw CannotShare(too_few_descriptors());
    introduced_.push_back(std::move(introductions_in(entries, message).front()));
    entries_.emplace(entries[0].rank, entries[0]);
    members_.emplace(entries[0].rank, std::move(guest));
    missing_.erase(who);
  }

  // Members send nothing while they wait for us, so a readable connection means that a member left.
  void throw_if_a_member_left() {
    for (const auto& [rank, member] : members_) {
      if (is_ready(member.get(), POLLIN, std::chrono::milliseconds(0))) {
        throw CannotShare(name_of(rank) + " left before all ranks had introduced themselves", true);
      }
    }
  }

  void throw_if_a_missing_one_gave_up() {
    for (const int rank : missing_) {
      if (notes_.verdict_of(rank)) throw CannotShare(name_of(rank) + " gave up", true);
    }
  }

  HostNotes& notes_;
  const HostCard& card_;
  int listener_;
  std::vector<int> missing_;
  std::deque<Descriptor> guests_;  // connections that have not introduced themselves yet
  std::map<int, Descriptor> members_;
  std::map<int, Entry> entries_;
  std::vector<Introduction> introduced_;
};

// Waits for the next message of the leader and returns it.
SocketMessage hear_from(const HostNotes& notes, int leader, int connection) {
  for (;;) {
    if (auto message = receive_message(connection)) {
      if (message->closed) {
        throw CannotShare(name_of(leader) + " ended the introduction of its host's ranks", true);
      }
      if (!message->is_complete) throw CannotShare(too_few_descriptors());
      return std::move(*message);
    }
    if (notes.deadline().is_over()) notes.throw_late({leader}, "passed its host's memory on");
    (void)is_ready(connection, POLLIN, notes.deadline().left());
  }
}

void check_user(int leader, int connection) {
  const uid_t theirs = user_behind(connection);
  if (theirs == ::geteuid()) return;
  throw CannotShare("it runs as user " + std::to_string(::geteuid()) + " and " + name_of(leader) +
                    " as user " + std::to_string(theirs) +
                    "; memory is shared among the processes of one user");
}

}  // namespace

std::vector<Introduction> lead_introductions(HostNotes& notes, const HostCard& card, int listener,
                                             const std::vector<int>& members, Introduction own) {
  Reception reception(notes, card, listener, members);
  reception.wait_for_all();
  std::vector<Introduction> all = reception.take_introductions();
  all.push_back(std::move(own));
  std::ranges::sort(all, {}, &Introduction::rank);
  std::vector<Entry> entries;
  for (const Introduction& one : all) {
    const auto given = reception.entries().find(one.rank);
    // Passes on the entry as the rank sent it: the process ID in our namespace may be another one.
    Entry entry =
        given != reception.entries().end() ? given->second : entry_for(one, process_namespace(), 0);
    entry.of = static_cast<std::uint32_t>(all.size());
    entries.push_back(entry);
  }
  reception.send_to_all(all, entries);
  return all;
}

std::vector<Introduction> follow_introductions(const HostNotes& notes, int leader,
                                               const HostCard& card, int connection,
                                               const Introduction& own) {
  check_user(leader, connection);
  std::string hello = card.token;
  append(hello, entry_for(own, process_namespace(), 1));
  std::vector<int> descriptors;
  add_descriptors(descriptors, own);
  if (!send_message(connection, hello, descriptors, notes.deadline())) {
    throw CannotShare(name_of(leader) + " ended the introduction of its host's ranks", true);
  }
  std::vector<Introduction> all;
  for (std::size_t of = 1; all.size() < of;) {
    SocketMessage message = hear_from(notes, leader, connection);
    const auto entries = entries_in(message.bytes);
    if (entries.empty()) throw CannotShare(name_of(leader) + " passed on an invalid introduction");
    for (auto& one : introductions_in(entries, message)) all.push_back(std::move(one));
    of = entries.front().of;
  }
  return all;
}

}  // namespace accelerate::detail
