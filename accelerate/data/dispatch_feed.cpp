#include "accelerate/data/dispatch_feed.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <algorithm>
#include <array>
#include <cstring>

#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/comm/communicator.h"

namespace accelerate::detail {
namespace {

constexpr std::int64_t kMark = 0x706574735f636361;  // "acc_step": tells a header from other bytes.
constexpr std::int64_t kMaxReasonBytes = 1 << 16;

at::Tensor bytes(std::int64_t count) {
  return at::empty({count}, at::kByte);
}

}  // namespace

struct DispatchChannel::Header {
  enum Kind : std::int64_t { kDealt, kFinished, kFailed };
  std::int64_t mark = kMark;
  std::int64_t step = 0;
  std::int64_t kind = kDealt;
  std::int64_t bytes = 0;  // Size of each part, or of the reason.
  std::int64_t last = 0;
  std::int64_t remainder = -1;
  std::int64_t step_samples = -1;
  std::int64_t step_ranks = 0;
};

DispatchChannel::DispatchChannel(std::shared_ptr<Communicator> communicator)
    : communicator_(std::move(communicator)) {}

int DispatchChannel::rank() const {
  return communicator_->rank();
}
int DispatchChannel::size() const {
  return communicator_->size();
}

void DispatchChannel::send(Header header) {
  header.step = step_++;
  const at::Tensor message = bytes(sizeof(Header));
  std::memcpy(message.mutable_data_ptr(), &header, sizeof(Header));
  communicator_->broadcast(message, 0).wait();
}

void DispatchChannel::deal(const std::vector<ParcelWriter>& parts, const LoaderProgress& progress) {
  std::size_t longest = 0;
  for (const ParcelWriter& part : parts) longest = std::max(longest, part.size());
  const auto size = static_cast<std::int64_t>(longest);
  send({.kind = Header::kDealt,
        .bytes = size,
        .last = progress.end_of_dataloader ? 1 : 0,
        .remainder = progress.remainder,
        .step_samples = progress.step_samples,
        .step_ranks = progress.step_ranks});
  // The parts lie one after the other, in memory that the ranks can take them from.
  const auto all = communicator_->empty({static_cast<std::int64_t>(parts.size()), size}, at::kByte);
  const std::vector<at::Tensor> parcels = all.unbind();
  for (std::size_t rank = 1; rank < parts.size(); ++rank) parts[rank].pack(parcels[rank]);
  communicator_->scatter(parcels[0], parcels, 0).wait();
}

void DispatchChannel::finish() {
  send({.kind = Header::kFinished});
}

void DispatchChannel::fail(const std::string& reason) {
  const std::string text = reason.substr(0, kMaxReasonBytes);
  send({.kind = Header::kFailed, .bytes = static_cast<std::int64_t>(text.size())});
  const at::Tensor message = bytes(static_cast<std::int64_t>(text.size()));
  std::memcpy(message.mutable_data_ptr(), text.data(), text.size());
  communicator_->broadcast(message, 0).wait();
}

std::optional<DispatchChannel::Received> DispatchChannel::receive() {
  const at::Tensor message = bytes(sizeof(Header));
  communicator_->broadcast(message, 0).wait();
  Header header;
  std::memcpy(&header, message.const_data_ptr(), sizeof(Header));
  if (header.mark != kMark || header.step != step_++ || header.bytes < 0) {
    throw CommError(
        "rank 0 did not send the batch that is due; all ranks must go through a loader with "
        "dispatch_batches together, batch by batch.");
  }
  if (header.kind == Header::kFinished) return std::nullopt;
  const at::Tensor received = bytes(header.bytes);
  if (header.kind == Header::kFailed) {
    communicator_->broadcast(received, 0).wait();
    throw DataError(
        "rank 0, which reads for all ranks (dispatch_batches), failed: " +
            std::string(static_cast<const char*>(received.const_data_ptr()), received.nbytes()),
        error_name::kSampleFailed);
  }
  communicator_->scatter(received, {}, 0).wait();
  return Received{received,
                  {.end_of_dataloader = header.last != 0,
                   .remainder = header.remainder,
                   .step_samples = header.step_samples,
                   .step_ranks = static_cast<int>(header.step_ranks)}};
}

void throw_not_portable() {
  throw UsageError(
      "the loader dispatches batches (dispatch_batches), but batches of this type cannot be sent "
      "to other ranks: "
      "give the type a visit_tensors (accelerate/tensor/nested.h) and a default constructor, or "
      "let each rank read its own batches (dispatch_batches = false).");
}

void throw_unlike_batches() {
  throw_with_context<DataError>(
      "the batches of a step cannot be dealt out together; pad them (pad_fn, e.g. PadToLongest), "
      "read whole steps as one batch (split_batches), or let each rank read its own "
      "(dispatch_batches = false)");
}

namespace {

bool has_dimension(const at::Tensor& tensor, std::int64_t dim) {
  return tensor.defined() && dim < tensor.dim();
}

at::Tensor padded(const at::Tensor& tensor, std::int64_t dim, std::int64_t length, double value) {
  auto sizes = tensor.sizes().vec();
  if (sizes[static_cast<std::size_t>(dim)] == length) return tensor;
  sizes[static_cast<std::size_t>(dim)] = length;
  at::Tensor result = at::full(sizes, value, tensor.options());
  result.narrow(dim, 0, tensor.size(dim)).copy_(tensor);
  return result;
}

}  // namespace

void pad_to_longest(const std::vector<std::vector<at::Tensor*>>& batches, std::int64_t dim,
                    double value) {
  if (dim < 1) {
    throw ConfigError("PadToLongest was given dim " + std::to_string(dim) +
                      "; dimension 0 counts samples, so it must be at least 1.");
  }
  for (std::size_t place = 0; place < batches.front().size(); ++place) {
    std::int64_t longest = 0;
    for (const auto& tensors : batches) {
      if (place >= tensors.size()) return;  // Joining the batches reports the error.
      if (!has_dimension(*tensors[place], dim)) continue;
      longest = std::max(longest, tensors[place]->size(dim));
    }
    for (const auto& tensors : batches) {
      at::Tensor& tensor = *tensors[place];
      if (has_dimension(tensor, dim)) tensor = padded(tensor, dim, longest, value);
    }
  }
}

}  // namespace accelerate::detail
