// The operators of one call of a unit, so that backward can compute again what autograd did not keep.
//
// A tensor among the arguments of a recorded operator is either a result of an earlier operator of
// the record, which is held weakly, or it comes from outside, and is held until backward. Graphs
// never keep a record alive through its own tensors: those from outside are held without theirs.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <c10/core/TensorImpl.h>

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "accelerate/parallel/recompute/autocast_state.h"
#include "accelerate/parallel/recompute/live_records.h"
#include "accelerate/parallel/recompute/recorded_tensors.h"
#include "accelerate/tensor/compat/interception.h"
#include "accelerate/tensor/compat/operator_traits.h"
#include "accelerate/tensor/write_mark.h"

namespace accelerate::detail {

/// A result of a recorded call.
struct ResultOfCall {
  std::size_t call = 0;
  std::size_t result = 0;
};

/// A tensor among the arguments of a recorded call.
struct RecordedArgument {
  std::optional<ResultOfCall> origin{};  ///< Unset: it comes from outside.
  std::size_t external = 0;              ///< Its place among the tensors from outside.
  std::optional<Geometry> geometry{};    ///< Set: it is this part of the origin's memory.
  bool requires_grad = false;
  std::optional<SampledValues> sample{};  ///< Of its values, if the operator reads them on a CPU.
};

struct RecordedCall {
  c10::OperatorHandle op;
  torch::jit::Stack arguments{};            ///< Tensors are replaced by placeholders.
  std::vector<RecordedArgument> tensors{};  ///< In the order of the placeholders.
  std::vector<std::size_t> needs{};         ///< The calls whose results it reads.
  bool with_gradients = false;
  AutocastState autocast{};
  at::Generator generator{};  ///< Defined if it draws random numbers.
  at::Tensor random_state{};  ///< Before the call.
  bool keeps_results = false;
  std::vector<at::Tensor> kept{};        ///< Its results, if they are kept,
  std::vector<Version> kept_versions{};  ///< and their versions.
  bool is_kept_changed = false;          ///< Whether a later call writes into them.
  at::ScalarType default_dtype = at::kFloat;

  /// Whether its results are there and as they were.
  [[nodiscard]] bool has_kept() const;
};

/// A tensor that a recorded call reads and that the record did not make.
struct ExternalTensor {
  at::Tensor tensor;  ///< Without its graph, unless it is a leaf.
  bool requires_grad = false;
  bool is_leaf = false;
  /// Its place among the copies of storages from before a write, if the unit changes it.
  std::optional<std::size_t> copy{};
  std::int64_t offset = 0;            ///< Of its first element in its storage.
  std::optional<c10::Device> home{};  ///< Set: it was moved from there to the host.
  Version version{};
};

class UnitRecord final : public StorageHolder, public std::enable_shared_from_this<UnitRecord> {
 public:
  /// `unit`: the name in errors. Results of others on devices of the type `offloads_from` wait for
  /// backward in host memory.
  UnitRecord(std::string unit, std::optional<c10::DeviceType> offloads_from);

  // --- While the unit runs, on its thread -------------------------------------------------------
  /// To be called before an operator runs. `keeps_results`: they are not computed again.
  void begin(const compat::InterceptedCall& call, const compat::OperatorTraits& traits,
             bool keeps_results);
  /// To be called when it has run.
  void end(const compat::InterceptedCall& call);
  /// To be called in place of end() when it threw.
  void leave() noexcept { present_.reset(); }
  /// Returns what becomes of a tensor that autograd saves now: null if it must be kept.
  [[nodiscard]] std::shared_ptr<DroppedTensor> drop(const at::Tensor& saved);
  /// To be called before an operator writes into `storage`, also after close(): keeps a copy of what
  /// the record holds of it. If it is not the record's own operator, what it reads there afterwards
  /// comes from outside.
  void before_write(const c10::StorageImpl* storage) override;
  /// Forgets what only recording needs.
  void close();

  [[nodiscard]] const std::string& unit() const { return unit_; }
  /// "aten::mul of the unit encoder.0".
  [[nodiscard]] std::string name_of(std::size_t call) const;

 private:
  friend class Replay;  // On any thread, in backward.

  // A storage that recorded calls have met.
  struct Memory {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;  // Keeps its address from being used again.
    bool is_external = false;
    bool has_views = false;               // Of results in it.
    std::optional<std::size_t> writer{};  // The call that wrote it last.
    std::optional<ResultOfCall> whole{};  // A result of that call in this storage.
    at::ScalarType dtype = at::kFloat;    // Its type.
    std::optional<std::size_t> copy{};    // Of an external storage that the unit changes.
  };
  using WeakTensor = c10::weak_intrusive_ptr<at::TensorImpl, c10::UndefinedTensorImpl>;
  // A tensor in a storage, which a write into it would change.
  struct Held {
    bool is_external = false;
    std::size_t external = 0;
    ResultOfCall kept{};
  };

  void forget(const c10::StorageImpl* storage);
  std::size_t copy_of(const at::Tensor& tensor);
  void use_copy(ExternalTensor& external, std::size_t copy);
  RecordedArgument note_argument(RecordedCall& call, const at::Tensor& tensor);
  std::size_t add_external(const at::Tensor& tensor);
  bool note_result(const at::Tensor& result, ResultOfCall origin);
  void keep(const at::Tensor& result, std::size_t call);
  [[nodiscard]] bool is_changed_whole_now(ResultOfCall result,
                                          const c10::StorageImpl* storage) const;
  void before_write_of_kept(ResultOfCall result, const c10::StorageImpl* storage);
  void hold(const at::Tensor& tensor, Held held);
  Memory* memory_of(const at::Tensor& tensor);
  // Whether the present call writes into `storage`.
  [[nodiscard]] bool writes_now(const c10::StorageImpl* storage) const;

  // The tensor from outside in whose memory `saved` lies, if it will be moved to the host.
  [[nodiscard]] std::optional<std::size_t> offloaded_under(const at::Tensor& saved) const;
  [[nodiscard]] bool is_offloaded(const ExternalTensor& external) const;
  void offload();

  std::string unit_;
  std::optional<c10::DeviceType> offloads_from_;
  std::mutex mutex_;  // Of a replay and a write at one time.
  std::vector<RecordedCall> calls_;
  std::vector<ExternalTensor> externals_;
  std::vector<at::Tensor> copies_;  // Bytes of storages.
  std::vector<std::weak_ptr<DroppedTensor>> dropped_;
  std::unordered_multimap<const c10::StorageImpl*, Held> held_;
  bool wants_products_;  // Of compat::MatrixProducts.

  std::optional<std::size_t> present_;  // The call that runs now.
  std::size_t saved_ = 0;               // The number of tensors that autograd has saved in it.
  std::vector<const c10::StorageImpl*> written_;  // It writes into them.
  std::unordered_map<const at::TensorImpl*, std::pair<WeakTensor, ResultOfCall>> results_;
  std::unordered_map<const at::TensorImpl*, std::pair<WeakTensor, std::size_t>> known_externals_;
  std::unordered_map<const c10::StorageImpl*, Memory> memories_;
};

}  // namespace accelerate::detail
