// Turns the nodes of a pickle of torch.save into values. Part of formats/torch_archive.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "accelerate/formats/torch_archive/pickle_machine.h"
#include "accelerate/formats/torch_archive/torch_tensor.h"
#include "accelerate/formats/torch_archive/torch_value.h"

namespace accelerate {

// Limits for what is read from a file of torch.save.

/// Our limits for a file. The pickle has its own: 64 MiB and 4 000 000 values.
struct TorchArchiveLimits {
  static constexpr int kDepth = 64;  ///< Deepest nesting of containers.
  /// Memory of the tree, approximately.
  static constexpr std::size_t kTreeBytes = std::size_t{1} << 29;
};

}  // namespace accelerate

namespace accelerate::detail {

// Reads the numpy objects in Accelerate's random states and schedulers. Part of
// formats/torch_archive.

/// Returns the bytes of Python's encode(text, "latin1"): each character of `text` is one byte.
/// Throws CheckpointError for another codec, or a character beyond latin1.
[[nodiscard]] std::string decode_latin1(const PickleNode& text, const PickleNode& codec);

/// Whether a call makes an array.
[[nodiscard]] bool is_numpy_array(const PickleNode& call);
/// Both functions throw CheckpointError whose message is a clause, also for big-endian numbers and
/// for element types other than bool, integers and floats.
[[nodiscard]] NumpyArray convert_numpy_array(const PickleNode& call);
[[nodiscard]] TorchValue convert_numpy_scalar(const PickleNode& dtype, const PickleNode& bytes);

// Reads the tensors of which each rank saves its parts. Part of formats/torch_archive.

/// Returns the globals of PyTorch's ShardedTensor and DTensor, and the classes among them.
[[nodiscard]] std::span<const std::string_view> sharded_globals();
[[nodiscard]] std::span<const std::string_view> sharded_classes();
/// Reads what _rebuild_from_type_v2 makes from these four arguments. Throws CheckpointError, whose
/// message is a clause, for a tensor of another class, for parts that leave the whole, and for a
/// DTensor whose values are sums over ranks or that is divided in another way than into rows.
[[nodiscard]] TorchShards convert_shards(std::span<PickleNode* const> arguments,
                                         const FindStorage& storages);

/// Returns the globals that read_pickle may allow because they have a meaning here, as
/// "module.name", sorted.
[[nodiscard]] std::span<const std::string_view> torch_globals();
/// Returns torch_globals() and the globals of TorchScript: its classes, and the functions for typed
/// lists.
[[nodiscard]] std::span<const std::string_view> script_globals();

/// Returns the tree below `root`. Throws CheckpointError, whose message is a clause, for arguments
/// of the wrong kind, tensors that leave their storage, loops, and trees beyond TorchArchiveLimits.
/// Objects of `classes` become TorchObjects.
[[nodiscard]] TorchValue convert_pickle(const PickleNode& root, const FindStorage& storages,
                                        std::span<const std::string_view> classes = {});

}  // namespace accelerate::detail
