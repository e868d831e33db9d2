// Where a rank's slices, their gradients and the state of their optimizer live when its memory need
// not hold them: in files, each of which is memory as well (OffloadColumn). Who steps an optimizer
// asks for_each_slice() for the values; this part knows nothing of optimizers.
//
//                  slice 0            slice 1 …
//   parameters     ┌──────────────┐   ┌───────
//   gradients      ├──────────────┤   ├───────    one file a row; for_each_slice() goes from left to
//   state 0        ├──────────────┤   ├───────    right through all rows at once
//   state 1        └──────────────┘   └───────
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "accelerate/base/transfer_queue.h"
#include "accelerate/parallel/offload/offload_column.h"
#include "accelerate/parallel/offload/offload_folder.h"

namespace accelerate::detail {

/// What an engine lets live on disk, and where; an empty path: in memory.
struct OffloadFolders {
  std::filesystem::path parameters;  ///< The slices that peers gather.
  std::filesystem::path optimizer;   ///< Masters of another type, gradients, optimizer state.
};

class OffloadStore : public std::enable_shared_from_this<OffloadStore> {
 public:
  enum class Kind { parameters, masters, gradients, accumulated, state };

  /// Makes a store without files. `slices`: the sizes of this rank's slices of units. Throws as
  /// OffloadFolder.
  [[nodiscard]] static std::shared_ptr<OffloadStore> make(const OffloadFolders& folders,
                                                          const std::string& job, int rank,
                                                          SliceSizes slices);
  /// Returns the store in whose files the tensor lies; null if it lies in memory. Thread-safe; a
  /// nanosecond while there is no store.
  [[nodiscard]] static std::shared_ptr<OffloadStore> holding(const at::Tensor& tensor);
  /// Returns the store that keeps the state of a parameter; null: it lives in memory. As holding().
  [[nodiscard]] static std::shared_ptr<OffloadStore> keeping_state_of(const at::Tensor& parameter);

  ~OffloadStore();
  OffloadStore(const OffloadStore&) = delete;
  OffloadStore& operator=(const OffloadStore&) = delete;

  /// Whether values of that kind live in files.
  [[nodiscard]] bool keeps(Kind kind) const;

  /// Makes the files of a kind: one for each of the `types`, with the slices that have that type.
  /// `number` tells states apart. Throws FileError, with the bytes that are wanted and free.
  void add(Kind kind, int number, const std::vector<std::optional<at::ScalarType>>& types);
  /// Returns this kind's values of a slice: a tensor {numel}; undefined where it has none.
  [[nodiscard]] at::Tensor slice(Kind kind, int number, std::size_t slice) const;

  /// Returns memory for gradients that accumulate on this rank before ranks are averaged: a tensor
  /// {numel}. The same for the same number.
  [[nodiscard]] at::Tensor accumulated(std::size_t number, at::ScalarType type, std::int64_t numel);

  /// Says that `parameter`, which optimizers hold, is `numel` elements of a slice.
  void know(const at::Tensor& parameter, std::size_t slice, std::int64_t begin);
  /// Whether the state of `parameter` lives here.
  [[nodiscard]] bool keeps_state_of(const at::Tensor& parameter) const;
  /// An optimizer has at most so many state tensors of a parameter.
  static constexpr int kStates = 3;
  /// Makes the files of state tensor `number` of all slices, if there are none. Throws FileError.
  void reserve_state(const at::Tensor& parameter, int number);
  /// Returns memory for state tensor `number`, below kStates, of `parameter`: of its shape and type.
  /// It is taken as long as the tensor lives, so that a second optimizer over the same parameters
  /// gets other memory. Its content is arbitrary. Throws as reserve_state().
  [[nodiscard]] at::Tensor take_state(const at::Tensor& parameter, int number);
  /// As take_state(), zeros.
  [[nodiscard]] at::Tensor take_zero_state(const at::Tensor& parameter, int number);

  /// Returns a copy of `values` in a file of its own, which goes with the copy: state on its way
  /// from a checkpoint. Throws FileError.
  [[nodiscard]] at::Tensor set_aside(const at::Tensor& values) const;

  /// Whether the tensor lies in a file.
  [[nodiscard]] bool holds(const at::Tensor& tensor) const { return place_of(tensor).has_value(); }
  /// Begins to read a tensor that lies here into `memory`, which stays until the transfer is done.
  [[nodiscard]] Transfer read(const at::Tensor& stored, void* memory);
  /// Begins to write `values`, of the same type and size, which stay until the transfer is done.
  [[nodiscard]] Transfer write(const at::Tensor& stored, const at::Tensor& values);

  /// A slice that is kept in a second type.
  struct Mirror {
    at::Tensor values, copy;
    bool is_fresh = false;  ///< Whether for_each_slice() has brought it up to date.
  };
  /// From now on, for_each_slice() keeps `copy` equal to the slice `values`, in its own type.
  void mirror(std::size_t slice, const at::Tensor& values, const at::Tensor& copy);
  /// Whether for_each_slice() has brought the mirror of a slice up to date since the last call.
  [[nodiscard]] bool take_mirrored(std::size_t slice);

  /// Returns the mirror of a slice; null if it has none.
  [[nodiscard]] Mirror* mirror_of(std::size_t slice);

  [[nodiscard]] TransferQueue& queue() { return queue_; }

  /// Where a tensor lies.
  struct Place {
    const OffloadColumn* column;
    OffloadColumn::Position position;
  };
  [[nodiscard]] std::optional<Place> place_of(const at::Tensor& tensor) const;

  [[nodiscard]] std::uint64_t bytes_read() const { return queue_.bytes_read(); }
  [[nodiscard]] std::uint64_t bytes_written() const { return queue_.bytes_written(); }
  /// The bytes of all files.
  [[nodiscard]] std::uint64_t bytes() const;

 private:
  OffloadStore(const OffloadFolders& folders, const std::string& job, int rank, SliceSizes slices);

  using Key = std::tuple<Kind, int, at::ScalarType>;

  [[nodiscard]] const OffloadFolder* folder_of(Kind kind) const;
  [[nodiscard]] const OffloadColumn* column_of(Kind kind, int number, std::size_t slice) const;
  [[nodiscard]] at::Tensor take_state(const at::Tensor& parameter, int number, bool is_zero);

  SliceSizes slices_;
  std::shared_ptr<OffloadFolder> parameters_folder_, optimizer_folder_;  // Null: in memory.
  std::map<Key, std::unique_ptr<OffloadColumn>> columns_;
  std::unordered_map<const void*, OffloadColumn::Position> known_;  // By parameter.
  std::vector<std::optional<at::ScalarType>> known_types_;          // By slice.
  // By parameter and number: what a taken state tensor keeps alive.
  std::map<std::pair<const void*, int>, std::weak_ptr<void>> takers_;
  std::map<std::size_t, Mirror> mirrors_;  // By slice.
  TransferQueue queue_;                    // Last: what is under way uses the rest.
};

/// Returns {bytes} bytes on the CPU, at an address from which files are read and written without a
/// copy. There is room for whole pages.
[[nodiscard]] at::Tensor aligned_memory(std::size_t bytes);

}  // namespace accelerate::detail
