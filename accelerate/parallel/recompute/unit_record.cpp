#include "accelerate/parallel/recompute/unit_record.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/core/DefaultDtype.h>

#include <algorithm>
#include <utility>

#include "accelerate/tensor/compat/deferred_tape.h"
#include "accelerate/tensor/compat/matrix_products.h"

namespace accelerate::detail {
namespace {

// Stands for tensors among recorded arguments.
const at::Tensor& placeholder() {
  static const at::Tensor tensor = at::empty({0});
  return tensor;
}

c10::StorageImpl* storage_of(const at::Tensor& tensor) {
  const auto* impl = tensor.unsafeGetTensorImpl();
  return impl->has_storage() ? impl->unsafe_storage().unsafeGetStorageImpl() : nullptr;
}

// Whether the operator is a product whose first summand counts nothing (beta is 0): it may be garbage.
bool hides_first_argument(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments) {
  const auto beta = op.schema().argumentIndexWithName("beta");
  if (!beta) return false;
  const c10::IValue& value = arguments[static_cast<std::size_t>(*beta)];
  return value.isScalar() && value.toScalar().to<double>() == 0;
}

// Returns the generator from which a random operator draws.
at::Generator generator_of(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments) {
  c10::Device device(c10::kCPU);
  for (std::size_t i = arguments.size(); i-- > 0;) {  // The first tensor counts most.
    const c10::IValue& value = arguments[i];
    if (value.isGenerator()) return value.toGenerator();
    if (value.isDevice() && op.schema().arguments()[i].name() == "device")
      device = value.toDevice();
    if (value.isTensor() && value.toTensor().defined()) device = value.toTensor().device();
  }
  return at::globalContext().defaultGenerator(device);
}

}  // namespace

UnitRecord::UnitRecord(std::string unit, std::optional<c10::DeviceType> offloads_from)
    : unit_(std::move(unit)),
      offloads_from_(offloads_from),
      wants_products_(compat::MatrixProducts::are_wanted()) {}

std::string UnitRecord::name_of(std::size_t call) const {
  return calls_[call].op.schema().name() + " of " + unit_;
}

UnitRecord::Memory* UnitRecord::memory_of(const at::Tensor& tensor) {
  const auto found = memories_.find(storage_of(tensor));
  return found == memories_.end() ? nullptr : &found->second;
}

bool RecordedCall::has_kept() const {
  return keeps_results && std::ranges::none_of(kept_versions, &Version::has_changed);
}

void UnitRecord::hold(const at::Tensor& tensor, Held held) {
  const auto* storage = storage_of(tensor);
  if (storage == nullptr) return;
  held_.emplace(storage, held);
  LiveRecords::of_thread().add(storage, weak_from_this());
}

std::size_t UnitRecord::add_external(const at::Tensor& tensor) {
  const std::size_t place = externals_.size();
  externals_.push_back({.tensor = tensor.is_leaf() ? tensor : tensor.detach(),
                        .requires_grad = tensor.requires_grad(),
                        .is_leaf = tensor.is_leaf(),
                        .offset = tensor.has_storage() ? tensor.storage_offset() : 0,
                        .version = Version(tensor)});
  const WeakTensor weak(tensor.getIntrusivePtr());
  known_externals_.insert_or_assign(tensor.unsafeGetTensorImpl(), std::pair(weak, place));
  auto* storage = storage_of(tensor);
  if (storage == nullptr) return place;
  const auto [memory, is_new] = memories_.try_emplace(
      storage, Memory{.storage = tensor.storage().getWeakStorageImpl(), .is_external = true});
  if (memory->second.copy) {  // It sees what the unit has written there.
    use_copy(externals_.back(), *memory->second.copy);
  } else {
    hold(tensor, {.is_external = true, .external = place});
  }
  return place;
}

RecordedArgument UnitRecord::note_argument(RecordedCall& call, const at::Tensor& tensor) {
  RecordedArgument argument{.requires_grad = tensor.requires_grad()};
  const Memory* memory = memory_of(tensor);
  if (memory != nullptr && memory->writer) call.needs.push_back(*memory->writer);
  const auto* impl = tensor.unsafeGetTensorImpl();
  if (const auto result = results_.find(impl); result != results_.end()) {
    argument.origin = result->second.second;
  } else if (const auto known = known_externals_.find(impl); known != known_externals_.end()) {
    argument.external = known->second.second;
  } else if (memory != nullptr && !memory->is_external && memory->whole &&
             memory->dtype == tensor.scalar_type()) {
    argument.origin = memory->whole;  // Another tensor over a result, as data() makes.
    argument.geometry = Geometry::of(tensor);
  } else {
    argument.external = add_external(tensor);
  }
  if (argument.origin) call.needs.push_back(argument.origin->call);
  return argument;
}

void UnitRecord::begin(const compat::InterceptedCall& call, const compat::OperatorTraits& traits,
                       bool keeps_results) {
  RecordedCall recorded{.op = call.op(),
                        .with_gradients = at::GradMode::is_enabled(),
                        .autocast = AutocastState::present(),
                        .keeps_results = keeps_results && traits.written == 0,
                        .default_dtype = c10::typeMetaToScalarType(c10::get_default_dtype())};
  written_.clear();
  const auto arguments = call.arguments();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const bool is_read = !traits.only_makes_views && !traits.writes(i) &&
                         !(i == 0 && hides_first_argument(call.op(), arguments));
    const bool is_written = traits.writes(i);
    recorded.arguments.push_back(
        compat::map_tensors(arguments[i], [&](const at::Tensor& tensor) -> at::Tensor {
          if (!tensor.defined()) return tensor;
          recorded.tensors.push_back(note_argument(recorded, tensor));
          if (is_read) recorded.tensors.back().sample = sample_of(tensor);
          if (is_written && storage_of(tensor) != nullptr) written_.push_back(storage_of(tensor));
          return placeholder();
        }));
  }
  if (call.op().hasTag(at::Tag::nondeterministic_seeded)) {
    recorded.generator = generator_of(call.op(), arguments);
    const std::lock_guard lock(recorded.generator.mutex());
    recorded.random_state = recorded.generator.get_state();
  }
  std::ranges::sort(recorded.needs);
  recorded.needs.erase(std::ranges::unique(recorded.needs).begin(), recorded.needs.end());
  present_ = calls_.size();
  saved_ = 0;
  calls_.push_back(std::move(recorded));
}

// Returns whether the result has memory of its own.
bool UnitRecord::note_result(const at::Tensor& result, ResultOfCall origin) {
  const auto* impl = result.unsafeGetTensorImpl();
  results_.insert_or_assign(impl, std::pair(WeakTensor(result.getIntrusivePtr()), origin));
  known_externals_.erase(impl);
  auto* storage = storage_of(result);
  if (storage == nullptr) return true;
  const auto [found, is_new] =
      memories_.try_emplace(storage, Memory{.storage = result.storage().getWeakStorageImpl()});
  if (!is_new && !writes_now(storage)) {
    found->second.has_views = true;
    return false;
  }
  found->second.writer = origin.call;
  found->second.whole = origin;
  found->second.dtype = result.scalar_type();
  return true;
}

void UnitRecord::keep(const at::Tensor& result, std::size_t call) {
  const at::NoGradGuard no_grad;
  auto& kept = calls_[call].kept;
  hold(result, {.kept = {call, kept.size()}});
  kept.push_back(result.detach());
  calls_[call].kept_versions.emplace_back(kept.back());
}

void UnitRecord::end(const compat::InterceptedCall& call) {
  const std::size_t number = *std::exchange(present_, std::nullopt);
  for (const auto* storage : written_) {
    const auto memory = memories_.find(storage);
    if (memory == memories_.end()) continue;  // The tensor was given another storage.
    memory->second.writer = number;
    memory->second.whole.reset();  // Until a result of the call turns out to lie there.
  }
  std::size_t place = 0;
  for (const auto& value : call.results()) {
    (void)compat::map_tensors(value, [&](const at::Tensor& result) {
      const ResultOfCall origin{number, place++};
      // A view of something else would not follow what is written there.
      if (result.defined() && !note_result(result, origin)) calls_[number].keeps_results = false;
      if (calls_[number].keeps_results) keep(result, number);
      return result;
    });
  }
}

std::shared_ptr<DroppedTensor> UnitRecord::drop(const at::Tensor& saved) {
  DroppedTensor dropped{.source = DroppedTensor::Source::saved, .place = present_ ? saved_++ : 0};
  const auto* storage = storage_of(saved);
  if (storage == nullptr || saved.is_nested()) return nullptr;
  const Memory* memory = memory_of(saved);
  if (memory != nullptr && memory->is_external) {
    const auto moved = offloaded_under(saved);
    if (!moved) return nullptr;
    dropped.source = DroppedTensor::Source::external;
    dropped.place = *moved;
  } else if (memory != nullptr && memory->whole && !writes_now(storage) &&
             memory->dtype == saved.scalar_type() && !saved.is_conj() && !saved.is_neg()) {
    dropped.source = DroppedTensor::Source::result;
    dropped.call = memory->whole->call;
    dropped.place = memory->whole->result;
    dropped.sample = sample_of(saved);
  } else if (present_ && !calls_[*present_].keeps_results) {
    dropped.call = *present_;
  } else {
    return nullptr;
  }
  dropped.record = shared_from_this();
  dropped.geometry = Geometry::of(saved);
  const auto kept = std::make_shared<DroppedTensor>(std::move(dropped));
  dropped_.push_back(kept);
  return kept;
}

bool UnitRecord::writes_now(const c10::StorageImpl* storage) const {
  return std::ranges::find(written_, storage) != written_.end();
}

// Returns the place of a copy of the whole storage in which `tensor` lies.
std::size_t UnitRecord::copy_of(const at::Tensor& tensor) {
  const auto bytes = static_cast<std::int64_t>(tensor.storage().nbytes());
  const at::Tensor whole = at::empty({0}, tensor.options().dtype(at::kByte).requires_grad(false))
                               .set_(tensor.storage(), 0, {bytes}, {1});
  copies_.push_back(whole.clone());
  return copies_.size() - 1;
}

void UnitRecord::use_copy(ExternalTensor& external, std::size_t copy) {
  const at::NoGradGuard no_grad;
  external.tensor = compat::over_storage(copies_[copy].storage(), external.tensor.detach());
  external.copy = copy;
}

void UnitRecord::before_write(const c10::StorageImpl* storage) {
  const std::lock_guard lock(mutex_);
  const at::NoGradGuard no_grad;
  const auto [first, last] = held_.equal_range(storage);
  std::optional<std::size_t> copy;  // One for all, so that they stay parts of one memory.
  for (auto it = first; it != last; ++it) {
    const Held& held = it->second;
    if (!held.is_external) {
      before_write_of_kept(held.kept, storage);
      continue;
    }
    ExternalTensor& external = externals_[held.external];
    if (!copy) copy = copy_of(external.tensor);
    use_copy(external, *copy);
  }
  held_.erase(first, last);
  if (!present_ || !writes_now(storage)) return forget(storage);
  if (const auto memory = memories_.find(storage); copy && memory != memories_.end())
    memory->second.copy = copy;
}

// What is read there from now on comes from outside.
void UnitRecord::forget(const c10::StorageImpl* storage) {
  const auto found = memories_.find(storage);
  if (found == memories_.end()) return;
  Memory& memory = found->second;
  memory.is_external = true;
  memory.writer.reset();
  memory.whole.reset();
  memory.copy.reset();
  const auto lies_there = [&](const auto& known) {
    const auto tensor = known.second.first.lock();
    return tensor && tensor->has_storage() &&
           tensor->unsafe_storage().unsafeGetStorageImpl() == storage;
  };
  std::erase_if(results_, lies_there);
  std::erase_if(known_externals_, lies_there);
}

// Whether the present call changes `result`, of which there are no views, and returns it.
bool UnitRecord::is_changed_whole_now(ResultOfCall result, const c10::StorageImpl* storage) const {
  const auto memory = memories_.find(storage);
  if (!present_ || !writes_now(storage) || memory == memories_.end() || memory->second.has_views)
    return false;
  const RecordedCall& writer = calls_[*present_];
  if (writer.op.schema().returns().size() != 1 || writer.tensors.empty()) return false;
  const RecordedArgument& changed = writer.tensors.front();
  return changed.origin && changed.origin->call == result.call && !changed.geometry &&
         calls_[result.call].kept.size() == 1;
}

// A result that is changed as a whole, as by adding a bias in place, is kept as it is afterwards.
void UnitRecord::before_write_of_kept(ResultOfCall result, const c10::StorageImpl* storage) {
  RecordedCall& call = calls_[result.call];
  if (is_changed_whole_now(result, storage)) {
    calls_[*present_].keeps_results = true;
    call.keeps_results = false;
    call.kept.clear();
    call.kept_versions.clear();
    return;
  }
  if (present_ && writes_now(storage)) call.is_kept_changed = true;
  at::Tensor& kept = call.kept[result.result];
  kept = kept.clone();
  call.kept_versions[result.result] = Version(kept);
}

// Parameters and buffers stay where they are, and so does what is not dense.
bool UnitRecord::is_offloaded(const ExternalTensor& external) const {
  const at::Tensor& tensor = external.tensor;
  return offloads_from_ && !external.is_leaf && !external.copy &&
         tensor.device().type() == *offloads_from_ && tensor.layout() == at::kStrided &&
         tensor.is_contiguous();
}

std::optional<std::size_t> UnitRecord::offloaded_under(const at::Tensor& saved) const {
  if (!offloads_from_ || saved.is_conj() || saved.is_neg() || !saved.is_contiguous()) return {};
  const auto [first, last] = held_.equal_range(storage_of(saved));
  for (auto it = first; it != last; ++it) {
    if (!it->second.is_external) continue;
    const ExternalTensor& external = externals_[it->second.external];
    const auto begin = saved.storage_offset() - external.tensor.storage_offset();
    const bool lies_within = begin >= 0 && begin + saved.numel() <= external.tensor.numel();
    if (is_offloaded(external) && external.tensor.scalar_type() == saved.scalar_type() &&
        lies_within)
      return it->second.external;
  }
  return {};
}

void UnitRecord::offload() {
  const at::NoGradGuard no_grad;
  for (ExternalTensor& external : externals_) {
    if (!is_offloaded(external)) continue;
    external.home = external.tensor.device();
    external.tensor = external.tensor.to(at::kCPU, /*non_blocking=*/false, /*copy=*/true);
  }
  std::erase_if(held_, [&](const auto& held) {
    return held.second.is_external && externals_[held.second.external].home;
  });
}

void UnitRecord::close() {
  if (offloads_from_) offload();
  results_.clear();
  known_externals_.clear();
  memories_.clear();
  written_.clear();
}

}  // namespace accelerate::detail
