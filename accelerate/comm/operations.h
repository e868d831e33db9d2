// Collectives on nested values, as a training loop wants them. Before any data moves, the ranks
// compare operation, dtypes and shapes. A difference is a CommError on every rank, never a hang or
// an abort; the error lists what each rank brought. Cost of the comparison: one all-gather of 16
// bytes per rank. All functions are [collective] and do not change their arguments. Tensors may lie
// on any device and need not be contiguous. Source of the semantics: accelerate/utils/operations.py
// of Hugging Face.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "accelerate/comm/communicator.h"
#include "accelerate/tensor/nested.h"

namespace accelerate {

struct PadOptions {
  int64_t dim = 0;         ///< Dimension to pad; negative counts from the end.
  double pad_index = 0;    ///< Value of the padding.
  bool pad_first = false;  ///< Pad before the data instead of after it.
};

namespace detail {
using Tensors = std::vector<at::Tensor>;

/// Throws CommError on all ranks unless all bring the same `description` (compared as a whole).
void require_agreement(Communicator& communicator, const std::string& operation,
                       const std::string& description);

/// Compares `mine` among the ranks. Returns the texts of all ranks when they differ; else an empty
/// list. Every operation here begins with it, so a rank that calls another operation is found out:
/// it brings the text of that operation. [collective] Cost: an all-gather of 16 bytes; when the
/// texts differ, two more, of their lengths and of the texts.
[[nodiscard]] std::vector<std::string> texts_that_differ(Communicator& communicator,
                                                         const std::string& mine);
/// Throws a CommError that lists what each rank brought.
[[noreturn]] void throw_disagreement(const std::string& operation,
                                     const std::vector<std::string>& all);

[[nodiscard]] Tensors gather(Communicator& communicator, const Tensors& tensors);
[[nodiscard]] Tensors reduce(Communicator& communicator, const Tensors& tensors, ReduceOp op,
                             double scale);
[[nodiscard]] Tensors broadcast(Communicator& communicator, const Tensors& tensors, int source);
[[nodiscard]] Tensors pad_across_processes(Communicator& communicator, const Tensors& tensors,
                                           const PadOptions& options);
[[nodiscard]] Tensors slice(const Tensors& tensors, int64_t begin, int64_t end);

/// Returns `value` with its tensors replaced by the results of `transform`.
template <Nested T, typename Transform>
T transform_tensors(T value, Transform transform) {
  const Tensors results = transform(collect_tensors(value));
  std::size_t next = 0;
  visit_tensors(value, TensorVisitor{[&](at::Tensor& tensor) { tensor = results[next++]; }});
  return value;
}
}  // namespace detail

/// Concatenates the ranks' tensors along dim 0, in rank order: every tensor [n, …] becomes
/// [size × n, …]. A scalar counts as [1].
template <Nested T>
[[nodiscard]] T gather(Communicator& communicator, T value) {
  return detail::transform_tensors(std::move(value), [&](const detail::Tensors& tensors) {
    return detail::gather(communicator, tensors);
  });
}

/// Reduces every tensor over the ranks and multiplies the result by `scale`. Shapes and dtypes stay
/// as they are. 8-bit and 16-bit floats are added, divided and scaled in float and rounded once.
/// Integers wrap around as tensors do. Throws UsageError on all ranks for a mean of integers or bool,
/// for integers and a `scale` that is not whole, for bool and any scale, and as
/// Communicator::all_reduce.
template <Nested T>
[[nodiscard]] T reduce(Communicator& communicator, T value, ReduceOp op = ReduceOp::mean,
                       double scale = 1.0) {
  return detail::transform_tensors(std::move(value), [&](const detail::Tensors& tensors) {
    return detail::reduce(communicator, tensors, op, scale);
  });
}

/// Replaces every tensor by the tensor of rank `source`.
template <Nested T>
[[nodiscard]] T broadcast(Communicator& communicator, T value, int source = 0) {
  return detail::transform_tensors(std::move(value), [&](const detail::Tensors& tensors) {
    return detail::broadcast(communicator, tensors, source);
  });
}

/// Pads every tensor along `options.dim` to the largest size among the ranks. Tensors without that
/// dimension stay as they are. The other dimensions must agree.
template <Nested T>
[[nodiscard]] T pad_across_processes(Communicator& communicator, T value,
                                     const PadOptions& options = {}) {
  return detail::transform_tensors(std::move(value), [&](const detail::Tensors& tensors) {
    return detail::pad_across_processes(communicator, tensors, options);
  });
}

/// Returns rows [begin, end) of every tensor, as views. Local.
template <Nested T>
[[nodiscard]] T slice_tensors(T value, int64_t begin, int64_t end) {
  return detail::transform_tensors(std::move(value), [&](const detail::Tensors& tensors) {
    return detail::slice(tensors, begin, end);
  });
}

/// Returns the `bytes` of all ranks in rank order; they may differ in length.
[[nodiscard]] std::vector<std::string> gather_bytes(Communicator& communicator,
                                                    const std::string& bytes);

/// Throws UsageError on all ranks when any rank gives a `reason` why it cannot go on. The error
/// names the first such rank and its reason. A rank that can go on gives "". [collective]
void refuse_together(Communicator& communicator, const std::string& reason);

/// Returns the `bytes` of rank `source`.
[[nodiscard]] std::string broadcast_bytes(Communicator& communicator, const std::string& bytes,
                                          int source);

}  // namespace accelerate
