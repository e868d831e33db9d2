// save_model() and get_state_dict(): models as whole named tensors, even if ranks have only parts.
#include <map>
#include <string>
#include <utility>

#include "accelerate/accelerator/accelerator_impl.h"
#include "accelerate/checkpoint/planned_files.h"
#include "accelerate/checkpoint/rank_phases.h"
#include "accelerate/checkpoint/shard_collector.h"
#include "accelerate/checkpoint/training_state.h"
#include "accelerate/comm/announced_call.h"
#include "accelerate/comm/operations.h"
#include "accelerate/formats/weights/weight_index.h"
#include "accelerate/tensor/divisible_module.h"
#include "accelerate/tensor/module_view.h"

namespace accelerate {
namespace {

// Returns the model with the entries that Python has in its state_dict.
ModelPart saved_part(const detail::ModelCore& core) {
  ModelPart part = detail::model_part(core, "model");
  part.view = detail::without_unsaved_buffers(std::move(part.view));
  return part;
}

}  // namespace

ModelPart detail::model_part(const ModelCore& core, std::string stem) {
  const auto& saved = core.parallel().saved;
  return {.stem = std::move(stem),
          .view = core.view(),
          .shards = saved->shards(),
          .update = [saved](const std::function<void()>& write) { saved->replace(write); }};
}

void detail::with_whole_model(const ModelCore& core, const char* call,
                              const std::function<void(const PlannedFile&)>& write) {
  auto planned = std::vector{plan_model(saved_part(core))};
  auto& ranks = *core.parallel().engine->communicator();
  const AnnouncedCall announced(call);
  require_agreement(ranks, call, core.view().class_name);
  core.parallel().saved->require_equal_updates();
  const auto collector = plan_whole(planned, ranks);
  on_all_ranks(ranks, [&] {
    collector->together([&] {
      if (ranks.rank() == 0) write(planned.front());
    });
  });
}

void detail::tell_divided(const std::shared_ptr<ModelCore>& core) {
  if (!core->parallel().parts->is_sharded() || core->view().divisible == nullptr) return;
  core->view().divisible->set_with_whole(
      [weak = std::weak_ptr(core)](const DivisibleModule::Write& write) {
        const auto live = weak.lock();
        if (!live) return false;
        with_whole_model(*live, "save_pretrained()", [&](const PlannedFile& planned) {
          write(planned.tensors, planned.fetch);
        });
        return true;
      });
}

void Accelerator::save_module(const detail::ModelCore& core, const std::filesystem::path& directory,
                              const std::string& max_shard_size, bool safe_serialization) const {
  const WriteWeightsOptions options{.max_shard_bytes = parse_shard_size(max_shard_size),
                                    .safe_serialization = safe_serialization};
  const auto save = [&](const PlannedFile& planned) { save_weights(planned, directory, options); };
  if (core.parallel().parts->is_sharded()) {
    detail::with_whole_model(core, "save_model()", save);
  } else if (impl_->saves()) {
    save(plan_model(saved_part(core)));
  }
}

std::vector<NamedTensor> Accelerator::state_dict_of(const detail::ModelCore& core) const {
  const auto names = state_dict(detail::without_unsaved_buffers(core.view()));
  if (!core.parallel().parts->is_sharded()) return names;
  std::map<std::string, at::Tensor> whole;
  detail::with_whole_model(core, "get_state_dict()", [&](const PlannedFile& planned) {
    for (const auto& item : planned.tensors) {
      const at::Tensor data = data_of(planned, item).detach();
      whole[item.name] = item.tensor.is_meta() ? data : data.to(at::kCPU, false, /*copy=*/true);
    }
  });
  std::vector<NamedTensor> all;
  if (core.parallel().engine->communicator()->rank() != 0) return all;
  std::map<const at::TensorImpl*, at::Tensor> by_leaf;  // Tied tensors have several names.
  for (const auto& [name, leaf] : names) {
    const auto found = whole.find(name);
    if (found != whole.end()) by_leaf.emplace(leaf.unsafeGetTensorImpl(), found->second);
    all.push_back({name, by_leaf.at(leaf.unsafeGetTensorImpl())});
  }
  return all;
}

}  // namespace accelerate
