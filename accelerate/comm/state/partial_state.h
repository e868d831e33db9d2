// Who am I: rank, world, device, and the group of all ranks; and what a program does by rank that
// trains nothing, as one that generates on several processes:
//
//   const PartialState state;
//   for (const auto& text : state.split_between_processes(texts)) …
//   state.print("done after", seconds, "s");
#pragma once

#include <c10/core/Device.h>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>

#include "accelerate/comm/communicator.h"
#include "accelerate/launch/config/enums.h"
#include "accelerate/launch/config/rendezvous_options.h"
#include "accelerate/tensor/split.h"

namespace accelerate {

// Order and choice among ranks: which rank runs a scope first, which rank runs it at all.

/// While alive, ranks with `first` run the scope before the others, which wait at its start until
/// the first have reached its end. [collective] If an exception ends the scope, it does not wait.
class [[nodiscard]] ProcessFirst {
 public:
  ProcessFirst(std::shared_ptr<Communicator> communicator, bool first)
      : communicator_(std::move(communicator)), first_(first) {
    if (!first_) communicator_->barrier();
  }
  ~ProcessFirst() noexcept(false) {
    if (first_ && std::uncaught_exceptions() == exceptions_) communicator_->barrier();
  }
  ProcessFirst(const ProcessFirst&) = delete;
  ProcessFirst& operator=(const ProcessFirst&) = delete;

 private:
  std::shared_ptr<Communicator> communicator_;
  bool first_;
  int exceptions_ = std::uncaught_exceptions();
};

namespace detail {
/// Returns a callable that calls `fn` if `here`, else does nothing. It returns optional<R>, or void
/// if `fn` does.
template <typename Fn>
auto only_if(bool here, Fn fn) {
  return [here, fn = std::move(fn)](auto&&... args) mutable {
    using Result = std::invoke_result_t<Fn&, decltype(args)...>;
    if constexpr (std::is_void_v<Result>) {
      if (here) fn(std::forward<decltype(args)>(args)...);
    } else {
      return here ? std::optional<Result>(fn(std::forward<decltype(args)>(args)...)) : std::nullopt;
    }
  };
}
}  // namespace detail

// Which device a rank computes on.

/// Returns the device that ACCELERATE_TORCH_DEVICE names ("cpu", "cuda", "cuda:1"). When it is
/// unset, returns the CPU if `cpu` is true or there is no GPU, else GPU number local_rank modulo
/// the number of GPUs. Throws ConfigError when the variable names a device that is not there.
[[nodiscard]] c10::Device choose_device(bool cpu, int local_rank);

/// Binds this process to its part of the cores when ACCELERATE_CPU_AFFINITY asks for it and the
/// launcher has not done so. A rank on the CPU gets its own share of the cores (see divide_cores).
/// A rank on a GPU gets the CPUs near that GPU, as upstream. Returns the number of cores that every
/// rank of this machine has at least; nullopt when the cores were not divided. Logs the binding, or
/// that ranks outnumber cores, at level info. Runs once per process, as upstream's
/// `set_numa_affinity`, which does nothing on the CPU. Throws ConfigError when the variable is not
/// a boolean.
std::optional<int> keep_to_cores(c10::Device device, int local_rank, int local_world_size);

/// Sets the number of LibTorch's intra-operation threads: `cores` when given, else the machine's
/// physical cores divided by its ranks, at least 1. Leaves the number alone when OMP_NUM_THREADS is
/// set.
void share_cores(std::optional<int> cores, int local_world_size);

struct PartialStateOptions {
  bool cpu = false;  ///< Use the CPU even where there is a GPU; also ACCELERATE_USE_CPU.
  /// Time limit of every collective; default 30 minutes.
  std::optional<std::chrono::milliseconds> timeout = {};
  /// "gloo" or "nccl"; default: nccl on GPUs, gloo on the CPU.
  std::string backend = {};
  /// A group to use instead of the one the environment describes; tests pass their own.
  std::shared_ptr<Communicator> communicator = nullptr;
};

/// Cheap to copy. All states that are made from the environment share one group per process. The
/// group ends with the last of them.
class PartialState {
 public:
  /// Joins the group that the environment describes (RANK, WORLD_SIZE, MASTER_ADDR, … as set by
  /// `accelerate launch`, torchrun or MPI); without these variables, a group of one. [collective]
  /// Sets the number of CPU threads to cores / ranks on this machine, unless OMP_NUM_THREADS is
  /// set. Binds to a part of the cores when ACCELERATE_CPU_AFFINITY is set. Throws ConfigError when
  /// the environment asks for what is not there, CommError when the ranks do not meet.
  explicit PartialState(const PartialStateOptions& options = {});

  [[nodiscard]] DistributedType distributed_type() const { return distributed_type_; }
  [[nodiscard]] int num_processes() const { return communicator_->size(); }
  [[nodiscard]] int process_index() const { return communicator_->rank(); }
  [[nodiscard]] int local_process_index() const { return local_rank_; }
  [[nodiscard]] int local_num_processes() const { return local_world_size_; }
  [[nodiscard]] bool is_main_process() const { return process_index() == 0; }
  [[nodiscard]] bool is_local_main_process() const { return local_rank_ == 0; }
  [[nodiscard]] bool is_last_process() const { return process_index() == num_processes() - 1; }
  [[nodiscard]] bool use_distributed() const { return num_processes() > 1; }
  /// Where models and batches go: ACCELERATE_TORCH_DEVICE, else GPU number local rank, else the
  /// CPU.
  [[nodiscard]] c10::Device device() const { return device_; }
  [[nodiscard]] const std::shared_ptr<Communicator>& communicator() const { return communicator_; }

  /// Returns when all ranks have arrived. [collective]
  void wait_for_everyone() const { communicator_->barrier(); }
  /// Lets the main process run the scope first and the other ranks after it. [collective]
  [[nodiscard]] ProcessFirst main_process_first() const {
    return {communicator_, is_main_process()};
  }
  /// As main_process_first, with the main process of each machine.
  [[nodiscard]] ProcessFirst local_main_process_first() const {
    return {communicator_, is_local_main_process()};
  }

  /// Returns a callable that calls `fn` on the chosen rank and returns nullopt on the others.
  template <typename Fn>
  [[nodiscard]] auto on_main_process(Fn fn) const {
    return detail::only_if(is_main_process(), std::move(fn));
  }
  template <typename Fn>
  [[nodiscard]] auto on_local_main_process(Fn fn) const {
    return detail::only_if(is_local_main_process(), std::move(fn));
  }
  template <typename Fn>
  [[nodiscard]] auto on_last_process(Fn fn) const {
    return detail::only_if(is_last_process(), std::move(fn));
  }
  template <typename Fn>
  [[nodiscard]] auto on_process(Fn fn, int process_index) const {
    return detail::only_if(!use_distributed() || this->process_index() == process_index,
                           std::move(fn));
  }
  template <typename Fn>
  [[nodiscard]] auto on_local_process(Fn fn, int local_process_index) const {
    return detail::only_if(!use_distributed() || this->local_process_index() == local_process_index,
                           std::move(fn));
  }

  /// Returns this rank's part of a vector, of a tensor, or of a map whose values are equally long.
  /// Local.
  template <typename T>
  [[nodiscard]] T split_between_processes(const T& value, const SplitOptions& options = {}) const {
    return split_between_ranks(value, process_index(), num_processes(), options);
  }

  /// Writes `values`, whatever an ostream takes, as a line with blanks between them to standard
  /// output, once per machine.
  template <typename... Values>
  void print(const Values&... values) const {
    if (!is_local_main_process()) return;
    std::ostringstream line;
    const char* blank = "";
    ((line << std::exchange(blank, " ") << values), ...);
    print_line(line.str());
  }

 private:
  static void print_line(const std::string& line);

  std::shared_ptr<Communicator> communicator_;
  int local_rank_ = 0;
  int local_world_size_ = 1;
  c10::Device device_ = c10::kCPU;
  DistributedType distributed_type_ = DistributedType::NO;
};

/// Returns upstream's repr: five lines from "Distributed environment: …" to "Device: …".
[[nodiscard]] std::string to_string(const PartialState& state);

}  // namespace accelerate
