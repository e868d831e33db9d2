#include "accelerate/tensor/compat/matrix_products.h"

#include <ATen/CPUFunctions.h>
#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"

namespace at::native {
// LibTorch exports it without a header. Writes alpha * left x right + beta * result to `result`;
// strides of transposed matrices are read in place. Weak: a LibTorch without it uses MKL alone.
__attribute__((weak)) void mkldnn_matmul(const Tensor& left, const Tensor& right,
                                         const Tensor& result, float beta, float alpha);
}  // namespace at::native

namespace accelerate::compat {
namespace {

constexpr auto kVariable = "ACCELERATE_CPU_MATMUL";
constexpr std::int64_t kFewestMultiplications = std::int64_t{1} << 20;
constexpr std::int64_t kLeastSize = 32;  // Of rows, columns, and what is summed.

thread_local bool is_in_scope = false;
// The backwards that began at extended results last; one may run within another. -1, as LibTorch
// counts, is none.
thread_local std::array<int, 8> extended_backwards{-1, -1, -1, -1, -1, -1, -1, -1};

void note_extended_backward() {
  std::ranges::rotate(extended_backwards, extended_backwards.begin() + 1);
  extended_backwards.back() = torch::autograd::get_current_graph_task_id();
}

bool is_plain_matrix(const at::Tensor& tensor, at::ScalarType type = at::kFloat) {
  return tensor.scalar_type() == type && tensor.layout() == at::kStrided && !tensor.is_conj() &&
         !tensor.is_neg();
}

// Whether left x right is a product for oneDNN. LibTorch's own kernel refuses shapes that do not
// fit.
bool is_for_onednn(const at::Tensor& left, const at::Tensor& right, std::int64_t dim,
                   at::ScalarType type = at::kFloat) {
  if (!MatrixProducts::are_wanted() || left.dim() != dim || right.dim() != dim) return false;
  if (!is_plain_matrix(left, type) || !is_plain_matrix(right, type)) return false;
  if (left.size(-1) != right.size(-2) || (dim == 3 && left.size(0) != right.size(0))) return false;
  const bool is_measured =
      left.size(-2) >= kLeastSize && left.size(-1) >= kLeastSize && right.size(-1) >= kLeastSize;
  return is_measured && left.numel() * right.size(-1) >= kFewestMultiplications &&
         at::globalContext().userEnabledMkldnn();
}

at::Tensor empty_product(const at::Tensor& left, const at::Tensor& right) {
  std::vector<std::int64_t> shape = left.sizes().vec();
  shape.back() = right.size(-1);
  return at::detail::empty_cpu(shape, left.options());
}

// Gives a thread that is new to LibTorch its number of threads.
void set_threads() {
  (void)at::get_num_threads();
}

// Writes alpha * left x right + beta * result to `result`.
void multiply(const at::Tensor& left, const at::Tensor& right, const at::Tensor& result, float beta,
              float alpha) {
  set_threads();
  at::native::mkldnn_matmul(left, right, result, beta, alpha);
}

at::Tensor product(const at::Tensor& left, const at::Tensor& right) {
  at::Tensor result = empty_product(left, right);
  multiply(left, right, result, 0, 1);
  return result;
}

at::Tensor product_and_sum(const at::Tensor& added, const at::Tensor& left, const at::Tensor& right,
                           const at::Scalar& beta, const at::Scalar& alpha) {
  at::Tensor result = empty_product(left, right);
  result.copy_(added.expand_as(result));
  multiply(left, right, result, beta.to<float>(), alpha.to<float>());
  return result;
}

// oneDNN returns at once if alpha is 0, and reads what beta, if it is 0, must hide.
bool is_sum_for_onednn(const at::Tensor& added, const at::Tensor& left, const at::Tensor& right,
                       std::int64_t dim, const at::Scalar& beta, const at::Scalar& alpha) {
  return is_for_onednn(left, right, dim) && is_plain_matrix(added) && added.dim() <= dim &&
         beta.to<float>() != 0 && alpha.to<float>() != 0;
}

at::Tensor mm(const at::Tensor& left, const at::Tensor& right) {
  return is_for_onednn(left, right, 2) ? product(left, right) : at::cpu::mm(left, right);
}

at::Tensor bmm(const at::Tensor& left, const at::Tensor& right) {
  return is_for_onednn(left, right, 3) ? product(left, right) : at::cpu::bmm(left, right);
}

using Linear = at::Tensor(const at::Tensor& input, const at::Tensor& weight,
                          const std::optional<at::Tensor>& bias, std::string_view after,
                          c10::List<std::optional<at::Scalar>> scalars,
                          std::optional<std::string_view> algorithm);

// LibTorch's operator that has oneDNN add the bias within the product; null if there is none.
const c10::TypedOperatorHandle<Linear>* linear_operator() {
  using Found = std::optional<c10::TypedOperatorHandle<Linear>>;
  static const Found found = []() -> Found {
    const auto schema = c10::Dispatcher::singleton().findSchema({"mkldnn::_linear_pointwise", ""});
    if (!schema) return std::nullopt;
    try {
      return schema->typed<Linear>();
    } catch (const c10::Error&) {  // A LibTorch whose operator has other arguments.
      return std::nullopt;
    }
  }();
  return found ? &*found : nullptr;
}

// Whether this is a linear layer with a bias: the same bits as a product and a sum, 3 to 10% faster.
bool is_linear(const at::Tensor& bias, const at::Tensor& left, const at::Tensor& right,
               const at::Scalar& beta, const at::Scalar& alpha) {
  const auto type = left.scalar_type();
  return (type == at::kFloat || type == at::kBFloat16) && is_for_onednn(left, right, 2, type) &&
         is_plain_matrix(bias, type) && bias.dim() == 1 && bias.size(0) == right.size(1) &&
         bias.is_contiguous() && left.is_contiguous() && right.t().is_contiguous() &&
         beta.to<double>() == 1 && alpha.to<double>() == 1 && linear_operator() != nullptr;
}

at::Tensor addmm(const at::Tensor& added, const at::Tensor& left, const at::Tensor& right,
                 const at::Scalar& beta, const at::Scalar& alpha) {
  if (is_linear(added, left, right, beta, alpha)) {
    set_threads();
    return linear_operator()->call(left, right.t(), added, /*after=*/"none",
                                   c10::List<std::optional<at::Scalar>>(), /*algorithm=*/"");
  }
  if (!is_sum_for_onednn(added, left, right, 2, beta, alpha))
    return at::cpu::addmm(added, left, right, beta, alpha);
  return product_and_sum(added, left, right, beta, alpha);
}

at::Tensor baddbmm(const at::Tensor& added, const at::Tensor& left, const at::Tensor& right,
                   const at::Scalar& beta, const at::Scalar& alpha) {
  if (!is_sum_for_onednn(added, left, right, 3, beta, alpha))
    return at::cpu::baddbmm(added, left, right, beta, alpha);
  return product_and_sum(added, left, right, beta, alpha);
}

class NoWarnings final : public c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

// Replaces LibTorch's kernels for the rest of the process; LibTorch warns of that on stderr.
bool replace_kernels() {
  NoWarnings quiet;
  const c10::WarningUtils::WarningHandlerGuard guard(&quiet);
  auto* library = new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::CPU, __FILE__,
                                     __LINE__);  // Lives until the process ends.
  library->impl("mm", TORCH_FN(mm));
  library->impl("bmm", TORCH_FN(bmm));
  library->impl("addmm", TORCH_FN(addmm));
  library->impl("baddbmm", TORCH_FN(baddbmm));
  return true;
}

bool has_onednn() {
  return &at::native::mkldnn_matmul != nullptr && at::globalContext().hasMKLDNN();
}

MatrixLibrary chosen_matrix_library() {
  const std::string word = env(kVariable).value_or("auto");
  if (word == "mkl") return MatrixLibrary::mkl;
  const Processor processor = this_processor();
  if (word == "auto") return has_onednn() ? faster_library(processor) : MatrixLibrary::mkl;
  if (word != "onednn") {
    throw ConfigError(std::string(kVariable) + " is '" + word +
                      "'; allowed are auto, mkl and onednn");
  }
  if (!has_onednn()) {
    throw ConfigError(std::string(kVariable) +
                      " is 'onednn', which this LibTorch does not have: set it to auto or mkl");
  }
  if (!processor.avx512) {
    throw ConfigError(std::string(kVariable) +
                      " is 'onednn', for which LibTorch needs a processor with AVX-512 (BW, DQ, "
                      "VL): set it to auto or mkl");
  }
  return MatrixLibrary::onednn;
}

}  // namespace

std::string to_string(MatrixLibrary library) {
  return library == MatrixLibrary::mkl ? "mkl" : "onednn";
}

// Measured by benchmarks/micro/products; docs/decisions/who_multiplies.md has the figures.
MatrixLibrary faster_library(const Processor& processor) {
  const bool is_measured = processor.vendor == "AuthenticAMD" && processor.family == 26;
  return is_measured && processor.avx512 ? MatrixLibrary::onednn : MatrixLibrary::mkl;
}

MatrixLibrary matrix_library() {
  static const MatrixLibrary library = chosen_matrix_library();
  return library;
}

MatrixProducts::MatrixProducts(bool wanted) : before_(is_in_scope) {
  if (!wanted || matrix_library() == MatrixLibrary::mkl) return;
  static const bool replaced = replace_kernels();
  is_in_scope = replaced;
}

MatrixProducts::~MatrixProducts() {
  is_in_scope = before_;
}

bool MatrixProducts::are_wanted() {
  if (is_in_scope) return true;
  if (extended_backwards.back() == -1) return false;
  const int backward = torch::autograd::get_current_graph_task_id();
  return backward != -1 &&
         std::ranges::find(extended_backwards, backward) != extended_backwards.end();
}

void MatrixProducts::extend_to_backward_of(const at::Tensor& result) {
  if (matrix_library() == MatrixLibrary::mkl || !result.defined() || !result.requires_grad() ||
      !result.is_cpu())
    return;
  result.register_hook([](const at::Tensor&) { note_extended_backward(); });
}

}  // namespace accelerate::compat
