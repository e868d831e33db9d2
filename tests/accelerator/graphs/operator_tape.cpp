#include "tests/accelerator/graphs/operator_tape.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <unordered_map>
#include <utility>
#include <vector>

namespace accelerate::testing {
namespace {

using torch::jit::Stack;

constexpr double kSpoilt = 77;

// LibTorch reserves this key below autograd, and uses it from Python alone.
constexpr auto kTapeKey = c10::DispatchKey::Fake;

template <typename Fn>
void for_each_tensor(const c10::IValue& value, Fn&& fn) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) fn(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector())
      if (tensor.defined()) fn(tensor);
  } else if (value.isList()) {
    for (const c10::IValue& item : value.toListRef()) for_each_tensor(item, fn);
  }
}

std::vector<at::Tensor> tensors_of(const c10::IValue& value) {
  std::vector<at::Tensor> tensors;
  for_each_tensor(value, [&](const at::Tensor& tensor) { tensors.push_back(tensor); });
  return tensors;
}

struct Tape {
  struct Call {
    c10::OperatorHandle op;
    Stack inputs, outputs;
  };
  std::vector<Call> calls;
  // Both by storage: several tensors may look at one.
  struct Memory {
    at::Tensor whole, values;
  };
  std::unordered_map<const void*, Memory> before;    // What was there, with its values.
  std::unordered_map<const void*, at::Tensor> made;  // What the work itself made.
  bool refuses_reads = false;

  void note_inputs(const Stack& inputs) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    for (const auto& value : inputs) {
      for_each_tensor(value, [this](const at::Tensor& tensor) {
        if (!tensor.has_storage()) return;
        const void* const storage = tensor.storage().unsafeGetStorageImpl();
        if (made.contains(storage) || before.contains(storage)) return;
        const at::Tensor whole = whole_of(tensor);
        before.emplace(storage, Memory{whole, whole.clone()});
      });
    }
  }

  void note_outputs(const Stack& outputs) {
    for (const auto& value : outputs) {
      for_each_tensor(value, [this](const at::Tensor& tensor) {
        const void* const storage = tensor.storage().unsafeGetStorageImpl();
        if (!before.contains(storage)) made.emplace(storage, tensor);
      });
    }
  }

  // Returns all of the memory that a tensor looks at.
  static at::Tensor whole_of(const at::Tensor& tensor) {
    const auto elements =
        static_cast<std::int64_t>(tensor.storage().nbytes() / tensor.element_size());
    return at::empty({0}, tensor.options()).set_(tensor.storage(), 0, {elements});
  }
};

thread_local Tape* tape = nullptr;

void note(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard no_more(kTapeKey);
  const auto& schema = op.schema();
  TORCH_CHECK(tape != nullptr, "the tape's key is set outside of a capture");
  TORCH_CHECK(!tape->refuses_reads || schema.name() != "aten::_local_scalar_dense",
              "operation not permitted when stream is capturing");
  Stack inputs(stack->end() - static_cast<std::ptrdiff_t>(schema.arguments().size()), stack->end());
  tape->note_inputs(inputs);
  op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kTapeKey), stack);
  Stack outputs(stack->end() - static_cast<std::ptrdiff_t>(schema.returns().size()), stack->end());
  tape->note_outputs(outputs);
  // Memory is taken once: a device's graph does not contain it.
  const bool only_allocates = schema.name().starts_with("aten::empty");
  if (!only_allocates) tape->calls.push_back({op, std::move(inputs), std::move(outputs)});
}

class OperatorTape final : public detail::CapturedGraph {
 public:
  OperatorTape(std::shared_ptr<OperatorTapeCounts> counts, const OperatorTapeOptions& options)
      : counts_(counts ? std::move(counts) : std::make_shared<OperatorTapeCounts>()),
        options_(options) {}

  void warm_up(const std::function<void()>& work) override {
    ++counts_->warm_ups;
    work();
  }

  void capture(const std::function<void()>& work) override {
    ++counts_->captures;
    tape_ = Tape();
    tape_.refuses_reads = options_.refuses_reads;
    tape = &tape_;
    try {
      const c10::impl::IncludeDispatchKeyGuard recording(kTapeKey);
      work();
    } catch (...) {
      restore();
      tape_.calls.clear();
      throw;
    }
    restore();
  }

  void replay() override {
    ++counts_->replays;
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    for (const auto& [storage, tensor] : tape_.made) Tape::whole_of(tensor).fill_(kSpoilt);
    for (const auto& call : tape_.calls) {
      Stack stack = call.inputs;
      call.op.callBoxed(stack);
      for (std::size_t i = 0; i < stack.size(); ++i) {
        // A view, or what was written in place, is where it was.
        if (call.op.schema().returns()[i].alias_info() != nullptr) continue;
        const auto from = tensors_of(stack[i]), to = tensors_of(call.outputs[i]);
        for (std::size_t k = 0; k < from.size(); ++k) to[k].copy_(from[k]);
      }
    }
  }

 private:
  void restore() {
    tape = nullptr;
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    for (auto& [storage, memory] : tape_.before) memory.whole.copy_(memory.values);
    tape_.before.clear();
  }

  std::shared_ptr<OperatorTapeCounts> counts_;
  OperatorTapeOptions options_;
  Tape tape_;
};

}  // namespace

std::unique_ptr<detail::CapturedGraph> make_operator_tape(
    std::shared_ptr<OperatorTapeCounts> counts, const OperatorTapeOptions& options) {
  return std::make_unique<OperatorTape>(std::move(counts), options);
}

TORCH_LIBRARY_IMPL(_, Fake, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&note>());
}

}  // namespace accelerate::testing
