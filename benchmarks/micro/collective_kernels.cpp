// Measures the arithmetic of collectives over memory: how many bytes a core reads and writes a
// second. Compares dtypes, instruction sets, 2 and 4 sources, and data in the cache and beyond it.
// Also shows where streaming stores, which bypass the caches, help. Choose with, for example,
// `--benchmark_filter=reduce/.*Half`.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "accelerate/comm/shared_memory/kernels.h"

namespace {

using namespace accelerate;
using detail::reduce_elements;

constexpr std::size_t kTileBytes = 8192;

class Buffers {
 public:
  Buffers(std::size_t number, std::size_t bytes) {
    for (std::size_t i = 0; i < number; ++i) {
      all_.push_back(new (std::align_val_t{4096}) std::byte[bytes]);
      std::memset(all_.back(), 0, bytes);
    }
  }
  ~Buffers() {
    for (auto* buffer : all_) ::operator delete[](buffer, std::align_val_t{4096});
  }
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;

  std::vector<std::byte*> from(std::size_t at) const {
    auto moved = all_;
    for (auto& pointer : moved) pointer += at;
    return moved;
  }
  std::vector<const std::byte*> sources() const { return {all_.begin(), all_.end()}; }

 private:
  std::vector<std::byte*> all_;
};

void set_bytes(benchmark::State& state, std::size_t per_iteration) {
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(per_iteration));
}

// Arguments: number of sources, bytes of each. Counts the bytes of all sources and of the result.
void reduce(benchmark::State& state, const std::string& version, at::ScalarType dtype) {
  detail::choose_kernels(version);
  const auto sources = static_cast<std::size_t>(state.range(0));
  const auto bytes = static_cast<std::size_t>(state.range(1));
  const Buffers in(sources, bytes), out(1, bytes);
  const auto results = out.from(0);
  const auto inputs = in.sources();
  for (auto _ : state) {
    reduce_elements(results, inputs, bytes / c10::elementSize(dtype), dtype, ReduceOp::sum);
    benchmark::ClobberMemory();
  }
  set_bytes(state, (sources + 1) * bytes);
}

// Writes the sum of two float buffers to several destinations. Either reduce_elements writes them,
// or each tile goes into a scratch tile and from there out by streaming stores. Arguments: number
// of destinations, bytes of each.
void reduce_to_several(benchmark::State& state, bool streaming) {
  const auto copies = static_cast<std::size_t>(state.range(0));
  const auto bytes = static_cast<std::size_t>(state.range(1));
  const Buffers in(2, bytes), out(copies, bytes), scratch(1, kTileBytes);
  const auto tile = scratch.from(0);
  for (auto _ : state) {
    for (std::size_t at = 0; at < bytes; at += kTileBytes) {
      const auto here = in.from(at), there = out.from(at);
      const std::vector<const std::byte*> inputs(here.begin(), here.end());
      reduce_elements(streaming ? tile : there, inputs, kTileBytes / sizeof(float),
                      at::ScalarType::Float, ReduceOp::sum);
      for (std::size_t i = 0; streaming && i < copies; ++i) {
        detail::copy_streaming(there[i], tile[0], kTileBytes);
      }
    }
    benchmark::ClobberMemory();
  }
  set_bytes(state, (2 + copies) * bytes);
}

void copy(benchmark::State& state, bool streaming) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const Buffers in(1, bytes), out(1, bytes);
  for (auto _ : state) {
    if (streaming) {
      detail::copy_streaming(out.from(0)[0], in.sources()[0], bytes);
    } else {
      std::memcpy(out.from(0)[0], in.sources()[0], bytes);
    }
    benchmark::ClobberMemory();
  }
  set_bytes(state, 2 * bytes);
}

constexpr std::int64_t kInCache = 256 << 10, kBeyondIt = 64 << 20;

void register_reductions() {
  for (const auto version : detail::kernel_versions()) {
    for (const auto dtype :
         {at::ScalarType::Float, at::ScalarType::Double, at::ScalarType::Half,
          at::ScalarType::BFloat16, at::ScalarType::Byte, at::ScalarType::Long}) {
      const std::string name = "reduce/" + std::string(version) + "/" + c10::toString(dtype);
      benchmark::RegisterBenchmark(name.c_str(), reduce, std::string(version), dtype)
          ->ArgsProduct({{2, 4}, {kInCache, kBeyondIt}});
    }
  }
}

const bool registered = [] {
  register_reductions();
  for (const bool streaming : {false, true}) {
    const std::string how = streaming ? "streaming" : "ordinary";
    benchmark::RegisterBenchmark(("to_several/" + how).c_str(), reduce_to_several, streaming)
        ->ArgsProduct({{1, 2, 4}, {kInCache, kBeyondIt}});
    benchmark::RegisterBenchmark(("copy/" + how).c_str(), copy, streaming)
        ->Arg(kInCache)
        ->Arg(kBeyondIt);
  }
  return true;
}();

}  // namespace
