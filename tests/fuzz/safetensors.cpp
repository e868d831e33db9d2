// A safetensors file is refused with a CheckpointError, or all its tensors lie in it and the file
// written of them is read back.
#include "accelerate/formats/safetensors/safetensors.h"

#include <cstdlib>

#include "tests/fuzz/in_memory.h"

namespace {

using namespace accelerate;

void check(const SafetensorsFile& file) {
  std::vector<TensorSpec> specs;
  for (const StoredTensor& tensor : file.tensors()) {
    fuzz::read_all(tensor.bytes);
    if (tensor.bytes.size() != bytes_of(tensor.dtype, tensor.shape)) std::abort();
    if (&file.at(tensor.name) != &tensor) std::abort();
    specs.push_back(tensor);
  }
  const SafetensorsLayout layout(specs, file.metadata());
  if (layout.file_bytes() > 1 << 20) return;
  std::string again = layout.header();
  again.resize(layout.file_bytes());
  const SafetensorsFile second = testing::open_text(again);
  if (second.tensors().size() != specs.size()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  try {
    check(SafetensorsFile::open("fuzzed", input.files()));
  } catch (const CheckpointError&) {
  } catch (const UsageError&) {  // A metadata tensor's name is no name to write.
  }
  return 0;
}
