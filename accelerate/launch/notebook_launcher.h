// Starts ranks from inside a program, as from a notebook's cell or a test: a function of the caller
// runs in copies of the caller's process.
//
//   auto losses = notebook_launcher([&] { return train(data); }, {.num_processes = 4});
//
// The names are the original's. To start separate programs use `accelerate launch`.
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
  /// Default: one for each GPU, or one on the CPU.
  std::optional<int> num_processes = {};
  std::string mixed_precision = "no";     ///< no, fp16 or bf16.
  int use_port = 0;                       ///< The port where ranks meet; 0: a free one.
  std::string master_addr = "127.0.0.1";  ///< The address that rank 0 listens on.
  int num_nodes = 1;                      ///< Only 1, with node_rank 0; else ConfigError.
  int node_rank = 0;
  std::string rdzv_backend = "static";  ///< Only static. The three below must be empty.
  std::string rdzv_endpoint = {};
  std::string rdzv_conf = {};
  std::string rdzv_id = {};
  int max_restarts = 0;           ///< How often all ranks are started again after a failure.
  double monitor_interval = 0.1;  ///< No effect: nothing is polled.
  /// Written before each line of a rank, with ${rank}, ${local_rank} and ${role_name} replaced. ""
  /// for none.
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

/// Calls `fn()` in options.num_processes copies of this process, and waits for all. Each copy
/// learns its rank as under `accelerate launch`. It has everything that `fn` captures. Its changes
/// are lost, except what `fn` returns. Returns nothing for a void function, else a vector of the
/// ranks' results in the order of ranks, of any type that nlohmann::json converts.
///
/// The process must have one thread and must not have used a GPU. So create the Accelerator, and
/// compute, inside `fn`. LibTorch starts threads with its first large operation; until then
/// at::set_num_threads(1) avoids them. Signals that this process handles have their default effect
/// in ranks.
///
/// Throws UsageError, with nothing started, where this process has more threads, has used CUDA, has
/// an Accelerator, or is a rank itself. Throws LaunchError, with the rank and its text, when `fn`
/// throws, calls exit() or is killed; the other ranks are then ended, as by `accelerate launch`.
/// Throws ConfigError for options that are not allowed. Cost: about a millisecond a rank, and
/// memory that ranks change.
template <typename Fn>
auto notebook_launcher(Fn fn, const NotebookLauncherOptions& options = {}) {
  return detail::launch_function(fn, options);
}

/// Calls `fn()` as notebook_launcher does, but on the CPU, to see whether it works on several
/// ranks.
template <typename Fn>
auto debug_launcher(Fn fn, int num_processes = 2) {
  return detail::launch_function(fn, {.num_processes = num_processes, .cpu = true});
}

}  // namespace accelerate
