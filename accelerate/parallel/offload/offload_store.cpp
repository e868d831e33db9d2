#include "accelerate/parallel/offload/offload_store.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>
#include <sys/statvfs.h>

#include <atomic>
#include <cerrno>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "accelerate/base/aligned_bytes.h"
#include "accelerate/base/bytes.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/file_error.h"
#include "accelerate/base/file_system.h"
#include "accelerate/base/text.h"

namespace accelerate::detail {
namespace {

std::string name_of(OffloadStore::Kind kind, int number) {
  using enum OffloadStore::Kind;
  if (kind == parameters) return "parameters";
  if (kind == masters) return "masters";
  if (kind == gradients) return "gradients";
  if (kind == accumulated) return "accumulated_" + std::to_string(number);
  return "state_" + std::to_string(number);
}

std::string free_space(const std::filesystem::path& folder) {
  struct statvfs status{};
  if (::statvfs(folder.c_str(), &status) != 0) return "less is free";
  return format_bytes(static_cast<double>(status.f_bavail) * static_cast<double>(status.f_frsize)) +
         " are free";
}

std::unique_ptr<OffloadColumn> make_column(const std::filesystem::path& path, at::ScalarType type,
                                           const SliceSizes& slices) {
  try {
    return std::make_unique<OffloadColumn>(path, type, slices);
  } catch (const FileError& error) {
    if (error.error_number() != ENOSPC && error.error_number() != EDQUOT) throw;
    throw FileError("offload to", path,
                    "it takes " +
                        format_bytes(static_cast<double>(OffloadColumn::bytes_of(type, slices))) +
                        " on this rank, "
                        "and " +
                        free_space(path.parent_path()) +
                        ". Free space, name another folder, or train on more ranks",
                    error_name::kDiskFull);
  }
}

// The stores of this process.
class LiveStores {
 public:
  void add(const std::shared_ptr<OffloadStore>& store) {
    const std::lock_guard lock(mutex_);
    stores_.push_back(store);
    ++count_;
  }
  void remove() {
    const std::lock_guard lock(mutex_);
    std::erase_if(stores_, [](const auto& store) { return store.expired(); });
    --count_;
  }
  [[nodiscard]] std::shared_ptr<OffloadStore> find(const auto& is_it) {
    if (count_ == 0) return nullptr;
    const std::lock_guard lock(mutex_);
    for (const auto& weak : stores_) {
      if (auto store = weak.lock(); store && is_it(*store)) return store;
    }
    return nullptr;
  }

 private:
  std::atomic<int> count_ = 0;
  std::mutex mutex_;
  std::vector<std::weak_ptr<OffloadStore>> stores_;
};

LiveStores& live_stores() {
  static auto* const stores = new LiveStores;  // Outlives stores that end with the program.
  return *stores;
}

std::span<const std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

}  // namespace

OffloadStore::OffloadStore(const OffloadFolders& folders, const std::string& job, int rank,
                           SliceSizes slices)
    : slices_(std::move(slices)), known_types_(slices_.size()) {
  const auto make = [&](const std::filesystem::path& root) {
    return root.empty() ? nullptr : std::make_shared<OffloadFolder>(root, job, rank);
  };
  parameters_folder_ = make(folders.parameters);
  const bool one = !folders.parameters.empty() && folders.parameters == folders.optimizer;
  optimizer_folder_ = one ? parameters_folder_ : make(folders.optimizer);
}

std::shared_ptr<OffloadStore> OffloadStore::make(const OffloadFolders& folders,
                                                 const std::string& job, int rank,
                                                 SliceSizes slices) {
  std::shared_ptr<OffloadStore> store(new OffloadStore(folders, job, rank, std::move(slices)));
  live_stores().add(store);
  return store;
}

OffloadStore::~OffloadStore() {
  live_stores().remove();
}

std::shared_ptr<OffloadStore> OffloadStore::holding(const at::Tensor& tensor) {
  return live_stores().find([&](const OffloadStore& store) { return store.holds(tensor); });
}

std::shared_ptr<OffloadStore> OffloadStore::keeping_state_of(const at::Tensor& parameter) {
  return live_stores().find(
      [&](const OffloadStore& store) { return store.keeps_state_of(parameter); });
}

const OffloadFolder* OffloadStore::folder_of(Kind kind) const {
  return (kind == Kind::parameters ? parameters_folder_ : optimizer_folder_).get();
}

bool OffloadStore::keeps(Kind kind) const {
  return folder_of(kind) != nullptr;
}

// --- columns -------------------------------------------------------------------------------------

void OffloadStore::add(Kind kind, int number,
                       const std::vector<std::optional<at::ScalarType>>& types) {
  std::map<at::ScalarType, SliceSizes> wanted;
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (!types[i]) continue;
    auto& sizes = wanted.try_emplace(*types[i], slices_.size()).first->second;
    sizes[i] = slices_[i];
  }
  for (const auto& [type, sizes] : wanted) {
    const std::string name = name_of(kind, number) + "." + c10::toString(type);
    columns_.emplace(Key{kind, number, type},
                     make_column(folder_of(kind)->path() / name, type, sizes));
  }
}

const OffloadColumn* OffloadStore::column_of(Kind kind, int number, std::size_t slice) const {
  for (const auto& [key, column] : columns_) {
    const auto& [its_kind, its_number, type] = key;
    if (its_kind == kind && its_number == number && column->size_of(slice) > 0) return column.get();
  }
  return nullptr;
}

at::Tensor OffloadStore::slice(Kind kind, int number, std::size_t slice) const {
  const OffloadColumn* const column = column_of(kind, number, slice);
  return column == nullptr ? at::Tensor() : column->tensor(slice, 0, column->size_of(slice));
}

at::Tensor OffloadStore::accumulated(std::size_t number, at::ScalarType type, std::int64_t numel) {
  const auto name = name_of(Kind::accumulated, static_cast<int>(number));
  const Key key{Kind::accumulated, static_cast<int>(number), type};
  if (!columns_.contains(key))
    columns_.emplace(key, make_column(folder_of(Kind::gradients)->path() / name, type, {numel}));
  return columns_.at(key)->tensor(0, 0, numel);
}

std::uint64_t OffloadStore::bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& [key, column] : columns_) bytes += column->file().size_bytes();
  return bytes;
}

// --- the state of optimizers ---------------------------------------------------------------------

void OffloadStore::know(const at::Tensor& parameter, std::size_t slice, std::int64_t begin) {
  known_.emplace(parameter.unsafeGetTensorImpl(), OffloadColumn::Position{slice, begin});
  known_types_[slice] = parameter.scalar_type();
}

bool OffloadStore::keeps_state_of(const at::Tensor& parameter) const {
  return keeps(Kind::state) && known_.contains(parameter.unsafeGetTensorImpl());
}

// A part without elements may belong to a slice without any, which has no file.
void OffloadStore::reserve_state(const at::Tensor& parameter, int number) {
  const auto slice = known_.at(parameter.unsafeGetTensorImpl()).slice;
  if (slices_[slice] > 0 && column_of(Kind::state, number, slice) == nullptr)
    add(Kind::state, number, known_types_);
}

at::Tensor OffloadStore::take_state(const at::Tensor& parameter, int number) {
  return take_state(parameter, number, false);
}

at::Tensor OffloadStore::take_zero_state(const at::Tensor& parameter, int number) {
  return take_state(parameter, number, true);
}

at::Tensor OffloadStore::take_state(const at::Tensor& parameter, int number, bool is_zero) {
  if (parameter.numel() == 0) return at::empty_like(parameter);
  const void* const key = parameter.unsafeGetTensorImpl();
  const auto is_taken = [&] {
    const auto taker = takers_.find({key, number});
    return taker != takers_.end() && !taker->second.expired();
  };
  while (is_taken()) number += kStates;
  reserve_state(parameter, number);
  const auto taker = std::make_shared<int>();
  // A file has zeros where nothing was written.
  const bool is_fresh = takers_.insert_or_assign({key, number}, taker).second;
  const auto& [slice, element] = known_.at(key);
  at::Tensor place =
      column_of(Kind::state, number, slice)->tensor(slice, element, parameter.numel(), taker);
  return is_zero && !is_fresh ? place.zero_() : place;
}

// The mapping keeps the file after its name is gone.
at::Tensor OffloadStore::set_aside(const at::Tensor& values) const {
  static std::atomic<int> count = 0;
  const auto path = folder_of(Kind::state)->path() / ("incoming_" + std::to_string(++count));
  const at::Tensor written = values.contiguous();
  const auto column = make_column(path, values.scalar_type(), {values.numel()});
  real_file_system().remove(path);
  column->file().write(0, bytes_of(written));
  return column->tensor(0, 0, values.numel()).view(values.sizes());
}

// --- reading and writing -------------------------------------------------------------------------

std::optional<OffloadStore::Place> OffloadStore::place_of(const at::Tensor& tensor) const {
  for (const auto& [key, column] : columns_) {
    if (const auto position = column->find(tensor)) return Place{column.get(), *position};
  }
  return std::nullopt;
}

Transfer OffloadStore::read(const at::Tensor& stored, void* memory) {
  const auto place = place_of(stored);
  if (!place) return {};
  const auto& [slice, element] = place->position;
  return queue_.read(place->column->file(), place->column->offset(slice, element),
                     {static_cast<std::byte*>(memory), stored.nbytes()});
}

Transfer OffloadStore::write(const at::Tensor& stored, const at::Tensor& values) {
  const auto place = place_of(stored);
  if (!place) return {};
  const auto& [slice, element] = place->position;
  return queue_.write(place->column->file(), place->column->offset(slice, element),
                      bytes_of(values));
}

void OffloadStore::mirror(std::size_t slice, const at::Tensor& values, const at::Tensor& copy) {
  mirrors_.insert_or_assign(slice, Mirror{values, copy});
}

OffloadStore::Mirror* OffloadStore::mirror_of(std::size_t slice) {
  const auto found = mirrors_.find(slice);
  return found == mirrors_.end() ? nullptr : &found->second;
}

bool OffloadStore::take_mirrored(std::size_t slice) {
  Mirror* const mirror = mirror_of(slice);
  return mirror != nullptr && std::exchange(mirror->is_fresh, false);
}

at::Tensor aligned_memory(std::size_t bytes) {
  auto memory =
      std::make_shared<AlignedBytes>(round_up(bytes, std::size_t{AlignedBytes::kAlignment}));
  void* const data = memory->data();
  return at::from_blob(
      data, {static_cast<std::int64_t>(bytes)}, [memory = std::move(memory)](void*) {}, at::kByte);
}

}  // namespace accelerate::detail
