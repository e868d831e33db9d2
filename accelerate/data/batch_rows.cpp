#include "accelerate/data/batch_rows.h"

#include <ATen/ops/cat.h>

#include <algorithm>
#include <sstream>

#include "accelerate/base/error.h"

namespace accelerate::detail {
namespace {

// Scalars and undefined tensors have no rows.
bool has_rows(const Column& column) {
  return column.tensor == nullptr || (column.tensor->defined() && column.tensor->dim() > 0);
}

std::int64_t rows_in(const Column& column) {
  return column.tensor != nullptr ? column.tensor->size(0)
                                  : static_cast<std::int64_t>(column.operations->size(column.list));
}

std::string text_of(const at::Tensor& tensor) {
  std::ostringstream text;
  if (!tensor.defined()) return "an undefined tensor";
  text << tensor.scalar_type() << " " << tensor.sizes();
  return text.str();
}

// Whether the rows of both tensors fit into one tensor.
bool alike(const at::Tensor& one, const at::Tensor& other) {
  if (!one.defined() || !other.defined()) return one.defined() == other.defined();
  return one.scalar_type() == other.scalar_type() && one.dim() == other.dim() &&
         (one.dim() == 0 || one.sizes().slice(1) == other.sizes().slice(1));
}

[[noreturn]] void throw_unlike(std::size_t place, const at::Tensor& one, const at::Tensor& other) {
  throw DataError("values that are to be joined differ in more than their number of rows: tensor " +
                  std::to_string(place) + " is " + text_of(one) + " in one and " + text_of(other) +
                  " in another");
}

void append_tensors(std::size_t place, at::Tensor& all, const std::vector<ColumnList>& more) {
  std::vector<at::Tensor> parts{all};
  for (const ColumnList& columns : more) {
    const at::Tensor& part = *columns[place].tensor;
    if (!alike(all, part)) throw_unlike(place, all, part);
    parts.push_back(part);
  }
  all = at::cat(parts);
}

}  // namespace

void throw_flattened() {
  throw UsageError(
      "a batch of DataCollatorWithFlattening has all its samples in one row, which cannot be "
      "dispatched, split or joined. Let each rank collate its own samples (dispatch_batches = "
      "false), or pad them by DataCollatorWithPadding");
}

void throw_other_keys(std::size_t place) {
  throw DataError("values that are to be joined differ in their keys: value " +
                  std::to_string(place) + " has other keys than value 0");
}

std::int64_t first_rows_of(const ColumnList& columns) {
  for (const Column& column : columns) {
    if (has_rows(column)) return rows_in(column);
  }
  throw DataError(
      "rank 0 cannot split a batch by rows: it has no tensor with rows. Set dispatch_batches = "
      "false, so that each rank reads its own batches.");
}

std::int64_t rows_of(const ColumnList& columns) {
  const std::int64_t rows = first_rows_of(columns);
  for (std::size_t place = 0; place < columns.size(); ++place) {
    if (!has_rows(columns[place])) continue;
    const std::int64_t here = rows_in(columns[place]);
    if (here != rows) {
      throw DataError("rank 0 cannot split a batch by rows: one tensor has " +
                      std::to_string(rows) + " rows and another " + std::to_string(here) +
                      ". Pass your own slice_fn, or set dispatch_batches = false, so that each "
                      "rank reads its own batches.");
    }
  }
  return rows;
}

void append_rows(const ColumnList& all, const std::vector<ColumnList>& more) {
  if (more.empty()) return;
  for (const ColumnList& columns : more) {
    if (columns.size() == all.size()) continue;
    throw DataError("values that are to be joined differ in structure: one has " +
                    std::to_string(all.size()) + " columns and another " +
                    std::to_string(columns.size()));
  }
  for (std::size_t place = 0; place < all.size(); ++place) {
    const Column& column = all[place];
    if (column.tensor == nullptr) {
      for (const ColumnList& columns : more)
        column.operations->append(column.list, columns[place].list);
    } else if (has_rows(column)) {
      append_tensors(place, *column.tensor, more);
    }
  }
}

void cut_rows(const ColumnList& columns, std::int64_t begin, std::int64_t end) {
  for (const Column& column : columns) {
    if (!has_rows(column)) continue;
    if (column.tensor != nullptr) {
      *column.tensor = column.tensor->slice(0, begin, end);
    } else {
      const std::int64_t rows = rows_in(column);
      column.operations->cut(column.list, static_cast<std::size_t>(std::min(begin, rows)),
                             static_cast<std::size_t>(std::min(end, rows)));
    }
  }
}

void own_rows(const ColumnList& columns) {
  for (const Column& column : columns) {
    if (column.tensor != nullptr && has_rows(column)) *column.tensor = column.tensor->clone();
  }
}

}  // namespace accelerate::detail
