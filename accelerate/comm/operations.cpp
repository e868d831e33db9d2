#include "accelerate/comm/operations.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <functional>
#include <sstream>

#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/comm/communicable_tensors.h"

namespace accelerate {
namespace detail {
namespace {

at::Tensor bytes_of(Communicator& communicator, const std::string& text, std::size_t length) {
  at::Tensor bytes = communicator.empty({static_cast<int64_t>(length)}, at::kByte);
  auto* const end = std::copy(text.begin(), text.end(), bytes.mutable_data_ptr<uint8_t>());
  std::fill(end, bytes.mutable_data_ptr<uint8_t>() + length, uint8_t{0});
  return bytes;
}

std::string text_of(const at::Tensor& bytes) {
  const auto* data = bytes.const_data_ptr<uint8_t>();
  return {data, data + bytes.numel()};
}

// Returns the ranks' rows as [ranks, elements of a row].
at::Tensor all_gather_rows(Communicator& communicator, const at::Tensor& row) {
  at::Tensor rows = at::empty({communicator.size(), row.numel()}, row.options());
  communicator.all_gather(rows, row).wait();
  return rows;
}

std::vector<std::string> gather_texts(Communicator& communicator, const std::string& text) {
  const auto lengths =
      all_gather_rows(communicator, at::full({1}, static_cast<int64_t>(text.size()), at::kLong));
  const auto longest = lengths.max().item<int64_t>();
  std::vector<std::string> texts(static_cast<std::size_t>(communicator.size()));
  if (longest == 0) return texts;
  const auto rows = all_gather_rows(
      communicator, bytes_of(communicator, text, static_cast<std::size_t>(longest)));
  for (int rank = 0; rank < communicator.size(); ++rank) {
    texts[static_cast<std::size_t>(rank)] =
        text_of(rows[rank].narrow(0, 0, lengths[rank].item<int64_t>()));
  }
  return texts;
}

std::string describe_all(const Tensors& tensors) {
  std::string text;
  for (const auto& tensor : tensors) text += (text.empty() ? "" : ", ") + describe_tensor(tensor);
  return text.empty() ? "no tensors" : text;
}

std::size_t common_prefix(const std::vector<std::string>& texts) {
  std::size_t length = texts.front().size();
  for (const auto& text : texts) {
    const auto end =
        std::mismatch(texts.front().begin(), texts.front().end(), text.begin(), text.end());
    length = std::min(length, static_cast<std::size_t>(end.first - texts.front().begin()));
  }
  return length;
}

// Shortens a long text to what is around `place`, where the ranks begin to differ.
std::string around(const std::string& text, std::size_t place) {
  constexpr std::size_t kShort = 400, kBefore = 120;
  if (text.size() <= kShort) return text;
  const std::size_t begin = place > kBefore ? place - kBefore : 0;
  const std::string shown = text.substr(begin, kShort);
  return (begin > 0 ? "… " : "") + shown + (begin + kShort < text.size() ? " …" : "");
}

at::Tensor to_cpu(const at::Tensor& tensor) {
  if (tensor.layout() != at::kStrided) {
    throw UsageError("only dense tensors can be exchanged between ranks, and this one is " +
                     c10::str(tensor.layout()) + ": call to_dense() first");
  }
  if (tensor.is_meta()) {
    throw UsageError(describe_tensor(tensor) +
                     " on the device meta has no values to exchange: give it some first");
  }
  return tensor.detach().resolve_conj().resolve_neg().to(at::kCPU).contiguous();
}

// Called after the handshake: if only some ranks had an undefined tensor, all ranks have thrown a
// CommError by then.
void check_defined(const Tensors& tensors, const char* operation) {
  for (const auto& tensor : tensors) {
    if (!tensor.defined()) {
      throw UsageError(std::string(operation) +
                       " was given a value that holds an undefined tensor");
    }
  }
}

bool is_whole(double number) {
  return std::trunc(number) == number && std::abs(number) < 0x1p63;
}

// Integers are multiplied by whole numbers only: anything else would lose the fraction in silence.
void check_scale(const at::Tensor& tensor, double scale) {
  const auto dtype = tensor.scalar_type();
  if (scale == 1.0 || !at::isIntegralType(dtype, /*includeBool=*/true)) return;
  if (dtype != at::kBool && is_whole(scale)) return;
  std::ostringstream text;
  text << "reduce was given " << describe_tensor(tensor) << " and the scale " << scale << ", but "
       << (dtype == at::kBool ? "truth values have no scale" : "the result may have fractions")
       << ". Convert the tensor first, as by to(at::kDouble)"
       << (dtype == at::kBool ? "" : ", or scale by a whole number");
  throw UsageError(text.str());
}

at::Tensor scaled(const at::Tensor& tensor, double scale) {
  if (scale == 1.0) return tensor;
  if (!at::isIntegralType(tensor.scalar_type(), /*includeBool=*/false)) return tensor * scale;
  return tensor.to(at::kLong) * static_cast<int64_t>(scale);  // A double would round large numbers.
}

// Without this check LibTorch would cut the fraction off, or say `overflow` in words of its own.
void check_padding(const Tensors& tensors, double pad_index) {
  for (const auto& tensor : tensors) {
    const auto dtype = tensor.scalar_type();
    if (!at::isIntegralType(dtype, /*includeBool=*/true)) continue;
    const at::Tensor stored = at::full({}, is_whole(pad_index) ? pad_index : 0.0, at::kDouble);
    if (stored.to(dtype).to(at::kDouble).item<double>() == pad_index) continue;
    std::ostringstream text;
    text << "pad_across_processes was given " << describe_tensor(tensor) << " and the pad_index "
         << pad_index << ", which this dtype does not hold. Choose a number that it holds, or "
         << "convert the tensor first";
    throw UsageError(text.str());
  }
}

at::Tensor pad_one(const at::Tensor& tensor, int64_t dim, int64_t size, const PadOptions& options) {
  if (tensor.size(dim) == size) return tensor;
  auto shape = tensor.sizes().vec();
  shape[static_cast<std::size_t>(dim)] = size;
  at::Tensor padded = at::full(shape, options.pad_index, tensor.options());
  const int64_t start = options.pad_first ? size - tensor.size(dim) : 0;
  padded.narrow(dim, start, tensor.size(dim)).copy_(tensor);
  return padded;
}

// Returns the dimension to pad, or -1 for a tensor without that dimension.
int64_t pad_dimension(const at::Tensor& tensor, int64_t dim) {
  const int64_t wrapped = dim < 0 ? dim + tensor.dim() : dim;
  return wrapped >= 0 && wrapped < tensor.dim() ? wrapped : -1;
}

// As describe_all, but the dimension to pad counts as 0, so that it may differ between ranks.
std::string describe_for_padding(const Tensors& tensors, int64_t dim) {
  Tensors open;
  for (const auto& tensor : tensors) {
    const int64_t at_dim = tensor.defined() ? pad_dimension(tensor, dim) : -1;
    open.push_back(at_dim < 0 ? tensor : tensor.narrow(at_dim, 0, 0));
  }
  return describe_all(open);
}

// Returns `text`, which lists tensors as "Float[2, 3]", without their dtypes, or else without their
// sizes; all dimensions stay, as in "Float[#, #]".
std::string without_dtypes(const std::string& text) {
  std::string kept;
  for (const char c : text) {
    while (c == '[' && !kept.empty() && (std::isalnum(kept.back()) != 0 || kept.back() == '_')) {
      kept.pop_back();
    }
    kept += c;
  }
  return kept;
}
std::string without_sizes(const std::string& text) {
  std::string kept;
  bool inside = false;
  for (const char c : text) {
    inside = c == '[' || (inside && c != ']');
    const bool is_digit = inside && std::isdigit(c) != 0;
    if (!is_digit || kept.back() != '#') kept += is_digit ? '#' : c;
  }
  return kept;
}

bool are_alike(const std::vector<std::string>& all, std::string (*reading)(const std::string&)) {
  return std::ranges::all_of(
      all, [&](const std::string& one) { return reading(one) == reading(all.front()); });
}
std::string without_both(const std::string& text) {
  return without_sizes(without_dtypes(text));
}

// Returns the cure where one is plain: the ranks' tensors are as many, with as many dimensions.
std::string cure_of(const std::string& operation, const std::vector<std::string>& all) {
  if (!are_alike(all, without_both)) return "";
  std::string cure;
  if (!are_alike(all, without_sizes)) {
    cure += "\nTensors of unequal dtype: convert them to one dtype first, as by to(at::kFloat).";
  }
  if (operation == "gather" && !are_alike(all, without_dtypes)) {
    cure += "\nTensors of unequal size: call pad_across_processes first.";
  }
  return cure;
}

}  // namespace

void throw_disagreement(const std::string& operation, const std::vector<std::string>& all) {
  std::string text = operation +
                     ": the ranks do not agree on what is to be exchanged; all must bring the "
                     "same operation, structure, dtypes and shapes:";
  const std::size_t same = common_prefix(all);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    text += "\n  rank " + std::to_string(rank) + ": " + around(all[rank], same);
  }
  throw CommError(text + cure_of(operation, all), error_name::kDifferentShapes);
}

std::vector<std::string> texts_that_differ(Communicator& communicator, const std::string& mine) {
  if (communicator.size() == 1) return {};
  const auto digest = at::empty({2}, at::kLong);
  digest[0] = static_cast<int64_t>(std::hash<std::string>{}(mine));
  digest[1] = static_cast<int64_t>(mine.size());
  const auto digests = all_gather_rows(communicator, digest);
  if (digests.eq(digest).all().item<bool>()) return {};
  return gather_texts(communicator, mine);
}

void require_agreement(Communicator& communicator, const std::string& operation,
                       const std::string& description) {
  const auto all = texts_that_differ(communicator, operation + " of " + description);
  if (!all.empty()) throw_disagreement(operation, all);
}

Tensors gather(Communicator& communicator, const Tensors& tensors) {
  require_agreement(communicator, "gather", describe_all(tensors));
  check_defined(tensors, "gather");
  Tensors results;
  std::vector<Work> pending;
  for (const auto& tensor : tensors) {
    const at::Tensor input = to_cpu(tensor.dim() == 0 ? tensor.reshape({1}) : tensor);
    auto shape = input.sizes().vec();
    shape[0] *= communicator.size();
    results.push_back(at::empty(shape, input.options()));
    pending.push_back(communicator.all_gather(results.back(), input));
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    pending[i].wait();
    results[i] = results[i].to(tensors[i].device());
  }
  return results;
}

Tensors reduce(Communicator& communicator, const Tensors& tensors, ReduceOp op, double scale) {
  require_agreement(communicator, "reduce(" + std::string(to_string(op)) + ")",
                    describe_all(tensors));
  check_defined(tensors, "reduce");
  for (const auto& tensor : tensors) {
    check_reduction(tensor, op);
    check_scale(tensor, scale);
  }
  Tensors results;
  std::vector<Work> pending;
  for (const auto& tensor : tensors) {
    results.push_back(to_cpu(tensor).to(accumulation_type(tensor.scalar_type(), op),
                                        /*non_blocking=*/false, /*copy=*/true));
    pending.push_back(communicator.all_reduce(results.back(), op));
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    pending[i].wait();
    results[i] = scaled(results[i], scale).to(tensors[i].options());
  }
  return results;
}

Tensors broadcast(Communicator& communicator, const Tensors& tensors, int source) {
  require_agreement(communicator, "broadcast from rank " + std::to_string(source),
                    describe_all(tensors));
  check_defined(tensors, "broadcast");
  Tensors results;
  std::vector<Work> pending;
  for (const auto& tensor : tensors) {
    results.push_back(to_cpu(tensor).clone());
    pending.push_back(communicator.broadcast(results.back(), source));
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    pending[i].wait();
    results[i] = results[i].to(tensors[i].device());
  }
  return results;
}

Tensors pad_across_processes(Communicator& communicator, const Tensors& tensors,
                             const PadOptions& options) {
  require_agreement(communicator, "pad_across_processes along dim " + std::to_string(options.dim),
                    describe_for_padding(tensors, options.dim));
  check_defined(tensors, "pad_across_processes");
  check_padding(tensors, options.pad_index);
  const auto count = static_cast<int64_t>(tensors.size());
  at::Tensor sizes = at::zeros({count}, at::kLong);
  for (int64_t i = 0; i < count; ++i) {
    const auto& tensor = tensors[static_cast<std::size_t>(i)];
    const int64_t dim = pad_dimension(tensor, options.dim);
    if (dim >= 0) sizes[i] = tensor.size(dim);
  }
  communicator.all_reduce(sizes, ReduceOp::max).wait();
  Tensors results;
  for (int64_t i = 0; i < count; ++i) {
    const auto& tensor = tensors[static_cast<std::size_t>(i)];
    const int64_t dim = pad_dimension(tensor, options.dim);
    results.push_back(dim < 0 ? tensor : pad_one(tensor, dim, sizes[i].item<int64_t>(), options));
  }
  return results;
}

Tensors slice(const Tensors& tensors, int64_t begin, int64_t end) {
  Tensors results;
  for (const auto& tensor : tensors) results.push_back(tensor.slice(0, begin, end));
  return results;
}

}  // namespace detail

std::vector<std::string> gather_bytes(Communicator& communicator, const std::string& bytes) {
  detail::require_agreement(communicator, "gather_object", "objects");
  return detail::gather_texts(communicator, bytes);
}

void refuse_together(Communicator& communicator, const std::string& reason) {
  const auto reasons = gather_bytes(communicator, reason);
  const auto found = std::ranges::find_if_not(reasons, &std::string::empty);
  if (found == reasons.end()) return;
  throw UsageError("rank " + std::to_string(found - reasons.begin()) + ": " + *found);
}

std::string broadcast_bytes(Communicator& communicator, const std::string& bytes, int source) {
  detail::require_agreement(communicator, "broadcast_object from rank " + std::to_string(source),
                            "objects");
  at::Tensor length = at::full({1}, static_cast<int64_t>(bytes.size()), at::kLong);
  communicator.broadcast(length, source).wait();
  const auto size = static_cast<std::size_t>(length.item<int64_t>());
  at::Tensor data =
      detail::bytes_of(communicator, communicator.rank() == source ? bytes : std::string(), size);
  communicator.broadcast(data, source).wait();
  return detail::text_of(data);
}

}  // namespace accelerate
