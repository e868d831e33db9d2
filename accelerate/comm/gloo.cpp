#include "accelerate/comm/gloo.h"

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "accelerate/base/environment.h"
#include "accelerate/comm/broken_pipes.h"

namespace accelerate::detail {
namespace {

// c10d's destructor waits for operations in flight, up to their timeout. Closing the connections
// makes the operations fail immediately, on this rank and on the peers.
class AbortableGloo final : public c10d::ProcessGroupGloo {
 public:
  using ProcessGroupGloo::ProcessGroupGloo;

  // Only send writes on the caller's thread; other operations run on Gloo's threads.
  c10::intrusive_ptr<c10d::Work> send(std::vector<at::Tensor>& tensors, int destination,
                                      int tag) override {
    const WithoutBrokenPipes quiet;
    return ProcessGroupGloo::send(tensors, destination, tag);
  }

  void abort() override {
    for (const auto& context : contexts_) context->closeConnections();
  }
};

}  // namespace

c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                    const GlooOptions& options) {
  using c10d::ProcessGroupGloo;
  const WithoutBrokenPipes quiet;
  auto gloo = ProcessGroupGloo::Options::create(options.timeout);
  const auto interface = env("GLOO_SOCKET_IFNAME");
  gloo->devices = {interface ? ProcessGroupGloo::createDeviceForInterface(*interface)
                             : ProcessGroupGloo::createDeviceForHostname(options.address)};
  // With two threads a small collective need not wait for a large one that was issued before it.
  gloo->threads = 2;
  return c10::make_intrusive<AbortableGloo>(store, options.rank, options.size, gloo);
}

}  // namespace accelerate::detail
