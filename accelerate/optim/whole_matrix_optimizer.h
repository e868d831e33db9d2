// Optimizers that compute the update of a matrix from the whole matrix.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "accelerate/tensor/named_shard.h"

namespace accelerate {

class ModelParts;
namespace detail {
struct MatrixParts;
}

/// A step of one matrix. `parameter` is what the groups hold: the matrix, or this rank's part.
struct MatrixStep {
  /// Returns what the update is computed from, in the shape of `parameter`. It must look at each
  /// element by itself. Called on every rank, also where the part is empty.
  std::function<at::Tensor(const at::Tensor& parameter)> prepare;
  /// Returns the update of a matrix, in the shape and dtype of `prepared`, which is whole here.
  /// Called on one rank.
  std::function<at::Tensor(const at::Tensor& prepared)> compute;
  /// Changes `parameter` by `update`, which has its shape. It must look at each element by
  /// itself.
  std::function<void(const at::Tensor& parameter, const at::Tensor& update)> apply;
};

/// A second base of optimizers that need whole matrices, such as Muon. They may be prepared with a
/// sharded model, although the groups then hold parts of shape {n}: a step brings the parts of each
/// matrix together on one rank, which computes the update and sends every rank its part of it. The
/// matrices are divided among the ranks that have parts of them, by the work that each makes.
class WholeMatrixOptimizer {
 public:
  virtual ~WholeMatrixOptimizer();

  /// Says that the groups hold `part` in place of a matrix of `model`. prepare() calls it, on all
  /// ranks in one order. Steps need the model, but do not keep it alive. Local.
  void hold_part(const NamedShard& part, const std::shared_ptr<const ModelParts>& model);

 protected:
  WholeMatrixOptimizer();
  WholeMatrixOptimizer(const WholeMatrixOptimizer&) = delete;
  WholeMatrixOptimizer& operator=(const WholeMatrixOptimizer&) = delete;

  /// Returns the shape of the matrix that `parameter` is, or is a part of.
  [[nodiscard]] std::vector<std::int64_t> shape_of(const at::Tensor& parameter) const;

  /// Runs `step` for each of `parameters`, which must be the same on all ranks. [collective for
  /// parts] Throws UsageError if the model of a part is gone, CommError. Cost, for parts alone:
  /// every part goes to the rank that computes and comes back, in the dtype that `prepare` returns.
  /// Memory, beside what `compute` takes: two tensors of that dtype as large as all parts of this
  /// rank, but at most two times 2^26 elements and the largest matrix.
  void step_matrices(const std::vector<at::Tensor>& parameters, const MatrixStep& step);

 private:
  std::unique_ptr<detail::MatrixParts> parts_;
};

}  // namespace accelerate
