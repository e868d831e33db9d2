#include "accelerate/data/collate.h"

#include <ATen/ops/empty.h>

#include <cstring>
#include <sstream>

#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"

namespace accelerate::detail {
namespace {

[[noreturn]] void throw_rows(std::size_t place, const at::Tensor& column, const at::Tensor& first) {
  std::ostringstream message;
  message << "tensor " << place << " of the dataset ";
  if (!column.defined()) {
    message << "is undefined";
  } else {
    message << "has shape " << column.sizes();
  }
  message << "; every tensor must have one row a sample";
  if (first.defined() && first.dim() > 0) message << "; tensor 0 has " << first.size(0) << " rows";
  message << ".";
  throw DataError(message.str());
}

}  // namespace

void throw_unlike_samples(std::size_t place) {
  throw DataError(
      "sample " + std::to_string(place) +
          " of the batch has other keys, or another number of tensors, than sample 0; give "
          "all samples the same, or pass a collate function that knows what to do.",
      error_name::kRaggedBatch);
}

at::Tensor tensor_of_values(const void* values, std::size_t count, at::ScalarType type) {
  at::Tensor tensor = at::empty({static_cast<std::int64_t>(count)}, at::TensorOptions(type));
  std::memcpy(tensor.data_ptr(), values, count * tensor.element_size());
  return tensor;
}

std::size_t common_rows(const std::vector<at::Tensor>& columns) {
  if (columns.empty())
    throw DataError("the dataset holds no tensor, so it has no samples to load.");
  for (std::size_t place = 0; place < columns.size(); ++place) {
    const at::Tensor& column = columns[place];
    if (!column.defined() || column.dim() == 0 || column.size(0) != columns[0].size(0)) {
      throw_rows(place, column, columns[0]);
    }
  }
  return static_cast<std::size_t>(columns[0].size(0));
}

}  // namespace accelerate::detail
