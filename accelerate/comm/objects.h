// Sends objects between ranks: whatever nlohmann::json carries (numbers, strings, containers, and
// user types with to_json and from_json). They travel as CBOR; reading them executes nothing.
#pragma once

#include <nlohmann/json.hpp>

#include <exception>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/comm/operations.h"
#include "accelerate/tensor/parcel.h"

namespace accelerate {

namespace detail {
template <typename T>
std::string to_cbor(const T& object) {
  std::string bytes;
  nlohmann::json::to_cbor(nlohmann::json(object), bytes);
  return bytes;
}

template <typename T>
T from_cbor(const std::string& bytes, int rank) {
  try {
    return nlohmann::json::from_cbor(bytes).template get<T>();
  } catch (const nlohmann::json::exception&) {
    throw_with_context<CommError>("the object that rank " + std::to_string(rank) +
                                  " sent is not of the type that is expected here");
  }
}
}  // namespace detail

namespace detail {
// JSON documents, and classes that only have JSON conversions, can be part of a parcel too.
template <typename T>
inline constexpr bool kIsDocument = nlohmann::detail::is_basic_json<T>::value;
template <typename T>
concept OnlyJson =
    kIsDocument<T> || (std::is_class_v<T> && !Nested<T> && requires(nlohmann::json json, T value) {
      to_json(json, value);
      from_json(json, value);
    });

// The type of document that `T` is sent as: T itself if it is a document, since a document may keep
// the order of its keys; else nlohmann::json.
template <typename T>
using DocumentOf = std::conditional_t<kIsDocument<T>, T, nlohmann::json>;

template <OnlyJson T>
struct Parcel<T> {
  static void write(ParcelWriter& writer, const T& value) {
    std::string bytes;
    DocumentOf<T>::to_cbor(DocumentOf<T>(value), bytes);
    Parcel<std::string>::write(writer, bytes);
  }
  static void read(ParcelReader& reader, T& value) {
    std::string bytes;
    Parcel<std::string>::read(reader, bytes);
    try {
      value = DocumentOf<T>::from_cbor(bytes).template get<T>();
    } catch (const nlohmann::json::exception&) {
      throw_with_context<CommError>(
          "an object that another rank sent is not of the type that is expected here");
    }
  }
};
}  // namespace detail

/// Returns the `object` of every rank, in rank order. [collective]
template <typename T>
[[nodiscard]] std::vector<T> gather_object(Communicator& communicator, const T& object) {
  std::vector<T> objects;
  for (const auto& bytes : gather_bytes(communicator, detail::to_cbor(object))) {
    objects.push_back(detail::from_cbor<T>(bytes, static_cast<int>(objects.size())));
  }
  return objects;
}

/// Returns the `objects` of all ranks as one flat list, in rank order. The numbers of objects may
/// differ. [collective]
template <typename T>
[[nodiscard]] std::vector<T> gather_object(Communicator& communicator,
                                           const std::vector<T>& objects) {
  std::vector<T> all;
  int rank = 0;
  for (const auto& bytes : gather_bytes(communicator, detail::to_cbor(objects))) {
    for (auto& object : detail::from_cbor<std::vector<T>>(bytes, rank++))
      all.push_back(std::move(object));
  }
  return all;
}

/// Returns the `object` of rank `source`. [collective]
template <typename T>
[[nodiscard]] T broadcast_object(Communicator& communicator, const T& object, int source = 0) {
  const auto bytes = communicator.rank() == source ? detail::to_cbor(object) : std::string();
  return detail::from_cbor<T>(broadcast_bytes(communicator, bytes, source), source);
}

/// Replaces `objects` by the list of rank `source`, whatever its length. [collective]
template <typename T>
void broadcast_object_list(Communicator& communicator, std::vector<T>& objects, int source = 0) {
  objects = broadcast_object(communicator, objects, source);
}

}  // namespace accelerate
