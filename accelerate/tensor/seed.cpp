#include "accelerate/tensor/seed.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <ATen/detail/CUDAHooksInterface.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/base/process_identity.h"

namespace accelerate {
namespace {

at::Tensor state_of(at::Generator generator) {
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

void restore(at::Generator generator, const at::Tensor& state) {
  const std::lock_guard lock(generator.mutex());
  generator.set_state(state);
}

at::Generator copy_of(at::Generator generator) {
  const std::lock_guard lock(generator.mutex());
  return generator.clone();
}

const at::Generator& cuda_generator(std::size_t index) {
  return at::globalContext().defaultGenerator(
      c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(index)));
}

std::size_t cuda_devices() {
  return at::hasCUDA() ? static_cast<std::size_t>(at::detail::getCUDAHooks().getNumGPUs()) : 0;
}

// Returns the bytes of a state; checks that it is as long as the state of `generator`.
at::Tensor checked(const StateDict& state, const at::Generator& generator, const char* device) {
  auto bytes = state.to<at::Tensor>();
  const auto expected = state_of(generator).numel();
  if (bytes.scalar_type() != at::kByte || bytes.dim() != 1 || bytes.numel() != expected)
    throw CheckpointError("the state of the " + std::string(device) + " generator is " +
                          state.describe() + " of " + at::toString(bytes.scalar_type()) +
                          "; it must be " + std::to_string(expected) + " bytes");
  return bytes.to(at::kCPU).contiguous();
}

}  // namespace

void set_seed(std::uint64_t seed, const SeedOptions& options) {
  if (options.device_specific) seed += static_cast<std::uint64_t>(process_identity().rank);
  at::manual_seed(seed);
  if (options.deterministic)
    at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
}

std::uint64_t initial_seed() {
  return at::detail::getDefaultCPUGenerator().current_seed();
}

StateDict rng_state() {
  StateDict state = {{"cpu", state_of(at::detail::getDefaultCPUGenerator())}};
  StateDict::List cuda;
  for (std::size_t i = 0; i < cuda_devices(); ++i) cuda.emplace_back(state_of(cuda_generator(i)));
  if (!cuda.empty()) state["cuda"] = std::move(cuda);
  return state;
}

CheckedState check_rng_state(const StateDict& state) {
  struct Restored {
    at::Generator generator;
    at::Tensor bytes;
  };
  std::vector<Restored> all;
  const auto add = [&all](const StateDict& saved, const at::Generator& generator,
                          const char* device) {
    all.push_back({generator, checked(saved, generator, device)});
    restore(copy_of(generator), all.back().bytes);  // LibTorch may refuse the bytes.
  };
  add(state.at("cpu"), at::detail::getDefaultCPUGenerator(), "CPU");
  if (const StateDict* saved = state.find("cuda")) {
    for (std::size_t i = 0; i < std::min(saved->list().size(), cuda_devices()); ++i)
      add(saved->list()[i], cuda_generator(i), "CUDA");
  }
  return {[all = std::move(all)] {
    for (const auto& [generator, bytes] : all) restore(generator, bytes);
  }};
}

void set_rng_state(const StateDict& state) {
  check_rng_state(state).load();
}

}  // namespace accelerate
