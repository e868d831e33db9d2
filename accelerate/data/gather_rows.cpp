#include <ATen/Utils.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/index_select.h>

#include <cstring>

#include "accelerate/data/collate.h"

namespace accelerate::detail {
namespace {

// Rows that are not 1, 2, 4 or 8 bytes long are copied one by one. While one is copied, the memory
// fetches the next ones.
constexpr std::size_t kAhead = 8;
constexpr std::size_t kCacheLine = 64;

void prefetch_row(const char* row, std::size_t bytes) {
  for (std::size_t offset = 0; offset < bytes; offset += kCacheLine) {
    __builtin_prefetch(row + offset);
  }
}

// A compiler turns copies of a known size into loads and stores, however the rows are aligned.
template <std::size_t kBytes>
void copy_words(char* to, const char* from, std::span<const std::size_t> indices) {
  for (std::size_t index : indices) {
    std::memcpy(to, from + index * kBytes, kBytes);
    to += kBytes;
  }
}

void copy_rows(char* to, const char* from, std::span<const std::size_t> indices,
               std::size_t bytes) {
  for (std::size_t i = 0; i < indices.size(); ++i, to += bytes) {
    if (i + kAhead < indices.size()) prefetch_row(from + indices[i + kAhead] * bytes, bytes);
    std::memcpy(to, from + indices[i] * bytes, bytes);
  }
}

void copy(char* to, const char* from, std::span<const std::size_t> indices, std::size_t bytes) {
  switch (bytes) {
    case 1:
      return copy_words<1>(to, from, indices);
    case 2:
      return copy_words<2>(to, from, indices);
    case 4:
      return copy_words<4>(to, from, indices);
    case 8:
      return copy_words<8>(to, from, indices);
    default:
      return copy_rows(to, from, indices, bytes);
  }
}

// Whether rows are consecutive bytes in plain memory.
bool is_plain(const at::Tensor& tensor) {
  return tensor.is_cpu() && tensor.layout() == at::kStrided && tensor.is_contiguous() &&
         !tensor.is_conj() && !tensor.is_neg() && !tensor.is_quantized();
}

at::Tensor select(const at::Tensor& tensor, std::span<const std::size_t> indices) {
  // index_select only reads the indices, and the tensor around them does not outlive this call.
  auto* data = const_cast<std::size_t*>(indices.data());
  at::Tensor rows = at::from_blob(data, {static_cast<std::int64_t>(indices.size())}, at::kLong);
  if (!tensor.device().is_cpu()) rows = rows.to(tensor.device());
  return at::index_select(tensor, 0, rows);
}

}  // namespace

at::Tensor gather_rows(const at::Tensor& tensor, std::span<const std::size_t> indices) {
  if (!is_plain(tensor)) return select(tensor, indices);
  at::DimVector sizes(tensor.sizes());
  sizes[0] = static_cast<std::int64_t>(indices.size());
  at::Tensor rows = at::empty(sizes, tensor.options().requires_grad(false));
  if (rows.numel() == 0) return rows;
  const std::size_t bytes = rows.nbytes() / indices.size();
  copy(static_cast<char*>(rows.mutable_data_ptr()),
       static_cast<const char*>(tensor.const_data_ptr()), indices, bytes);
  return rows;
}

}  // namespace accelerate::detail
