// Shows where the time of a trace went, operator by operator.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace accelerate {

/// All calls of one operator, or of one operator with one combination of input shapes. Times are
/// host times, summed. If an operator calls itself, inner calls count twice in total_cpu.
struct OperatorStats {
  std::string name;  ///< "aten::addmm"
  /// "[[8], [4, 2], [2, 8]]", if shapes were recorded and asked for.
  std::string shapes;
  std::int64_t calls = 0;
  std::chrono::nanoseconds self_cpu{0};   ///< Without the operators that it calls.
  std::chrono::nanoseconds total_cpu{0};  ///< Including the operators that it calls.
  std::chrono::nanoseconds device{0};     ///< Time of the GPU kernels that it started.
  /// Host and device memory taken minus memory given back, with profile_memory.
  std::int64_t self_bytes = 0;
  std::int64_t total_bytes = 0;  ///< Including the operators that it calls.
  /// Estimated by LibTorch for some operators, if asked for.
  std::int64_t flops = 0;
};

enum class SortBy { self_cpu, total_cpu, device, calls, self_bytes };

struct TableOptions {
  SortBy sort_by = SortBy::self_cpu;
  std::size_t row_limit = 100;  ///< Number of rows; 0 for all.
};

/// Returns a table for people: one line per operator, the greatest first, and the sum of self times
/// below. Columns for shapes, memory, flops and the device appear if any operator has values for
/// them.
[[nodiscard]] std::string to_table(std::vector<OperatorStats> operators,
                                   const TableOptions& options = {});

namespace detail {
/// A call of an operator, or, without a name and with end_ns == start_ns, a change of memory.
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

/// Combines the events by name, or by name and shapes, in order of first appearance. An event lies
/// inside another event of its thread if its time does.
[[nodiscard]] std::vector<OperatorStats> average_by_key(std::vector<TraceEvent> events,
                                                        bool group_by_input_shape);
}  // namespace detail
}  // namespace accelerate
