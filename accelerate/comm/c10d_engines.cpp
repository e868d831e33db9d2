// Makes a C10dCommunicator over each engine: sets what the engine can do and how it is made.
#include <chrono>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>

#include "accelerate/comm/c10d_communicator.h"
#include "accelerate/comm/gloo.h"
#include "accelerate/comm/nccl.h"
#include "accelerate/comm/shared_memory/backend.h"
#include "accelerate/comm/shared_memory/shared_group.h"

namespace accelerate {

std::shared_ptr<Communicator> make_nccl_communicator(c10::intrusive_ptr<c10d::Store> store,
                                                     int rank, int size, const GroupTimes& times,
                                                     c10::Device device, detail::GroupLabel label) {
  C10dGroup group{std::move(store), rank, size, times, device};
  group.label = std::move(label);
  group.connect = [](const C10dGroup& made, const std::function<void()>&) {
    return C10dConnection{made.store,
                          detail::make_nccl_backend(
                              made.store, {made.rank, made.size, made.times.timeout, made.device})};
  };
  return make_c10d_communicator(std::move(group));
}

std::shared_ptr<Communicator> make_gloo_communicator(c10::intrusive_ptr<c10d::Store> store,
                                                     int rank, int size, const GroupTimes& times,
                                                     const std::string& address,
                                                     detail::GroupLabel label) {
  C10dGroup group{std::move(store), rank, size, times};
  group.label = std::move(label);
  group.traits.scatters_by_all_reduce = true;
  group.connect = [address](const C10dGroup& made, const std::function<void()>& look) {
    return C10dConnection{
        made.store,
        detail::make_gloo_backend(made.store, {made.rank, made.size, made.times, address, look})};
  };
  return make_c10d_communicator(std::move(group));
}

std::shared_ptr<Communicator> make_shared_memory_communicator(
    c10::intrusive_ptr<c10d::Store> store, int rank, int size, const GroupTimes& times,
    std::shared_ptr<detail::LocalPeers> peers, detail::GroupLabel label) {
  C10dGroup group{std::move(store), rank, size, times};
  group.label = std::move(label);
  group.traits = {.moves_every_dtype = true,
                  .has_mean = true,
                  .ends_when_aborted = true,
                  .knows_who_is_there = true};
  group.traits.empty = [peers](at::IntArrayRef sizes, const at::TensorOptions& options) {
    return detail::empty_for_peers(*peers, sizes, options);
  };
  group.connect = [peers](const C10dGroup& made, const std::function<void()>& look) {
    const detail::Founding founding{*made.store, made.rank, made.size, made.times, look};
    auto shared = std::make_shared<detail::SharedGroup>(founding, peers);
    return C10dConnection{made.store, detail::make_shared_memory_backend(founding, shared), shared};
  };
  return make_c10d_communicator(std::move(group));
}

}  // namespace accelerate
