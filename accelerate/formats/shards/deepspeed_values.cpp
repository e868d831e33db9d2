#include "accelerate/formats/shards/deepspeed_values.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/formats/safetensors/safetensors_header.h"

namespace accelerate::detail {
namespace {

// Classes of which DeepSpeed 0.19 and the programs built on it put objects into their files.
constexpr std::array<std::string_view, 7> kClasses = {
    "argparse.Namespace",
    "deepspeed.checkpoint.universal_checkpoint.SubparamShape",
    "deepspeed.runtime.fp16.loss_scaler.DynamicLossScaler",
    "deepspeed.runtime.fp16.loss_scaler.LossScaler",
    "deepspeed.runtime.zero.config.ZeroStageEnum",
    "deepspeed.utils.tensor_fragment.fragment_address",
    "deepspeed.utils.tensor_fragment.tensor_fragment",
};

class Held final : public FileContent {
 public:
  explicit Held(std::vector<float> elements) : elements_(std::move(elements)) {}
  [[nodiscard]] std::span<const std::byte> bytes() const override {
    return std::as_bytes(std::span(elements_));
  }

 private:
  std::vector<float> elements_;
};

float from_half(std::uint16_t bits) {
  const int exponent = bits >> 10 & 0x1f;
  const float fraction = static_cast<float>(bits & 0x3ff);
  float value =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(fraction + 1024, exponent - 25);
  if (exponent == 0x1f)
    value = fraction == 0 ? std::numeric_limits<float>::infinity()
                          : std::numeric_limits<float>::quiet_NaN();
  return (bits & 0x8000) != 0 ? -value : value;
}

float from_bfloat(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

template <typename Element, typename Convert>
std::vector<float> converted(const std::vector<std::byte>& bytes, const Convert& convert) {
  std::vector<float> out(bytes.size() / sizeof(Element));
  for (std::size_t i = 0; i < out.size(); ++i) {
    Element element{};
    std::memcpy(&element, bytes.data() + i * sizeof(Element), sizeof(Element));
    out[i] = convert(element);
  }
  return out;
}

}  // namespace

TorchArchive open_deepspeed_file(const std::filesystem::path& path, FileSystem& files) {
  return TorchArchive::open(path, kClasses, files);
}

void refuse_deepspeed(const std::filesystem::path& file, const std::string& why) {
  throw CheckpointError("'" + file.string() + "' of DeepSpeed cannot be read: " + why);
}

DeepSpeedValue root_of(const TorchArchive& archive) {
  return {&archive, &archive.value()};
}

void DeepSpeedValue::refuse(const std::string& why) const {
  refuse_deepspeed(archive->path(), (key.empty() ? "it" : printable(key)) + " " + why);
}

std::optional<DeepSpeedValue> DeepSpeedValue::find(std::string_view name) const {
  const TorchValue* found = value->find(name);
  if (found == nullptr || found->as<TorchNone>() != nullptr) return std::nullopt;
  return DeepSpeedValue{archive, found,
                        key.empty() ? std::string(name) : key + "." + std::string(name)};
}

DeepSpeedValue DeepSpeedValue::at(std::string_view name) const {
  if (value->as<TorchDict>() == nullptr) refuse("is " + value->describe() + ", not a dict");
  if (const auto found = find(name)) return *found;
  refuse("has no " + printable(name));
}

std::vector<DeepSpeedValue> DeepSpeedValue::items() const {
  if (value->as<TorchList>() == nullptr && value->as<TorchTuple>() == nullptr)
    refuse("is " + value->describe() + ", not a list");
  std::vector<DeepSpeedValue> all;
  for (const TorchValue& item : value->items())
    all.push_back({archive, &item, key + "[" + std::to_string(all.size()) + "]"});
  return all;
}

std::vector<std::pair<std::string, DeepSpeedValue>> DeepSpeedValue::entries() const {
  const auto* dict = value->as<TorchDict>();
  if (dict == nullptr) refuse("is " + value->describe() + ", not a dict");
  std::vector<std::pair<std::string, DeepSpeedValue>> all;
  std::set<std::string_view> seen;
  for (const TorchEntry& entry : dict->entries) {
    const auto* name = entry.key.as<std::string>();
    if (name == nullptr) refuse("has the key " + entry.key.describe());
    if (!seen.insert(*name).second) refuse("has the key " + printable(*name) + " twice");
    all.push_back({*name, {archive, &entry.value, key + "." + *name}});
  }
  return all;
}

std::int64_t DeepSpeedValue::number() const {
  if (const auto* number = value->as<std::int64_t>()) return *number;
  const auto* object = value->as<TorchObject>();
  if (object != nullptr && object->arguments.size() == 1)
    return DeepSpeedValue{archive, &object->arguments.front(), key}.number();
  if (value->items().empty()) refuse("is " + value->describe() + ", not a whole number");
  std::int64_t greatest = std::numeric_limits<std::int64_t>::min();
  for (const auto& item : items()) greatest = std::max(greatest, item.number());
  return greatest;
}

std::vector<std::int64_t> DeepSpeedValue::shape() const {
  std::vector<std::int64_t> sizes;
  if (const auto* size = value->as<TorchSize>()) {
    sizes = size->sizes;
  } else {
    for (const auto& item : items()) {
      const auto* number = item.value->as<std::int64_t>();
      if (number == nullptr || *number < 0) refuse("is not a shape");
      sizes.push_back(*number);
    }
  }
  if (sizes.size() > 64) refuse("has more than 64 dimensions");
  return sizes;
}

const TorchTensor& DeepSpeedValue::tensor() const {
  const auto* tensor = value->as<TorchTensor>();
  if (tensor == nullptr) refuse("is " + value->describe() + ", not a tensor");
  if (!tensor->contiguous())
    refuse("is a tensor whose elements do not follow each other, as DeepSpeed writes none");
  return *tensor;
}

const TorchTensor& DeepSpeedValue::flat() const {
  const TorchTensor& flat = tensor();
  if (flat.shape.size() != 1) refuse("is " + value->describe() + ", not of one dimension");
  return flat;
}

std::vector<NamedShape> named_shapes(const DeepSpeedValue& dict) {
  std::vector<NamedShape> all;
  for (const auto& [name, value] : dict.entries()) {
    NamedShape one{.name = name, .shape = value.shape()};
    const auto bytes = bytes_of(DType::f64, one.shape);
    if (!bytes || *bytes > std::uint64_t{1} << 62)
      value.refuse("has the shape " + shape_text(one.shape) + ", whose size overflows");
    one.numel = static_cast<std::int64_t>(*bytes / sizeof(double));
    all.push_back(std::move(one));
  }
  return all;
}

std::shared_ptr<const FileContent> as_fp32(const TorchTensor& tensor) {
  const bool other =
      tensor.dtype == DType::f16 || tensor.dtype == DType::bf16 || tensor.dtype == DType::f64;
  if (!other) return nullptr;
  std::vector<std::byte> bytes(tensor.size_bytes());
  tensor.copy_to(bytes);
  if (tensor.dtype == DType::f16)
    return std::make_shared<Held>(converted<std::uint16_t>(bytes, from_half));
  if (tensor.dtype == DType::bf16)
    return std::make_shared<Held>(converted<std::uint16_t>(bytes, from_bfloat));
  const auto narrowed = [](double value) { return static_cast<float>(value); };
  return std::make_shared<Held>(converted<double>(bytes, narrowed));
}

}  // namespace accelerate::detail
