// What a C10dCommunicator waits for.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "accelerate/comm/announced_call.h"
#include "accelerate/comm/communicator.h"
#include "accelerate/comm/diagnosis.h"

namespace accelerate::detail {

/// An operation as errors name it, put into words only when there is one.
struct Sentence {
  Sentence(std::string operation) : name(std::move(operation)) {}  // NOLINT: reads as its text
  /// "all_reduce of Float[4]", "save_state(): all_gather of Long[2]"
  Sentence(const char* operation, const at::Tensor& tensor)
      : name(operation), has_tensor(true), dtype(tensor.scalar_type()), sizes(tensor.sizes()) {}

  [[nodiscard]] std::string text() const;

  const char* call = announced_call();
  std::string name;
  bool has_tensor = false;
  c10::ScalarType dtype = c10::ScalarType::Byte;
  at::DimVector sizes = {};
};

/// One c10d operation under way, with what is needed to say what went wrong.
class C10dPending final : public Work::Pending {
 public:
  struct Waiting {
    bool in_one_piece = false;      ///< A wait that ends early would end the operation.
    bool names_late_ranks = false;  ///< In the error of a wait that ends early.
    bool orders_streams = false;  ///< The engine's work is ordered behind streams, not waited for.
    std::uint64_t number = 0;  ///< Among the collectives of the group; 0 for a message.
    int peer = -1;             ///< Whom a message comes from or goes to.
  };

  C10dPending(c10::intrusive_ptr<c10d::Work> work, Sentence what, Waiting waiting,
              std::shared_ptr<GroupDiagnosis> diagnosis);

  void wait() override;
  [[nodiscard]] bool is_completed() const override { return work_->isCompleted(); }

 private:
  void report_or_give_up(detail::Waiting& waiting);
  void order_streams();
  bool finished_within(const detail::Waiting& waiting);
  [[nodiscard]] CallInGroup call() const;

  c10::intrusive_ptr<c10d::Work> work_;
  Sentence what_;
  Waiting waiting_;
  std::shared_ptr<GroupDiagnosis> diagnosis_;
  std::string late_;  // What the engine says of ranks that have not come.
};

}  // namespace accelerate::detail
