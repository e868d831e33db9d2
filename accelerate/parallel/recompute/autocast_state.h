// Whether, and in which type, the calling thread computes under autocast.
#pragma once

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include <array>

namespace accelerate::detail {

struct AutocastState {
  struct OfDevice {
    bool enabled = false;
    at::ScalarType dtype = at::kFloat;
  };
  static constexpr std::array kDevices = {c10::DeviceType::CPU, c10::DeviceType::CUDA};
  std::array<OfDevice, kDevices.size()> devices{};

  [[nodiscard]] static AutocastState present();
  void set() const;
};

/// While alive, the thread's autocast state may be set; then it is as before. Converted weights are
/// not kept in the meantime: one converted without gradients would serve calls that need its gradient.
class AutocastStateScope {
 public:
  AutocastStateScope();
  ~AutocastStateScope();
  AutocastStateScope(const AutocastStateScope&) = delete;
  AutocastStateScope& operator=(const AutocastStateScope&) = delete;

 private:
  AutocastState before_ = AutocastState::present();
  bool caches_before_;
};

}  // namespace accelerate::detail
