#include "accelerate/comm/sealed_store.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <string_view>
#include <utility>

#include "accelerate/base/bytes.h"
#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/text.h"

namespace accelerate::detail {
namespace {

constexpr std::size_t kSealBytes = 16;
constexpr std::size_t kMarkBytes = 32;  // Random digits.

std::string_view text_of(const std::vector<std::uint8_t>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::vector<std::uint8_t> bytes_of(std::string_view text) {
  return {text.begin(), text.end()};
}

// The key's length comes first, so that no other pair of a key and a text makes the same checksum.
std::string seal_of(const ChecksumKey& token, const std::string& key, std::string_view text) {
  std::string all;
  append_little_endian(all, static_cast<std::uint64_t>(key.size()));
  return keyed_checksum(token, all.append(key).append(text));
}

}  // namespace

SealedStore::SealedStore(c10::intrusive_ptr<c10d::Store> store, const ChecksumKey& token)
    : store_(std::move(store)), token_(token) {}

SealedStore::Bytes SealedStore::sealed(const std::string& key, const Bytes& value) const {
  const auto mark = random_digits();
  if (!mark) throw CommError("the system gives no random bits (getrandom)");
  const std::string text = std::string(*mark).append(text_of(value));
  return bytes_of(seal_of(token_, key, text).append(text));
}

SealedStore::Bytes SealedStore::opened(const std::string& key, const Bytes& sealed) const {
  const auto all = text_of(sealed);
  if (all.size() >= kSealBytes + kMarkBytes) {
    const auto text = all.substr(kSealBytes);
    if (equal_in_constant_time(all.substr(0, kSealBytes), seal_of(token_, key, text))) {
      return bytes_of(text.substr(kMarkBytes));
    }
  }
  throw CommError(
      "the store's value under '" + key +
          "' was not written by a rank of this job: another program writes to the store, "
          "or the ranks differ in ACCELERATE_JOB_TOKEN or in the version of this library",
      error_name::kTokenDiffers);
}

c10::intrusive_ptr<c10d::Store> SealedStore::clone() {
  return c10::make_intrusive<SealedStore>(store_->clone(), token_);
}

void SealedStore::set(const std::string& key, const Bytes& value) {
  quietly()->set(key, sealed(key, value));
}

// As in c10d, an absent key counts as empty. If the key is absent and `expected` is not empty, the
// result is `expected`.
SealedStore::Bytes SealedStore::compareSet(const std::string& key, const Bytes& expected,
                                           const Bytes& desired) {
  Bytes now = replace(key, [&](const Bytes& before) {
    return before == expected ? std::optional(desired) : std::nullopt;
  });
  return now.empty() ? expected : now;
}

SealedStore::Bytes SealedStore::get(const std::string& key) {
  return opened(key, quietly()->get(key));
}

SealedStore::Bytes SealedStore::replace(
    const std::string& key, const std::function<std::optional<Bytes>(const Bytes&)>& change) {
  for (;;) {
    const bool is_there = quietly()->check({key});
    const Bytes before = is_there ? quietly()->get(key) : Bytes();
    Bytes now = is_there ? opened(key, before) : Bytes();
    auto desired = change(now);
    if (!desired) return now;
    const Bytes after = sealed(key, *desired);
    if (quietly()->compareSet(key, before, after) == after) return std::move(*desired);
  }
}

std::int64_t SealedStore::add(const std::string& key, std::int64_t value) {
  const auto number_in = [](const Bytes& bytes) { return parse_int(text_of(bytes)).value_or(0); };
  const auto sum = replace(key, [&](const Bytes& now) {
    return std::optional(bytes_of(std::to_string(number_in(now) + value)));
  });
  return number_in(sum);
}

bool SealedStore::deleteKey(const std::string& key) {
  return quietly()->deleteKey(key);
}

bool SealedStore::check(const std::vector<std::string>& keys) {
  if (!quietly()->check(keys)) return false;
  (void)multiGet(keys);
  return true;
}

std::int64_t SealedStore::getNumKeys() {
  return store_->getNumKeys();
}

void SealedStore::wait(const std::vector<std::string>& keys) {
  store_->wait(keys);
}

void SealedStore::wait(const std::vector<std::string>& keys,
                       const std::chrono::milliseconds& timeout) {
  store_->wait(keys, timeout);
}

const std::chrono::milliseconds& SealedStore::getTimeout() const noexcept {
  return store_->getTimeout();
}

void SealedStore::setTimeout(const std::chrono::milliseconds& timeout) {
  store_->setTimeout(timeout);
}

void SealedStore::append(const std::string& key, const Bytes& value) {
  replace(key, [&](Bytes now) {
    now.insert(now.end(), value.begin(), value.end());
    return std::optional(std::move(now));
  });
}

std::vector<SealedStore::Bytes> SealedStore::multiGet(const std::vector<std::string>& keys) {
  std::vector<Bytes> values;
  if (store_->hasExtendedApi()) {  // one round trip for all of them
    values = quietly()->multiGet(keys);
  } else {
    for (const auto& key : keys) values.push_back(quietly()->get(key));
  }
  for (std::size_t i = 0; i < keys.size(); ++i) values.at(i) = opened(keys[i], values.at(i));
  return values;
}

void SealedStore::multiSet(const std::vector<std::string>& keys, const std::vector<Bytes>& values) {
  std::vector<Bytes> all;
  for (std::size_t i = 0; i < keys.size(); ++i) all.push_back(sealed(keys[i], values.at(i)));
  if (store_->hasExtendedApi()) return quietly()->multiSet(keys, all);  // In one round trip.
  for (std::size_t i = 0; i < keys.size(); ++i) quietly()->set(keys[i], all[i]);
}

bool SealedStore::hasExtendedApi() const {
  return true;
}

c10d::Store& innermost(const c10::intrusive_ptr<c10d::Store>& store) {
  c10d::Store* inner = store.get();
  for (;;) {
    if (const auto* sealed = dynamic_cast<const SealedStore*>(inner)) {
      inner = sealed->behind().get();
    } else if (auto* prefixed = dynamic_cast<c10d::PrefixStore*>(inner)) {
      inner = prefixed->getUnderlyingStore().get();
    } else {
      return *inner;
    }
  }
}

}  // namespace accelerate::detail
