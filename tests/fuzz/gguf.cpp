// A GGUF file is refused with a CheckpointError, or all that its header tells lies inside it.
#include "accelerate/formats/gguf/gguf.h"

#include <cstdlib>

#include "tests/fuzz/in_memory.h"

namespace {

using namespace accelerate;

void check(const GgufFile& file) {
  for (const auto& [key, value] : file.metadata()) {
    if (std::holds_alternative<std::string_view>(value)) {
      try {
        (void)file.text(key);
      } catch (const CheckpointError&) {
      }
    }
  }
  for (const GgufTensor& tensor : file.tensors()) {
    const GgmlBlock block = block_of(tensor.type);
    if (tensor.bytes.size() % static_cast<std::size_t>(block.bytes) != 0) std::abort();
    if (block.elements == 1) continue;
    std::vector<float> values(tensor.bytes.size() / static_cast<std::size_t>(block.bytes) *
                              static_cast<std::size_t>(block.elements));
    dequantize(tensor.type, tensor.bytes, values);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  try {
    check(GgufFile::open("fuzzed", input.files()));
  } catch (const CheckpointError&) {
  }
  return 0;
}
