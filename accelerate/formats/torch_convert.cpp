#include "accelerate/formats/torch_convert.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/utf8.h"
#include "accelerate/formats/numpy_convert.h"
#include "accelerate/formats/safetensors_header.h"
#include "accelerate/formats/torch_archive.h"
#include "accelerate/formats/torch_names.h"

namespace accelerate::detail {
namespace {

using Kind = PickleNode::Kind;
using Arguments = std::span<PickleNode* const>;

[[noreturn]] void refuse(const std::string& why) {
  throw CheckpointError("its pickle " + why);
}

const TorchName* find_name(std::span<const TorchName> names, std::string_view global) {
  const auto found = std::ranges::find(names, global, &TorchName::global);
  return found == names.end() ? nullptr : &*found;
}

DType dtype_of(const TorchName* name, std::string_view global) {
  if (name == nullptr) refuse("has " + printable(global) + " where a type of elements should be");
  if (!name->dtype) {
    refuse("has tensors of " + std::string(global) +
           ", which our formats cannot hold; convert them in Python, e.g. to complex64");
  }
  return *name->dtype;
}

struct Storage {
  std::optional<DType> dtype = {};  // None: bytes.
  std::string name = {}, device = {};
  std::int64_t elements = 0;
  std::span<const std::byte> bytes = {};
};

class Converter {
 public:
  explicit Converter(const FindStorage& storages) : storages_(storages) {}

  TorchValue convert(const PickleNode& node);

 private:
  using Call = TorchValue (Converter::*)(Arguments);
  struct CallRow {
    std::string_view name;
    Call call;
    std::size_t least, most;  // Arguments.
  };
  friend std::vector<std::string_view> make_globals();
  static std::span<const CallRow> calls();

  TorchValue convert_deeper(const PickleNode& node);
  TorchValue convert_container(const PickleNode& node);
  TorchValue convert_global(const PickleNode& node);
  TorchValue convert_call(const PickleNode& node);
  std::vector<TorchValue> convert_items(Arguments items);
  TorchDict convert_entries(Arguments entries);
  void charge(std::size_t bytes);

  TorchValue bytes(Arguments arguments);
  TorchValue encoded(Arguments arguments);
  TorchValue set(Arguments arguments);
  TorchValue dict(Arguments arguments);
  TorchValue size(Arguments arguments);
  TorchValue device(Arguments arguments);
  TorchValue parameter(Arguments arguments);
  TorchValue tensor(Arguments arguments);
  TorchValue tensor_with_dtype(Arguments arguments);
  TorchValue numpy_scalar(Arguments arguments);
  TorchValue build_tensor(Arguments arguments, const PickleNode* dtype, const PickleNode* metadata);
  Storage storage(const PickleNode& node);

  const FindStorage& storages_;
  int depth_ = 0;
  std::size_t spent_ = 0;  // Bytes of the tree so far.
};

std::span<const Converter::CallRow> Converter::calls() {
  static constexpr std::array kCalls = {
      CallRow{"__builtin__.bytes", &Converter::bytes, 0, 0},
      CallRow{"__builtin__.set", &Converter::set, 1, 1},
      CallRow{"_codecs.encode", &Converter::encoded, 2, 2},
      CallRow{"builtins.set", &Converter::set, 1, 1},
      CallRow{"collections.Counter", &Converter::dict, 0, 1},
      CallRow{"collections.OrderedDict", &Converter::dict, 0, 1},
      CallRow{"numpy._core.multiarray.scalar", &Converter::numpy_scalar, 2, 2},
      CallRow{"numpy.core.multiarray.scalar", &Converter::numpy_scalar, 2, 2},
      CallRow{"torch.Size", &Converter::size, 1, 1},
      CallRow{"torch._utils._rebuild_parameter", &Converter::parameter, 3, 3},
      CallRow{"torch._utils._rebuild_tensor_v2", &Converter::tensor, 6, 7},
      CallRow{"torch._utils._rebuild_tensor_v3", &Converter::tensor_with_dtype, 7, 8},
      CallRow{"torch.device", &Converter::device, 1, 2},
  };
  return kCalls;
}

void Converter::charge(std::size_t bytes) {
  spent_ += bytes;
  if (spent_ > TorchArchiveLimits::kTreeBytes) {
    refuse("would take more than the " + std::to_string(TorchArchiveLimits::kTreeBytes) +
           " bytes of memory that are allowed, without its tensors");
  }
}

TorchValue Converter::convert(const PickleNode& node) {
  charge(sizeof(TorchValue));
  if (depth_ == TorchArchiveLimits::kDepth) {
    refuse("nests containers deeper than the " + std::to_string(TorchArchiveLimits::kDepth) +
           " levels that are allowed, or one holds itself");
  }
  ++depth_;
  TorchValue value = convert_deeper(node);
  --depth_;
  return value;
}

TorchValue Converter::convert_deeper(const PickleNode& node) {
  charge(node.text.size());
  switch (node.kind) {
    case Kind::none:
      return {TorchNone{}};
    case Kind::boolean:
      return {node.integer != 0};
    case Kind::integer:
      return {node.integer};
    case Kind::big_integer:
      return {TorchBigInteger{std::string(node.text)}};
    case Kind::real:
      return {node.real};
    case Kind::text:
      return {std::string(node.text)};
    case Kind::bytes:
      return {TorchBytes{std::string(node.text)}};
    default:
      return convert_container(node);
  }
}

TorchValue Converter::convert_container(const PickleNode& node) {
  switch (node.kind) {
    case Kind::list:
      return {TorchList{convert_items(node.items)}};
    case Kind::tuple:
      return {TorchTuple{convert_items(node.items)}};
    case Kind::set:
      return {TorchSet{convert_items(node.items)}};
    case Kind::dict:
      return {convert_entries(node.items)};
    case Kind::global:
      return convert_global(node);
    case Kind::call:
      return convert_call(node);
    default:
      refuse("has a storage outside of a tensor");
  }
}

std::vector<TorchValue> Converter::convert_items(Arguments items) {
  std::vector<TorchValue> values;
  for (const PickleNode* item : items) values.push_back(convert(*item));
  return values;
}

TorchDict Converter::convert_entries(Arguments entries) {
  TorchDict dict;
  for (std::size_t i = 0; i + 1 < entries.size(); i += 2) {
    TorchValue key = convert(*entries[i]);
    dict.entries.push_back({std::move(key), convert(*entries[i + 1])});
  }
  return dict;
}

TorchValue Converter::convert_global(const PickleNode& node) {
  if (find_name(dtype_names(), node.text) == nullptr) {
    refuse("has " + printable(node.text) + " by itself, which is no data");
  }
  return {TorchDtype{std::string(node.text.substr(std::string_view("torch.").size()))}};
}

TorchValue Converter::convert_call(const PickleNode& node) {
  const std::string_view name = node.items[0]->text;
  const Arguments arguments = node.items[1]->items;
  const Arguments entries = Arguments(node.items).subspan(2);
  if (is_numpy_array(node)) {
    NumpyArray array = convert_numpy_array(node);
    charge(array.bytes.size());
    return {std::move(array)};
  }
  const auto row = std::ranges::find(calls(), name, &CallRow::name);
  if (row == calls().end()) refuse("calls " + printable(name) + ", which is no data");
  if (arguments.size() < row->least || arguments.size() > row->most) {
    refuse("calls " + printable(name) + " with " + std::to_string(arguments.size()) + " arguments");
  }
  TorchValue value = (this->*row->call)(arguments);
  const bool is_dict = value.as<TorchDict>() != nullptr;
  // The attributes of an OrderedDict, e.g. the _metadata of a module's state, are not data.
  if (!is_dict && (node.state != nullptr || !entries.empty())) {
    refuse("changes the result of " + printable(name) + " afterwards");
  }
  if (is_dict) {
    TorchDict more = convert_entries(entries);
    auto& all = std::get<TorchDict>(value.content).entries;
    std::ranges::move(more.entries, std::back_inserter(all));
  }
  return value;
}

TorchValue Converter::bytes(Arguments) {
  return {TorchBytes{}};
}

// Protocol 2 has no bytes: Python writes them as a text, each byte a character.
TorchValue Converter::encoded(Arguments arguments) {
  std::string bytes = decode_latin1(*arguments[0], *arguments[1]);
  charge(bytes.size());
  return {TorchBytes{std::move(bytes)}};
}

TorchValue Converter::set(Arguments arguments) {
  if (arguments[0]->kind != Kind::list) refuse("makes a set of what is no list");
  return {TorchSet{convert_items(arguments[0]->items)}};
}

TorchValue Converter::dict(Arguments arguments) {
  if (arguments.empty()) return {TorchDict{}};
  if (arguments[0]->kind != Kind::dict) refuse("makes a dict of what is no dict");
  return {convert_entries(arguments[0]->items)};
}

std::vector<std::int64_t> sizes_of(const PickleNode& node, const char* what) {
  if (node.kind != Kind::tuple) refuse(std::string("has a tensor whose ") + what + " is no tuple");
  if (node.items.size() > 64) refuse("has a tensor of more than the 64 dimensions of LibTorch");
  std::vector<std::int64_t> sizes;
  for (const PickleNode* item : node.items) {
    if (item->kind != Kind::integer || item->integer < 0) {
      refuse(std::string("has a tensor whose ") + what + " holds what is no number from 0 on");
    }
    sizes.push_back(item->integer);
  }
  return sizes;
}

TorchValue Converter::size(Arguments arguments) {
  return {TorchSize{sizes_of(*arguments[0], "size")}};
}

TorchValue Converter::device(Arguments arguments) {
  if (arguments[0]->kind != Kind::text) refuse("names a device by what is no text");
  std::string name(arguments[0]->text);
  if (arguments.size() == 2) {
    if (arguments[1]->kind != Kind::integer) refuse("numbers a device by what is no number");
    name += ":" + std::to_string(arguments[1]->integer);
  }
  return {TorchDevice{std::move(name)}};
}

TorchValue Converter::parameter(Arguments arguments) {
  TorchValue value = convert(*arguments[0]);
  auto* tensor = std::get_if<TorchTensor>(&value.content);
  if (tensor == nullptr) refuse("makes a parameter of what is no tensor");
  tensor->is_parameter = true;
  tensor->requires_grad = arguments[1]->kind == Kind::boolean && arguments[1]->integer != 0;
  return value;
}

TorchValue Converter::tensor(Arguments arguments) {
  return build_tensor(arguments, nullptr, arguments.size() > 6 ? arguments[6] : nullptr);
}

TorchValue Converter::tensor_with_dtype(Arguments arguments) {
  return build_tensor(arguments, arguments[6], arguments.size() > 7 ? arguments[7] : nullptr);
}

TorchValue Converter::numpy_scalar(Arguments arguments) {
  return convert_numpy_scalar(*arguments[0], *arguments[1]);
}

// ("storage", type, name, device, number of elements).
Storage Converter::storage(const PickleNode& node) {
  const Arguments id = node.kind == Kind::persistent && node.items[0]->kind == Kind::tuple
                           ? Arguments(node.items[0]->items)
                           : Arguments();
  constexpr std::array kKinds = {Kind::text, Kind::global, Kind::text, Kind::text, Kind::integer};
  const bool fits = std::ranges::equal(id, kKinds, {}, [](const PickleNode* n) { return n->kind; });
  if (!fits || id[0]->text != "storage" || id[4]->integer < 0)
    refuse("has a storage of another kind");
  Storage storage{.name = std::string(id[2]->text),
                  .device = std::string(id[3]->text),
                  .elements = id[4]->integer};
  const std::string_view type = id[1]->text;
  if (type != "torch.storage.UntypedStorage") {
    storage.dtype = dtype_of(find_name(storage_names(), type), type);
  }
  const auto bytes = storages_(storage.name);
  if (!bytes) throw CheckpointError("the storage " + printable(storage.name) + " is missing");
  storage.bytes = *bytes;
  return storage;
}

// Refuses a storage whose entry has another size than the pickle says.
void check_storage(const Storage& storage, DType dtype) {
  const auto size = bytes_of(storage.dtype ? dtype : DType::u8, std::array{storage.elements});
  if (size == storage.bytes.size()) return;
  throw CheckpointError("the storage " + printable(storage.name) + " has " +
                        std::to_string(storage.bytes.size()) + " bytes, its " +
                        std::to_string(storage.elements) + " elements take " +
                        (size ? std::to_string(*size) : "more than 64 bits can count"));
}

// One past the last element that a tensor reaches, counted from its first; nullopt on overflow.
std::optional<std::uint64_t> extent_of(const TorchTensor& tensor) {
  std::uint64_t extent = 1;
  for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
    if (tensor.shape[d] == 0) return 0;
    std::uint64_t reach = 0;
    if (__builtin_mul_overflow(static_cast<std::uint64_t>(tensor.shape[d] - 1),
                               static_cast<std::uint64_t>(tensor.strides[d]), &reach) ||
        __builtin_add_overflow(extent, reach, &extent)) {
      return std::nullopt;
    }
  }
  return extent;
}

// The part of the storage that the tensor reaches.
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

TorchValue Converter::build_tensor(Arguments arguments, const PickleNode* dtype,
                                   const PickleNode* metadata) {
  if (metadata != nullptr && (metadata->kind != Kind::dict || !metadata->items.empty())) {
    refuse(
        "has a tensor that is a conjugated or negated view; in Python save "
        "tensor.resolve_conj().resolve_neg()");
  }
  const Storage from = storage(*arguments[0]);
  if (dtype == nullptr && !from.dtype) refuse("has a tensor without a type of elements");
  TorchTensor tensor;
  tensor.dtype =
      dtype != nullptr ? dtype_of(find_name(dtype_names(), dtype->text), dtype->text) : *from.dtype;
  if (arguments[1]->kind != Kind::integer || arguments[1]->integer < 0) {
    refuse("has a tensor whose offset is no number from 0 on");
  }
  tensor.storage_offset = static_cast<std::uint64_t>(arguments[1]->integer);
  tensor.shape = sizes_of(*arguments[2], "shape");
  tensor.strides = sizes_of(*arguments[3], "stride");
  if (tensor.shape.size() != tensor.strides.size())
    refuse("has a tensor of unequal shape and stride");
  tensor.requires_grad = arguments[4]->kind == Kind::boolean && arguments[4]->integer != 0;
  tensor.storage = from.name;
  tensor.device = from.device;
  check_storage(from, tensor.dtype);
  tensor.bytes = bytes_within(from, tensor);
  charge(from.name.size() + from.device.size() + 16 * tensor.shape.size());
  return {std::move(tensor)};
}

std::vector<std::string_view> make_globals() {
  std::vector<std::string_view> names = {"numpy._core.multiarray._reconstruct",
                                         "numpy.core.multiarray._reconstruct", "numpy.dtype",
                                         "numpy.ndarray", "torch.storage.UntypedStorage"};
  for (const auto& row : Converter::calls()) names.push_back(row.name);
  for (const TorchName& name : storage_names()) names.push_back(name.global);
  for (const TorchName& name : dtype_names()) names.push_back(name.global);
  std::ranges::sort(names);
  return names;
}

}  // namespace

std::span<const std::string_view> torch_globals() {
  static const std::vector<std::string_view> names = make_globals();
  return names;
}

TorchValue convert_pickle(const PickleNode& root, const FindStorage& storages) {
  return Converter(storages).convert(root);
}

}  // namespace accelerate::detail
