// Loss scaling for fp16: gradients too small for fp16 are kept by multiplying the loss, and steps
// whose gradients overflowed are skipped. Source: Micikevicius et al., "Mixed Precision Training",
// ICLR 2018; torch.amp.GradScaler.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "accelerate/comm/communicator.h"

namespace accelerate {

/// Upstream's names and defaults.
struct GradScalerKwargs {
  double init_scale = 65536.0;          ///< First factor; greater than 0, within fp32.
  double growth_factor = 2.0;           ///< Of the scale after growth_interval good steps; > 1.
  double backoff_factor = 0.5;          ///< Of the scale after an overflow; between 0 and 1.
  std::int64_t growth_interval = 2000;  ///< Good steps in a row before the scale grows.
  bool enabled = true;                  ///< false: scale() and unscale_() do nothing.
};

/// What a checkpoint keeps of a scaler; names as in torch.amp.GradScaler.state_dict().
struct GradScalerState {
  double scale = 65536.0;
  double growth_factor = 2.0;
  double backoff_factor = 0.5;
  std::int64_t growth_interval = 2000;
  std::int64_t growth_tracker = 0;  ///< Good steps since the scale last changed.
};

/// One per training loop. Life of a step: scale(loss), backward, then for each optimizer unscale_,
/// found_inf, update. Optimizers are told apart by address. Not for use by several threads.
class GradScaler {
 public:
  /// Throws ConfigError when a factor is out of range.
  GradScaler(c10::Device device, std::shared_ptr<Communicator> communicator,
             const GradScalerKwargs& kwargs = {});

  [[nodiscard]] bool is_enabled() const { return kwargs_.enabled; }
  [[nodiscard]] const GradScalerKwargs& options() const { return kwargs_; }

  /// The factor of the next loss; 1 when disabled. Waits for the device.
  [[nodiscard]] double get_scale() const;

  /// `loss` (any shape, floating) times the scale, in fp32 at least.
  [[nodiscard]] at::Tensor scale(const at::Tensor& loss);

  /// The factor, shape {1}, fp32, that the present gradients carry.
  [[nodiscard]] const at::Tensor& gradient_scale() const { return gradient_scale_; }

  /// Divides the optimizer's `gradients` by the factor they carry, in place, and finds out whether
  /// any on any rank is infinite or NaN. Does nothing for an optimizer whose gradients are already
  /// unscaled; those of one without gradients are not, however often this is called: they may still
  /// come. [collective unless set_agreement(false)] Throws UsageError: fp16 gradients, or no
  /// loss was scaled. Cost: one pass over the gradients, one all-reduce of a number.
  void unscale_(const void* optimizer, const std::vector<at::Tensor>& gradients);
  [[nodiscard]] bool is_unscaled(const void* optimizer) const;

  /// For kernels that unscale on their own: records what a check of the optimizer's gradients
  /// found, agrees on it with the other ranks, and returns it. [collective as unscale_]
  bool record_check(const void* optimizer, bool found_inf);

  /// Whether unscale_ or record_check found an overflow. Throws UsageError before either.
  [[nodiscard]] bool found_inf(const void* optimizer) const;

  /// After the optimizer has stepped, or skipped its step: adapts the scale, once for all
  /// optimizers of a backward, and readies the optimizer for the next one.
  void update(const void* optimizer);

  /// Forgets what is known of the gradients, as when they are dropped without a step.
  void reset();
  /// The same of one optimizer's.
  void reset(const void* optimizer) { checked_.erase(optimizer); }

  /// false: ranks are known to have equal gradients (or must not communicate now), so that
  /// unscale_ need not ask them. Default true.
  void set_agreement(bool on) { agreement_ = on; }
  [[nodiscard]] bool agreement() const { return agreement_; }

  [[nodiscard]] GradScalerState state_dict() const;
  /// Throws ConfigError when a value is out of range, and then changes nothing.
  void load_state_dict(const GradScalerState& state);
  /// The check alone.
  static void check_state_dict(const GradScalerState& state);

 private:
  enum class Updated { no, clean, overflowed };
  // What the gradients of an optimizer were found to be.
  struct Check {
    bool found_inf = false;
    bool had_gradients = true;  // on any rank
  };

  bool agree_on(const void* optimizer, Check mine);

  GradScalerKwargs kwargs_;
  std::shared_ptr<Communicator> communicator_;
  at::Tensor scale_;           // {1}, fp32: of the next loss
  at::Tensor gradient_scale_;  // {1}, fp32: of the present gradients; undefined before the first
  at::Tensor growth_tracker_;  // {1}, int32
  Updated updated_ = Updated::no;         // since the last scale()
  std::map<const void*, Check> checked_;  // by optimizer
  bool agreement_ = true;
};

}  // namespace accelerate
