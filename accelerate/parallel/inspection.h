// What a model does and takes on this rank, for tests and for the eye.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace accelerate {

/// Something that a sharded model did.
struct ShardEvent {
  enum class Kind { gather, prefetch, release, reduce };
  Kind kind;
  std::string unit;
  bool operator==(const ShardEvent&) const = default;
};

/// Bytes of a rank's memory for one model.
struct ShardedMemory {
  std::size_t slice_bytes = 0;          ///< This rank's slices of parameters.
  std::size_t full_bytes = 0;           ///< Full values present now, spare slots included.
  std::size_t peak_full_bytes = 0;      ///< The largest full_bytes so far.
  std::size_t gradient_bytes = 0;       ///< Slices of gradients, and units under way.
  std::size_t peak_gradient_bytes = 0;  ///< The largest gradient_bytes so far.
  std::uint64_t disk_bytes = 0;         ///< Size of the files of offload.
  std::uint64_t bytes_read = 0;         ///< From these files so far, past the page cache.
  std::uint64_t bytes_written = 0;      ///< As bytes_read.
};

/// The base class describes a model that every rank has whole, in the program's own tensors.
class Inspection {
 public:
  Inspection() = default;
  virtual ~Inspection() = default;
  Inspection(const Inspection&) = delete;
  Inspection& operator=(const Inspection&) = delete;

  /// Returns the bytes that the strategy takes on this rank.
  [[nodiscard]] virtual ShardedMemory memory() const { return {}; }
  /// Sets a function that is called for each event of a unit, on the thread where it happens.
  virtual void set_observer(std::function<void(const ShardEvent&)> /*observer*/) {}
  /// Returns where whole values come from: "whole", "shared pages", "gathered from windows",
  /// "gathered by collectives", "read from files", "resident".
  [[nodiscard]] virtual std::string_view full_parameters() const { return "whole"; }
};

}  // namespace accelerate
