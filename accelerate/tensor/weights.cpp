#include "accelerate/tensor/weights.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <sstream>
#include <string>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/formats/weights/mapped_weights.h"
#include "accelerate/tensor/scalar_type.h"
#include "accelerate/tensor/stored_values.h"

namespace accelerate {
namespace {

// Says why the elements of a tensor cannot be read from memory one by one; "" if they can.
std::string no_plain_elements(const at::Tensor& tensor) {
  if (!tensor.defined()) return "the tensor is undefined";
  if (tensor.is_meta())
    return "the tensor is on the meta device and has no data; give it some first, by to_empty() "
           "and a load";
  if (tensor.is_nested())
    return "the tensor is nested; pad it by to_padded_tensor(), or save its parts";
  if (tensor.layout() == at::kStrided) return "";
  std::ostringstream layout;
  layout << tensor.layout();
  return "the tensor is of the layout " + layout.str() +
         "; allowed is Strided: densify it by to_dense()";
}

TensorSpec spec_of(const NamedTensor& item) {
  if (const auto why = no_plain_elements(item.tensor); !why.empty())
    throw CheckpointError("cannot save '" + item.name + "': " + why);
  const auto type = item.tensor.scalar_type();
  return {item.name, to_dtype(type), to_stored_shape(type, item.tensor.sizes().vec())};
}

bool lies_row_major_on_cpu(const at::Tensor& tensor) {
  return tensor.is_cpu() && tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
}

at::Tensor row_major_on_cpu(const at::Tensor& tensor) {
  return tensor.detach().resolve_conj().resolve_neg().to(at::kCPU).contiguous();
}

// Returns a view of the mapping, or a copy if a foreign writer left the data unaligned.
at::Tensor stored_view(const StoredTensor& stored,
                       const std::shared_ptr<const FileContent>& content) try {
  const auto type = to_scalar_type(stored.dtype);
  const auto shape = from_stored_shape(stored.dtype, stored.shape);
  if (stored.bytes.empty()) return at::empty(shape, type);
  if (stored.aligned()) {
    return at::from_blob(
        const_cast<std::byte*>(stored.bytes.data()), shape, [content](void*) {}, type);
  }
  at::Tensor tensor = at::empty(shape, type);
  std::memcpy(tensor.mutable_data_ptr(), stored.bytes.data(), stored.bytes.size());
  return tensor;
} catch (const CheckpointError&) {
  throw_with_context<CheckpointError>("cannot load '" + stored.name + "'");
}

std::span<const std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

}  // namespace

std::vector<TensorSpec> tensor_specs(const std::vector<NamedTensor>& tensors) {
  std::vector<TensorSpec> specs;
  for (const auto& item : tensors) specs.push_back(spec_of(item));
  return specs;
}

void for_each_piece(const at::Tensor& tensor,
                    const std::function<void(std::span<const std::byte>)>& visit) {
  constexpr std::size_t kPieceBytes = std::size_t{16} << 20;
  if (lies_row_major_on_cpu(tensor)) return visit(bytes_of(tensor));
  if (tensor.nbytes() <= kPieceBytes) return visit(bytes_of(row_major_on_cpu(tensor)));
  const std::size_t row_bytes = tensor.nbytes() / static_cast<std::size_t>(tensor.size(0));
  const auto rows = std::max(std::int64_t{1}, static_cast<std::int64_t>(kPieceBytes / row_bytes));
  for (std::int64_t row = 0; row < tensor.size(0); row += rows) {
    if (rows == 1) {
      for_each_piece(tensor.select(0, row), visit);
    } else {
      for_each_piece(tensor.narrow(0, row, std::min(rows, tensor.size(0) - row)), visit);
    }
  }
}

std::vector<WeightSource> weight_sources(const std::vector<NamedTensor>& tensors) {
  std::vector<WeightSource> sources;
  for (const auto& item : tensors)
    sources.push_back({spec_of(item), [tensor = item.tensor](const ByteSink& sink) {
                         for_each_piece(tensor, sink);
                       }});
  return sources;
}

void save_tensors(const std::vector<NamedTensor>& tensors, const std::filesystem::path& file,
                  FileSystem& files, const AtomicFileOptions& options) {
  write_weights_file(weight_sources(tensors), file, {.file = options}, files);
}

std::vector<NamedTensor> map_tensors(const std::filesystem::path& file, FileSystem& files) {
  const auto weights = SafetensorsFile::open(file, files);
  std::vector<NamedTensor> tensors;
  for (const auto& stored : weights.tensors())
    tensors.push_back({stored.name, stored_view(stored, weights.content())});
  return tensors;
}

std::vector<NamedTensor> load_tensors(const std::filesystem::path& file, FileSystem& files) {
  auto tensors = map_tensors(file, files);
  for (auto& [name, tensor] : tensors) tensor = tensor.clone();
  return tensors;
}

WeightReader map_weights(const std::filesystem::path& path, FileSystem& files) {
  const auto stored = std::make_shared<std::map<std::string, MappedWeight>>();
  WeightReader reader;
  for (auto& weight : map_weight_files(path, {}, files).weights) {
    try {
      reader.outlines.push_back({weight.name, outline_of(weight.tensor)});
    } catch (const CheckpointError&) {
      throw_with_context<CheckpointError>("cannot load '" + weight.name + "' of " + path.string());
    }
    stored->emplace(weight.name, std::move(weight));
  }
  reader.read = [stored](const std::string& name) {
    const MappedWeight& weight = stored->at(name);
    return tensor_view(weight.tensor, weight.content);
  };
  reader.read_range = [read = reader.read](const std::string& name, std::int64_t begin,
                                           std::int64_t numel) {
    return read(name).reshape({-1}).narrow(0, begin, numel);
  };
  return reader;
}

void save_weights(const std::vector<NamedTensor>& weights, const std::filesystem::path& folder,
                  std::uint64_t max_shard_bytes, FileSystem& files) {
  write_weights(weight_sources(weights), folder, {.max_shard_bytes = max_shard_bytes}, files);
}

}  // namespace accelerate
