#include "accelerate/formats/torch_archive/torch_tensor.h"

#include <algorithm>
#include <array>
#include <string>

#include "accelerate/base/error.h"
#include "accelerate/formats/safetensors/safetensors_header.h"
#include "accelerate/formats/torch_archive/torch_value.h"

namespace accelerate::detail {
namespace {

using Kind = PickleNode::Kind;
using Arguments = std::span<PickleNode* const>;

[[noreturn]] void refuse_tensor(const std::string& why) {
  throw CheckpointError("its pickle has " + why);
}

DType dtype_of(std::span<const TorchName> names, std::string_view global) {
  const auto name = std::ranges::find(names, global, &TorchName::global);
  if (name == names.end()) refuse_tensor(printable(global) + " where a type of elements should be");
  if (!name->dtype) {
    refuse_tensor("tensors of " + std::string(global) +
                  ", which our formats cannot hold; convert them in Python, e.g. to complex64");
  }
  return *name->dtype;
}

struct Storage {
  std::optional<DType> dtype = {};  // nullopt: untyped bytes.
  std::string name = {}, device = {};
  std::int64_t elements = 0;
  std::span<const std::byte> bytes = {};
};

// Throws CheckpointError if the size of a storage's entry differs from the size in the pickle.
void check_size(const Storage& storage) {
  const auto size = bytes_of(storage.dtype.value_or(DType::u8), std::array{storage.elements});
  if (size == storage.bytes.size()) return;
  throw CheckpointError("the storage " + printable(storage.name) + " has " +
                        std::to_string(storage.bytes.size()) + " bytes, its " +
                        std::to_string(storage.elements) + " elements take " +
                        (size ? std::to_string(*size) : "more than 64 bits can count"));
}

// Reads ("storage", type, name, device, number of elements).
Storage storage_of(const PickleNode& node, const FindStorage& storages) {
  const Arguments id = node.kind == Kind::persistent && node.items[0]->kind == Kind::tuple
                           ? Arguments(node.items[0]->items)
                           : Arguments();
  constexpr std::array kKinds = {Kind::text, Kind::global, Kind::text, Kind::text, Kind::integer};
  const bool fits = std::ranges::equal(id, kKinds, {}, [](const PickleNode* n) { return n->kind; });
  if (!fits || id[0]->text != "storage" || id[4]->integer < 0)
    refuse_tensor("a storage of another kind");
  Storage storage{.name = std::string(id[2]->text),
                  .device = std::string(id[3]->text),
                  .elements = id[4]->integer};
  if (id[1]->text != "torch.storage.UntypedStorage") {
    storage.dtype = dtype_of(storage_names(), id[1]->text);
  }
  const auto bytes = storages(storage.name);
  if (!bytes) throw CheckpointError("the storage " + printable(storage.name) + " is missing");
  storage.bytes = *bytes;
  check_size(storage);
  return storage;
}

// Returns one past the last element that a tensor reaches, counted from its first element; nullopt
// on overflow.
std::optional<std::uint64_t> extent_of(const TorchTensor& tensor) {
  if (std::ranges::find(tensor.shape, 0) != tensor.shape.end()) return 0;
  std::uint64_t extent = 1;
  for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
    std::uint64_t reach = 0;
    if (__builtin_mul_overflow(static_cast<std::uint64_t>(tensor.shape[d] - 1),
                               static_cast<std::uint64_t>(tensor.strides[d]), &reach) ||
        __builtin_add_overflow(extent, reach, &extent)) {
      return std::nullopt;
    }
  }
  return extent;
}

// Returns the part of the storage that the tensor reaches.
std::span<const std::byte> bytes_within(const Storage& storage, const TorchTensor& tensor) {
  const std::uint64_t width = bits_of(tensor.dtype) / 8;
  const std::uint64_t available = storage.bytes.size() / width;
  const auto extent = extent_of(tensor);
  const bool has_size = bytes_of(tensor.dtype, tensor.shape).has_value();
  if (!extent || !has_size || tensor.storage_offset > available ||
      *extent > available - tensor.storage_offset) {
    throw CheckpointError("a tensor leaves its storage " + printable(storage.name) + " of " +
                          std::to_string(available) + " elements");
  }
  return storage.bytes.subspan(tensor.storage_offset * width, *extent * width);
}

// Reads (storage, offset, shape, stride, requires_grad, hooks, …).
TorchTensor build(Arguments arguments, const Storage& storage, DType dtype) {
  TorchTensor tensor;
  tensor.dtype = dtype;
  if (arguments[1]->kind != Kind::integer || arguments[1]->integer < 0) {
    refuse_tensor("a tensor whose offset is not a non-negative number");
  }
  tensor.storage_offset = static_cast<std::uint64_t>(arguments[1]->integer);
  tensor.shape = sizes_of(*arguments[2], "a tensor whose shape");
  tensor.strides = sizes_of(*arguments[3], "a tensor whose stride");
  if (tensor.shape.size() != tensor.strides.size())
    refuse_tensor("a tensor of unequal shape and stride");
  tensor.requires_grad = arguments[4]->kind == Kind::boolean && arguments[4]->integer != 0;
  tensor.storage = storage.name;
  tensor.storage_bytes = storage.bytes.size();
  tensor.device = storage.device;
  tensor.bytes = bytes_within(storage, tensor);
  return tensor;
}

// Refuses a tensor whose optional argument at `index` says that it is a lazy view.
void check_metadata(Arguments arguments, std::size_t index) {
  if (arguments.size() <= index) return;
  const PickleNode& metadata = *arguments[index];
  if (metadata.kind == Kind::none || (metadata.kind == Kind::dict && metadata.items.empty()))
    return;
  refuse_tensor(
      "a tensor that is a conjugated or negated view; in Python save "
      "tensor.resolve_conj().resolve_neg()");
}

}  // namespace

std::vector<std::int64_t> sizes_of(const PickleNode& tuple, const char* what) {
  if (tuple.kind != Kind::tuple) refuse_tensor(std::string(what) + " is not a tuple");
  if (tuple.items.size() > 64)
    refuse_tensor(std::string(what) + " has more than LibTorch's 64 dimensions");
  std::vector<std::int64_t> sizes;
  for (const PickleNode* item : tuple.items) {
    if (item->kind != Kind::integer || item->integer < 0) {
      refuse_tensor(std::string(what) + " holds something other than a non-negative number");
    }
    sizes.push_back(item->integer);
  }
  return sizes;
}

TorchTensor convert_tensor(Arguments arguments, const FindStorage& storages) {
  check_metadata(arguments, 6);
  const Storage storage = storage_of(*arguments[0], storages);
  if (!storage.dtype) refuse_tensor("a tensor without a type of elements");
  return build(arguments, storage, *storage.dtype);
}

TorchTensor convert_tensor_v3(Arguments arguments, const FindStorage& storages) {
  check_metadata(arguments, 7);
  const Storage storage = storage_of(*arguments[0], storages);
  return build(arguments, storage, dtype_of(dtype_names(), arguments[6]->text));
}

}  // namespace accelerate::detail
