#include "accelerate/comm/communicable_tensors.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/view_as_real.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <sstream>

#include "accelerate/base/error.h"

namespace accelerate::detail {
namespace {

bool gloo_reduces(at::ScalarType dtype) {
  constexpr std::array kReduced = {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16,
                                   at::kChar,  at::kByte,   at::kInt,  at::kLong};
  return std::ranges::find(kReduced, dtype) != kReduced.end();
}

// In the order of ReduceOp.
constexpr std::array kC10dOps = {c10d::ReduceOp::SUM, c10d::ReduceOp::AVG,     c10d::ReduceOp::MIN,
                                 c10d::ReduceOp::MAX, c10d::ReduceOp::PRODUCT, c10d::ReduceOp::BAND,
                                 c10d::ReduceOp::BOR, c10d::ReduceOp::BXOR};
static_assert(kC10dOps.size() == static_cast<std::size_t>(ReduceOp::bxor) + 1);

// Returns a wider dtype that Gloo reduces. Every dtype has one, except the complex ones, which the
// caller handles.
at::ScalarType wider(at::ScalarType dtype) {
  if (at::isFloatingType(dtype)) return at::kFloat;
  return dtype == at::kShort || dtype == at::kBool ? at::kInt : at::kLong;
}

bool is_bitwise(ReduceOp op) {
  return op == ReduceOp::band || op == ReduceOp::bor || op == ReduceOp::bxor;
}

[[noreturn]] void throw_no_reduction(const at::Tensor& tensor, ReduceOp op,
                                     const std::string& why_and_cure) {
  throw UsageError("reduction '" + std::string(to_string(op)) + "' was given " +
                   describe_tensor(tensor) + ", but " + why_and_cure);
}

// Turns the first bit over. So unsigned numbers keep their order when they are read as Long, where
// the larger half of them would be negative.
at::Tensor with_first_bit_turned(const at::Tensor& tensor) {
  return tensor.bitwise_xor(std::numeric_limits<std::int64_t>::min());
}

bool needs_order_of_unsigned(const at::Tensor& tensor, ReduceOp op) {
  return tensor.scalar_type() == at::kUInt64 && (op == ReduceOp::min || op == ReduceOp::max);
}

at::Tensor stage(const at::Tensor& tensor, ReduceOp op) {
  if (gloo_reduces(tensor.scalar_type())) return tensor;
  if (tensor.is_complex()) return at::view_as_real(tensor);
  const at::Tensor wide = tensor.to(wider(tensor.scalar_type()));
  return needs_order_of_unsigned(tensor, op) ? with_first_bit_turned(wide) : wide;
}

}  // namespace

std::string describe_tensor(const at::Tensor& tensor) {
  if (!tensor.defined()) return "an undefined tensor";
  std::ostringstream text;
  text << c10::toString(tensor.scalar_type()) << tensor.sizes();
  return text.str();
}

void check_communicable(const at::Tensor& tensor, c10::DeviceType device) {
  if (tensor.defined() && tensor.device().type() == device && tensor.is_contiguous() &&
      !tensor.is_conj() && !tensor.is_neg()) {
    return;
  }
  std::ostringstream text;
  text << "a collective " << (device == c10::kCPU ? "on the CPU" : "over NCCL")
       << " needs a contiguous " << (device == c10::kCPU ? "CPU" : "GPU") << " tensor, and this is "
       << describe_tensor(tensor);
  if (tensor.defined()) {
    text << " on " << tensor.device() << (tensor.is_contiguous() ? "" : ", not contiguous")
         << (tensor.is_conj() || tensor.is_neg() ? ", a conjugate or negative view" : "");
  }
  throw UsageError(text.str());
}

at::Tensor as_bytes(const at::Tensor& tensor, c10::DeviceType device) {
  check_communicable(tensor, device);
  if (tensor.scalar_type() == at::kByte && tensor.dim() == 1) return tensor;
  return at::from_blob(
      tensor.data_ptr(), {static_cast<int64_t>(tensor.nbytes())}, [keep = tensor](void*) {},
      at::TensorOptions().dtype(at::kByte).device(tensor.device()));
}

void check_reduction(const at::Tensor& tensor, ReduceOp op) {
  const bool is_whole = at::isIntegralType(tensor.scalar_type(), /*includeBool=*/true);
  if (op == ReduceOp::mean && is_whole) {
    throw_no_reduction(tensor, op,
                       "a mean has fractions, which this dtype cannot hold. Convert the tensor "
                       "first, as by to(at::kDouble), or reduce by ReduceOp::sum");
  }
  if (is_bitwise(op) && !is_whole) {
    throw_no_reduction(
        tensor, op,
        "it works on the bits of integers and bool. Else allowed are sum, mean, min, "
        "max and product");
  }
  if (tensor.is_complex() && op != ReduceOp::sum && op != ReduceOp::mean) {
    throw_no_reduction(tensor, op,
                       "complex numbers have no such reduction; allowed are sum and mean");
  }
}

at::ScalarType accumulation_type(at::ScalarType dtype, ReduceOp op) {
  const bool rounds = op == ReduceOp::sum || op == ReduceOp::mean || op == ReduceOp::product;
  if (!rounds) return dtype;
  if (dtype == at::kComplexHalf) return at::kComplexFloat;
  const bool is_narrow = at::isFloatingType(dtype) && c10::elementSize(dtype) < sizeof(float);
  return is_narrow ? at::kFloat : dtype;
}

c10d::ReduceOp c10d_op(ReduceOp op, bool has_mean) {
  if (op == ReduceOp::mean && !has_mean) op = ReduceOp::sum;
  return kC10dOps[static_cast<std::size_t>(op)];
}

ReduceOp op_of_c10d(const c10d::ReduceOp& op) {
  const c10d::ReduceOp::RedOpType type = op;
  const auto found = std::ranges::find(kC10dOps, type);
  if (found != kC10dOps.end()) return static_cast<ReduceOp>(found - kC10dOps.begin());
  throw UsageError(
      "the shared-memory collectives reduce by SUM, AVG, MIN, MAX, PRODUCT, BAND, BOR and BXOR, "
      "not "
      "by PREMUL_SUM");
}

Staged stage_for_reduction(const at::Tensor& tensor, ReduceOp op, int size,
                           c10::DeviceType device) {
  check_communicable(tensor, device);
  check_reduction(tensor, op);
  if (is_bitwise(op) && device != c10::kCPU) {
    throw_no_reduction(tensor, op,
                       "NCCL has no such reduction; allowed are sum, mean, min, max and product, "
                       "or a tensor on the CPU");
  }
  const at::Tensor staged = stage(tensor, op);
  const bool mean = op == ReduceOp::mean && size > 1;
  const bool copied = !staged.is_alias_of(tensor);
  if (!mean && !copied) return {staged, {}};
  const bool turned = needs_order_of_unsigned(tensor, op);
  return {staged, [tensor, staged, mean, copied, turned, size] {
            const at::NoGradGuard no_grad;
            if (mean) at::Tensor(staged).div_(size);
            if (copied) at::Tensor(tensor).copy_(turned ? with_first_bit_turned(staged) : staged);
          }};
}

}  // namespace accelerate::detail
