// What the launcher that holds the store of a job does for all: it lets machines in, and begins
// each round.
#pragma once

#include <chrono>
#include <functional>
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
  std::string
      doubt;  ///< Why other machines may not reach it, as a sentence; "" if nothing says so.
  std::function<void(const std::string&)> report;
};

class JobLeader {
 public:
  /// Starts the store on `listener`.
  JobLeader(JobTerms terms, Descriptor listener, const std::string& host);

  /// The seal of all notes.
  [[nodiscard]] const Seal& seal() const { return seal_; }

  /// Waits for the machines of round `number`, and writes its record; an error in it if they do not
  /// come or do not fit together. `store`: a client of the store.
  void begin(int number, StoreClient& store);
  /// Whether a launcher of torchrun takes part, which does not begin another round with us.
  [[nodiscard]] bool has_torchrun() const { return has_torchrun_; }
  /// Whether a machine of the last round is lost.
  [[nodiscard]] bool has_lost_members(StoreClient& store) const;

 private:
  [[nodiscard]] Round of_all(int number, StoreClient& store);
  [[nodiscard]] Round of_those_there(int number, StoreClient& store);
  [[nodiscard]] std::string await_all(int number, StoreClient& store);
  [[nodiscard]] std::vector<MachineCard> look(int number, StoreClient& store, bool& awaits_members);
  [[nodiscard]] std::optional<MachineCard> card_of(int launcher, StoreClient& store,
                                                   std::string& fault);
  [[nodiscard]] std::string compare(const MachineCard& first, const MachineCard& other);
  void report(const std::string& text) const;

  JobTerms terms_;
  std::string host_;
  std::string challenge_;
  std::string token_of_ranks_;
  std::string launch_;
  bool has_torchrun_ = false;
  Seal seal_;
  std::vector<int> members_;  // Of the round before.
  std::set<int> doubts_;      // Launchers whose doubts have been told.
  StoreHost store_;
};

}  // namespace accelerate::detail
