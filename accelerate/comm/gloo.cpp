#include "accelerate/comm/gloo.h"

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "accelerate/base/environment.h"
#include "accelerate/comm/broken_pipes.h"

namespace accelerate::detail {
namespace {

// c10d's destructor waits for operations in flight, up to their timeout. Closing the connections
// makes them fail at once, here and at the peers.
class AbortableGloo final : public c10d::ProcessGroupGloo {
 public:
  using ProcessGroupGloo::ProcessGroupGloo;

  // The one operation that writes on the caller's thread; the others run on Gloo's.
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
  // Two threads: a small collective need not wait until a large one before it is through.
  gloo->threads = 2;
  return c10::make_intrusive<AbortableGloo>(store, options.rank, options.size, gloo);
}

}  // namespace accelerate::detail
