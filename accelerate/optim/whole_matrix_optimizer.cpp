#include "accelerate/optim/whole_matrix_optimizer.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/parallel/model_parts.h"

namespace accelerate {
namespace detail {
namespace {

using WeakModel = std::weak_ptr<const ModelParts>;

// Elements of a round, for each rank: a bound on the memory of a step.
constexpr std::int64_t kRoundElements = std::int64_t{1} << 26;

}  // namespace

// The elements of a matrix that a rank has.
struct MatrixPiece {
  std::int64_t begin = 0, numel = 0;

  [[nodiscard]] at::Tensor of(const at::Tensor& flat) const {
    return flat.narrow(0, numel == 0 ? 0 : begin, numel);
  }
};

struct MatrixPart {
  NamedShard shard;
  WeakModel model;
  std::vector<MatrixPiece> pieces;  // By rank. Empty until the ranks have told each other.
  int owner = -1;                   // The rank that computes; -1 for a matrix without elements.

  [[nodiscard]] std::int64_t numel() const { return c10::multiply_integers(shard.shape); }
  [[nodiscard]] bool is_on_one_rank() const {
    return owner < 0 || pieces[static_cast<std::size_t>(owner)].numel == numel();
  }
};

namespace {

Communicator& ranks_of(const MatrixPart& part, const std::shared_ptr<const ModelParts>& model) {
  if (model != nullptr) return *model->ranks_of(part.shard.local);
  throw UsageError("the optimizer holds a part of '" + part.shard.name +
                   "', but the sharded model is gone: keep the prepared model as long as its "
                   "optimizer steps");
}

// Returns how long the update of a matrix takes, up to a factor: its products have as many terms.
double work_of(const MatrixPart& part) {
  const auto& shape = part.shard.shape;
  return static_cast<double>(part.numel()) *
         static_cast<double>(shape.empty() ? 1 : *std::ranges::min_element(shape));
}

// Returns the rank with the least work among those that have elements of the matrix. Of equals, it
// is the rank with the most elements. The same on all ranks.
int choose_owner(const MatrixPart& part, const std::vector<double>& loads) {
  int owner = -1;
  for (std::size_t rank = 0; rank < loads.size(); ++rank) {
    const std::int64_t numel = part.pieces[rank].numel;
    if (numel == 0) continue;
    const auto best = static_cast<std::size_t>(std::max(owner, 0));
    const bool is_better = owner < 0 || loads[rank] < loads[best] ||
                           (loads[rank] == loads[best] && numel > part.pieces[best].numel);
    if (is_better) owner = static_cast<int>(rank);
  }
  return owner;
}

// A matrix on its way through a round: its parts come to the owner, and parts of the update go.
class Journey {
 public:
  Journey(const MatrixPart& part, at::Tensor parameter)
      : part_(part),
        model_(part.model.lock()),
        ranks_(ranks_of(part, model_)),
        parameter_(std::move(parameter)) {}

  // Sends `prepared`, this rank's part, to the owner, which begins to receive all parts.
  void set_out(const at::Tensor& prepared) {
    if (part_.owner < 0) return;
    if (!is_owner()) return send_to_owner(prepared);
    input_ = prepared;
    if (part_.is_on_one_rank()) return;
    input_ = at::empty({part_.numel()}, prepared.options());
    own_piece().of(input_).copy_(prepared);
    for_each_other([&](int rank, const MatrixPiece& piece) {
      works_.push_back(ranks_.receive(piece.of(input_), rank));
    });
  }

  // Computes the update on the owner, and begins to send its parts. Begins to receive elsewhere.
  void turn_back(const MatrixStep& step) {
    if (part_.owner < 0) return;
    if (!is_owner()) {
      if (own_piece().numel == 0) return;
      update_ = at::empty({own_piece().numel}, input_.options());
      return works_.push_back(ranks_.receive(update_, part_.owner));
    }
    wait();
    const at::Tensor update = step.compute(input_.view(part_.shard.shape));
    at::Tensor flat = update.reshape({-1});
    if (!part_.is_on_one_rank()) {
      flat = ranks_.empty({part_.numel()}, input_.options());
      flat.view(part_.shard.shape).copy_(update);
      for_each_other([&](int rank, const MatrixPiece& piece) {
        works_.push_back(ranks_.send(piece.of(flat), rank));
      });
    }
    input_ = flat;  // Lives until its parts are sent.
    step.apply(parameter_, own_piece().of(flat));
  }

  void arrive(const MatrixStep& step) {
    wait();
    if (update_.defined()) step.apply(parameter_, update_);
  }

 private:
  [[nodiscard]] bool is_owner() const { return ranks_.rank() == part_.owner; }
  [[nodiscard]] const MatrixPiece& own_piece() const {
    return part_.pieces[static_cast<std::size_t>(ranks_.rank())];
  }

  void send_to_owner(const at::Tensor& prepared) {
    if (prepared.numel() == 0) return;
    input_ = ranks_.empty(prepared.sizes(), prepared.options());
    input_.copy_(prepared);
    works_.push_back(ranks_.send(input_, part_.owner));
  }

  template <typename Fn>
  void for_each_other(const Fn& fn) const {
    for (int rank = 0; rank < ranks_.size(); ++rank) {
      const MatrixPiece& piece = part_.pieces[static_cast<std::size_t>(rank)];
      if (rank != ranks_.rank() && piece.numel > 0) fn(rank, piece);
    }
  }

  void wait() {
    for (auto& work : works_) work.wait();
    works_.clear();
  }

  const MatrixPart& part_;
  std::shared_ptr<const ModelParts> model_;
  Communicator& ranks_;
  at::Tensor parameter_;
  at::Tensor input_;   // On the owner the whole, elsewhere what is sent.
  at::Tensor update_;  // What comes from the owner.
  std::vector<Work> works_;
};

}  // namespace

// What a WholeMatrixOptimizer knows of parts.
struct MatrixParts {
  std::unordered_map<const void*, MatrixPart> held;  // By `local`.
  std::vector<const void*> unplanned;                // Keys of `held`, in the order of all ranks.
  std::map<WeakModel, std::vector<double>, std::owner_less<WeakModel>> loads;  // By rank.

  [[nodiscard]] const MatrixPart* find(const at::Tensor& parameter) const {
    const auto found = held.find(parameter.unsafeGetTensorImpl());
    return found == held.end() ? nullptr : &found->second;
  }

  void forget_models_that_are_gone() {
    std::erase_if(held, [](const auto& entry) { return entry.second.model.expired(); });
    std::erase_if(unplanned, [this](const void* key) { return !held.contains(key); });
    std::erase_if(loads, [](const auto& entry) { return entry.first.expired(); });
  }

  // Chooses who computes which of the new matrices. [collective if there are any]
  void plan() {
    std::vector<MatrixPart*> of_one_model;
    for (const void* key : std::exchange(unplanned, {})) {
      MatrixPart& part = held.at(key);
      const bool is_other =
          !of_one_model.empty() && of_one_model.front()->model.lock() != part.model.lock();
      if (is_other) plan(std::exchange(of_one_model, {}));
      of_one_model.push_back(&part);
    }
    if (!of_one_model.empty()) plan(of_one_model);
  }

  void plan(const std::vector<MatrixPart*>& parts) {
    const auto model = parts.front()->model.lock();
    Communicator& ranks = ranks_of(*parts.front(), model);
    const auto count = static_cast<std::int64_t>(parts.size());
    const at::Tensor mine = at::empty({count, 2}, at::kLong);
    auto* own = mine.mutable_data_ptr<std::int64_t>();
    for (const auto* part : parts) {
      *own++ = part->shard.begin;
      *own++ = part->shard.local.numel();
    }
    const at::Tensor all = at::empty({ranks.size(), count, 2}, at::kLong);
    ranks.all_gather(all, mine).wait();
    const auto* pieces = all.const_data_ptr<std::int64_t>();
    auto& work = loads[model];
    work.resize(static_cast<std::size_t>(ranks.size()));
    for (std::int64_t i = 0; i < count; ++i) {
      MatrixPart& part = *parts[static_cast<std::size_t>(i)];
      for (int rank = 0; rank < ranks.size(); ++rank) {
        const auto* piece = pieces + (rank * count + i) * 2;
        part.pieces.push_back({piece[0], piece[1]});
      }
      part.owner = choose_owner(part, work);
      if (part.owner >= 0) work[static_cast<std::size_t>(part.owner)] += work_of(part);
    }
  }
};

}  // namespace detail

WholeMatrixOptimizer::WholeMatrixOptimizer() : parts_(std::make_unique<detail::MatrixParts>()) {}
WholeMatrixOptimizer::~WholeMatrixOptimizer() = default;

void WholeMatrixOptimizer::hold_part(const NamedShard& part,
                                     const std::shared_ptr<const ModelParts>& model) {
  parts_->forget_models_that_are_gone();
  const void* const key = part.local.unsafeGetTensorImpl();
  if (parts_->held.emplace(key, detail::MatrixPart{part, model, {}, -1}).second)
    parts_->unplanned.push_back(key);
}

std::vector<std::int64_t> WholeMatrixOptimizer::shape_of(const at::Tensor& parameter) const {
  const auto* part = parts_->find(parameter);
  return part == nullptr ? parameter.sizes().vec() : part->shard.shape;
}

void WholeMatrixOptimizer::step_matrices(const std::vector<at::Tensor>& parameters,
                                         const MatrixStep& step) {
  parts_->plan();
  std::vector<detail::Journey> round;
  std::int64_t elements = 0;
  // All ranks go through the matrices in one order: so messages between two ranks match, and
  // neither waits for the other's send while it has a send before that.
  const auto run = [&] {
    for (auto& journey : round) journey.turn_back(step);
    for (auto& journey : round) journey.arrive(step);
    round.clear();
    elements = 0;
  };
  for (const auto& parameter : parameters) {
    const auto* part = parts_->find(parameter);
    if (part == nullptr) {
      step.apply(parameter, step.compute(step.prepare(parameter)));
      continue;
    }
    round.emplace_back(*part, parameter).set_out(step.prepare(parameter));
    elements += part->numel() / static_cast<std::int64_t>(part->pieces.size());
    if (elements >= detail::kRoundElements) run();
  }
  run();
}

}  // namespace accelerate
