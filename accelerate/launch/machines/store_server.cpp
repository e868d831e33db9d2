#include "accelerate/launch/machines/store_server.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include "accelerate/base/tcp.h"
#include "accelerate/base/text.h"

namespace accelerate::detail {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kListener = 0, kOwner = 1;
// What all values may take together, and the answers that one client does not fetch.
constexpr std::uint64_t kHeldBytes = std::uint64_t{1} << 30;
constexpr std::size_t kUnreadBytes = std::size_t{64} << 20;
// For clients that are about to leave when the owner has.
constexpr std::chrono::milliseconds kFarewell{2000};

void watch(int events, int fd, std::uint64_t id, std::uint32_t kinds, int operation) {
  epoll_event event{};
  event.events = kinds;
  event.data.u64 = id;
  epoll_ctl(events, operation, fd, &event);
}

}  // namespace

StoreServer::StoreServer(Descriptor listener, std::map<std::string, std::string> values)
    : listener_(std::move(listener)),
      events_(epoll_create1(EPOLL_CLOEXEC)),
      values_(std::move(values)) {
  fcntl(listener_.get(), F_SETFL, O_NONBLOCK);
  watch(events_.get(), listener_.get(), kListener, EPOLLIN, EPOLL_CTL_ADD);
}

void StoreServer::run(int owner) {
  watch(events_.get(), owner, kOwner, EPOLLIN, EPOLL_CTL_ADD);
  auto end = Clock::time_point::max();
  std::array<epoll_event, 64> ready{};
  while (Clock::now() < end && (end == Clock::time_point::max() || !clients_.empty())) {
    const int wait = end == Clock::time_point::max() ? -1 : 20;
    const int count = epoll_wait(events_.get(), ready.data(), ready.size(), wait);
    for (int i = 0; i < count; ++i) {
      const std::uint64_t id = ready[static_cast<std::size_t>(i)].data.u64;
      if (id == kListener) {
        accept_all();
      } else if (id == kOwner) {
        watch(events_.get(), owner, kOwner, 0, EPOLL_CTL_DEL);
        end = Clock::now() + kFarewell;
      } else if (const auto found = clients_.find(id); found != clients_.end()) {
        Client& client = found->second;
        if ((ready[static_cast<std::size_t>(i)].events & EPOLLOUT) != 0) write_to(client);
        read_from(client);
        if (client.is_lost) drop(id);
      }
    }
  }
}

void StoreServer::accept_all() {
  for (;;) {
    Descriptor socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.valid()) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      // Without a descriptor left, epoll would report the waiting client again and again.
      if (errno == EMFILE || errno == ENFILE) listen(false);
      return;
    }
    const Id id = next_id_++;
    watch(events_.get(), socket.get(), id, EPOLLIN, EPOLL_CTL_ADD);
    Client& client = clients_[id];
    client.id = id;
    client.socket = std::move(socket);
  }
}

// Takes clients in from now on, or lets them wait until another one has left.
void StoreServer::listen(bool takes_clients) {
  if (takes_clients == is_listening_) return;
  is_listening_ = takes_clients;
  watch(events_.get(), listener_.get(), kListener, takes_clients ? EPOLLIN : 0U, EPOLL_CTL_MOD);
}

void StoreServer::read_from(Client& client) {
  std::array<char, 65536> bytes;  // NOLINT: clearing it would take longer than the query.
  for (;;) {
    const ssize_t got = recv(client.socket.get(), bytes.data(), bytes.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (got <= 0) {
      client.is_lost = true;
      return;
    }
    client.in.append(bytes.data(), static_cast<std::size_t>(got));
    handle_all(client);
    // What does not fill the place was all there was; epoll tells of more.
    if (client.is_lost || static_cast<std::size_t>(got) < bytes.size()) return;
  }
}

void StoreServer::handle_all(Client& client) {
  std::size_t done = 0;
  while (!client.is_lost && done < client.in.size()) {
    const std::size_t used = handle_one(client, std::string_view(client.in).substr(done));
    if (used == 0) break;
    done += used;
  }
  client.in.erase(0, done);
}

std::size_t StoreServer::handle_one(Client& client, std::string_view in) {
  const auto query = static_cast<StoreQuery>(in.front());
  StoreArguments arguments(in.substr(1));
  const bool understood =
      client.greeted || query == StoreQuery::validate ? answer(client, query, arguments) : false;
  if (!understood || arguments.state() == StoreArguments::State::beyond_limits) {
    client.is_lost = true;
    return 0;
  }
  return arguments.state() == StoreArguments::State::complete ? 1 + arguments.used() : 0;
}

// Returns whether the query is one of the protocol; does nothing while arguments are missing.
bool StoreServer::answer(Client& client, StoreQuery query, StoreArguments& arguments) {
  switch (query) {
    case StoreQuery::validate:
      return take_greeting(client, arguments);
    case StoreQuery::ping: {
      const auto nonce = arguments.number<std::uint32_t>();
      std::string bytes;
      append_number(bytes, nonce);
      if (arguments.state() == StoreArguments::State::complete) reply(client, bytes);
      return true;
    }
    case StoreQuery::cancel_wait:
      stop_waiting(client);
      reply(client, std::string_view(&kWaitCancelled, 1));
      return true;
    case StoreQuery::queue_push:
    case StoreQuery::queue_pop:
    case StoreQuery::queue_length:
      return answer_about_queues(client, query, arguments);
    default:
      return answer_about_keys(client, query, arguments);
  }
}

bool StoreServer::take_greeting(Client& client, StoreArguments& arguments) {
  const auto magic = arguments.number<std::uint32_t>();
  if (arguments.state() != StoreArguments::State::complete) return true;
  client.greeted = magic == kStoreMagic;
  return client.greeted;
}

bool StoreServer::answer_about_keys(Client& client, StoreQuery query, StoreArguments& arguments) {
  const auto complete = [&] { return arguments.state() == StoreArguments::State::complete; };
  std::string bytes;
  switch (query) {
    case StoreQuery::set: {
      const auto key = arguments.key(), value = arguments.value();
      if (complete()) set(key, value, client);
      return true;
    }
    case StoreQuery::append: {
      const std::string key(arguments.key());
      const auto value = arguments.value();
      if (complete()) store(key, has(key) ? values_[key] + std::string(value) : std::string(value));
      return true;
    }
    case StoreQuery::compare_set: {
      const std::string key(arguments.key());
      const auto expected = arguments.value(), wanted = arguments.value();
      if (!complete()) return true;
      const auto found = values_.find(key);
      const bool changes = found == values_.end() ? expected.empty() : found->second == expected;
      // A key that is not there is said to be what was expected: c10d does so.
      append_text(bytes, changes ? wanted : found == values_.end() ? expected : found->second);
      if (changes) store(key, std::string(wanted));
      break;
    }
    case StoreQuery::get: {
      const std::string key(arguments.key());
      if (!complete()) return true;
      const auto found = values_.find(key);
      if (found == values_.end()) return false;
      append_text(bytes, found->second);
      break;
    }
    case StoreQuery::add: {
      const std::string key(arguments.key());
      const auto by = arguments.number<std::int64_t>();
      if (!complete()) return true;
      const auto found = values_.find(key);
      const auto before = found == values_.end() ? 0 : parse_int(found->second);
      std::int64_t sum = 0;
      if (!before || __builtin_add_overflow(*before, by, &sum)) return false;
      append_number(bytes, sum);
      store(key, std::to_string(sum));
      break;
    }
    case StoreQuery::check: {
      bool all = true;
      for (const auto key : arguments.keys()) all = all && has(std::string(key));
      bytes.push_back(all ? kReady : kNotReady);
      break;
    }
    case StoreQuery::wait: {
      const auto keys = arguments.keys();
      if (complete()) wait(client, keys);
      return true;
    }
    case StoreQuery::count_keys:
      append_number<std::int64_t>(bytes, static_cast<std::int64_t>(values_.size()));
      break;
    case StoreQuery::delete_key: {
      const std::string key(arguments.key());
      if (!complete()) return true;
      const auto found = values_.find(key);
      append_number<std::int64_t>(bytes, found == values_.end() ? 0 : 1);
      if (found == values_.end()) break;
      held_bytes_ -= found->second.size();
      values_.erase(found);
      break;
    }
    case StoreQuery::multi_get: {
      const auto keys = arguments.keys();
      if (!complete()) return true;
      for (const auto key : keys) {
        const auto found = values_.find(std::string(key));
        if (found == values_.end()) return false;
        append_text(bytes, found->second);
      }
      break;
    }
    case StoreQuery::multi_set: {
      const auto pairs = arguments.keys(true);
      if (!complete()) return true;
      for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) set(pairs[i], pairs[i + 1], client);
      return true;
    }
    case StoreQuery::list_keys:
      append_number<std::int64_t>(bytes, static_cast<std::int64_t>(values_.size()));
      for (const auto& [key, value] : values_) append_text(bytes, key);
      break;
    case StoreQuery::barrier: {
      std::string key(arguments.key());
      const auto count = arguments.number<std::int64_t>();
      if (complete()) meet_at(client, std::move(key), count);
      return true;
    }
    default:
      return false;
  }
  if (complete()) reply(client, bytes);
  return true;
}

bool StoreServer::answer_about_queues(Client& client, StoreQuery query, StoreArguments& arguments) {
  const std::string key(arguments.key());
  const auto value = query == StoreQuery::queue_push ? arguments.value() : std::string_view();
  if (arguments.state() != StoreArguments::State::complete) return true;
  const auto found = queues_.find(key);
  std::string bytes;
  if (query == StoreQuery::queue_push) {
    held_bytes_ += value.size();
    queues_[key].emplace_back(value);
    wake(key);
    return held_bytes_ <= kHeldBytes;
  }
  if (query == StoreQuery::queue_length) {
    append_number<std::int64_t>(
        bytes, found == queues_.end() ? 0 : static_cast<std::int64_t>(found->second.size()));
  } else if (found == queues_.end()) {
    append_number<std::int64_t>(bytes, 0);
  } else {
    append_number<std::int64_t>(bytes, 1);
    append_text(bytes, found->second.front());
    held_bytes_ -= found->second.front().size();
    found->second.pop_front();
    if (found->second.empty()) queues_.erase(found);
  }
  reply(client, bytes);
  return true;
}

void StoreServer::set(std::string_view key, std::string_view value, Client& by) {
  if (key == kStoreWill) {
    by.will = value;
    notice_lost_peer(by.socket.get(), kLostAfter);
  } else {
    store(std::string(key), std::string(value));
  }
  if (held_bytes_ > kHeldBytes) by.is_lost = true;
}

void StoreServer::store(const std::string& key, std::string value) {
  std::string& place = values_[key];
  held_bytes_ += value.size();
  held_bytes_ -= place.size();
  place = std::move(value);
  wake(key);
}

bool StoreServer::has(const std::string& key) const {
  return values_.contains(key) || queues_.contains(key);
}

void StoreServer::wait(Client& client, const std::vector<std::string_view>& keys) {
  for (const auto text : keys) {
    const std::string key(text);
    if (has(key)) continue;
    client.awaits.insert(key);
    waiting_[key].insert(client.id);
  }
  if (client.awaits.empty()) reply(client, std::string_view(&kStopWaiting, 1));
}

void StoreServer::stop_waiting(Client& client) {
  const auto leave = [id = client.id](auto& places, const std::string& key) {
    const auto place = places.find(key);
    if (place == places.end()) return;
    place->second.erase(id);
    if (place->second.empty()) places.erase(place);
  };
  for (const auto& key : client.awaits) leave(waiting_, key);
  client.awaits.clear();
  leave(barriers_, client.barrier);
  client.barrier.clear();
}

void StoreServer::wake(const std::string& key) {
  const auto place = waiting_.find(key);
  if (place == waiting_.end()) return;
  const std::set<Id> ids = std::move(place->second);
  waiting_.erase(place);
  for (const Id id : ids) {
    Client& client = clients_.at(id);
    client.awaits.erase(key);
    if (client.awaits.empty()) reply(client, std::string_view(&kStopWaiting, 1));
  }
}

void StoreServer::meet_at(Client& client, std::string key, std::int64_t count) {
  std::set<Id>& here = barriers_[key];
  here.insert(client.id);
  client.barrier = key;
  if (static_cast<std::int64_t>(here.size()) < count) return;
  const std::set<Id> all = std::move(here);
  barriers_.erase(key);
  for (const Id one : all) {
    clients_.at(one).barrier.clear();
    reply(clients_.at(one), std::string_view(&kStopWaiting, 1));
  }
}

// Sends at once, so that nearly every answer is one system call and needs no turn of epoll.
void StoreServer::reply(Client& client, std::string_view bytes) {
  while (client.out.empty() && !bytes.empty()) {
    const ssize_t sent = send(client.socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) break;  // Full, or an error that reading finds too.
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  if (bytes.empty()) return;
  const bool was_empty = client.out.empty();
  client.out += bytes;
  if (client.out.size() > kUnreadBytes) client.is_lost = true;
  if (!was_empty) return;
  watch(events_.get(), client.socket.get(), client.id, EPOLLIN | EPOLLOUT, EPOLL_CTL_MOD);
}

void StoreServer::write_to(Client& client) {
  const std::string bytes = std::move(client.out);
  client.out.clear();
  reply(client, bytes);
  if (client.out.empty())
    watch(events_.get(), client.socket.get(), client.id, EPOLLIN, EPOLL_CTL_MOD);
}

void StoreServer::drop(Id id) {
  Client& client = clients_.at(id);
  stop_waiting(client);
  const std::string will = std::move(client.will);
  clients_.erase(id);
  listen(true);
  StoreArguments arguments(will);
  while (arguments.used() < will.size()) {
    const std::string key(arguments.key());
    const auto value = arguments.value();
    if (arguments.state() != StoreArguments::State::complete) return;
    if (!has(key)) store(key, std::string(value));
  }
}

}  // namespace accelerate::detail
