// Which part of a model's parameters this rank has. The base classes describe a whole model: a
// model in one part, which every rank has. A strategy that divides parameters overrides them.
#pragma once

#include <ATen/core/Tensor.h>

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "accelerate/comm/communicator.h"
#include "accelerate/tensor/named_shard.h"

namespace accelerate {

/// Options of summon_full_params().
struct SummonOptions {
  bool writeback = true;    ///< Keeps changes to the parameters: each rank those in its slice.
  bool rank0_only = false;  ///< Only rank 0 gets whole parameters; not together with writeback.
};

/// The parameters as optimizers, clipping and summon_full_params() see them.
class ModelParts {
 public:
  ModelParts() = default;
  virtual ~ModelParts() = default;
  ModelParts(const ModelParts&) = delete;
  ModelParts& operator=(const ModelParts&) = delete;

  /// Whether a rank has parts of the parameters instead of the whole ones.
  [[nodiscard]] virtual bool is_sharded() const { return false; }
  /// Returns this rank's part of `leaf`; null where the rank has all of `leaf`. Optimizers hold the
  /// part in place of the leaf, and it has the gradient. It lives as long as this object.
  [[nodiscard]] virtual const NamedShard* shard_of(const at::Tensor& /*leaf*/) const {
    return nullptr;
  }
  /// Returns the tensor that optimizers hold for `leaf`: this rank's part, shape {n}, or `leaf`.
  [[nodiscard]] const at::Tensor& local_parameter(const at::Tensor& leaf) const {
    const NamedShard* const shard = shard_of(leaf);
    return shard == nullptr ? leaf : shard->local;
  }
  /// Returns the ranks that together have `parameter`, a leaf or a part of one. Norms of parts add
  /// up over these ranks. Null where each rank has all of it.
  [[nodiscard]] virtual Communicator* ranks_of(const at::Tensor& /*parameter*/) const {
    return nullptr;
  }

  /// Notes that an optimizer will update the parts. `refusal`: why its state cannot live in the
  /// files of the model; "" if it can. [collective when the model is offloaded to disk] Throws
  /// UsageError on all ranks if any of them refuses.
  virtual void claim(const std::string& /*refusal*/) {}
  /// Runs `write`, which changes parts, and publishes the new values to all ranks. [collective when
  /// sharded] When `write` throws then, the group ends, because the other ranks would wait.
  virtual void update(const std::function<void()>& write) { write(); }

  /// Drops the gradients of parts whose leaf's grad() the program has taken away
  /// (net->zero_grad()).
  virtual void follow_leaves() {}
  /// Drops the gradients of the parts among `locals`, and what was accumulated for them. With
  /// `set_to_none` false gradients that exist become zero. Does not touch gradients of whole
  /// leaves.
  virtual void zero_grad(const std::vector<at::Tensor>& /*locals*/, bool /*set_to_none*/ = true) {}
  /// Whether gradients of earlier micro-batches were lost in a backward that failed, and nothing
  /// was zeroed since.
  [[nodiscard]] virtual bool has_lost_gradients() const { return false; }

  /// Between begin and end the user's leaves hold their whole values, in the type that optimizers
  /// see. After the end they are sharded again. The model must not run in between. [collective when
  /// sharded, end only with writeback]
  virtual void begin_summon(const SummonOptions& /*options*/) {}
  virtual void end_summon(bool /*writeback*/) {}
};

/// While alive, the user's parameters hold their whole values, in the type that optimizers see. The
/// model must not run meanwhile. Every rank must change them alike. Does nothing for a model that
/// every rank has whole. Memory: the model in that type. [collective, also at its end with
/// writeback] If an exception ends the scope, changes are dropped and no rank is waited for. Throws
/// UsageError inside another such scope of the model, and for writeback together with rank0_only.
class [[nodiscard]] SummonScope {
 public:
  SummonScope(std::shared_ptr<ModelParts> parts, const SummonOptions& options)
      : parts_(std::move(parts)), writeback_(options.writeback) {
    parts_->begin_summon(options);
  }
  ~SummonScope() noexcept(false) {
    parts_->end_summon(writeback_ && std::uncaught_exceptions() == exceptions_);
  }
  SummonScope(const SummonScope&) = delete;
  SummonScope& operator=(const SummonScope&) = delete;

 private:
  std::shared_ptr<ModelParts> parts_;
  bool writeback_;
  int exceptions_ = std::uncaught_exceptions();
};

/// The parameters as checkpoints see them.
class SavedParts {
 public:
  SavedParts() = default;
  virtual ~SavedParts() = default;
  SavedParts(const SavedParts&) = delete;
  SavedParts& operator=(const SavedParts&) = delete;

  /// Returns this rank's parts under the names of the model, in its order; none of what the rank
  /// has whole. Throws UsageError while summon_full_params() lasts.
  [[nodiscard]] virtual std::vector<NamedShard> shards() const { return {}; }
  /// As ModelParts::update(), for a `write` that brings all ranks to one step, as loading does.
  /// Updates are counted from 0 again.
  virtual void replace(const std::function<void()>& write) { write(); }
  /// Throws UsageError when ranks have updated their parts unequally often. [collective when
  /// sharded]
  virtual void require_equal_updates() const {}
};

}  // namespace accelerate
