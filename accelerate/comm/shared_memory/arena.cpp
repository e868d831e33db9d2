#include "accelerate/comm/shared_memory/arena.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/Allocator.h>

#include <string>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/comm/shared_memory/kept_memory.h"

namespace accelerate::detail {
namespace {

void check_options(const at::TensorOptions& options) {
  std::string found;
  if (!options.device().is_cpu()) found = "device " + options.device().str();
  if (options.layout() != at::kStrided) found = "a layout that is not strided";
  if (options.pinned_memory()) found = "pinned memory";
  if (found.empty()) return;
  throw UsageError(
      "the options of a tensor in shared memory have " + found +
      "; allowed is a strided one, on the CPU and not pinned. Make it there and copy it.");
}

}  // namespace

// The allocator that ATen's tensors use.
class SharedArena::TensorAllocator final : public c10::Allocator {
 public:
  explicit TensorAllocator(SharedArena& arena) : arena_(arena) {}

  c10::DataPtr allocate(std::size_t bytes) override {
    auto block = std::make_unique<Block>(arena_.allocate(bytes));
    std::byte* data = block->data();
    return {data, block.release(), &delete_block, at::kCPU};
  }

  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  static void delete_block(void* block) { delete static_cast<Block*>(block); }
  SharedArena& arena_;
};

SharedArena::Block::Block(Block&& other) noexcept
    : arena_(std::move(other.arena_)),
      data_(std::exchange(other.data_, nullptr)),
      extent_(std::exchange(other.extent_, {})) {}

SharedArena::Block& SharedArena::Block::operator=(Block&& other) noexcept {
  if (this == &other) return *this;
  reset();
  arena_ = std::move(other.arena_);
  data_ = std::exchange(other.data_, nullptr);
  extent_ = std::exchange(other.extent_, {});
  return *this;
}

void SharedArena::Block::reset() noexcept {
  if (data_ == nullptr) return;
  arena_->give_back(extent_);
  data_ = nullptr;
  extent_ = {};
  arena_.reset();
}

std::shared_ptr<SharedArena> SharedArena::create() {
  refuse_after_fork("SharedArena::create");
  return std::shared_ptr<SharedArena>(new SharedArena());
}

SharedArena::SharedArena() : tensors_(std::make_unique<TensorAllocator>(*this)) {}
SharedArena::~SharedArena() = default;

SharedArena::Block SharedArena::allocate(std::size_t bytes) {
  refuse_after_fork("SharedArena::allocate");
  release_deserted();
  Block block;
  block.arena_ = shared_from_this();
  block.extent_ = segments_.take(bytes);
  block.data_ = segments_.address_of(block.extent_);
  return block;
}

void SharedArena::give_back(const SharedExtent& extent) noexcept {
  if (forked()) return;  // the file belongs to the parent, whose threads may hold the lock
  segments_.give(extent);
}

at::Tensor SharedArena::empty(at::IntArrayRef sizes, const at::TensorOptions& options) {
  check_options(options);
  at::Tensor tensor =
      at::detail::empty_generic(sizes, tensors_.get(), c10::DispatchKeySet(c10::DispatchKey::CPU),
                                options.dtype().toScalarType(), options.memory_format_opt());
  // The allocator lives only as long as the block. A storage that may be resized could drop the
  // block and then use the allocator.
  tensor.storage().unsafeGetStorageImpl()->set_resizable(false);
  return tensor.requires_grad_(options.requires_grad());
}

}  // namespace accelerate::detail
