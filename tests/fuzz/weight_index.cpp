// An index is refused with a CheckpointError, or names plain files only and the text written of it
// is read back.
#include "accelerate/formats/weights/weight_index.h"

#include <cstdlib>

#include "tests/fuzz/in_memory.h"

namespace {

using namespace accelerate;

void check(const WeightIndex& index) {
  for (const std::string& name : index.file_names()) {
    if (name.empty() || name.find('/') != std::string::npos || name.front() == '.') std::abort();
  }
  const std::string text = weight_index_text(index);
  testing::OneFile files(text);
  const WeightIndex again = read_weight_index("again", files);
  if (again.files != index.files || again.total_bytes != index.total_bytes) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  try {
    check(read_weight_index("fuzzed", input.files()));
  } catch (const CheckpointError&) {
  }
  return 0;
}
