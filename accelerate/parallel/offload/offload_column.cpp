#include "accelerate/parallel/offload/offload_column.h"

#include <ATen/ops/from_blob.h>
#include <c10/core/ScalarType.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "accelerate/base/bytes.h"
#include "accelerate/base/file_error.h"

namespace accelerate::detail {
namespace {

std::vector<std::uint64_t> begins_of(std::size_t element_bytes, const SliceSizes& slices) {
  std::vector<std::uint64_t> begins = {0};
  for (const std::int64_t numel : slices) {
    const auto bytes = static_cast<std::uint64_t>(numel) * element_bytes;
    begins.push_back(begins.back() + round_up(bytes, std::uint64_t{DirectFile::kAlignment}));
  }
  return begins;
}

}  // namespace

FileMapping::FileMapping(const DirectFile& file) : bytes_(file.size_bytes()) {
  if (bytes_ == 0) return;
  void* memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file.descriptor(), 0);
  if (memory == MAP_FAILED) throw FileError("map", file.path(), errno);
  begin_ = static_cast<std::byte*>(memory);
  guard_.emplace(begin_, bytes_, file.descriptor(), file.path());
}

FileMapping::~FileMapping() {
  guard_.reset();
  if (begin_ != nullptr) ::munmap(begin_, bytes_);
}

OffloadColumn::OffloadColumn(const std::filesystem::path& path, at::ScalarType type,
                             const SliceSizes& slices)
    : type_(type),
      element_bytes_(c10::elementSize(type)),
      slices_(slices),
      begins_(begins_of(element_bytes_, slices)),
      file_(DirectFile::create(path, begins_.back())),
      mapping_(std::make_shared<FileMapping>(file_)) {}

at::Tensor OffloadColumn::tensor(std::size_t slice, std::int64_t begin, std::int64_t numel,
                                 std::shared_ptr<void> kept) const {
  return at::from_blob(
      mapping_->begin() + offset(slice, begin), {numel},
      [mapping = mapping_, kept = std::move(kept)](void*) {}, at::TensorOptions(type_));
}

std::uint64_t OffloadColumn::offset(std::size_t slice, std::int64_t element) const {
  return begins_[slice] + static_cast<std::uint64_t>(element) * element_bytes_;
}

std::optional<OffloadColumn::Position> OffloadColumn::find(const at::Tensor& tensor) const {
  if (!tensor.defined() || !tensor.is_cpu() || tensor.numel() == 0) return {};
  const auto* data = static_cast<const std::byte*>(tensor.const_data_ptr());
  if (data < mapping_->begin() || data >= mapping_->end()) return {};
  const auto offset = static_cast<std::uint64_t>(data - mapping_->begin());
  const auto next = std::ranges::upper_bound(begins_, offset);
  const auto slice = static_cast<std::size_t>(next - begins_.begin()) - 1;
  return Position{slice, static_cast<std::int64_t>((offset - begins_[slice]) / element_bytes_)};
}

std::uint64_t OffloadColumn::bytes_of(at::ScalarType type, const SliceSizes& slices) {
  return begins_of(c10::elementSize(type), slices).back();
}

}  // namespace accelerate::detail
