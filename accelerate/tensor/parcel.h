// Packs a value into one block of bytes and unpacks it, to send it to another rank. Values are
// tensors, numbers, strings, and vectors, arrays, pairs, tuples, optionals, maps, Examples and user
// structs of them.
//
// Layout, in the machine's byte order, because ranks run one program on machines of one kind:
//
//   u64   bytes of the structure
//   …     structure: the value depth first; counts as u64, numbers and text as they are, a tensor
//         as u8 defined, then u8 dtype, u64 dimensions, u64 each size
//   …     data of each defined tensor, contiguous, at the next multiple of 64 bytes
//
// A user struct that visit_tensors knows is sent by its members, if the compiler can name them
// (tensor/fields.h) and all can be sent. Otherwise only its tensors are sent, and its other members
// arrive default-constructed. Reading a parcel executes nothing, and checks every length against
// the received bytes.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "accelerate/tensor/fields.h"
#include "accelerate/tensor/nested.h"

namespace accelerate::detail {

/// Collects the content of a parcel. Holds tensors without copying them until pack().
class ParcelWriter {
 public:
  void bytes(const void* data, std::size_t count);
  void count(std::size_t value) { bytes(&value, sizeof(value)); }
  void tensor(const at::Tensor& tensor);

  /// The size of the whole parcel, in bytes.
  [[nodiscard]] std::size_t size() const;
  /// Writes the parcel to the beginning of `out`: shape {n}, uint8, CPU, n ≥ size().
  void pack(const at::Tensor& out) const;

 private:
  std::string structure_;
  std::vector<at::Tensor> tensors_;
};

/// Reads a parcel, in the order in which it was written. Throws CommError when the parcel holds
/// something else.
class ParcelReader {
 public:
  /// `parcel`: shape {n}, uint8, CPU. Bytes behind the parcel's end are ignored.
  explicit ParcelReader(at::Tensor parcel);
  void bytes(void* data, std::size_t count);
  /// Reads a number of items that take at least `unit` bytes each.
  [[nodiscard]] std::size_t count(std::size_t unit = 1);
  /// Reads a tensor, a view of the parcel's memory.
  [[nodiscard]] at::Tensor tensor();

 private:
  at::Tensor parcel_;
  std::size_t next_;  // Place in the structure.
  std::size_t end_;   // End of the structure.
  std::size_t data_;  // Place of the next tensor's data.
};

[[noreturn]] void throw_tensor_count(std::size_t sent, std::size_t expected);

template <typename T>
struct Parcel;

/// A type whose values can be sent.
template <typename T>
concept Portable = requires(ParcelWriter& writer, ParcelReader& reader, T& value) {
  Parcel<T>::write(writer, value);
  Parcel<T>::read(reader, value);
};

template <typename Fields>
inline constexpr bool kAllPortable = false;
template <typename... Field>
inline constexpr bool kAllPortable<std::tuple<Field&...>> = (Portable<Field> && ...);

/// A user struct whose members can all be sent.
template <typename T>
concept PortableFields = !kOnlyTensorsTravel<T> && HasFields<T> && kAllPortable<FieldsOf<T>>;

// Other user structs, and values with parts that cannot be sent: only their tensors are sent.
template <Nested T>
  requires std::default_initializable<T>
struct Parcel<T> {
  static void write(ParcelWriter& writer, T& value) {
    const auto tensors = collect_tensors(value);
    writer.count(tensors.size());
    for (const at::Tensor& tensor : tensors) writer.tensor(tensor);
  }
  static void read(ParcelReader& reader, T& value) {
    value = T();
    std::vector<at::Tensor> tensors(reader.count());
    for (at::Tensor& tensor : tensors) tensor = reader.tensor();
    const std::size_t expected = collect_tensors(value).size();
    if (expected != tensors.size()) throw_tensor_count(tensors.size(), expected);
    std::size_t next = 0;
    visit_tensors(value, [&](at::Tensor& tensor) { tensor = tensors[next++]; });
  }
};

template <Nested T>
  requires std::default_initializable<T> && PortableFields<T>
struct Parcel<T> {
  static void write(ParcelWriter& writer, T& value) {
    for_each_field(value,
                   [&]<typename Field>(Field& field) { Parcel<Field>::write(writer, field); });
  }
  static void read(ParcelReader& reader, T& value) {
    for_each_field(value,
                   [&]<typename Field>(Field& field) { Parcel<Field>::read(reader, field); });
  }
};

template <>
struct Parcel<at::Tensor> {
  static void write(ParcelWriter& writer, at::Tensor& value) { writer.tensor(value); }
  static void read(ParcelReader& reader, at::Tensor& value) { value = reader.tensor(); }
};

template <typename T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T>
struct Parcel<T> {
  static void write(ParcelWriter& writer, T value) { writer.bytes(&value, sizeof(T)); }
  static void read(ParcelReader& reader, T& value) { reader.bytes(&value, sizeof(T)); }
};

template <>
struct Parcel<std::string> {
  static void write(ParcelWriter& writer, const std::string& value) {
    writer.count(value.size());
    writer.bytes(value.data(), value.size());
  }
  static void read(ParcelReader& reader, std::string& value) {
    value.resize(reader.count());
    reader.bytes(value.data(), value.size());
  }
};

template <Portable T, typename A>
struct Parcel<std::vector<T, A>> {
  static void write(ParcelWriter& writer, std::vector<T, A>& value) {
    writer.count(value.size());
    for (auto&& item : value) {
      T sent = item;  // vector<bool> has no elements to refer to.
      Parcel<T>::write(writer, sent);
    }
  }
  static void read(ParcelReader& reader, std::vector<T, A>& value) {
    value.clear();
    for (std::size_t left = reader.count(); left > 0; --left) {
      T item{};
      Parcel<T>::read(reader, item);
      value.push_back(std::move(item));
    }
  }
};

template <Portable T, std::size_t N>
struct Parcel<std::array<T, N>> {
  static void write(ParcelWriter& writer, std::array<T, N>& value) {
    for (T& item : value) Parcel<T>::write(writer, item);
  }
  static void read(ParcelReader& reader, std::array<T, N>& value) {
    for (T& item : value) Parcel<T>::read(reader, item);
  }
};

template <Portable First, Portable Second>
struct Parcel<std::pair<First, Second>> {
  static void write(ParcelWriter& writer, std::pair<First, Second>& value) {
    Parcel<First>::write(writer, value.first);
    Parcel<Second>::write(writer, value.second);
  }
  static void read(ParcelReader& reader, std::pair<First, Second>& value) {
    Parcel<First>::read(reader, value.first);
    Parcel<Second>::read(reader, value.second);
  }
};

template <Portable... Part>
struct Parcel<std::tuple<Part...>> {
  static void write(ParcelWriter& writer, std::tuple<Part...>& value) {
    std::apply([&](Part&... part) { (Parcel<Part>::write(writer, part), ...); }, value);
  }
  static void read(ParcelReader& reader, std::tuple<Part...>& value) {
    std::apply([&](Part&... part) { (Parcel<Part>::read(reader, part), ...); }, value);
  }
};

template <Portable T>
struct Parcel<std::optional<T>> {
  static void write(ParcelWriter& writer, std::optional<T>& value) {
    writer.count(value ? 1 : 0);
    if (value) Parcel<T>::write(writer, *value);
  }
  static void read(ParcelReader& reader, std::optional<T>& value) {
    value.reset();
    if (reader.count() > 0) Parcel<T>::read(reader, value.emplace());
  }
};

template <Portable Key, Portable T, typename C, typename A>
struct Parcel<std::map<Key, T, C, A>> {
  static void write(ParcelWriter& writer, std::map<Key, T, C, A>& value) {
    writer.count(value.size());
    for (auto& [key, item] : value) {
      Key sent = key;
      Parcel<Key>::write(writer, sent);
      Parcel<T>::write(writer, item);
    }
  }
  static void read(ParcelReader& reader, std::map<Key, T, C, A>& value) {
    value.clear();
    for (std::size_t left = reader.count(); left > 0; --left) {
      Key key{};
      Parcel<Key>::read(reader, key);
      Parcel<T>::read(reader, value[std::move(key)]);
    }
  }
};

template <Portable Key, Portable T>
struct Parcel<torch::OrderedDict<Key, T>> {
  static void write(ParcelWriter& writer, torch::OrderedDict<Key, T>& value) {
    writer.count(value.size());
    for (auto& entry : value) {
      Key key = entry.key();
      Parcel<Key>::write(writer, key);
      Parcel<T>::write(writer, entry.value());
    }
  }
  static void read(ParcelReader& reader, torch::OrderedDict<Key, T>& value) {
    value = torch::OrderedDict<Key, T>();
    for (std::size_t left = reader.count(); left > 0; --left) {
      Key key{};
      T item{};
      Parcel<Key>::read(reader, key);
      Parcel<T>::read(reader, item);
      value.insert(std::move(key), std::move(item));
    }
  }
};

template <Portable Data, typename Target>
struct Parcel<torch::data::Example<Data, Target>> {
  using Example = torch::data::Example<Data, Target>;
  static void write(ParcelWriter& writer, Example& value) {
    Parcel<Data>::write(writer, value.data);
    if constexpr (requires { value.target; }) Parcel<Target>::write(writer, value.target);
  }
  static void read(ParcelReader& reader, Example& value) {
    Parcel<Data>::read(reader, value.data);
    if constexpr (requires { value.target; }) Parcel<Target>::read(reader, value.target);
  }
};

/// Returns a value, ready to be packed.
template <Portable T>
[[nodiscard]] ParcelWriter to_parcel(T& value) {
  ParcelWriter writer;
  Parcel<T>::write(writer, value);
  return writer;
}

/// Returns the value in `parcel`. T must be the type that was written. Its tensors share the
/// parcel's memory.
template <Portable T>
[[nodiscard]] T from_parcel(at::Tensor parcel) {
  ParcelReader reader(std::move(parcel));
  T value{};
  Parcel<T>::read(reader, value);
  return value;
}

}  // namespace accelerate::detail
