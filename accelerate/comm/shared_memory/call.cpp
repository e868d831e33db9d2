#include "accelerate/comm/shared_memory/call.h"

#include <array>
#include <cstddef>
#include <string_view>

namespace accelerate::detail {
namespace {

// In the order of CallKind.
constexpr std::array<std::string_view, 9> kCallNames = {
    "all_reduce", "reduce",  "reduce_scatter", "broadcast", "all_gather",
    "gather",     "scatter", "all_to_all",     "barrier"};
static_assert(kCallNames[static_cast<std::size_t>(CallKind::barrier)] == "barrier");

bool reduces(CallKind kind) {
  return kind == CallKind::all_reduce || kind == CallKind::reduce ||
         kind == CallKind::reduce_scatter;
}

std::string root_of(const Call& call) {
  if (call.root < 0) return "";
  const bool gives = call.kind == CallKind::broadcast || call.kind == CallKind::scatter;
  return (gives ? " from rank " : " to rank ") + std::to_string(call.root);
}

}  // namespace

bool agree(const Call& a, const Call& b) {
  return a.kind == b.kind && a.dtype == b.dtype && a.root == b.root && a.bytes == b.bytes &&
         (!reduces(a.kind) || a.op == b.op);
}

std::string describe(const Call& call) {
  std::string text(kCallNames[static_cast<std::size_t>(call.kind)]);
  if (reduces(call.kind)) text += "(" + std::string(to_string(call.op)) + ")";
  if (call.kind == CallKind::barrier) return text;
  return text + root_of(call) + " of " + std::to_string(call.bytes / c10::elementSize(call.dtype)) +
         " elements of " + c10::toString(call.dtype);
}

}  // namespace accelerate::detail
