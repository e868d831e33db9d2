// Which rank the current thread is. base/ needs it for logging and progress bars but knows nothing
// of communication, so state/ sets it (or a test that runs ranks as threads).
#pragma once

#include <functional>

namespace accelerate::detail {

/// Call it where a process learns its rank.
void note_training();
[[nodiscard]] bool is_training();

}  // namespace accelerate::detail

namespace accelerate {

struct ProcessIdentity {
  int rank = 0;                        ///< Index among all ranks.
  int world_size = 1;                  ///< Number of ranks.
  int local_rank = 0;                  ///< Index among the ranks of this machine.
  int local_world_size = 1;            ///< Number of ranks on this machine.
  bool initialized = false;            ///< Whether state/ has filled this in.
  std::function<void()> barrier = {};  ///< Waits for all ranks; empty in a group of one.

  [[nodiscard]] bool is_main_process() const { return rank == 0; }
  [[nodiscard]] bool is_local_main_process() const { return local_rank == 0; }
};

/// The identity of the calling thread; threads without one share the identity of the process.
[[nodiscard]] const ProcessIdentity& process_identity();

/// The rank and the number of ranks that a launcher has put into the environment; 0 of 1 without
/// one. For messages of a process that has not joined its group yet.
[[nodiscard]] ProcessIdentity identity_from_environment();

/// Sets the identity of the process: every thread without a ScopedProcessIdentity sees it.
void set_process_identity(ProcessIdentity identity);

/// Gives the calling thread its own identity while alive. Scopes nest.
class ScopedProcessIdentity {
 public:
  explicit ScopedProcessIdentity(ProcessIdentity identity);
  ~ScopedProcessIdentity();
  ScopedProcessIdentity(const ScopedProcessIdentity&) = delete;
  ScopedProcessIdentity& operator=(const ScopedProcessIdentity&) = delete;

 private:
  ProcessIdentity identity_;
  const ProcessIdentity* outer_;
};

}  // namespace accelerate
