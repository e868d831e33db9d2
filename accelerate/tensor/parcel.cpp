#include "accelerate/tensor/parcel.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <cstring>

#include "accelerate/base/bytes.h"
#include "accelerate/base/error.h"

namespace accelerate::detail {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kMaxDimensions = 64;

[[noreturn]] void throw_damaged(const std::string& what) {
  throw CommError("what another rank sent is not the value that is expected here: " + what +
                  "; do all ranks run the same program?");
}

// Returns a dense copy on the CPU, or the tensor itself if it is already dense and on the CPU.
at::Tensor packable(const at::Tensor& tensor) {
  if (tensor.layout() != at::kStrided) {
    throw UsageError("only dense tensors can be sent to other ranks, and this one is " +
                     c10::str(tensor.layout()) + ": call to_dense() first");
  }
  return tensor.detach().resolve_conj().resolve_neg().to(at::kCPU).contiguous();
}

}  // namespace

void throw_tensor_count(std::size_t sent, std::size_t expected) {
  throw CommError("a struct arrived with " + std::to_string(sent) +
                  " tensors, but one that is default-constructed visits " +
                  std::to_string(expected) +
                  "; keep tensors whose number varies in a vector or map member and pass that");
}

void ParcelWriter::bytes(const void* data, std::size_t count) {
  structure_.append(static_cast<const char*>(data), count);
}

void ParcelWriter::tensor(const at::Tensor& tensor) {
  const auto defined = static_cast<std::uint8_t>(tensor.defined());
  bytes(&defined, 1);
  if (!tensor.defined()) return;
  tensors_.push_back(packable(tensor));
  const auto type = static_cast<std::uint8_t>(tensor.scalar_type());
  bytes(&type, 1);
  count(static_cast<std::size_t>(tensor.dim()));
  for (std::int64_t size : tensor.sizes()) count(static_cast<std::size_t>(size));
}

std::size_t ParcelWriter::size() const {
  std::size_t size = sizeof(std::size_t) + structure_.size();
  for (const at::Tensor& tensor : tensors_) size = round_up(size, kAlignment) + tensor.nbytes();
  return size;
}

void ParcelWriter::pack(const at::Tensor& out) const {
  auto* const begin = out.mutable_data_ptr<std::uint8_t>();
  const std::size_t length = structure_.size();
  std::memcpy(begin, &length, sizeof(length));
  std::memcpy(begin + sizeof(length), structure_.data(), length);
  std::size_t offset = sizeof(length) + length;
  for (const at::Tensor& tensor : tensors_) {
    offset = round_up(offset, kAlignment);
    if (tensor.nbytes() > 0) {
      std::memcpy(begin + offset, tensor.const_data_ptr(), tensor.nbytes());
    }
    offset += tensor.nbytes();
  }
}

ParcelReader::ParcelReader(at::Tensor parcel)
    : parcel_(std::move(parcel)), next_(sizeof(std::size_t)) {
  const auto available = static_cast<std::size_t>(parcel_.numel());
  std::size_t length = 0;
  if (available < sizeof(length)) throw_damaged(std::to_string(available) + " bytes came");
  std::memcpy(&length, parcel_.const_data_ptr<std::uint8_t>(), sizeof(length));
  if (length > available - sizeof(length)) {
    throw_damaged("its description needs " + std::to_string(length) + " bytes, but only " +
                  std::to_string(available - sizeof(length)) + " arrived");
  }
  data_ = end_ = sizeof(length) + length;
}

void ParcelReader::bytes(void* data, std::size_t count) {
  if (count > end_ - next_) throw_damaged("it ends too early");
  if (count > 0) std::memcpy(data, parcel_.const_data_ptr<std::uint8_t>() + next_, count);
  next_ += count;
}

std::size_t ParcelReader::count(std::size_t unit) {
  std::size_t value = 0;
  bytes(&value, sizeof(value));
  if (value > static_cast<std::size_t>(parcel_.numel()) / unit) {
    throw_damaged("it counts " + std::to_string(value) + " parts");
  }
  return value;
}

at::Tensor ParcelReader::tensor() {
  std::uint8_t defined = 0;
  std::uint8_t type = 0;
  bytes(&defined, 1);
  if (defined == 0) return {};
  bytes(&type, 1);
  if (type >= static_cast<std::uint8_t>(at::ScalarType::NumOptions)) throw_damaged("no such dtype");
  const auto dtype = static_cast<at::ScalarType>(type);
  std::vector<std::int64_t> sizes(count());
  if (sizes.size() > kMaxDimensions) throw_damaged("a tensor of too many dimensions");
  std::size_t length = c10::elementSize(dtype);
  for (std::int64_t& size : sizes) {
    bytes(&size, sizeof(size));
    if (size < 0 || __builtin_mul_overflow(length, static_cast<std::size_t>(size), &length)) {
      throw_damaged("a tensor of impossible shape");
    }
  }
  const std::size_t begin = round_up(data_, kAlignment);
  const auto available = static_cast<std::size_t>(parcel_.numel());
  if (length == 0) return at::empty(sizes, dtype);
  if (begin > available || length > available - begin) throw_damaged("a tensor is cut short");
  data_ = begin + length;
  return parcel_.narrow(0, static_cast<std::int64_t>(begin), static_cast<std::int64_t>(length))
      .view(dtype)
      .view(sizes);
}

}  // namespace accelerate::detail
