#include "accelerate/transformers/datasets/storage/column_chunk.h"

#include <string>
#include <vector>

#include "accelerate/base/error.h"

namespace accelerate::detail {
namespace {

bool any_missing(const ColumnChunk& column, ColumnChunk::Range range) {
  for (std::size_t i = range.begin; i < range.end; ++i) {
    if (column.is_missing(i)) return true;
  }
  return false;
}

template <typename T, typename Get>
std::vector<T> gathered(ColumnChunk::Range range, Get get) {
  std::vector<T> values;
  values.reserve(range.end - range.begin);
  for (std::size_t i = range.begin; i < range.end; ++i) values.push_back(static_cast<T>(get(i)));
  return values;
}

Value list_of(const ColumnChunk& entries, ColumnChunk::Range range) {
  using Kind = Feature::Kind;
  if (any_missing(entries, range) || entries.kind() == Kind::list || entries.kind() == Kind::null) {
    return gathered<Value>(range, [&](std::size_t i) { return entries.at(i); });
  }
  switch (entries.kind()) {
    case Kind::integer: {
      const auto all =
          entries.parts().values.as<std::int64_t>().subspan(range.begin, range.end - range.begin);
      return std::vector<std::int64_t>(all.begin(), all.end());
    }
    case Kind::floating: {
      const auto all =
          entries.parts().values.as<double>().subspan(range.begin, range.end - range.begin);
      return std::vector<double>(all.begin(), all.end());
    }
    case Kind::boolean:
      return gathered<bool>(range, [&](std::size_t i) { return entries.boolean(i); });
    default:
      return gathered<std::string>(range, [&](std::size_t i) { return entries.text(i); });
  }
}

}  // namespace

ColumnChunk::Range ColumnChunk::range(std::size_t row) const {
  const auto offsets = parts_.offsets.as<std::int64_t>();
  const std::int64_t begin = offsets[row], end = offsets[row + 1];
  const std::size_t all = parts_.entries ? parts_.entries->size() : parts_.values.bytes.size();
  if (begin < 0 || end < begin || static_cast<std::size_t>(end) > all) {
    throw DataError("a stored column is damaged: a value is said to lie at " +
                    std::to_string(begin) + " to " + std::to_string(end) + " of " +
                    std::to_string(all) + ". Remove the file from the cache of datasets");
  }
  return {static_cast<std::size_t>(begin), static_cast<std::size_t>(end)};
}

std::string_view ColumnChunk::text(std::size_t row) const {
  const Range place = range(row);
  return {reinterpret_cast<const char*>(parts_.values.bytes.data()) + place.begin,
          place.end - place.begin};
}

Value ColumnChunk::at(std::size_t row) const {
  if (is_missing(row)) return {};
  switch (kind()) {
    case Feature::Kind::null:
      return {};
    case Feature::Kind::integer:
      return integer(row);
    case Feature::Kind::floating:
      return number(row);
    case Feature::Kind::boolean:
      return boolean(row);
    case Feature::Kind::string:
      return text(row);
    case Feature::Kind::list:
      return list_of(*parts_.entries, range(row));
  }
  return {};
}

}  // namespace accelerate::detail
