// Loss scaling for fp16. Multiplying the loss keeps gradients that are too small for fp16; steps
// whose gradients overflowed are skipped. Source: Micikevicius et al., "Mixed Precision Training",
// ICLR 2018; torch.amp.GradScaler; DynamicLossScaler of DeepSpeed.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "accelerate/comm/communicator.h"

namespace accelerate {

/// Names and defaults of torch.amp.GradScaler, then what DeepSpeed's scaler has beside them.
struct GradScalerKwargs {
  double init_scale = 65536.0;          ///< First factor; greater than 0, within fp32.
  double growth_factor = 2.0;           ///< Grows the scale after growth_interval good steps; > 1.
  double backoff_factor = 0.5;          ///< Shrinks the scale after an overflow; between 0 and 1.
  std::int64_t growth_interval = 2000;  ///< Good steps in a row before the scale grows.
  bool enabled = true;                  ///< false: scale() and unscale_() do nothing.

  bool dynamic = true;          ///< false: the scale stays init_scale.
  double min_scale = 0;         ///< The scale never falls below.
  std::int64_t hysteresis = 1;  ///< Overflows until the scale shrinks; 1: at once.
  /// true: a good step restores the hysteresis. false: only growth of the scale does.
  bool consecutive_hysteresis = false;
  /// Good steps, at the start and after an overflow, that growth_interval does not count.
  std::int64_t growth_delay = 0;
  bool operator==(const GradScalerKwargs&) const = default;
};

/// The state of a scaler in a checkpoint; names as in torch.amp.GradScaler.state_dict().
struct GradScalerState {
  double scale = 65536.0;
  double growth_factor = 2.0;
  double backoff_factor = 0.5;
  std::int64_t growth_interval = 2000;
  /// Good steps since the scale last changed; below 0 while steps of growth_delay are left.
  std::int64_t growth_tracker = 0;
  std::optional<std::int64_t> hysteresis_left{};  ///< Absent where hysteresis is 1.
};

/// Scales the loss of one training loop. Calls in a step: scale(loss), backward, then unscale_,
/// found_inf and update for each optimizer. Optimizers are told apart by address. Not thread-safe.
class GradScaler {
 public:
  /// Throws ConfigError when a factor is out of range.
  GradScaler(c10::Device device, std::shared_ptr<Communicator> communicator,
             const GradScalerKwargs& kwargs = {});

  [[nodiscard]] bool is_enabled() const { return kwargs_.enabled; }
  [[nodiscard]] const GradScalerKwargs& options() const { return kwargs_; }

  /// Returns the factor of the next loss; 1 when disabled. Waits for the device.
  [[nodiscard]] double get_scale() const;

  /// Returns `loss` (any shape, floating) times the scale, in fp32 at least.
  [[nodiscard]] at::Tensor scale(const at::Tensor& loss);

  /// Returns the factor that the present gradients carry; shape {1}, fp32.
  [[nodiscard]] const at::Tensor& gradient_scale() const { return gradient_scale_; }

  /// Divides the optimizer's `gradients` in place by the factor they carry, and finds out whether
  /// any gradient on any rank is infinite or NaN. Does nothing when the gradients are already
  /// unscaled. An optimizer that had no gradients does not count as unscaled: its gradients may
  /// still come. [collective unless set_agreement(false)] Throws UsageError: fp16 gradients, or no
  /// loss was scaled. Cost: one pass over the gradients, one all-reduce of two numbers.
  void unscale_(const void* optimizer, const std::vector<at::Tensor>& gradients);
  [[nodiscard]] bool is_unscaled(const void* optimizer) const;

  /// Records whether a check of the optimizer's gradients found an overflow, for kernels that
  /// unscale gradients themselves. Returns whether any rank found one. [collective as unscale_]
  bool record_check(const void* optimizer, bool found_inf);

  /// Whether unscale_ or record_check found an overflow. Throws UsageError when neither has run.
  [[nodiscard]] bool found_inf(const void* optimizer) const;

  /// To be called after the optimizer has stepped or skipped its step. Adapts the scale, once for
  /// all optimizers of a backward, and prepares for the optimizer's next step.
  void update(const void* optimizer);

  /// Forgets the checks of all optimizers' gradients, for gradients that are dropped without a
  /// step.
  void reset();
  /// Forgets the check of one optimizer's gradients.
  void reset(const void* optimizer) { checked_.erase(optimizer); }

  /// false: unscale_ does not ask the other ranks, because all ranks are known to have equal
  /// gradients or must not communicate now. Default true.
  void set_agreement(bool on) { agreement_ = on; }
  [[nodiscard]] bool agreement() const { return agreement_; }

  [[nodiscard]] GradScalerState state_dict() const;
  /// Throws ConfigError when a value is out of range, and then changes nothing.
  void load_state_dict(const GradScalerState& state);
  /// Throws ConfigError when a value is out of range.
  static void check_state_dict(const GradScalerState& state);

 private:
  enum class Updated { no, clean, overflowed };
  // What a check of an optimizer's gradients found.
  struct Check {
    bool found_inf = false;
    bool had_gradients = true;  // on any rank
  };

  bool agree_on(const void* optimizer, Check mine);
  void shrink();
  void after_good_step();

  GradScalerKwargs kwargs_;
  std::shared_ptr<Communicator> communicator_;
  at::Tensor scale_;                      // {1}, fp32: factor of the next loss
  at::Tensor gradient_scale_;             // {1}, fp32: factor of present gradients, if any
  at::Tensor growth_tracker_;             // {1}, int32
  std::int64_t hysteresis_left_ = 1;      // overflows until the scale shrinks
  Updated updated_ = Updated::no;         // since the last scale()
  std::map<const void*, Check> checked_;  // by optimizer
  bool agreement_ = true;
};

}  // namespace accelerate
