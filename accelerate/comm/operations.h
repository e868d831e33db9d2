// Collectives on nested values, as a training loop wants them. Before any data moves, the ranks
// compare operation, dtypes and shapes: a difference is a CommError on every rank that lists what
// each one brought, never a hang or an abort. Cost of the comparison: one all-gather of 16 bytes a
// rank. All functions are [collective] and leave their arguments alone; tensors may lie on any
// device and need not be contiguous. Source of the semantics: accelerate/utils/operations.py of
// Hugging Face.
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

/// All ranks' texts when one brings another than this rank's `mine`; else nothing. The handshake of
/// all operations here: a rank in another one of them brings that one's. [collective] Cost: an
/// all-gather of 16 bytes; two more of the texts when they differ.
[[nodiscard]] std::vector<std::string> texts_that_differ(Communicator& communicator,
                                                         const std::string& mine);
/// Throws CommError that lists what each rank brought.
[[noreturn]] void throw_disagreement(const std::string& operation,
                                     const std::vector<std::string>& all);

[[nodiscard]] Tensors gather(Communicator& communicator, const Tensors& tensors);
[[nodiscard]] Tensors reduce(Communicator& communicator, const Tensors& tensors, ReduceOp op,
                             double scale);
[[nodiscard]] Tensors broadcast(Communicator& communicator, const Tensors& tensors, int source);
[[nodiscard]] Tensors pad_across_processes(Communicator& communicator, const Tensors& tensors,
                                           const PadOptions& options);
[[nodiscard]] Tensors slice(const Tensors& tensors, int64_t begin, int64_t end);

/// `value` with its tensors replaced by those that `transform` makes of them.
template <Nested T, typename Transform>
T transform_tensors(T value, Transform transform) {
  const Tensors results = transform(collect_tensors(value));
  std::size_t next = 0;
  visit_tensors(value, [&](at::Tensor& tensor) { tensor = results[next++]; });
  return value;
}
}  // namespace detail

/// Every tensor [n, …] becomes [size × n, …]: the ranks' tensors one after the other along dim 0,
/// in rank order. A scalar counts as [1].
template <Nested T>
[[nodiscard]] T gather(Communicator& communicator, T value) {
  return detail::transform_tensors(std::move(value), [&](const detail::Tensors& tensors) {
    return detail::gather(communicator, tensors);
  });
}

/// Every tensor becomes its reduction over the ranks, times `scale`; same shape and dtype.
template <Nested T>
[[nodiscard]] T reduce(Communicator& communicator, T value, ReduceOp op = ReduceOp::mean,
                       double scale = 1.0) {
  return detail::transform_tensors(std::move(value), [&](const detail::Tensors& tensors) {
    return detail::reduce(communicator, tensors, op, scale);
  });
}

/// Every tensor becomes that of rank `source`.
template <Nested T>
[[nodiscard]] T broadcast(Communicator& communicator, T value, int source = 0) {
  return detail::transform_tensors(std::move(value), [&](const detail::Tensors& tensors) {
    return detail::broadcast(communicator, tensors, source);
  });
}

/// Every tensor is padded along `options.dim` to the largest size among the ranks; tensors without
/// that dimension stay as they are. The other dimensions must agree.
template <Nested T>
[[nodiscard]] T pad_across_processes(Communicator& communicator, T value,
                                     const PadOptions& options = {}) {
  return detail::transform_tensors(std::move(value), [&](const detail::Tensors& tensors) {
    return detail::pad_across_processes(communicator, tensors, options);
  });
}

/// Rows [begin, end) of every tensor (views). Local.
template <Nested T>
[[nodiscard]] T slice_tensors(T value, int64_t begin, int64_t end) {
  return detail::transform_tensors(std::move(value), [&](const detail::Tensors& tensors) {
    return detail::slice(tensors, begin, end);
  });
}

/// The ranks' `bytes` in rank order; they may differ in length.
[[nodiscard]] std::vector<std::string> gather_bytes(Communicator& communicator,
                                                    const std::string& bytes);

/// Throws UsageError on all ranks when one says why it cannot go on: with its reason, and which
/// rank it is. Those that can give "". [collective]
void refuse_together(Communicator& communicator, const std::string& reason);

/// Rank `source`'s `bytes`.
[[nodiscard]] std::string broadcast_bytes(Communicator& communicator, const std::string& bytes,
                                          int source = 0);

}  // namespace accelerate
