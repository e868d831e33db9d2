// Measures what opening a safetensors file costs beside the mapping: reading and checking its
// header.
#include <benchmark/benchmark.h>

#include "accelerate/formats/safetensors/safetensors_header.h"

namespace {

using namespace accelerate;

/// Returns the JSON text for `count` tensors with names as in language models.
std::string header_text(std::int64_t count) {
  std::vector<TensorSpec> specs;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::string layer = std::to_string(i / 8), part = std::to_string(i % 8);
    specs.push_back(
        {"model.layers." + layer + ".block." + part + ".weight", DType::bf16, {64, 64}});
  }
  constexpr std::size_t kLengthBytes = 8;  // In front of the text.
  return detail::safetensors_header_bytes(specs, {{"format", "pt"}}).substr(kLengthBytes);
}

void parse_header(benchmark::State& state) {
  const std::string text = header_text(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(detail::parse_safetensors_header(text));
  state.SetItemsProcessed(state.iterations() * state.range(0));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(text.size()));
}
BENCHMARK(parse_header)->Arg(8)->Arg(512)->Arg(32'768);

}  // namespace
