#include "accelerate/tensor/compat/deferred_tape.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/ScalarTypeToTypeMeta.h>

#include <algorithm>
#include <sstream>

#include "accelerate/base/error.h"
#include "accelerate/tensor/compat/leaf_memory.h"

namespace accelerate::compat {
namespace {

void release(void* context) {
  delete static_cast<DeferredStorage*>(context);
}

bool holds_tensors(const c10::TypePtr& type) {
  if (const auto optional = type->cast<c10::OptionalType>())
    return holds_tensors(optional->getElementType());
  return type->kind() == c10::TypeKind::TensorType;
}

// Returns the geometry of a tensor, on the meta device, without memory and without its storage.
at::Tensor outline_of(const at::Tensor& tensor) {
  auto outline = at::empty({0}, tensor.options().device(at::kMeta));
  auto* impl = outline.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) impl->set_wrapped_number(true);
  return outline;
}

// Returns an outline for a tensor with memory, because meta kernels take only meta tensors.
at::Tensor stand_in(const at::Tensor& argument) {
  const bool has_memory = argument.defined() && argument.has_storage() && !argument.is_meta();
  return has_memory ? outline_of(argument) : argument;
}

// Code that asks a deferred tensor for its device gets the meta device. In plain code it would have
// got the CPU.
at::IValue with_memory(at::IValue argument) {
  const bool is_meta = argument.isDevice() && argument.toDevice().is_meta();
  return is_meta ? at::IValue(at::Device(at::kCPU)) : std::move(argument);
}

std::optional<std::size_t> place_of(const c10::FunctionSchema& schema, const std::string& name) {
  const auto place = schema.argumentIndexWithName(name);
  if (!place) return std::nullopt;
  return static_cast<std::size_t>(*place);
}

// "index_fill_(Tensor(a!) self, …) -> Tensor(a!)": the result is known without running a kernel.
bool returns_first_argument(const c10::FunctionSchema& schema) {
  const auto& arguments = schema.arguments();
  return schema.name().ends_with('_') && schema.returns().size() == 1 && !arguments.empty() &&
         arguments.front().alias_info() != nullptr && arguments.front().alias_info()->isWrite();
}

std::vector<at::Tensor> tensors_from(const torch::jit::Stack& stack, std::size_t begin) {
  std::vector<at::Tensor> tensors;
  for (std::size_t i = begin; i < stack.size(); ++i) {
    (void)map_tensors(stack[i], [&](const at::Tensor& tensor) {
      tensors.push_back(tensor);
      return tensor;
    });
  }
  return tensors;
}

}  // namespace

at::IValue map_tensors(const at::IValue& value,
                       const std::function<at::Tensor(const at::Tensor&)>& map) {
  if (value.isTensor()) return map(value.toTensor());
  if (!value.isList() || !holds_tensors(value.toList().elementType())) return value;
  const auto list = value.toList();
  c10::impl::GenericList mapped(list.elementType());
  mapped.reserve(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) mapped.push_back(map_tensors(list.get(i), map));
  return mapped;
}

at::Tensor over_storage(const at::Storage& storage, const at::Tensor& like) {
  auto tensor = at::empty({0}, like.options().device(storage.device()));
  return tensor.set_(storage, like.storage_offset(), like.sizes(), like.strides());
}

DeferredStorage* deferred_storage(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_meta() || !tensor.has_storage()) return nullptr;
  auto& data = tensor.storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks();
  if (data.get_deleter() != &release) return nullptr;
  return static_cast<DeferredStorage*>(data.get_context());
}

void defer_storage(const at::Tensor& tensor, std::shared_ptr<Tape> tape, StorageId id) {
  auto* storage = tensor.storage().unsafeGetStorageImpl();
  auto context = std::make_unique<DeferredStorage>(std::move(tape), id);
  storage->set_data_ptr_noswap(
      at::DataPtr(nullptr, context.release(), &release, at::Device(at::kMeta)));
}

StorageId Tape::new_storage() {
  writers_.emplace_back();
  return writers_.size() - 1;
}

void Tape::add(Entry entry) {
  const std::size_t number = entries_.size();
  for (const StorageId storage : entry.writes) writers_[storage].push_back(number);
  for (const auto& output : entry.outputs) writers_[output.storage].push_back(number);
  entries_.push_back(std::move(entry));
}

// Takes over a storage from another tape, by its value. The scope of that tape has ended, so the
// history of the storage there is complete.
StorageId Tape::own_id(const at::Tensor& deferred) {
  auto* place = deferred_storage(deferred);
  if (place->tape.get() == this) return place->id;
  Entry import;
  import.from = place->tape;
  import.from_storage = place->id;
  import.writes = {new_storage()};
  place->tape = shared_from_this();
  place->id = import.writes.front();
  add(std::move(import));
  return place->id;
}

at::Tensor Tape::kept(const at::Tensor& argument, bool is_written, Entry& entry,
                      bool& writes_memory) {
  if (!argument.defined()) return argument;
  if (deferred_storage(argument) == nullptr) {
    entry.constants.emplace_back(argument, argument.is_inference() ? 0 : argument._version());
    writes_memory = writes_memory || is_written;
    return argument;
  }
  const StorageId storage = own_id(argument);
  if (is_written) entry.writes.push_back(storage);
  auto outline = outline_of(argument);
  entry.reads.push_back({storage, outline});
  return outline;
}

void Tape::record(const c10::OperatorHandle& op, torch::jit::Stack& written,
                  torch::jit::Stack& stack) {
  const std::lock_guard lock(mutex_);
  const auto& parameters = op.schema().arguments();
  const std::size_t begin = stack.size() - parameters.size();
  Entry entry;
  entry.op = op;
  bool writes_memory = false;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto* alias = parameters[i].alias_info();
    const bool is_written = alias != nullptr && alias->isWrite();
    entry.arguments.push_back(map_tensors(with_memory(written[i]), [&](const at::Tensor& tensor) {
      return kept(tensor, is_written, entry, writes_memory);
    }));
    stack[begin + i] = map_tensors(stack[begin + i], stand_in);
  }
  const bool draws = op.hasTag(at::Tag::nondeterministic_seeded);
  if (writes_memory) return run_on_values(std::move(entry), stack, begin);
  try {
    op.callBoxed(stack);
  } catch (const c10::Error& error) {
    if (entry.writes.empty()) return run_on_values(std::move(entry), stack, begin);
    const bool has_no_kernel = dynamic_cast<const c10::NotImplementedError*>(&error) != nullptr;
    if (!has_no_kernel || !returns_first_argument(op.schema())) throw;
    stack.resize(begin);
    stack.push_back(written.front());
  }
  adopt_results(entry, stack, begin);
  if (draws) entry.draw = new_draw(entry);
  if (draws || !entry.writes.empty() || !entry.outputs.empty()) add(std::move(entry));
}

void Tape::adopt_results(Entry& entry, const torch::jit::Stack& stack, std::size_t begin) {
  const auto results = tensors_from(stack, begin);
  for (std::size_t i = 0; i < results.size(); ++i) {
    const auto& result = results[i];
    if (!result.defined() || !result.is_meta() || !result.has_storage()) continue;
    if (deferred_storage(result) == nullptr) {
      const StorageId storage = new_storage();
      defer_storage(result, shared_from_this(), storage);
      entry.outputs.push_back({i, storage, outline_of(result)});
    }
    handles_.push_back({Handle::Weak(result.getIntrusivePtr()), 0});
  }
  // A factory takes the default dtype that is set at the time of the call.
  const auto dtype = place_of(entry.op->schema(), "dtype");
  if (entry.reads.empty() && dtype && entry.arguments[*dtype].isNone() && !entry.outputs.empty())
    entry.arguments[*dtype] = entry.outputs.front().geometry.scalar_type();
}

void Tape::run_on_values(Entry entry, torch::jit::Stack& stack, std::size_t begin) {
  std::set<std::size_t> needed;
  for (const auto& read : entry.reads) needed.merge(needed_for(read.storage));
  Values values;
  play(needed, values);
  stack.resize(begin);
  for (auto& argument : arguments_of(entry, values)) stack.push_back(std::move(argument));
  if (!entry.op->hasTag(at::Tag::nondeterministic_seeded)) return entry.op->callBoxed(stack);
  entry.draw = new_draw(entry);
  add(std::move(entry));
  draw(entries_.back(), stack);
}

void Tape::give_memory_to_buffers() {
  const std::lock_guard lock(mutex_);
  Values values;  // Views of one storage stay views of one storage.
  for (const auto& handle : handles_) {
    const at::Tensor tensor(handle.tensor.lock());
    const auto* place = deferred_storage(tensor);
    if (place == nullptr || tensor.requires_grad() || !tensor.is_leaf()) continue;
    const StorageId storage = place->id;
    if (!values.contains(storage)) values[storage] = value_of(storage);
    materialise_(tensor, over_storage(values[storage], tensor));
  }
}

void Tape::close() {
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
  std::erase_if(handles_, [](const Handle& handle) { return handle.tensor.expired(); });
  for (auto& handle : handles_) {
    const at::Tensor tensor(handle.tensor.lock());
    if (tensor.defined() && !tensor.is_inference()) handle.version = tensor._version();
  }
}

void Tape::check_unchanged(const at::Tensor& tensor) const {
  const std::lock_guard lock(mutex_);
  if (!is_closed_) return;
  const auto* impl = tensor.unsafeGetTensorImpl();
  const auto handle = std::find_if(handles_.rbegin(), handles_.rend(), [&](const Handle& one) {
    return one.tensor._unsafe_get_target() == impl;
  });
  if (handle != handles_.rend() && !tensor.is_inference() && handle->version != tensor._version())
    throw UsageError(
        "it was changed in place after init_empty_weights had ended, while it had no memory, and "
        "the change is lost. Change it while the scope is alive, or after it got memory.");
}

}  // namespace accelerate::compat
