#include "accelerate/tensor/stored_values.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <span>

#include "accelerate/base/error.h"
#include "accelerate/tensor/dtype.h"

namespace accelerate {
namespace {

using Content = std::shared_ptr<const FileContent>;

std::string key_of(const TorchValue& key, const std::string& place) {
  if (const auto* text = key.as<std::string>()) return *text;
  if (const auto* number = key.as<std::int64_t>()) return std::to_string(*number);
  throw CheckpointError("a key of '" + place + "' is " + key.describe() +
                        "; allowed are texts and whole numbers");
}

StateDict dict_of(const TorchDict& stored, const Content& content, const std::string& place) {
  StateDict::Dict dict;
  for (const auto& [key, value] : stored.entries) {
    const std::string name = key_of(key, place);
    dict.insert_or_assign(name, state_of(value, content, place + "." + name));
  }
  return dict;
}

StateDict list_of(std::span<const TorchValue> items, const Content& content,
                  const std::string& place) {
  StateDict::List list;
  for (const auto& item : items)
    list.push_back(state_of(item, content, place + "." + std::to_string(list.size())));
  return list;
}

void check_repeats(const TorchTensor& tensor, const std::string& place) {
  constexpr std::uint64_t kHarmless = std::uint64_t{1} << 20;
  const std::uint64_t size = tensor.size_bytes();
  if (size <= std::max(kHarmless, tensor.storage_bytes)) return;
  throw CheckpointError("'" + place + "' is a tensor of " + std::to_string(size) +
                        " bytes that repeats the " + std::to_string(tensor.storage_bytes) +
                        " bytes of its storage; in Python save tensor.contiguous()");
}

}  // namespace

at::Tensor outline_of(const TorchTensor& stored) {
  const auto options = at::TensorOptions(to_scalar_type(stored.dtype)).device(at::kMeta);
  return at::empty(from_stored_shape(stored.dtype, stored.shape), options);
}

at::Tensor tensor_view(const TorchTensor& stored, const Content& content) {
  const auto type = to_scalar_type(stored.dtype);
  const auto shape = from_stored_shape(stored.dtype, stored.shape);
  if (stored.contiguous() && stored.aligned() && !stored.bytes.empty()) {
    return at::from_blob(
        const_cast<std::byte*>(stored.bytes.data()), shape, [content](void*) {}, type);
  }
  at::Tensor tensor = at::empty(shape, type);
  stored.copy_to(std::span(static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()));
  return tensor;
}

StateDict state_of(const TorchValue& value, const Content& content, const std::string& place) {
  if (value.as<TorchNone>() != nullptr) return {};
  if (const auto* flag = value.as<bool>()) return *flag;
  if (const auto* integer = value.as<std::int64_t>()) return *integer;
  if (const auto* real = value.as<double>()) return *real;
  if (const auto* text = value.as<std::string>()) return *text;
  if (const auto* tensor = value.as<TorchTensor>()) {
    check_repeats(*tensor, place);
    return tensor_view(*tensor, content);
  }
  if (const auto* size = value.as<TorchSize>()) return StateDict(size->sizes);
  if (const auto* dict = value.as<TorchDict>()) return dict_of(*dict, content, place);
  if (value.as<TorchList>() != nullptr || value.as<TorchTuple>() != nullptr)
    return list_of(value.items(), content, place);
  throw CheckpointError("'" + place + "' is " + value.describe() +
                        "; a state is made of numbers, texts, tensors, lists and dicts");
}

}  // namespace accelerate
