// Runs the operators of a record again.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "accelerate/parallel/recompute/recorded_tensors.h"
#include "accelerate/tensor/compat/saved_tensor_hooks.h"

namespace accelerate::detail {

class UnitRecord;
struct RecordedArgument;
struct RecordedCall;

/// Gives the tensors that a record dropped, and that are still wanted, their values. Runs only the
/// operators on which these depend, each with the random numbers, autocast and gradient mode that it
/// had, and frees a result after its last use.
class Replay : public compat::SavedTensorPolicy {
 public:
  /// Returns the value of `dropped`. The first call for a record computes all that are wanted. Throws
  /// UsageError, which names the unit, if an operator fails, or computes from other values than in
  /// forward.
  [[nodiscard]] static at::Tensor value_of(const DroppedTensor& dropped);

  [[nodiscard]] std::unique_ptr<compat::SavedTensorHooks> make_hooks() override;
  /// Takes what autograd saves in the operator that runs.
  void take_saved(const at::Tensor& saved);

 private:
  using Wanted = std::vector<std::shared_ptr<DroppedTensor>>;

  explicit Replay(UnitRecord& record);
  void run();
  void forget_after_backward();
  void find_wanted();
  void find_needed();
  void find_last_uses();
  void run_calls();
  void run_call(std::size_t number);
  void compute(std::size_t number);
  void take_results(std::size_t number);
  void take_moved();
  void set_random_state(const RecordedCall& call);
  void restore_random_states();
  at::Tensor argument(const RecordedArgument& argument);
  at::Tensor external(std::size_t place);
  const at::Tensor& copy(std::size_t place);
  void check_sample(const RecordedArgument& argument, const at::Tensor& value) const;
  void check_found() const;
  [[noreturn]] void refuse_other_values(std::size_t number) const;
  [[noreturn]] void refuse(const std::string& what, const std::string& cure) const;

  UnitRecord& record_;
  std::vector<Wanted> wanted_;                    // By call.
  Wanted moved_;                                  // From outside, in host memory.
  std::vector<bool> needed_;                      // By call.
  std::vector<std::vector<std::size_t>> unused_;  // By call: those that nothing reads afterwards.
  std::vector<std::vector<at::Tensor>> results_;  // By call.
  std::vector<at::Tensor> externals_, copies_;
  std::vector<bool> kept_;  // By call: whether its results were kept and are unchanged.
  std::vector<std::pair<at::Generator, at::Tensor>> random_states_;  // Before the replay.
  std::size_t present_ = 0;  // The call that runs, and the number of tensors saved in it.
  std::size_t saved_ = 0;
};

}  // namespace accelerate::detail
