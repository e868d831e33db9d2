#include "accelerate/comm/shared_memory/call.h"

#include <string_view>

namespace accelerate::detail {
namespace {

std::string_view name_of(CallKind kind) {
  switch (kind) {
    case CallKind::all_reduce:
      return "all_reduce";
    case CallKind::reduce:
      return "reduce";
    case CallKind::reduce_scatter:
      return "reduce_scatter";
    case CallKind::broadcast:
      return "broadcast";
    case CallKind::all_gather:
      return "all_gather";
    case CallKind::gather:
      return "gather";
    case CallKind::scatter:
      return "scatter";
    case CallKind::all_to_all:
      return "all_to_all";
    case CallKind::barrier:
      return "barrier";
  }
  return "unknown operation";
}

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
  std::string text(name_of(call.kind));
  if (reduces(call.kind)) text += "(" + std::string(to_string(call.op)) + ")";
  if (call.kind == CallKind::barrier) return text;
  return text + root_of(call) + " of " + std::to_string(call.bytes / c10::elementSize(call.dtype)) +
         " elements of " + c10::toString(call.dtype);
}

}  // namespace accelerate::detail
