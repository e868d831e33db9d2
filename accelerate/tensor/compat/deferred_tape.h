// What was done to tensors that have no memory, so that it can be done again when they get some.
//
// A deferred tensor is a tensor of the meta device whose storage knows the tape that has its
// history. Operations are kept as boxed calls, with the arguments as the program wrote them. Views
// need no entry: a tensor is a geometry over a storage, and the tape speaks of storages alone.
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

/// `value` with every tensor in it (itself, or those of a list) replaced by what `map` makes of it.
[[nodiscard]] at::IValue map_tensors(const at::IValue& value,
                                     const std::function<at::Tensor(const at::Tensor&)>& map);

/// A tensor with the dtype, shape, strides and offset of `like`, over `storage`.
[[nodiscard]] at::Tensor over_storage(const at::Storage& storage, const at::Tensor& like);

/// Safe to use from several threads, one at a time. Tapes live as long as a storage on them.
class Tape : public std::enable_shared_from_this<Tape> {
 public:
  Tape() = default;
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;
  ~Tape();

  /// Runs `op` on the meta device, with `stack`, and notes what it did. `written`: the arguments as
  /// the program wrote them; in `stack` a factory may have got another device. What meta tensors
  /// cannot answer (a value, a shape that depends on values), and what writes into memory, is run
  /// on the values of the arguments instead. Throws what `op` throws.
  void record(const c10::OperatorHandle& op, torch::jit::Stack& written, torch::jit::Stack& stack);

  /// Memory of its own with what the program would have computed there. Cost: the operations that
  /// the storage depends on, and, once, the random numbers that were to be drawn before its own.
  [[nodiscard]] at::Storage value_of(StorageId storage);

  /// Tensors that are still alive and require no gradient get memory. Stops at the first that
  /// cannot.
  void give_memory_to_buffers();
  /// Notes in which version the tensors are: later changes are none of this tape's.
  void close();
  /// Throws UsageError when `tensor` was changed after close().
  void check_unchanged(const at::Tensor& tensor) const;

 private:
  struct Output {
    std::size_t place;  // Among all tensors that the operation returns.
    StorageId storage;
    at::Tensor geometry;  // Of a tensor that lies there. No memory.
  };
  struct Read {
    StorageId storage;
    at::Tensor outline;  // Stands for the tensor among the arguments.
  };
  struct Draw {
    std::size_t stream, place;
  };
  // An operation, or a storage that another tape knows.
  struct Entry {
    std::optional<c10::OperatorHandle> op;
    torch::jit::Stack arguments;
    std::vector<Read> reads;  // Deferred arguments, those that are written among them.
    std::vector<StorageId> writes;
    std::vector<Output> outputs;
    std::vector<std::pair<at::Tensor, std::int64_t>> constants;  // With their versions.
    std::optional<Draw> draw;
    std::shared_ptr<Tape> from;  // Of the other kind.
    StorageId from_storage = 0;
  };
  // The numbers that a generator would have given, draw by draw.
  struct Stream {
    at::Generator source, own;
    std::shared_ptr<Tape> previous;  // Where its stream `previous_stream` ends, this one starts.
    std::size_t previous_stream = 0;
    std::vector<at::Tensor> states;  // Before draw i, as far as they are known.
    std::vector<std::size_t> draws;  // Entries.
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
  std::vector<std::vector<std::size_t>> writers_;  // By storage: the entries that wrote there.
  std::vector<Stream> streams_;
  std::vector<Handle> handles_;  // Results, as long as somebody has them.
  bool is_closed_ = false;
};

/// Where a deferred tensor has its history.
struct DeferredStorage {
  std::shared_ptr<Tape> tape;
  StorageId id;
};

/// Of `tensor`; nullptr when it is not deferred. Nanoseconds.
[[nodiscard]] DeferredStorage* deferred_storage(const at::Tensor& tensor);
/// Makes the storage of a meta tensor one of `tape`.
void defer_storage(const at::Tensor& tensor, std::shared_ptr<Tape> tape, StorageId id);

}  // namespace accelerate::compat
