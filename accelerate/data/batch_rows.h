// A batch as rows. Its columns are its tensors and its vectors of anything else (collated strings),
// also inside a user's struct (tensor/fields.h). The first dimension of a column counts samples.
// Batches are joined and cut column by column. Everything else in a batch (numbers, scalars {},
// undefined tensors) belongs to all of its samples.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "accelerate/tensor/fields.h"
#include "accelerate/tensor/inputs.h"
#include "accelerate/tensor/nested.h"
#include "accelerate/tensor/parcel.h"
#include "accelerate/tensor/same_keys.h"

namespace accelerate::detail {

/// A column of a batch, at any depth of its structure. Either `tensor` or `list` is set.
struct Column {
  /// Operations on a vector whose type has been erased.
  struct ListOperations {
    std::size_t (*size)(const void* list);
    void (*append)(void* to, const void* from);
    void (*cut)(void* list, std::size_t begin, std::size_t end);
  };
  at::Tensor* tensor = nullptr;
  void* list = nullptr;
  const ListOperations* operations = nullptr;
};
using ColumnList = std::vector<Column>;

template <typename T>
inline constexpr Column::ListOperations kListOperations{
    [](const void* list) { return static_cast<const T*>(list)->size(); },
    [](void* to, const void* from) {
      const T& more = *static_cast<const T*>(from);
      static_cast<T*>(to)->insert(static_cast<T*>(to)->end(), more.begin(), more.end());
    },
    [](void* list, std::size_t begin, std::size_t end) {
      const T& all = *static_cast<T*>(list);
      *static_cast<T*>(list) = T(all.begin() + static_cast<std::ptrdiff_t>(begin),
                                 all.begin() + static_cast<std::ptrdiff_t>(end));
    }};

template <typename T>
void add_columns(T& value, ColumnList& columns);

/// What is known at compile time about the columns of a type.
struct ColumnFacts {
  bool lists = false;  ///< Some columns are vectors, not tensors.
  bool sent = true;    ///< A parcel (tensor/parcel.h) carries all columns.
  bool seen = true;    ///< False for a user's class that may hold columns which cannot be found.

  friend constexpr ColumnFacts operator+(ColumnFacts one, ColumnFacts other) {
    return {one.lists || other.lists, one.sent && other.sent, one.seen && other.seen};
  }
};

template <typename T>
struct Parts;

/// Facts of a type that consists of `Part`s. With vectors, it is sent whole only if all parts are
/// Portable.
template <typename... Part>
inline constexpr ColumnFacts kFactsOfParts = [] {
  ColumnFacts facts = (ColumnFacts() + ... + Parts<Part>::kFacts);
  facts.sent = facts.sent && (!facts.lists || (Portable<Part> && ...));
  return facts;
}();

template <typename Fields>
inline constexpr ColumnFacts kFactsOfFields{};
template <typename... Field>
inline constexpr ColumnFacts kFactsOfFields<std::tuple<Field&...>> =
    kFactsOfParts<std::remove_cv_t<Field>...>;

// Facts of a user's struct, or of a type that has no columns.
template <typename T>
constexpr ColumnFacts facts_of_whole() {
  if constexpr (!Nested<T> || std::is_same_v<T, at::Tensor> || kOnlyTensorsTravel<T>) {
    return {};
  } else if constexpr (HasFields<T>) {
    return kFactsOfFields<FieldsOf<T>>;
  } else {
    return {.seen = false};
  }
}

// Types with parts have a specialization below; any other type is a struct or has no columns.
template <typename T>
struct Parts {
  static constexpr ColumnFacts kFacts = facts_of_whole<T>();
  static void add(T& value, ColumnList& columns) {
    if constexpr (Nested<T>) {
      visit_tensors(value, [&](at::Tensor& tensor) { columns.push_back({&tensor}); });
    }
    if constexpr (kFacts.lists) {
      for_each_field(value, [&](auto& field) { add_lists(field, columns); });
    }
  }

 private:
  // visit_tensors has named the tensors, and may have left some out on purpose.
  template <typename Field>
  static void add_lists(Field& field, ColumnList& columns) {
    ColumnList own;
    add_columns(field, own);
    for (const Column& column : own) {
      if (column.list != nullptr) columns.push_back(column);
    }
  }
};
template <typename T, typename A>
struct Parts<std::vector<T, A>> {
  static constexpr ColumnFacts kFacts =
      Nested<T> ? kFactsOfParts<T> : ColumnFacts{.lists = true, .sent = Portable<T>};
  static void add(std::vector<T, A>& value, ColumnList& columns) {
    if constexpr (Nested<T>) {
      for (T& item : value) add_columns(item, columns);
    } else {
      columns.push_back({nullptr, &value, &kListOperations<std::vector<T, A>>});
    }
  }
};
template <typename T, std::size_t N>
struct Parts<std::array<T, N>> {
  static constexpr ColumnFacts kFacts = kFactsOfParts<T>;
  static void add(std::array<T, N>& value, ColumnList& columns) {
    for (T& item : value) add_columns(item, columns);
  }
};
template <typename First, typename Second>
struct Parts<std::pair<First, Second>> {
  static constexpr ColumnFacts kFacts = kFactsOfParts<First, Second>;
  static void add(std::pair<First, Second>& value, ColumnList& columns) {
    add_columns(value.first, columns);
    add_columns(value.second, columns);
  }
};
template <typename... Part>
struct Parts<std::tuple<Part...>> {
  static constexpr ColumnFacts kFacts = kFactsOfParts<Part...>;
  static void add(std::tuple<Part...>& value, ColumnList& columns) {
    std::apply([&](Part&... part) { (add_columns(part, columns), ...); }, value);
  }
};
template <typename T>
struct Parts<std::optional<T>> {
  static constexpr ColumnFacts kFacts = kFactsOfParts<T>;
  static void add(std::optional<T>& value, ColumnList& columns) {
    if (value) add_columns(*value, columns);
  }
};
template <typename Key, typename T, typename C, typename A>
struct Parts<std::map<Key, T, C, A>> {
  static constexpr ColumnFacts kFacts = kFactsOfParts<Key, T>;
  static void add(std::map<Key, T, C, A>& value, ColumnList& columns) {
    for (auto& entry : value) add_columns(entry.second, columns);
  }
};
template <typename Key, typename T>
struct Parts<torch::OrderedDict<Key, T>> {
  static constexpr ColumnFacts kFacts = kFactsOfParts<Key, T>;
  static void add(torch::OrderedDict<Key, T>& value, ColumnList& columns) {
    for (auto& entry : value) add_columns(entry.value(), columns);
  }
};
template <typename Data, typename Target>
struct Parts<torch::data::Example<Data, Target>> {
  static constexpr ColumnFacts kFacts = kFactsOfParts<Data, Target>;
  static void add(torch::data::Example<Data, Target>& value, ColumnList& columns) {
    add_columns(value.data, columns);
    if constexpr (requires { value.target; }) add_columns(value.target, columns);
  }
};

/// Throws UsageError: a batch of DataCollatorWithFlattening has no rows.
[[noreturn]] void throw_flattened();

template <>
struct Parts<Inputs> {
  static constexpr ColumnFacts kFacts{};
  static void add(Inputs& value, ColumnList& columns) {
    if (value.is_flattened()) throw_flattened();
    visit_tensors(value, [&](at::Tensor& tensor) { columns.push_back({&tensor}); });
  }
};

/// Whether some columns of a type are vectors, not tensors.
template <typename T>
inline constexpr bool kHasLists = Parts<T>::kFacts.lists;

template <typename T>
void add_columns(T& value, ColumnList& columns) {
  Parts<T>::add(value, columns);
}

/// Returns the columns of `value`. They point into `value`.
template <typename T>
[[nodiscard]] ColumnList columns_of(T& value) {
  ColumnList columns;
  add_columns(value, columns);
  return columns;
}

/// Returns the number of rows of a batch. Throws DataError when its columns differ in their number
/// of rows, or when no column has rows.
[[nodiscard]] std::int64_t rows_of(const ColumnList& columns);

/// Returns the number of rows of the first column that has rows. Throws DataError when there is no
/// such column.
[[nodiscard]] std::int64_t first_rows_of(const ColumnList& columns);

/// Appends the rows of `more` to `all`, in new memory. Throws DataError when dtypes, trailing
/// shapes or the numbers of columns differ.
void append_rows(const ColumnList& all, const std::vector<ColumnList>& more);

/// Keeps only the rows [begin, end) of every column. Tensors become views.
void cut_rows(const ColumnList& columns, std::int64_t begin, std::int64_t end);

/// Copies every tensor with rows into memory of its own.
void own_rows(const ColumnList& columns);

/// Throws DataError: batch `place` of the batches to join has other keys than batch 0.
[[noreturn]] void throw_other_keys(std::size_t place);

/// Joins the batches, one after the other. Throws as append_rows, and when keys differ.
template <typename Batch>
[[nodiscard]] Batch join_batches(std::vector<Batch> batches) {
  std::vector<ColumnList> more;
  for (std::size_t i = 1; i < batches.size(); ++i) {
    if (!same_keys(batches.front(), batches[i])) throw_other_keys(i);
    more.push_back(columns_of(batches[i]));
  }
  append_rows(columns_of(batches.front()), more);
  return std::move(batches.front());
}

/// Returns the rows [begin, end) of a batch.
template <typename Batch>
[[nodiscard]] Batch slice_batch(Batch batch, std::int64_t begin, std::int64_t end) {
  cut_rows(columns_of(batch), begin, end);
  return batch;
}

}  // namespace accelerate::detail
