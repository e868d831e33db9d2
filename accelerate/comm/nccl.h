// c10d's NCCL engine, made from plain C++ by libaccelerate_cuda.so (nccl_plugin.cpp).
#pragma once

#include <c10/core/Device.h>
#include <c10/util/intrusive_ptr.h>

#include <chrono>

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace accelerate::detail {

struct NcclOptions {
  int rank = 0;
  int size = 1;
  std::chrono::milliseconds timeout{};
  c10::Device device{c10::kCUDA, 0};  ///< This rank's GPU; each rank of a group needs its own GPU.
};

/// Whether libaccelerate_cuda.so, which has the engine, is there and fits LibTorch.
[[nodiscard]] bool has_nccl();
/// Throws ConfigError with the reason and the cure unless has_nccl().
void require_nccl();

/// Makes the engine, which connects to all peers through `store` in the first operation at the
/// latest. [collective] Throws what c10d throws; ConfigError as require_nccl().
[[nodiscard]] c10::intrusive_ptr<c10d::Backend> make_nccl_backend(
    const c10::intrusive_ptr<c10d::Store>& store, const NcclOptions& options);

}  // namespace accelerate::detail
