// Gathers what all ranks computed for the samples of the present step, each sample once.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "accelerate/comm/communicator.h"
#include "accelerate/comm/exchange.h"
#include "accelerate/comm/operations.h"
#include "accelerate/comm/state/gradient_state.h"
#include "accelerate/data/batch_rows.h"

namespace accelerate::detail {

/// Says which ranks take part and which rows count. Equal on all ranks that take part, since it
/// follows from what the loader says of its present batch.
struct MetricsStep {
  int ranks = 1;              ///< The number of ranks that have a batch.
  bool ragged = false;        ///< Whether their batches may differ in rows.
  std::int64_t samples = -1;  ///< Rows that are not repeats; −1 for all.
  /// Whether rows are to be cut off, and the batch has none that could be.
  bool cannot_cut = false;
};
[[nodiscard]] MetricsStep metrics_step(const GradientState& state, const Communicator& group);

/// As gather(), for tensors whose number of rows may differ between ranks. Drops repeated rows.
[[nodiscard]] Tensors gather_rows_once(Communicator& communicator, const MetricsStep& step,
                                       const Tensors& tensors);

/// Appends the rows of all values to the first, and drops repeated rows. Throws CommError if the
/// values do not fit together.
void join_rows_once(const std::vector<ColumnList>& values, const MetricsStep& step);

/// Turns scalars of shape {} into shape {1}: one row per rank.
[[nodiscard]] at::Tensor with_rows(const at::Tensor& tensor);

template <typename T>
[[nodiscard]] T join_once(std::vector<T> values, const MetricsStep& step) {
  std::vector<ColumnList> columns;
  for (T& value : values) columns.push_back(columns_of(value));
  join_rows_once(columns, step);
  return std::move(values.front());
}

/// Gathers a value of tensors, or one that also holds vectors of other types.
template <Nested T>
[[nodiscard]] T gather_once(Communicator& communicator, const MetricsStep& step, T value) {
  static_assert(Parts<T>::kFacts.seen,
                "gather_for_metrics: the compiler cannot see the members of this struct, so that "
                "strings beside its tensors would be lost. Gather a tuple of its members; or, if "
                "it holds nothing but tensors, say so: template <> inline constexpr bool "
                "accelerate::kOnlyTensorsTravel<YourStruct> = true;");
  if constexpr (kHasLists<T>) {
    static_assert(Parts<T>::kFacts.sent,
                  "gather_for_metrics: this type holds vectors of what cannot be sent; gather the "
                  "parts one by one, and what is convertible to JSON by gather_object");
    visit_tensors(value, [](at::Tensor& tensor) { tensor = with_rows(tensor); });
    return join_once(exchange(communicator, value, step.ranks), step);
  } else {
    return transform_tensors(std::move(value), [&](const Tensors& tensors) {
      return gather_rows_once(communicator, step, tensors);
    });
  }
}

/// Gathers objects, one per sample.
template <Portable T>
[[nodiscard]] std::vector<T> gather_objects_once(Communicator& communicator,
                                                 const MetricsStep& step, std::vector<T> objects) {
  std::vector<T> all;
  for (auto& part : exchange(communicator, objects, step.ranks)) {
    for (auto&& object : part) all.push_back(std::move(object));
  }
  const auto count = static_cast<std::int64_t>(all.size());
  if (step.samples >= 0 && step.samples < count) {
    all.erase(all.begin() + step.samples, all.end());
  }
  return all;
}

}  // namespace accelerate::detail
