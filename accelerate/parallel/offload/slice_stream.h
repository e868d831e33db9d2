// Brings the values of slices into memory, a few MiB at a time, for a computation on corresponding
// elements: the step of an optimizer.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <vector>

#include "accelerate/parallel/offload/offload_store.h"

namespace accelerate::detail {

/// Tensors whose elements correspond, {n} each: a parameter, its gradient, its state. At least one
/// of them lies in the store, the others in memory.
struct StoredRow {
  std::vector<at::Tensor> tensors;
};

/// What a computation does with tensor number i of every row.
enum class SliceUse { read, update };

/// A part of a row that is in memory now: as many tensors as the row has.
struct RowPart {
  std::size_t row;
  std::vector<at::Tensor> tensors;
};

/// Calls `visit` with all elements of `rows`, each once, in the order of the files. While it runs,
/// what comes next is read and what it changed before is written. A row is cut at multiples of 32
/// elements only, counted from its first one, so that vector instructions see what they would see
/// in the whole row. Returns when everything is written. Memory: three pieces of 8 MiB for each
/// fp32 tensor of a row. Throws FileError, and what `visit` throws; some parts are changed then.
void for_each_slice(OffloadStore& store, const std::vector<StoredRow>& rows,
                    const std::vector<SliceUse>& uses,
                    const std::function<void(const std::vector<RowPart>&)>& visit);

/// Calls `update`, which changes each element of the given tensors by itself, with those of
/// `tensors` that lie in memory, and then with parts of the others, as for_each_slice() brings them.
/// Tensors in files must be {n}.
void update_in_memory(const std::vector<at::Tensor>& tensors,
                      const std::function<void(const std::vector<at::Tensor>&)>& update);

/// Calls `visit` with each of `tensors`, in order. A tensor that lives in a file is whole in memory
/// then, and the next one is read meanwhile. Memory: the largest two of these.
void visit_in_memory(const std::vector<at::Tensor>& tensors,
                     const std::function<void(const at::Tensor&)>& visit);

}  // namespace accelerate::detail
