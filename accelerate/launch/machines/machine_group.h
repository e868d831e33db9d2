// The machines of one job: their launchers meet, agree on ranks, hear of each other's end, and start
// all ranks again where that is asked for. What lies between two starts is a round.
//
// Upstream's names for it are the static rendezvous, in which all machines are there from the
// beginning, and the rendezvous c10d, in which they come and go. A launcher of torchrun may take part
// in the static one.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/base/deadline.h"
#include "accelerate/base/tcp.h"
#include "accelerate/launch/machines/job_leader.h"
#include "accelerate/launch/machines/job_notes.h"
#include "accelerate/launch/machines/store_client.h"
#include "accelerate/launch/machines/store_place.h"
#include "accelerate/launch/plan.h"
#include "accelerate/launch/protocol.h"
#include "accelerate/launch/supervisor.h"

namespace accelerate {

/// What a launcher says of its machine.
struct MachineOptions {
  /// Whether machines may come and go (rdzv_backend c10d). Then the launcher on the machine that
  /// has `address` holds the store, and `rank` has no meaning.
  bool is_elastic = false;
  int rank = 0;         ///< --machine_rank. Machine 0 holds the store.
  int fewest = 2;       ///< --num_machines, with which the job can run.
  int machines = 2;     ///< --num_machines, that the job can use.
  std::string address;  ///< --main_process_ip: an address of machine 0, of either family.
  int port = 29500;     ///< --main_process_port.
  int ranks = 1;        ///< That this machine runs.
  /// --num_processes, which must be the same everywhere; 0 if each machine counts its devices.
  int ranks_of_all = 0;
  std::string role = "default";
  /// The command of the ranks, whose program must have the same name on all machines of a role.
  std::vector<std::string> program = {};
  /// Variables of the ranks that must have the same values on all machines.
  Environment settings = {};
  /// ACCELERATE_JOB_TOKEN: all machines must have the same. If none has one, machine 0 makes one for
  /// the ranks; then any machine that reaches the port can take part.
  std::string token = {};
  /// Whether the name of machine 0 may not be known yet, as in Kubernetes, where a pod gets its name
  /// when it starts.
  bool name_comes_later = false;
  int max_restarts = 0;  ///< How often all ranks are started again because one failed.
  /// For enough machines to come; at the beginning, and when one is lost.
  std::chrono::milliseconds timeout{std::chrono::minutes(10)};
  /// For more machines, once enough have come to begin.
  std::chrono::milliseconds last_call{std::chrono::seconds(30)};
  /// Is told, in a sentence every five seconds, what the launcher waits for.
  std::function<void(const std::string&)> report = {};
};

/// Returns what `settings`, of several machines, and ACCELERATE_JOB_TOKEN say. `program`: the command
/// of the ranks. Throws ConfigError for a token that is none.
[[nodiscard]] MachineOptions machine_options(const LaunchOptions& settings,
                                             std::vector<std::string> program);

/// Threads: one. The calling process may have no others, because machine 0 starts the process of
/// the store.
class MachineGroup : public OtherMachines {
 public:
  /// Meets the launchers of the other machines and begins the first round. [collective] Throws, on
  /// every machine that can be told, with the machine and its address:
  /// - ConfigError if machines have the same number, other numbers of machines or ranks, other
  ///   settings, another program, another version of this library or another token; if the address is
  ///   not one of machine 0; if machine 0 is of torchrun and a token was given,
  /// - LaunchError if machine 0 does not answer, others do not come, the port is taken, or what
  ///   answers is no store.
  explicit MachineGroup(MachineOptions options);
  ~MachineGroup() override;
  MachineGroup(const MachineGroup&) = delete;
  MachineGroup& operator=(const MachineGroup&) = delete;

  /// Where the ranks of this machine meet those of the others in this round, and which ones they
  /// are.
  [[nodiscard]] const MeetingPoint& meeting() const { return meeting_; }
  /// The number of this round, from 0.
  [[nodiscard]] int round() const { return round_; }
  /// How many queries this launcher has sent to the store. docs/costs.md says how many are needed.
  [[nodiscard]] std::int64_t queries() const;

  [[nodiscard]] int fd() const override { return watch_->fd(); }
  [[nodiscard]] std::optional<EndElsewhere> news() override;
  void tell(const EndElsewhere& end) override;

  /// To be called when the ranks of this machine have ended with `result`. If they have succeeded,
  /// waits for those of the other machines. Returns whether all ranks are to be started again, in a
  /// round that has begun; else the job is over, and result.elsewhere says why if the reason lies
  /// elsewhere. [collective] Throws as the constructor does.
  [[nodiscard]] bool begin_again(LaunchResult& result);

 private:
  void host(Descriptor listener);
  void join();
  void introduce();
  void claim_number(const std::string& card);
  void leave_will(bool is_in_round);
  void begin_round(int number);
  void await_place();
  void await_ranks_of_torchrun();
  [[noreturn]] void throw_not_begun(std::chrono::milliseconds limit) const;
  [[nodiscard]] std::string opened(const std::string& key);
  void take_place(const detail::Round& round, const detail::RoundMember& place);
  void ask_for_place(int running);
  void begin_watch();
  [[nodiscard]] std::optional<EndElsewhere> await_the_end_of_all();
  void leave();
  [[nodiscard]] bool goes_on_after(const EndElsewhere& end);
  [[nodiscard]] bool is_to_go_on(const EndElsewhere& end);
  [[nodiscard]] detail::JobTerms terms() const;
  [[nodiscard]] EndElsewhere own_loss() const;
  [[nodiscard]] EndElsewhere lost_store(const std::string& why) const;

  MachineOptions options_;
  detail::StorePlace place_;
  MeetingPoint meeting_;
  std::string host_name_;
  std::string job_;  // A random name of the job, from machine 0.
  int number_ = 0;   // Of this launcher in the job.
  int round_ = 0;
  int failures_ = 0;  // Rounds that ended because a rank failed.
  detail::Seal seal_;
  bool is_with_torchrun_ = false;            // Whether machine 0 is of torchrun.
  bool is_watching_ = false;                 // Whether watch_ waits for the end of the round.
  std::optional<detail::JobLeader> leader_;  // On machine 0.
  std::optional<detail::StoreClient> client_;
  std::optional<detail::StoreClient> watch_;
};

}  // namespace accelerate
