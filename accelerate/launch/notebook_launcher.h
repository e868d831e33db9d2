// Ranks started from inside a program: a function of the caller's runs in processes that are copies
// of the caller's, as from a notebook's cell or a test.
//
//   auto losses = notebook_launcher([&] { return train(data); }, {.num_processes = 4});
//
// The names are the original's. `accelerate launch` is for programs of their own.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace accelerate {

struct NotebookLauncherOptions {
  /// Default: one a GPU, or one on the CPU.
  std::optional<int> num_processes = {};
  std::string mixed_precision = "no";     ///< no, fp16 or bf16.
  int use_port = 0;                       ///< Where ranks meet; 0: a free one.
  std::string master_addr = "127.0.0.1";  ///< The address that rank 0 listens on.
  int num_nodes = 1;                      ///< Others are a ConfigError, and so is a node_rank.
  int node_rank = 0;
  std::string rdzv_backend = "static";  ///< The only one. The three below are a ConfigError.
  std::string rdzv_endpoint = {};
  std::string rdzv_conf = {};
  std::string rdzv_id = {};
  int max_restarts = 0;           ///< How often all ranks begin again after a failure.
  double monitor_interval = 0.1;  ///< No effect: nothing is polled.
  /// Before each line that a rank writes, with ${rank}, ${local_rank} and ${role_name}; "": none.
  std::string log_line_prefix_template = {};
  bool cpu = false;  ///< Train on the CPU even where there are GPUs.
};

namespace detail {
/// Runs `body` on each rank and returns what it returned, in the order of ranks.
[[nodiscard]] std::vector<std::string> run_in_forks(const std::function<std::string()>& body,
                                                    const NotebookLauncherOptions& options);

template <typename Fn>
using ResultOf = std::decay_t<std::invoke_result_t<Fn&>>;

template <typename Fn>
auto launch_function(Fn& fn, const NotebookLauncherOptions& options) {
  using Result = ResultOf<Fn>;
  if constexpr (std::is_void_v<Result>) {
    (void)run_in_forks([&] { return fn(), std::string(); }, options);
  } else {
    const auto body = [&] {
      std::string bytes;
      nlohmann::json::to_cbor(nlohmann::json(fn()), bytes);
      return bytes;
    };
    std::vector<Result> results;
    for (const std::string& bytes : run_in_forks(body, options))
      results.push_back(nlohmann::json::from_cbor(bytes).template get<Result>());
    return results;
  }
}
}  // namespace detail

/// Calls `fn()` in options.num_processes processes, each a copy of this one that is told its rank
/// as `accelerate launch` tells it, and waits for all. What `fn` captures is there in each; what it
/// changes is lost but for what it returns. Returns nothing for a void function, else a vector of
/// what each rank returned, in their order: of any type that nlohmann::json converts.
///
/// A process is copied with one thread and no GPU in use. Throws UsageError, with nothing started,
/// where this one has more threads (LibTorch starts them with its first large operation; until then
/// at::set_num_threads(1) avoids them), has used CUDA, has an Accelerator, or is a rank itself:
/// create the Accelerator, and what computes, inside `fn`. Signals that this process handles are
/// the system's in ranks. Throws LaunchError, with the rank and its text, when `fn` throws, calls
/// exit() or is killed; the others are then ended, as by `accelerate launch`. Throws ConfigError
/// for options that are not allowed. To be called from the thread that stays. Cost: about a
/// millisecond a rank, and memory that ranks change.
template <typename Fn>
auto notebook_launcher(Fn fn, const NotebookLauncherOptions& options = {}) {
  return detail::launch_function(fn, options);
}

/// The same on the CPU, to see whether `fn` works on several ranks.
template <typename Fn>
auto debug_launcher(Fn fn, int num_processes = 2) {
  return detail::launch_function(fn, {.num_processes = num_processes, .cpu = true});
}

}  // namespace accelerate
