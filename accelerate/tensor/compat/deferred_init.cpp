#include "accelerate/tensor/compat/deferred_init.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <exception>
#include <map>

#include "accelerate/base/error.h"
#include "accelerate/tensor/compat/deferred_tape.h"
#include "accelerate/tensor/compat/interception.h"
#include "accelerate/tensor/compat/leaf_memory.h"

namespace accelerate::compat {
namespace {

thread_local FactoryScope* innermost = nullptr;

bool has_tensors(const c10::FunctionSchema& schema) {
  return std::any_of(schema.arguments().begin(), schema.arguments().end(), [](const auto& one) {
    const auto text = one.type()->str();
    return text.find("Tensor") != std::string::npos;
  });
}

// Returns the device argument of a call that makes a tensor without tensor arguments; nullptr for
// other calls.
at::IValue* device_of(const c10::FunctionSchema& schema, torch::jit::Stack& stack) {
  const auto argument = schema.argumentIndexWithName("device");
  if (!argument || has_tensors(schema)) return nullptr;
  return &stack[stack.size() - schema.arguments().size() + static_cast<std::size_t>(*argument)];
}

// Whether the call makes a deferred tensor. A call with the options of a deferred tensor does too.
bool makes_deferred(const FactoryScope& scope, const at::IValue& device) {
  return scope.tape() && device.isDevice() && device.toDevice().is_meta();
}

bool takes_deferred(const torch::jit::Stack& arguments) {
  bool found = false;
  for (const auto& argument : arguments) {
    (void)map_tensors(argument, [&](const at::Tensor& tensor) {
      found = found || deferred_storage(tensor) != nullptr;
      return tensor;
    });
  }
  return found;
}

// Routes calls to the innermost scope of the thread.
class Construction final : public Interceptor {
 public:
  void intercept(const InterceptedCall& call) override {
    const FactoryScope& scope = *FactoryScope::current();
    torch::jit::Stack& stack = call.stack();
    torch::jit::Stack written = call.arguments().vec();
    auto* device = device_of(call.op().schema(), stack);
    if (device != nullptr && device->isNone()) *device = scope.device();
    if ((device != nullptr && makes_deferred(scope, *device)) ||
        (scope.tape() && takes_deferred(written))) {
      scope.tape()->record(call.op(), written, stack);
    } else {
      call.proceed();
    }
  }
};

Interceptor& construction() {
  static Construction instance;
  return instance;
}

const DeferredStorage& checked(const at::Tensor& tensor) {
  const auto* place = deferred_storage(tensor);
  if (place == nullptr)
    throw UsageError(
        "it has no memory, and its value is unknown: it was made on the meta device by hand, or by "
        "an operation after init_empty_weights had ended. Make it while the scope is alive, or "
        "load a checkpoint that has it.");
  place->tape->check_unchanged(tensor);
  return *place;
}

}  // namespace

FactoryScope::FactoryScope(c10::Device device, bool buffers_too)
    : device_(device),
      buffers_too_(buffers_too),
      exceptions_(std::uncaught_exceptions()),
      outer_(innermost),
      tape_(outer_ != nullptr ? outer_->tape_ : nullptr),
      interception_(Layer::construction, construction()) {
  if (!tape_ && device.is_meta()) tape_ = std::make_shared<Tape>();
  innermost = this;
}

FactoryScope::~FactoryScope() {
  innermost = outer_;
  if (!tape_ || (outer_ != nullptr && outer_->tape_)) return;
  const WithoutInterception plainly;
  if (!buffers_too_ && std::uncaught_exceptions() == exceptions_) {
    try {
      tape_->give_memory_to_buffers();
    } catch (const std::exception&) {
      // A buffer that cannot get memory now stays deferred. materialise will say why.
    }
  }
  tape_->close();
}

FactoryScope* FactoryScope::current() {
  return innermost;
}

bool is_deferred(const at::Tensor& tensor) {
  return deferred_storage(tensor) != nullptr;
}

void check_deferred(const at::Tensor& tensor) {
  (void)checked(tensor);
}

at::Tensor deferred_value(const at::Tensor& tensor) {
  const WithoutInterception plainly;
  const auto place = checked(tensor);
  return over_storage(place.tape->value_of(place.id), tensor);
}

void materialise_deferred_(const std::vector<at::Tensor>& leaves, c10::Device device) {
  const WithoutInterception plainly;
  const at::NoGradGuard no_grad;
  std::map<std::pair<const Tape*, StorageId>, at::Storage> storages;
  for (const auto& leaf : leaves) {
    if (!is_deferred(leaf)) continue;
    const auto place = checked(leaf);
    auto& storage = storages[{place.tape.get(), place.id}];
    if (!storage) {
      storage = place.tape->value_of(place.id);
      const auto bytes =
          at::empty({0}, at::dtype(at::kByte).device(storage.device())).set_(storage);
      storage = bytes.to(device).storage();
    }
    materialise_(leaf, over_storage(storage, leaf));
  }
}

}  // namespace accelerate::compat
