#include "accelerate/formats/torch_archive/torch_convert.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/formats/safetensors/safetensors_header.h"
#include "accelerate/formats/torch_archive/torch_tensor.h"
#include "accelerate/formats/torch_archive/torch_value.h"

namespace accelerate::detail {
namespace {

using Kind = PickleNode::Kind;
using Arguments = std::span<PickleNode* const>;

class Converter {
 public:
  Converter(const FindStorage& storages, std::span<const std::string_view> classes)
      : storages_(storages), classes_(classes) {}

  TorchValue convert(const PickleNode& node);

 private:
  using Call = TorchValue (Converter::*)(Arguments);
  struct CallRow {
    std::string_view name;
    Call call;
    std::size_t least, most;  // Number of arguments.
  };
  friend std::vector<std::string_view> make_globals(bool script);
  static std::span<const CallRow> calls();

  TorchValue convert_deeper(const PickleNode& node);
  TorchValue convert_container(const PickleNode& node);
  TorchValue convert_global(const PickleNode& node);
  TorchValue convert_call(const PickleNode& node);
  TorchValue convert_object(const PickleNode& node);
  TorchValue convert_of_class(std::string_view name, Arguments arguments, const PickleNode* state);
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
  TorchValue of_type(Arguments arguments);
  TorchValue shards(Arguments arguments);
  TorchValue tensor_with_attributes(Arguments arguments);
  TorchValue numpy_scalar(Arguments arguments);
  TorchValue typed(Arguments arguments);
  TorchValue charged(TorchTensor tensor);

  const FindStorage& storages_;
  std::span<const std::string_view> classes_;
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
      CallRow{"torch._tensor._rebuild_from_type_v2", &Converter::of_type, 4, 4},
      CallRow{"torch._utils._rebuild_parameter", &Converter::parameter, 3, 3},
      CallRow{"torch._utils._rebuild_tensor_v2", &Converter::tensor, 6, 7},
      CallRow{"torch._utils._rebuild_tensor_v3", &Converter::tensor_with_dtype, 7, 8},
      CallRow{"torch.device", &Converter::device, 1, 2},
      CallRow{"torch.jit._pickle.build_boollist", &Converter::typed, 1, 1},
      CallRow{"torch.jit._pickle.build_doublelist", &Converter::typed, 1, 1},
      CallRow{"torch.jit._pickle.build_intlist", &Converter::typed, 1, 1},
      CallRow{"torch.jit._pickle.build_tensorlist", &Converter::typed, 1, 1},
      CallRow{"torch.jit._pickle.restore_type_tag", &Converter::typed, 2, 2},
  };
  return kCalls;
}

void Converter::charge(std::size_t bytes) {
  spent_ += bytes;
  if (spent_ > TorchArchiveLimits::kTreeBytes) {
    refuse_pickle("would take more than the " + std::to_string(TorchArchiveLimits::kTreeBytes) +
                  " bytes of memory that are allowed, without its tensors");
  }
}

TorchValue Converter::convert(const PickleNode& node) {
  charge(sizeof(TorchValue));
  if (depth_ == TorchArchiveLimits::kDepth) {
    refuse_pickle("nests containers deeper than the " + std::to_string(TorchArchiveLimits::kDepth) +
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
    case Kind::object:
      return convert_object(node);
    default:
      refuse_pickle("has a storage outside of a tensor");
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
  if (std::ranges::find(dtype_names(), node.text, &TorchName::global) == dtype_names().end()) {
    refuse_pickle("has " + printable(node.text) + " by itself, which is not data");
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
  if (std::ranges::find(classes_, name) != classes_.end()) {
    if (!entries.empty()) refuse_pickle("puts entries into an object of " + printable(name));
    return convert_of_class(name, arguments, node.state);
  }
  const auto row = std::ranges::find(calls(), name, &CallRow::name);
  if (row == calls().end()) refuse_pickle("calls " + printable(name) + ", which is not data");
  if (arguments.size() < row->least || arguments.size() > row->most) {
    refuse_pickle("calls " + printable(name) + " with " + std::to_string(arguments.size()) +
                  " arguments");
  }
  TorchValue value = (this->*row->call)(arguments);
  const bool is_dict = value.as<TorchDict>() != nullptr && !name.starts_with("torch.jit.");
  // The attributes of an OrderedDict, such as the _metadata of a module's state, are not data.
  if (!is_dict && (node.state != nullptr || !entries.empty())) {
    refuse_pickle("changes the result of " + printable(name) + " afterwards");
  }
  if (is_dict) {
    TorchDict more = convert_entries(entries);
    auto& all = std::get<TorchDict>(value.content).entries;
    std::ranges::move(more.entries, std::back_inserter(all));
  }
  return value;
}

// Reads the attributes of a module, which are its state. Classes that pack their state by code are
// refused, because code is not run.
TorchValue Converter::convert_object(const PickleNode& node) {
  if (node.state == nullptr || node.state->kind != Kind::dict) {
    refuse_pickle(
        "has an object of TorchScript whose state is not a dict of attributes, as quantized " +
        std::string("modules pack theirs: only its own code could read it"));
  }
  TorchObject object{std::move(convert_entries(node.state->items).entries), {}, {}};
  for (const TorchEntry& entry : object.attributes) {
    if (entry.key.as<std::string>() == nullptr) {
      refuse_pickle("has an object of TorchScript with an attribute called " +
                    entry.key.describe());
    }
  }
  return {std::move(object)};
}

// Reads an object of a Python class on the list. Its state is a dict of attributes, or a pair of
// such dicts where the class has slots.
TorchValue Converter::convert_of_class(std::string_view name, Arguments arguments,
                                       const PickleNode* state) {
  TorchObject object{
      .attributes = {}, .class_name = std::string(name), .arguments = convert_items(arguments)};
  charge(name.size());
  const bool slots = state != nullptr && state->kind == Kind::tuple && state->items.size() == 2;
  const Arguments dicts = slots ? Arguments(state->items) : Arguments();
  const auto add = [&](const PickleNode& dict) {
    if (dict.kind == Kind::none) return;
    if (dict.kind != Kind::dict)
      refuse_pickle("has an object of " + printable(name) + " whose state is not a dict");
    for (auto& entry : convert_entries(dict.items).entries) {
      if (entry.key.as<std::string>() == nullptr)
        refuse_pickle("has an object of " + printable(name) + " with an attribute called " +
                      entry.key.describe());
      object.attributes.push_back(std::move(entry));
    }
  };
  if (state != nullptr && !slots) add(*state);
  for (const PickleNode* dict : dicts) add(*dict);
  return {std::move(object)};
}

TorchValue Converter::bytes(Arguments) {
  return {TorchBytes{}};
}

// Reads bytes of protocol 2, which has no bytes: Python writes them as text with one character a
// byte.
TorchValue Converter::encoded(Arguments arguments) {
  std::string bytes = decode_latin1(*arguments[0], *arguments[1]);
  charge(bytes.size());
  return {TorchBytes{std::move(bytes)}};
}

TorchValue Converter::set(Arguments arguments) {
  if (arguments[0]->kind != Kind::list)
    refuse_pickle("makes a set from something that is not a list");
  return {TorchSet{convert_items(arguments[0]->items)}};
}

TorchValue Converter::dict(Arguments arguments) {
  if (arguments.empty()) return {TorchDict{}};
  if (arguments[0]->kind != Kind::dict)
    refuse_pickle("makes a dict from something that is not a dict");
  return {convert_entries(arguments[0]->items)};
}

TorchValue Converter::size(Arguments arguments) {
  return {TorchSize{sizes_of(*arguments[0], "a torch.Size that")}};
}

TorchValue Converter::device(Arguments arguments) {
  if (arguments[0]->kind != Kind::text) refuse_pickle("has a device name that is not text");
  std::string name(arguments[0]->text);
  if (arguments.size() == 2) {
    if (arguments[1]->kind != Kind::integer)
      refuse_pickle("has a device index that is not a number");
    name += ":" + std::to_string(arguments[1]->integer);
  }
  return {TorchDevice{std::move(name)}};
}

TorchValue Converter::parameter(Arguments arguments) {
  TorchValue value = convert(*arguments[0]);
  auto* tensor = std::get_if<TorchTensor>(&value.content);
  if (tensor == nullptr) refuse_pickle("makes a parameter from something that is not a tensor");
  tensor->is_parameter = true;
  tensor->requires_grad = arguments[1]->kind == Kind::boolean && arguments[1]->integer != 0;
  return value;
}

TorchValue Converter::tensor(Arguments arguments) {
  return charged(convert_tensor(arguments, storages_));
}

TorchValue Converter::tensor_with_dtype(Arguments arguments) {
  return charged(convert_tensor_v3(arguments, storages_));
}

// Reads a tensor of a class other than torch.Tensor, or with attributes.
TorchValue Converter::of_type(Arguments arguments) {
  const PickleNode& type = *arguments[1];
  const bool plain = type.kind == Kind::global &&
                     (type.text == "torch.Tensor" || type.text == "torch.nn.parameter.Parameter");
  return plain ? tensor_with_attributes(arguments) : shards(arguments);
}

TorchValue Converter::shards(Arguments arguments) {
  TorchShards shards = convert_shards(arguments, storages_);
  for (const TorchShard& part : shards.parts)
    charge(sizeof(TorchShard) + part.tensor.storage.size() + 24 * part.offsets.size());
  return {std::move(shards)};
}

// Attributes that a program gave a tensor are not data.
TorchValue Converter::tensor_with_attributes(Arguments arguments) {
  if (arguments[0]->kind != Kind::global || arguments[2]->kind != Kind::tuple)
    refuse_pickle("has a tensor with attributes that is made in another way");
  PickleNode plain{.kind = Kind::call};
  plain.items = {arguments[0], arguments[2]};
  TorchValue value = convert(plain);
  if (value.as<TorchTensor>() == nullptr)
    refuse_pickle("gives attributes to something that is not a tensor");
  return value;
}

TorchValue Converter::charged(TorchTensor tensor) {
  charge(tensor.storage.size() + tensor.device.size() + 16 * tensor.shape.size());
  return {std::move(tensor)};
}

TorchValue Converter::numpy_scalar(Arguments arguments) {
  return convert_numpy_scalar(*arguments[0], *arguments[1]);
}

// Reads a list or dict of TorchScript, for which the pickle also states the type of the elements.
TorchValue Converter::typed(Arguments arguments) {
  return convert(*arguments[0]);
}

std::vector<std::string_view> make_globals(bool script) {
  std::vector<std::string_view> names = {"numpy._core.multiarray._reconstruct",
                                         "numpy.core.multiarray._reconstruct",
                                         "numpy.dtype",
                                         "numpy.ndarray",
                                         "torch.nn.parameter.Parameter",
                                         "torch.storage.UntypedStorage"};
  for (const auto& row : Converter::calls()) {
    if (script || !row.name.starts_with("torch.jit.")) names.push_back(row.name);
  }
  if (script) names.push_back(kScriptClasses);
  std::ranges::copy(sharded_globals(), std::back_inserter(names));
  for (const TorchName& name : storage_names()) names.push_back(name.global);
  for (const TorchName& name : dtype_names()) names.push_back(name.global);
  std::ranges::sort(names);
  return names;
}

}  // namespace

std::span<const std::string_view> torch_globals() {
  static const std::vector<std::string_view> names = make_globals(/*script=*/false);
  return names;
}

std::span<const std::string_view> script_globals() {
  static const std::vector<std::string_view> names = make_globals(/*script=*/true);
  return names;
}

TorchValue convert_pickle(const PickleNode& root, const FindStorage& storages,
                          std::span<const std::string_view> classes) {
  return Converter(storages, classes).convert(root);
}

}  // namespace accelerate::detail
