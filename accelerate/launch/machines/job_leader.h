// What the launcher that holds the store of a job does for all: it lets machines in, and begins
// each round.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "accelerate/base/deadline.h"
#include "accelerate/base/descriptor.h"
#include "accelerate/launch/machines/job_notes.h"
#include "accelerate/launch/machines/store_client.h"
#include "accelerate/launch/machines/store_host.h"

namespace accelerate::detail {

struct JobTerms {
  bool is_elastic = false;                ///< Machines may come and go; else all must be there.
  int fewest = 2, most = 2;               ///< Machines; equal unless the job is elastic.
  std::chrono::milliseconds timeout{};    ///< For enough machines to come.
  std::chrono::milliseconds last_call{};  ///< For more of them, once there are enough.
  std::string token;                      ///< Given by the user; "" if none was.
  std::string place;                      ///< Where the store is, for messages.
  /// Why other machines may not reach it, as a sentence; "" if nothing says so.
  std::string doubt;
  std::function<void(const std::string&)> report;
};

class JobLeader {
 public:
  /// Starts the store on `listener`.
  JobLeader(JobTerms terms, Descriptor listener, const std::string& host);

  /// The seal of all notes.
  [[nodiscard]] const Seal& seal() const { return seal_; }

  /// Waits for the machines of round `number`, and writes its record; an error in it if they do not
  /// come or do not fit together. `store`: a client of the store. Cost: a few round trips, and a few
  /// messages for each machine.
  void begin(int number, StoreClient& store);
  /// Waits until all machines of round `number` have taken their places. If one is lost before, ends
  /// the round: its will did not name the round yet.
  void await_takers(int number, StoreClient& store) const;
  /// Whether a launcher of torchrun takes part, which does not begin another round with us.
  [[nodiscard]] bool has_torchrun() const { return has_torchrun_; }
  /// Whether a machine of the last round is lost.
  [[nodiscard]] bool has_lost_members(StoreClient& store) const;

 private:
  [[nodiscard]] std::vector<MachineCard> all_of_them(int number, StoreClient& store, Round& round);
  [[nodiscard]] std::vector<MachineCard> those_there(int number, StoreClient& store, Round& round);
  [[nodiscard]] std::string await_all(int number, StoreClient& store);
  [[nodiscard]] std::vector<MachineCard> look(int number, StoreClient& store, bool& awaits_members);
  void read_cards(const std::vector<int>& launchers, StoreClient& store);
  [[nodiscard]] std::optional<MachineCard> card_of(int launcher, std::string& fault) const;
  [[nodiscard]] std::string compare(const MachineCard& first, const MachineCard& other);

  JobTerms terms_;
  std::string host_;
  std::string challenge_;
  std::string token_of_ranks_;
  bool has_torchrun_ = false;
  Seal seal_;
  std::vector<int> members_;                 // Of the round before, by their numbers.
  std::set<int> gone_;                       // Launchers that are lost or were refused.
  std::map<int, std::string> sealed_cards_;  // That were read, by launcher.
  std::set<int> doubts_;                     // Launchers whose doubts have been told.
  StoreHost store_;
};

}  // namespace accelerate::detail
