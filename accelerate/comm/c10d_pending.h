// The pending operations of a C10dCommunicator.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "accelerate/comm/communicator.h"
#include "accelerate/comm/diagnosis.h"
#include "accelerate/comm/flight_recorder.h"
#include "accelerate/comm/sentence.h"

namespace accelerate::detail {

/// One c10d operation under way, with all that its error messages need.
class C10dPending final : public Work::Pending {
 public:
  struct Waiting {
    bool in_one_piece = false;      ///< A wait that ends early would end the operation.
    bool names_late_ranks = false;  ///< A wait that ends early throws an error that names them.
    bool orders_streams = false;    ///< The engine's wait() orders streams and does not block.
    std::uint64_t number = 0;       ///< Position among the group's collectives; 0 for a message.
    std::optional<Deadline> deadline = {};  ///< If not the timeout of the group.
    FlightTicket ticket = {};               ///< Where the operation is recorded.
  };

  C10dPending(c10::intrusive_ptr<c10d::Work> work, Sentence what, Waiting waiting,
              std::shared_ptr<GroupDiagnosis> diagnosis);

  void wait() override;
  [[nodiscard]] bool is_completed() const override { return work_->isCompleted(); }

 private:
  void wait_in_slices();
  void report_or_give_up(detail::Waiting& waiting);
  void order_streams();
  bool finished_within(const detail::Waiting& waiting);
  [[nodiscard]] CallInGroup call() const;

  c10::intrusive_ptr<c10d::Work> work_;
  Sentence what_;
  Waiting waiting_;
  std::shared_ptr<GroupDiagnosis> diagnosis_;
  std::string late_;  // What the engine says about ranks that have not begun the operation.
};

}  // namespace accelerate::detail
