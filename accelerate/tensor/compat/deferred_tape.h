// Records operations on tensors without memory, to execute them when the tensors get memory.
//
// A deferred tensor is a tensor of the meta device whose storage refers to the tape with its
// history. Operations are kept as boxed calls, with the arguments as the program wrote them. Views
// need no entry: a tensor is a geometry over a storage, and the tape only deals with storages.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

namespace accelerate::compat {

using StorageId = std::size_t;  ///< The place of a storage on its tape.

/// Returns `value` with every tensor in it (`value` itself, or the tensors of a list) replaced by
/// `map(tensor)`.
[[nodiscard]] at::IValue map_tensors(const at::IValue& value,
                                     const std::function<at::Tensor(const at::Tensor&)>& map);

/// Returns a tensor over `storage` with the dtype, shape, strides and offset of `like`.
[[nodiscard]] at::Tensor over_storage(const at::Storage& storage, const at::Tensor& like);

/// A record of operations. A lock lets threads use it one at a time. A tape lives as long as a
/// storage on it.
class Tape : public std::enable_shared_from_this<Tape> {
 public:
  Tape() = default;
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;
  ~Tape();

  /// Runs `op` on the meta device with `stack`, and records it. `written`: the arguments as the
  /// program wrote them; in `stack` a factory may have got another device. Operations that meta
  /// tensors cannot answer (a value, a shape that depends on values) run on the values of the
  /// arguments instead. So do operations that write into memory. Throws what `op` throws.
  void record(const c10::OperatorHandle& op, torch::jit::Stack& written, torch::jit::Stack& stack);

  /// Returns new memory with the values that the program would have computed there. Cost: the
  /// operations on which the storage depends, and, once, all random numbers to be drawn before.
  [[nodiscard]] at::Storage value_of(StorageId storage);

  /// Gives memory to tensors that still exist and require no gradient. Stops at the first that
  /// cannot get memory, and throws.
  void give_memory_to_buffers();
  /// Records the versions of the tensors, because the tape does not see later changes.
  void close();
  /// Throws UsageError if `tensor` was changed after close().
  void check_unchanged(const at::Tensor& tensor) const;

 private:
  struct Output {
    std::size_t place;  // Place among all tensors that the operation returns.
    StorageId storage;
    at::Tensor geometry;  // Geometry of a tensor in the storage. No memory.
  };
  struct Read {
    StorageId storage;
    at::Tensor outline;  // Stands for the tensor among the arguments.
  };
  struct Draw {
    std::size_t stream, place;
  };
  // An operation, or a storage taken over from another tape.
  struct Entry {
    std::optional<c10::OperatorHandle> op;
    torch::jit::Stack arguments;
    std::vector<Read> reads;  // Deferred arguments, including the written ones.
    std::vector<StorageId> writes;
    std::vector<Output> outputs;
    std::vector<std::pair<at::Tensor, std::int64_t>> constants;  // With their versions.
    std::optional<Draw> draw;
    std::shared_ptr<Tape> from;  // The other tape, if this is not an operation.
    StorageId from_storage = 0;
  };
  // The random numbers that a generator would have given, draw by draw.
  struct Stream {
    at::Generator source, own;
    std::shared_ptr<Tape> previous;  // This stream starts where its `previous_stream` ends.
    std::size_t previous_stream = 0;
    std::vector<at::Tensor> states;  // States before draw i, as far as they are known.
    std::vector<std::size_t> draws;  // The entries that draw.
  };
  struct Handle {
    using Weak = c10::weak_intrusive_ptr<at::TensorImpl, c10::UndefinedTensorImpl>;
    Weak tensor;
    std::int64_t version;
  };
  using Values = std::unordered_map<StorageId, at::Storage>;

  StorageId new_storage();
  StorageId own_id(const at::Tensor& deferred);
  at::Tensor kept(const at::Tensor& argument, bool is_written, Entry& entry, bool& writes_memory);
  void adopt_results(Entry& entry, const torch::jit::Stack& stack, std::size_t begin);
  void run_on_values(Entry entry, torch::jit::Stack& stack, std::size_t begin);
  void add(Entry entry);

  std::set<std::size_t> needed_for(StorageId storage) const;
  void need(std::size_t entry, std::set<std::size_t>& needed) const;
  void play(const std::set<std::size_t>& entries, Values& values);
  void play(const Entry& entry, Values& values);
  torch::jit::Stack arguments_of(const Entry& entry, Values& values) const;
  static void bind(const Entry& entry, const torch::jit::Stack& results, Values& values);

  Draw new_draw(const Entry& next);
  std::size_t new_stream(const at::Generator& source);
  void catch_up(Stream& stream, std::size_t draws);
  void draw(const Entry& entry, torch::jit::Stack& stack);

  mutable std::recursive_mutex mutex_;
  std::vector<Entry> entries_;
  std::vector<std::vector<std::size_t>> writers_;  // For each storage: entries that wrote there.
  std::vector<Stream> streams_;
  std::vector<Handle> handles_;  // Results that may still exist.
  bool is_closed_ = false;
};

/// The tape with the history of a deferred tensor, and the tensor's storage on it.
struct DeferredStorage {
  std::shared_ptr<Tape> tape;
  StorageId id;
};

/// Returns the place of `tensor` on a tape; nullptr if it is not deferred. Nanoseconds.
[[nodiscard]] DeferredStorage* deferred_storage(const at::Tensor& tensor);
/// Makes the storage of a meta tensor a storage of `tape`.
void defer_storage(const at::Tensor& tensor, std::shared_ptr<Tape> tape, StorageId id);

}  // namespace accelerate::compat
