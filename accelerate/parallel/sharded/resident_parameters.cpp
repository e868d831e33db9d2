#include "accelerate/parallel/sharded/resident_parameters.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>

#include "accelerate/base/bytes.h"

namespace accelerate::detail {

at::Tensor ResidentParameters::allocate(c10::Device device) {
  if (group_->size() == 1) {
    return at::zeros({static_cast<std::int64_t>(bytes_)},
                     at::TensorOptions(at::kByte).device(device));
  }
  pages_ = SharedPages::create(*group_, bytes_);
  return pages_->local();
}

void ResidentParameters::adopt(Units& units) {
  units_ = &units;
  if (units.empty()) return;
  for (const auto& unit : units) bytes_ += round_up(unit->full_bytes(), kUnitAlignment);
  memory_ = allocate(units.front()->spec().device);
  std::size_t at = 0;
  for (auto& unit : units) {
    unit->full.lend(static_cast<std::byte*>(memory_.data_ptr()) + at);
    const auto slice = static_cast<std::size_t>(unit->spec().slice) * unit->slice_bytes();
    unit->set_slice(memory_
                        .narrow(0, static_cast<std::int64_t>(at + slice),
                                static_cast<std::int64_t>(unit->slice_bytes()))
                        .view(unit->types().compute));
    at += round_up(unit->full_bytes(), kUnitAlignment);
  }
}

void ResidentParameters::end_update(std::int64_t) {
  for (auto& unit : *units_) unit->publish();
  group_->barrier();
}

}  // namespace accelerate::detail
