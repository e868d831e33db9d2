// Where the time of a trace went, operator by operator.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace accelerate {

/// All calls of one operator, or of one with the same input shapes. Times are the host's, summed;
/// an operator that calls itself counts its inner calls twice in total_cpu.
struct OperatorStats {
  std::string name;    ///< "aten::addmm"
  std::string shapes;  ///< "[[8], [4, 2], [2, 8]]", when they were recorded and asked for.
  std::int64_t calls = 0;
  std::chrono::nanoseconds self_cpu{0};   ///< Without what it calls.
  std::chrono::nanoseconds total_cpu{0};  ///< With it.
  std::chrono::nanoseconds device{0};     ///< Of the kernels that it started on a GPU.
  std::int64_t self_bytes = 0;   ///< Host and device memory taken less given back, with memory.
  std::int64_t total_bytes = 0;  ///< The same with what it calls.
  std::int64_t flops = 0;        ///< Estimated by LibTorch for some operators, when asked for.
};

enum class SortBy { self_cpu, total_cpu, device, calls, self_bytes };

struct TableOptions {
  SortBy sort_by = SortBy::self_cpu;
  std::size_t row_limit = 100;  ///< The first so many; 0: all.
};

/// A table for people: one line an operator, the greatest first, and the sum of self times below.
/// Columns for shapes, memory, flops and the device are there when any operator has them.
[[nodiscard]] std::string to_table(std::vector<OperatorStats> operators,
                                   const TableOptions& options = {});

namespace detail {
/// An operator's call, or with end_ns == start_ns and no name a change of memory.
struct TraceEvent {
  std::string name;
  std::string shapes;
  std::uint64_t thread = 0;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t bytes = 0;
  std::int64_t flops = 0;
  std::int64_t device_ns = 0;
};

/// The events put together by name, or by name and shapes, in order of first appearance. On a
/// thread, an event lies inside another when its time does.
[[nodiscard]] std::vector<OperatorStats> average_by_key(std::vector<TraceEvent> events,
                                                        bool group_by_input_shape);
}  // namespace detail
}  // namespace accelerate
