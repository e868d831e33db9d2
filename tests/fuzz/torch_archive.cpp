// An archive of torch.save is refused with a CheckpointError, or all its tensors lie in it.
#include "accelerate/formats/torch_archive/torch_archive.h"

#include <cstdlib>

#include "tests/fuzz/in_memory.h"

namespace {

using namespace accelerate;

void check(const TorchTensor& tensor) {
  fuzz::read_all(tensor.bytes);
  const auto size = bytes_of(tensor.dtype, tensor.shape);
  if (!size) std::abort();
  if (*size > 1 << 16) return;  // A stride of 0 makes much of little.
  std::vector<std::byte> copy(*size);
  tensor.copy_to(copy);
}

void check(const TorchValue& value) {
  (void)value.describe();
  if (const auto* tensor = value.as<TorchTensor>()) check(*tensor);
  for (const TorchValue& item : value.items()) check(item);
  if (const auto* dict = value.as<TorchDict>()) {
    for (const auto& [key, item] : dict->entries) check(key), check(item);
  }
  if (const auto* object = value.as<TorchObject>()) {
    for (const auto& attribute : object->attributes) check(attribute.value);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  try {
    const TorchArchive archive = TorchArchive::open("fuzzed", input.files());
    check(archive.value());
    for (const auto& [name, tensor] : archive.state_dict()) check(*tensor);
  } catch (const CheckpointError&) {
  }
  return 0;
}
