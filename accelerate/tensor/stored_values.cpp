#include "accelerate/tensor/stored_values.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <cstdint>
#include <set>
#include <span>
#include <string>

#include "accelerate/base/error.h"
#include "accelerate/tensor/scalar_type.h"

namespace accelerate {
namespace {

using Content = std::shared_ptr<const FileContent>;

std::string key_of(const TorchValue& key, const std::string& place) {
  if (const auto* text = key.as<std::string>()) return *text;
  if (const auto* number = key.as<std::int64_t>()) return std::to_string(*number);
  throw CheckpointError("a key of '" + place + "' is " + key.describe() +
                        "; allowed are texts and whole numbers");
}

// Compares the bytes that all tensors of a value take when each is copied with their bytes in the
// file. Tensors may repeat a few stored bytes without bound, and may appear in a list any number of
// times.
class Budget {
 public:
  void take(const TorchTensor& tensor, const std::string& place) {
    if (storages_.insert(tensor.storage).second) stored_ += tensor.storage_bytes;
    constexpr std::uint64_t kHarmless = std::uint64_t{64} << 10;
    constexpr std::uint64_t kTimes = 8;  // Values may share a tensor.
    const bool overflows = __builtin_add_overflow(taken_, tensor.size_bytes(), &taken_);
    if (!overflows && taken_ <= kHarmless + kTimes * stored_) return;
    throw CheckpointError("'" + place + "' is " + TorchValue{tensor}.describe() +
                          ". With it, the tensors of this file would take more than " +
                          std::to_string(kTimes) + " times the " + std::to_string(stored_) +
                          " bytes stored for them, because they repeat elements. In Python, save "
                          "tensor.contiguous()");
  }

 private:
  std::set<std::string> storages_;
  std::uint64_t stored_ = 0, taken_ = 0;  // Bytes.
};

class Reader {
 public:
  explicit Reader(const Content& content) : content_(content) {}

  StateDict read(const TorchValue& value, const std::string& place) {
    if (value.as<TorchNone>() != nullptr) return {};
    if (const auto* flag = value.as<bool>()) return *flag;
    if (const auto* integer = value.as<std::int64_t>()) return *integer;
    if (const auto* real = value.as<double>()) return *real;
    if (const auto* text = value.as<std::string>()) return *text;
    if (const auto* tensor = value.as<TorchTensor>()) {
      budget_.take(*tensor, place);
      return tensor_view(*tensor, content_);
    }
    if (const auto* size = value.as<TorchSize>()) return StateDict(size->sizes);
    if (const auto* dict = value.as<TorchDict>()) return read_dict(*dict, place);
    if (value.as<TorchList>() != nullptr || value.as<TorchTuple>() != nullptr)
      return read_list(value.items(), place);
    throw CheckpointError("'" + place + "' is " + value.describe() +
                          "; a state is made of numbers, texts, tensors, lists and dicts");
  }

 private:
  StateDict read_dict(const TorchDict& stored, const std::string& place) {
    StateDict::Dict dict;
    for (const auto& [key, value] : stored.entries) {
      const std::string name = key_of(key, place);
      dict.insert_or_assign(name, read(value, place + "." + name));
    }
    return dict;
  }

  StateDict read_list(std::span<const TorchValue> items, const std::string& place) {
    StateDict::List list;
    for (const auto& item : items)
      list.push_back(read(item, place + "." + std::to_string(list.size())));
    return list;
  }

  const Content& content_;
  Budget budget_;
};

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
  return Reader(content).read(value, place);
}

}  // namespace accelerate
