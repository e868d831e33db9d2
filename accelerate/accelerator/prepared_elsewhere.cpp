#include "accelerate/accelerator/prepared_elsewhere.h"

#include <algorithm>
#include <mutex>
#include <thread>
#include <unordered_set>

#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/parallel/gradients/usage.h"
#include "accelerate/tensor/compat/lent_storage.h"

namespace accelerate::detail {
namespace {

using Addresses = std::unordered_set<const void*>;

// Nothing of the core is read on other threads: ranks may be threads of one process.
struct Note {
  std::weak_ptr<ModelCore> core;
  const ModelCore* address;
  std::weak_ptr<const GradientState> owner;
  std::thread::id thread;
  std::string class_name;
  bool scales;
  bool is_on_several_ranks;
  Addresses trained;  // Leaves that gradients accumulate into.
  Addresses shards;   // Leaves whose values and gradients are divided, and this rank's parts.
};

using Notes = std::vector<std::shared_ptr<const Note>>;

struct NoteBook {
  std::mutex mutex;
  Notes notes;
};

NoteBook& note_book() {
  static auto* const book = new NoteBook;  // Models may outlive static objects.
  return *book;
}

Notes live_notes() {
  NoteBook& book = note_book();
  const std::lock_guard lock(book.mutex);
  std::erase_if(book.notes, [](const auto& note) { return note->core.expired(); });
  return book.notes;
}

// The notes of one Accelerator, and those of all others.
struct Sides {
  explicit Sides(const GradientState& owner) {
    for (auto& note : live_notes())
      (note->owner.lock().get() == &owner ? own : others).push_back(note);
  }
  Notes own, others;
};

const Note* first_with(const Notes& notes, const void* leaf, Addresses Note::* addresses) {
  const auto found = std::ranges::find_if(
      notes, [&](const auto& note) { return ((*note).*addresses).contains(leaf); });
  return found == notes.end() ? nullptr : found->get();
}

bool reaches(const Note& note, const Addresses& leaves) {
  return std::ranges::any_of(note.trained, [&](const void* leaf) { return leaves.contains(leaf); });
}

std::string of_another(const char* call, const std::string& class_name) {
  return std::string(call) + " was given " + class_name +
         ", which another Accelerator has prepared";
}

// Whether somebody is left who unscales gradients of the model of `note`.
bool unscales(const Note& note) {
  return note.scales && !note.owner.expired();
}

Addresses stepped_by(const std::vector<AcceleratedOptimizer>& optimizers) {
  Addresses leaves;
  for (const auto& optimizer : optimizers)
    for (const auto& group : optimizer.optimizer().param_groups())
      for (const auto& leaf : group.params()) leaves.insert(leaf.unsafeGetTensorImpl());
  return leaves;
}

}  // namespace

void note_prepared(const std::shared_ptr<ModelCore>& core,
                   const std::shared_ptr<const GradientState>& owner, bool scales) {
  const ModelParts& parts = *core->parallel().parts;
  auto note = std::make_shared<Note>(Note{core,
                                          core.get(),
                                          owner,
                                          std::this_thread::get_id(),
                                          core->view().class_name,
                                          scales,
                                          core->parallel().engine->communicator()->size() > 1,
                                          {},
                                          {}});
  for (const auto& [name, leaf] : core->view().parameters) {
    if (leaf.requires_grad()) note->trained.insert(leaf.unsafeGetTensorImpl());
    if (parts.ranks_of(leaf) == nullptr) continue;
    note->shards.insert(leaf.unsafeGetTensorImpl());
    note->shards.insert(parts.local_parameter(leaf).unsafeGetTensorImpl());
  }
  (void)live_notes();  // Forgets models that are gone.
  NoteBook& book = note_book();
  const std::lock_guard lock(book.mutex);
  book.notes.push_back(std::move(note));
}

void require_prepared_by(const GradientState& owner, const ModelCore& core, const char* call) {
  for (const auto& note : Sides(owner).others) {
    if (note->address != &core || !note->is_on_several_ranks) continue;
    throw UsageError(
        of_another(call, note->class_name) + ": use the Accelerator that prepared the model",
        error_name::kNotPrepared);
  }
}

bool is_shard(const at::Tensor& parameter) {
  return compat::LentStorage::owner_of(parameter) != nullptr ||
         first_with(live_notes(), parameter.unsafeGetTensorImpl(), &Note::shards) != nullptr;
}

void require_own_gradients(const GradientState& owner, const std::vector<at::Tensor>& parameters,
                           const std::vector<AcceleratedOptimizer>& optimizers, const char* call) {
  const Sides sides(owner);
  const Addresses stepped = sides.others.empty() ? Addresses() : stepped_by(optimizers);
  for (const auto& parameter : parameters) {
    const void* const leaf = parameter.unsafeGetTensorImpl();
    if (const Note* forgotten = first_with(sides.own, leaf, &Note::shards)) {
      throw UsageError(
          std::string(call) + " was given parameters of " + forgotten->class_name +
              ", which free_memory() has made this Accelerator forget: prepare module and "
              "optimizer again",
          error_name::kNotPrepared);
    }
    if (first_with(sides.own, leaf, &Note::trained) != nullptr) continue;
    const Note* note = first_with(sides.others, leaf, &Note::shards);
    if (note != nullptr || compat::LentStorage::owner_of(parameter) != nullptr) {
      throw UsageError(
          of_another(call, "parameters of " + (note ? note->class_name : "a sharded model")) +
              ", and whose gradients are in shards that only that Accelerator knows: call it on "
              "that "
              "Accelerator",
          error_name::kNotPrepared);
    }
    note = first_with(sides.others, leaf, &Note::trained);
    if (note == nullptr || !unscales(*note) || stepped.contains(leaf)) continue;
    throw UsageError(
        of_another(call, "parameters of " + note->class_name) +
            ", and whose gradients only that Accelerator can unscale: call it on that Accelerator",
        error_name::kNotPrepared);
  }
}

void require_own_loss(const GradientState& owner, const at::Tensor& loss,
                      const std::vector<AcceleratedOptimizer>& optimizers, bool scales) {
  Sides sides(owner);
  std::erase_if(sides.others, [scales](const auto& note) {
    return !note->is_on_several_ranks && !scales && !unscales(*note);
  });
  if (sides.others.empty()) return;
  const Addresses leaves = all_reached_leaves(loss);
  const Addresses stepped = stepped_by(optimizers);
  const auto is_of_own_model = [&](const void* leaf) {
    return first_with(sides.own, leaf, &Note::trained) != nullptr;
  };
  const bool has_own = std::ranges::any_of(
      leaves, [&](const void* leaf) { return stepped.contains(leaf) || is_of_own_model(leaf); });
  for (const auto& note : sides.others) {
    if (!reaches(*note, leaves) || (has_own && !note->is_on_several_ranks)) continue;
    if (std::ranges::any_of(note->trained, is_of_own_model)) continue;  // Prepared again.
    throw UsageError(of_another("backward()", "a loss of " + note->class_name) +
                         ": call backward() on that one, or prepare the models of a loss with one "
                         "Accelerator",
                     error_name::kNotPrepared);
  }
}

std::string class_prepared_elsewhere(const GradientState& owner) {
  for (const auto& note : Sides(owner).others)
    if (note->thread == std::this_thread::get_id() && !note->owner.expired())
      return note->class_name;
  return "";
}

}  // namespace accelerate::detail
