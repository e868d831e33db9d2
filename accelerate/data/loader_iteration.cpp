#include "accelerate/data/loader_iteration.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include <mutex>

#include "accelerate/comm/communicator.h"

namespace accelerate {
namespace {

std::optional<at::Generator> generator_of(RngType type,
                                          const std::optional<at::Generator>& generator,
                                          const std::optional<c10::Device>& device) {
  switch (type) {
    case RngType::torch:
      return at::detail::getDefaultCPUGenerator();
    case RngType::cuda:
      if (!device || !device->is_cuda()) return std::nullopt;
      return at::globalContext().defaultGenerator(*device);
    case RngType::generator:
      return generator;
  }
  return std::nullopt;
}

void synchronize(Communicator& communicator, at::Generator generator) {
  at::Tensor state;
  {
    const std::lock_guard lock(generator.mutex());
    state = generator.get_state().clone();
  }
  communicator.broadcast(state, 0).wait();
  const std::lock_guard lock(generator.mutex());
  generator.set_state(state);
}

}  // namespace

void synchronize_rng_states(Communicator& communicator, const std::vector<RngType>& types,
                            const std::optional<at::Generator>& generator,
                            const std::optional<c10::Device>& device) {
  for (RngType type : types) {
    if (auto found = generator_of(type, generator, device)) synchronize(communicator, *found);
  }
}

}  // namespace accelerate
