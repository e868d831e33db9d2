// The pending operations of a C10dCommunicator.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "accelerate/comm/announced_call.h"
#include "accelerate/comm/communicator.h"
#include "accelerate/comm/diagnosis.h"

namespace accelerate::detail {

/// The name of an operation for errors. The text is made only when an error needs it.
struct Sentence {
  Sentence(std::string operation) : name(std::move(operation)) {}  // NOLINT: reads as its text
  /// text() is e.g. "all_reduce of Float[4]" or "save_state(): all_gather of Long[2]".
  Sentence(const char* operation, const at::Tensor& tensor)
      : name(operation), has_tensor(true), dtype(tensor.scalar_type()), sizes(tensor.sizes()) {}

  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::uint64_t bytes() const;

  const char* call = announced_call();
  std::string name;
  bool has_tensor = false;
  c10::ScalarType dtype = c10::ScalarType::Byte;
  at::DimVector sizes = {};
};

/// One c10d operation under way, with all that its error messages need.
class C10dPending final : public Work::Pending {
 public:
  struct Waiting {
    bool in_one_piece = false;      ///< A wait that ends early would end the operation.
    bool names_late_ranks = false;  ///< A wait that ends early throws an error that names them.
    bool orders_streams = false;    ///< The engine's wait() orders streams and does not block.
    std::uint64_t number = 0;       ///< Position among the group's collectives; 0 for a message.
    int peer = -1;  ///< The rank at the other end of a message; -1 for a collective.
    std::optional<Deadline> deadline = {};  ///< If not the timeout of the group.
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
  std::string late_;  // What the engine says about ranks that have not begun the operation.
};

}  // namespace accelerate::detail
