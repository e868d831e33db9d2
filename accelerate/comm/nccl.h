// c10d's NCCL engine, made from plain C++; absent (no_nccl.cpp) when LibTorch has no CUDA.
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
  c10::Device device{c10::kCUDA, 0};  ///< Of this rank; no two ranks of a group may share one.
};

/// Whether this library was compiled with NCCL.
[[nodiscard]] bool has_nccl();

/// Connects to all peers through `store`. [collective, by the first operation at the latest] Throws
/// what c10d throws; ConfigError without NCCL.
[[nodiscard]] c10::intrusive_ptr<c10d::Backend> make_nccl_backend(
    const c10::intrusive_ptr<c10d::Store>& store, const NcclOptions& options);

}  // namespace accelerate::detail
