#include "accelerate/launch/machines/store_client.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "accelerate/base/tcp.h"
#include "accelerate/launch/machines/store_wire.h"

namespace accelerate::detail {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

std::string query_of(StoreQuery query) {
  return std::string(1, static_cast<char>(query));
}

std::string query_about(StoreQuery query, const std::string& key) {
  std::string bytes = query_of(query);
  append_text(bytes, "/" + key);
  return bytes;
}

std::string query_about(StoreQuery query, const std::vector<std::string>& keys) {
  std::string bytes = query_of(query);
  append_number<std::uint64_t>(bytes, keys.size());
  for (const auto& key : keys) append_text(bytes, "/" + key);
  return bytes;
}

}  // namespace

StoreClient::StoreClient(Descriptor connection, milliseconds limit)
    : connection_(std::move(connection)), limit_(limit) {
  notice_lost_peer(connection_.get(), kLostAfter);
  std::string greeting = query_of(StoreQuery::validate);
  append_number(greeting, kStoreMagic);
  constexpr std::uint32_t kNonce = 0x5AFE5EED;
  greeting += query_of(StoreQuery::ping);
  append_number(greeting, kNonce);
  send(greeting, 2);
  if (receive_number<std::uint32_t>() != kNonce)
    throw StoreError("what answered there is no store of c10d");
}

void StoreClient::set(const std::string& key, std::string_view value) {
  std::string bytes = query_about(StoreQuery::set, key);
  append_text(bytes, value);
  send(bytes);
}

std::string StoreClient::get(const std::string& key) {
  send(query_about(StoreQuery::get, key));
  return receive_text();
}

std::string StoreClient::set_if_missing(const std::string& key, std::string_view wanted) {
  std::string bytes = query_about(StoreQuery::compare_set, key);
  append_text(bytes, "");
  append_text(bytes, wanted);
  send(bytes);
  return receive_text();
}

bool StoreClient::has(const std::string& key) {
  send(query_about(StoreQuery::check, std::vector{key}));
  return receive_number<char>() == kReady;
}

// All questions go out before the first answer is read: the store keeps answers until then.
std::vector<bool> StoreClient::has_each(const std::vector<std::string>& keys) {
  std::string bytes;
  for (const auto& key : keys) bytes += query_about(StoreQuery::check, std::vector{key});
  send(bytes, static_cast<std::int64_t>(keys.size()));
  std::string answers(keys.size(), kNotReady);
  receive(answers.data(), answers.size());
  std::vector<bool> there;
  for (const char answer : answers) there.push_back(answer == kReady);
  return there;
}

std::vector<std::string> StoreClient::get_each(const std::vector<std::string>& keys) {
  constexpr std::ptrdiff_t kAtOnce = 1000;
  std::vector<std::string> values;
  for (auto first = keys.begin(); first != keys.end();) {
    const auto last = first + std::min(kAtOnce, keys.end() - first);
    send(query_about(StoreQuery::multi_get, std::vector(first, last)));
    for (; first != last; ++first) values.push_back(receive_text());
  }
  return values;
}

std::int64_t StoreClient::add(const std::string& key, std::int64_t by) {
  std::string bytes = query_about(StoreQuery::add, key);
  append_number(bytes, by);
  send(bytes);
  return receive_number<std::int64_t>();
}

void StoreClient::count_in() {
  std::string bytes = query_of(StoreQuery::add);
  append_text(bytes, "init/");
  append_number<std::int64_t>(bytes, 1);
  send(bytes);
  (void)receive_number<std::int64_t>();
}

bool StoreClient::wait(const std::vector<std::string>& keys, milliseconds limit) {
  send(query_about(StoreQuery::wait, keys));
  if (readable_within(limit)) return receive_number<char>() == kStopWaiting;
  return stop_waiting();
}

bool StoreClient::stop_waiting() {
  send(query_of(StoreQuery::cancel_wait));
  // The keys may have come while the query was on its way; then there are two answers.
  const bool came = receive_number<char>() == kStopWaiting;
  if (came) (void)receive_number<char>();
  queries_ -= came ? 1 : 2;
  return came;
}

void StoreClient::begin_wait(const std::string& key) {
  send(query_about(StoreQuery::wait, std::vector{key}));
}

bool StoreClient::wait_is_over() {
  if (!readable_within(milliseconds(0))) return false;
  return receive_number<char>() == kStopWaiting;
}

void StoreClient::send(const std::string& bytes, std::int64_t queries) {
  queries_ += queries;
  std::string_view left = bytes;
  while (!left.empty()) {
    const ssize_t sent = ::send(connection_.get(), left.data(), left.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      left.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      pollfd one{connection_.get(), POLLOUT, 0};
      if (poll(&one, 1, static_cast<int>(limit_.count())) == 0)
        throw StoreError("it took no data for " + std::to_string(limit_.count() / 1000) + " s");
    } else if (errno != EINTR) {
      throw StoreError(std::string("the connection to it is lost: ") + std::strerror(errno));
    }
  }
}

void StoreClient::receive(void* into, std::size_t count) {
  auto* place = static_cast<char*>(into);
  const auto end = Clock::now() + limit_;
  while (count > 0) {
    const ssize_t got = recv(connection_.get(), place, count, 0);
    if (got > 0) {
      place += got;
      count -= static_cast<std::size_t>(got);
    } else if (got == 0) {
      throw StoreError("it closed the connection");
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      const auto left = std::chrono::ceil<milliseconds>(end - Clock::now());
      if (!readable_within(std::max(left, milliseconds(0))))
        throw StoreError("it gave no answer for " + std::to_string(limit_.count() / 1000) + " s");
    } else if (errno != EINTR) {
      throw StoreError(std::string("the connection to it is lost: ") + std::strerror(errno));
    }
  }
}

std::string StoreClient::receive_text() {
  const auto size = receive_number<std::uint64_t>();
  if (size > StoreLimits::kValueBytes) throw StoreError("what answered there is no store of c10d");
  std::string text(static_cast<std::size_t>(size), '\0');
  receive(text.data(), text.size());
  return text;
}

template <typename Number>
Number StoreClient::receive_number() {
  Number number{};
  receive(&number, sizeof number);
  return number;
}

bool StoreClient::readable_within(milliseconds limit) const {
  const auto end = Clock::now() + limit;
  for (;;) {
    pollfd one{connection_.get(), POLLIN, 0};
    const auto left = std::chrono::ceil<milliseconds>(end - Clock::now()).count();
    const int ready = poll(&one, 1, static_cast<int>(std::clamp<std::int64_t>(left, 0, 3'600'000)));
    if (ready >= 0 || errno != EINTR) return ready > 0;
  }
}

}  // namespace accelerate::detail
