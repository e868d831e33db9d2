#include "accelerate/parallel/recompute/recorder.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>
#include <utility>

#include "accelerate/parallel/recompute/live_records.h"
#include "accelerate/parallel/recompute/saved_values.h"
#include "accelerate/tensor/compat/deferred_tape.h"
#include "accelerate/tensor/compat/operator_traits.h"

namespace accelerate::detail {
namespace {

constexpr auto kNoUnit = std::numeric_limits<std::size_t>::max();

// Their results cost the most to compute again.
constexpr std::array<std::string_view, 18> kProducts = {
    "aten::linear",   "aten::matmul",       "aten::mm",
    "aten::bmm",      "aten::addmm",        "aten::baddbmm",
    "aten::mv",       "aten::addmv",        "aten::einsum",
    "aten::bilinear", "aten::convolution",  "aten::conv1d",
    "aten::conv2d",   "aten::conv3d",       "aten::tensordot",
    "aten::addbmm",   "aten::_convolution", "aten::scaled_dot_product_attention"};

const compat::OperatorTraits& traits_of(const c10::OperatorHandle& op) {
  thread_local std::unordered_map<const c10::FunctionSchema*, compat::OperatorTraits> known;
  const auto* schema = &op.schema();
  const auto found = known.find(schema);
  if (found != known.end()) return found->second;
  return known.emplace(schema, compat::read_traits(*schema)).first->second;
}

template <typename Visit>
void visit_tensors_of(const c10::IValue& value, const Visit& visit) {
  (void)compat::map_tensors(value, [&](const at::Tensor& tensor) {
    if (tensor.defined()) visit(tensor);
    return tensor;
  });
}

thread_local Recorder* innermost = nullptr;

}  // namespace

Recorder::Recorder(const RecomputePlan& plan)
    : plan_(&plan), outer_(std::exchange(innermost, this)), unit_(kNoUnit) {}

Recorder::Recorder(std::string unit) : outer_(std::exchange(innermost, this)), unit_(kNoUnit) {
  start_record(unit);
}

Recorder::~Recorder() {
  end_record();
  innermost = outer_;
}

// Records of other units, and those that are open around this one, take copies of what they hold.
void Recorder::before_write(const at::Tensor& tensor) {
  if (!tensor.has_storage()) return;
  const auto* storage = tensor.storage().unsafeGetStorageImpl();
  LiveRecords::of_thread().before_write(storage);
  for (const Recorder* around = outer_; around != nullptr; around = around->outer_)
    if (around->record_) around->record_->before_write(storage);
}

void Recorder::start_record(const std::string& unit) {
  const auto offloads_from = plan_ != nullptr ? plan_->offloads_from : std::nullopt;
  record_ = std::make_shared<UnitRecord>(unit, offloads_from);
}

void Recorder::end_record() {
  if (record_) record_->close();
  record_.reset();
}

void Recorder::begin_unit(std::size_t unit, const at::TensorImpl* first) {
  end_record();
  unit_ = unit;
  first_ = first;
  touched_.clear();
  const RecomputedUnit& entered = plan_->units[unit];
  if (entered.is_recomputed) start_record("the unit " + entered.name);
}

void Recorder::touch(const at::Tensor& tensor) {
  const auto* impl = tensor.unsafeGetTensorImpl();
  const auto found = plan_->unit_of.find(impl);
  if (found == plan_->unit_of.end()) return;
  const bool is_again = impl == first_ && touched_.size() == plan_->units[unit_].parameters;
  if (found->second != unit_ || is_again) begin_unit(found->second, impl);
  if (plan_->parameters.contains(impl)) touched_.insert(impl);
}

void Recorder::enter_unit(c10::ArrayRef<c10::IValue> arguments) {
  if (plan_ == nullptr) return;
  for (const auto& value : arguments)
    visit_tensors_of(value, [&](const at::Tensor& tensor) { touch(tensor); });
}

bool Recorder::keeps_results_of(const c10::OperatorHandle& op) const {
  return plan_ != nullptr && plan_->keep == GradientCheckpointing::Keep::products &&
         std::ranges::find(kProducts, op.schema().name()) != kProducts.end();
}

void Recorder::intercept(const compat::InterceptedCall& call) {
  const auto arguments = call.arguments();
  enter_unit(arguments);
  const auto& traits = traits_of(call.op());
  const auto record = record_;
  if (record) record->begin(call, traits, keeps_results_of(call.op()));
  for (std::size_t i = 0; traits.written != 0 && i < arguments.size(); ++i) {
    if (traits.writes(i)) {
      visit_tensors_of(arguments[i], [&](const at::Tensor& tensor) { before_write(tensor); });
    }
  }
  if (!record) return call.proceed();
  try {
    call.proceed();
  } catch (...) {
    record->leave();
    throw;
  }
  record->end(call);
}

std::unique_ptr<compat::SavedTensorHooks> Recorder::make_hooks() {
  return record_ ? saved_in(record_) : nullptr;
}

}  // namespace accelerate::detail
