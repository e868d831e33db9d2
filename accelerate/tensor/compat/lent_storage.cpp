#include "accelerate/tensor/compat/lent_storage.h"

#include <ATen/core/function_schema.h>
#include <ATen/ops/empty.h>
#include <ATen/record_function.h>
#include <torch/version.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <unordered_map>

#include "accelerate/tensor/compat/operator_traits.h"

namespace accelerate::compat {
namespace {

// A deleter that marks memory as lent; the context of such memory is the owner.
void keep(void*) {}

// Operator names are unique objects, so their addresses identify them. A function without an
// operator is only a label around operators, which are seen separately.
const OperatorTraits& traits_of(const at::RecordFunction& function) {
  static const OperatorTraits kNoOperator{.only_makes_views = true};
  thread_local std::unordered_map<const char*, OperatorTraits> known;
  const char* const name = function.name();
  const auto found = known.find(name);
  if (found != known.end()) return found->second;
  if (!function.operator_name()) return kNoOperator;
  const auto schema = function.operator_schema();
  return known.emplace(name, schema ? read_traits(*schema) : OperatorTraits{}).first->second;
}

struct CallStack {
  int depth = 0;
  std::uint64_t outermost = 0;
};
thread_local CallStack call_stack;
std::atomic<std::uint64_t> calls{0};  // Calls of all threads.

void tell(const at::Tensor& tensor, OperatorUse use) {
  if (StorageOwner* const owner = LentStorage::owner_of(tensor)) {
    use.offset = tensor.storage_offset();
    const at::RecordFunctionGuard unwatched(/*is_enabled=*/false);
    owner->before_use(use);
  }
}

void tell_list(const c10::IValue& list, const OperatorUse& use) {
  for (const c10::IValue& element : list.toListRef()) {
    if (element.isTensor()) tell(element.toTensor(), use);
  }
}

void tell_owners(const at::RecordFunction& function) {
  const OperatorTraits& traits = traits_of(function);
  if (traits.only_makes_views) return;
  std::size_t i = 0;
  for (const c10::IValue& input : function.inputs()) {
    const OperatorUse use{function.name(), traits.writes(i), call_stack.outermost, 0};
    if (input.isTensor()) {
      tell(input.toTensor(), use);
    } else if (input.isList()) {
      tell_list(input, use);
    }
    ++i;
  }
}

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& function) {
  if (call_stack.depth++ == 0) call_stack.outermost = ++calls;
  tell_owners(function);
  return nullptr;
}

void on_end(const at::RecordFunction&, at::ObserverContext*) {
  --call_stack.depth;
}

// The process has one callback, which is switched off while nobody watches.
class Callback {
 public:
  void add_watcher() {
    const std::lock_guard lock(mutex_);
    if (watchers_++ > 0) return;
    if (handle_ == 0) {
      handle_ = at::addGlobalCallback(at::RecordFunctionCallback(on_start, on_end)
                                          .needsInputs(true)
                                          .scopes({at::RecordScope::FUNCTION}));
    } else {
      at::reenableCallback(handle_);
    }
  }
  void remove_watcher() {
    const std::lock_guard lock(mutex_);
    if (--watchers_ == 0) at::disableCallback(handle_);
  }

 private:
  std::mutex mutex_;
  int watchers_ = 0;
  at::CallbackHandle handle_ = 0;
};

Callback& callback() {
  static Callback instance;
  return instance;
}

}  // namespace

LentStorage::LentStorage(StorageOwner& owner, std::size_t bytes, c10::Device device)
    : owner_(&owner),
      device_(device),
      storage_(c10::make_intrusive<c10::StorageImpl>(
          c10::StorageImpl::use_byte_size_t(), static_cast<std::int64_t>(bytes),
          c10::DataPtr(nullptr, owner_, &keep, device), /*allocator=*/nullptr,
          /*resizable=*/false)) {}

LentStorage::~LentStorage() {
  if (there_) {
    withdraw(
        "the prepared model that held these values is gone: keep what prepare() returned as long "
        "as the module is used, or copy the values inside summon_full_params()");
  }
  put(nullptr, nullptr);
}

void LentStorage::put(void* data, StorageOwner* owner) {
  storage_.unsafeGetStorageImpl()->set_data_ptr_noswap(
      owner != nullptr ? c10::DataPtr(data, owner, &keep, device_) : c10::DataPtr(data, device_));
}

void LentStorage::lend(void* data) {
  put(data, owner_);
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 13
  storage_.unsafeGetStorageImpl()->clear_data_ptr_access_error_msg_();
#endif
  there_ = true;
}

void LentStorage::withdraw([[maybe_unused]] const std::string& why) {
  put(nullptr, owner_);
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 13
  storage_.unsafeGetStorageImpl()->release_data_and_set_meta_custom_data_ptr_error_msg_(why);
#endif
  there_ = false;
}

at::Tensor LentStorage::tensor(std::int64_t offset, at::IntArrayRef sizes,
                               at::ScalarType dtype) const {
  at::Tensor made = at::empty({0}, at::TensorOptions(dtype).device(device_));
  std::vector<std::int64_t> strides(sizes.size());
  std::int64_t step = 1;
  for (std::size_t d = sizes.size(); d-- > 0;) {
    strides[d] = step;
    step *= std::max<std::int64_t>(sizes[d], 1);
  }
  made.unsafeGetTensorImpl()->set_storage_keep_dtype(storage_);
  made.unsafeGetTensorImpl()->set_storage_offset(offset);
  made.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return made;
}

StorageOwner* LentStorage::owner_of(const at::Tensor& tensor) noexcept {
  if (!tensor.defined()) return nullptr;
  const auto* impl = tensor.unsafeGetTensorImpl();
  if (!impl->has_storage()) return nullptr;
  const auto& memory = impl->unsafe_storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks();
  return memory.get_deleter() == &keep ? static_cast<StorageOwner*>(memory.get_context()) : nullptr;
}

OperatorWatch::OperatorWatch() {
  callback().add_watcher();
}

OperatorWatch::~OperatorWatch() {
  callback().remove_watcher();
}

}  // namespace accelerate::compat
