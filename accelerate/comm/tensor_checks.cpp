#include "accelerate/comm/tensor_checks.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <algorithm>
#include <sstream>
#include <string>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/comm/communicable_tensors.h"
#include "accelerate/comm/operations.h"

namespace accelerate {
namespace {

// Returns dtype and sizes, e.g. "6 3 4"; empty for an undefined tensor.
std::string form_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return "";
  std::string form = std::to_string(static_cast<int>(tensor.scalar_type()));
  for (const auto size : tensor.sizes()) form += " " + std::to_string(size);
  return form;
}

at::Tensor empty_of(const std::string& form) {
  std::istringstream words(form);
  int dtype = 0;
  words >> dtype;
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = 0; words >> size;) sizes.push_back(size);
  return at::empty(sizes, static_cast<at::ScalarType>(dtype));
}

}  // namespace

void require_device(const std::vector<at::Tensor>& tensors, c10::Device device,
                    const std::string& operation) {
  for (const auto& tensor : tensors) {
    if (!tensor.defined() || tensor.device().type() == device.type()) continue;
    throw UsageError(operation + " was given a tensor on " + tensor.device().str() +
                     ", but the Accelerator computes on " + device.str() +
                     ": move it there first, by send_to_device(value, accelerator.device()). (" +
                     "Checked because ACCELERATE_DEBUG_MODE is on.)");
  }
}

at::Tensor copy_tensor_to_devices(Communicator& communicator, const at::Tensor& tensor) {
  const auto forms = gather_bytes(communicator, form_of(tensor));
  std::vector<std::string> holders;
  int source = 0;
  for (int rank = 0; rank < communicator.size(); ++rank) {
    if (forms[static_cast<std::size_t>(rank)].empty()) continue;
    holders.push_back(std::to_string(rank));
    source = rank;
  }
  if (holders.size() != 1) {
    throw CommError(
        "copy_tensor_to_devices: one rank must bring a tensor and the others none, but " +
        (holders.empty() ? "none brought one"
                         : "ranks " + join(holders, ", ") + " brought one each"));
  }
  const at::Tensor mine = communicator.rank() == source
                              ? tensor.detach().cpu().contiguous()
                              : empty_of(forms[static_cast<std::size_t>(source)]);
  communicator.broadcast(mine, source).wait();
  return mine;
}

}  // namespace accelerate

namespace accelerate::detail {

void check_peer(int rank, int size) {
  if (rank < 0 || rank >= size) {
    throw UsageError("rank " + std::to_string(rank) + " was named in a group of " +
                     std::to_string(size) + " ranks, which are 0 to " + std::to_string(size - 1));
  }
}

void check_members(const std::vector<int>& ranks, int size) {
  for (const int rank : ranks) {
    check_peer(rank, size);
    if (std::count(ranks.begin(), ranks.end(), rank) > 1) {
      throw UsageError("split: rank " + std::to_string(rank) + " is named more than once");
    }
  }
}

void check_parts(const char* what, const at::Tensor& part, const at::Tensor& whole, int size) {
  if (whole.numel() != part.numel() * size || whole.scalar_type() != part.scalar_type()) {
    throw UsageError(std::string(what) + ": the whole is " + describe_tensor(whole) +
                     " and a part is " + describe_tensor(part) + ", but the whole must be " +
                     std::to_string(size) + " parts of the same dtype");
  }
}

}  // namespace accelerate::detail
