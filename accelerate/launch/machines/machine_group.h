// The machines of one job: their launchers meet, agree on ranks, and hear of each other's end.
// Upstream's name for it is the static rendezvous; a launcher of torchrun may take part.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "accelerate/base/deadline.h"
#include "accelerate/launch/machines/store_client.h"
#include "accelerate/launch/machines/store_host.h"
#include "accelerate/launch/plan.h"
#include "accelerate/launch/protocol.h"
#include "accelerate/launch/supervisor.h"

namespace accelerate {

/// What a launcher says of its machine.
struct MachineOptions {
  int rank = 0;         ///< --machine_rank. Machine 0 holds the store.
  int machines = 2;     ///< --num_machines.
  std::string address;  ///< --main_process_ip: an address of machine 0, of either family.
  int port = 29500;     ///< --main_process_port.
  int ranks = 1;        ///< That this machine runs.
  /// --num_processes, which must be the same everywhere; 0 if each machine counts its devices.
  int ranks_of_all = 0;
  std::string role = "default";
  /// Variables of the ranks that must have the same values on all machines.
  Environment settings = {};
  /// ACCELERATE_JOB_TOKEN: all machines must have the same. If none has one, machine 0 makes one for
  /// the ranks; then any machine that reaches the port can take part.
  std::string token = {};
  /// For all machines to come.
  std::chrono::milliseconds timeout{std::chrono::minutes(10)};
  /// Is told, in a sentence every five seconds, what the launcher waits for.
  std::function<void(const std::string&)> report = {};
};

/// Returns what `settings`, of several machines, and ACCELERATE_JOB_TOKEN say. Throws ConfigError for
/// a token that is none.
[[nodiscard]] MachineOptions machine_options(const LaunchOptions& settings);

/// Threads: one. The calling process may have no others, because machine 0 starts the process of
/// the store.
class MachineGroup : public OtherMachines {
 public:
  /// Meets the launchers of the other machines. [collective] Throws, on every machine that can be
  /// told, with the machine and its address:
  /// - ConfigError if machines have the same number, other numbers of machines or ranks, other
  ///   settings, another version of this library or another token; if the address is not one of
  ///   machine 0; if machine 0 is of torchrun and a token was given,
  /// - LaunchError if machine 0 does not answer, others do not come, the port is taken, or what
  ///   answers is no store.
  explicit MachineGroup(MachineOptions options);
  ~MachineGroup() override;
  MachineGroup(const MachineGroup&) = delete;
  MachineGroup& operator=(const MachineGroup&) = delete;

  /// Where the ranks of this machine meet those of the others, and which ones they are.
  [[nodiscard]] const MeetingPoint& meeting() const { return meeting_; }

  [[nodiscard]] int fd() const override { return watch_->fd(); }
  [[nodiscard]] std::optional<EndElsewhere> news() override;
  void tell(const EndElsewhere& end) override;

  /// Waits until the ranks of all machines have succeeded, as those of this one have. Returns why
  /// they did not, if so. [collective]
  [[nodiscard]] std::optional<EndElsewhere> finish();

 private:
  void host();
  void join();
  void introduce();
  void claim_number(const std::string& card);
  [[nodiscard]] std::string await_all();
  [[nodiscard]] std::string verdict_on_all();
  void assign_ranks();
  void hear_verdict();
  void take_ranks();
  void begin_watch();
  [[nodiscard]] detail::StoreClient connect();
  [[nodiscard]] std::string place() const;
  [[nodiscard]] EndElsewhere end_from(const std::string& text) const;
  [[nodiscard]] EndElsewhere lost_store(const std::string& why) const;

  MachineOptions options_;
  Deadline deadline_;
  MeetingPoint meeting_;
  std::string host_name_;
  std::string challenge_;                   // What seals are made of, so that none serves twice.
  bool is_with_torchrun_ = false;           // Whether machine 0 is of torchrun.
  std::optional<detail::StoreHost> store_;  // On machine 0.
  std::optional<detail::StoreClient> client_;
  std::optional<detail::StoreClient> watch_;
};

}  // namespace accelerate
