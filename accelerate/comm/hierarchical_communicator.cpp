#include "accelerate/comm/hierarchical_communicator.h"

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/comm/communicable_tensors.h"
#include "accelerate/comm/hierarchical_collectives.h"
#include "accelerate/comm/operation_queue.h"
#include "accelerate/comm/tensor_checks.h"

namespace accelerate {
namespace {

using detail::check_peer;
using detail::describe_tensor;
using detail::HostLayout;
using std::chrono::milliseconds;

// How long the destructor waits for work in flight.
constexpr milliseconds kGrace{2'000};

// Returns the whole text of `error` on one line without a full stop, for use inside a sentence.
std::string on_one_line(const std::exception& error) {
  std::string text = describe(error);
  for (auto end = text.find('\n'); end != std::string::npos; end = text.find('\n', end)) {
    const auto next = text.find_first_not_of(" \n", end);
    text.replace(end, (next == std::string::npos ? text.size() : next) - end, " ");
  }
  while (text.ends_with('.')) text.pop_back();
  return text;
}

// The members of a sub-group by host, in the order of the sub-group.
struct SubGroup {
  std::vector<int> host_of;       // by rank of the sub-group; hosts are numbered again
  std::vector<int> leaders;       // ranks of the whole group
  std::vector<int> of_this_host;  // places of its members inside this host
  bool several_on_a_host = false;
};

SubGroup sub_group(const std::vector<int>& ranks, const HostLayout& layout) {
  SubGroup sub;
  std::vector<int> hosts;  // by new number: the number in the whole group
  for (const int rank : ranks) {
    const int host = layout.host_of(rank);
    const auto known = std::find(hosts.begin(), hosts.end(), host);
    sub.several_on_a_host = sub.several_on_a_host || known != hosts.end();
    sub.host_of.push_back(static_cast<int>(known - hosts.begin()));
    if (known == hosts.end()) {
      hosts.push_back(host);
      sub.leaders.push_back(rank);
    }
    if (host == layout.host()) sub.of_this_host.push_back(layout.place_of(rank));
  }
  return sub;
}

class HierarchicalCommunicator final : public Communicator {
 public:
  HierarchicalCommunicator(Hierarchy parts, HostLayout layout)
      : Communicator(parts.flat->rank(), parts.flat->size()),
        flat_(std::move(parts.flat)),
        levels_{std::move(layout), {parts.inside, ""}, {parts.between, ""}, parts.chunk_bytes},
        name_(std::string(parts.inside->backend()) + "+" + std::string(flat_->backend())),
        queue_([this](const std::exception& error) { end_levels(on_one_line(error)); }) {
    levels_.inside = {parts.inside, levels_.layout.inside_text()};
    levels_.between = {parts.between, levels_.layout.between_text()};
  }

  ~HierarchicalCommunicator() override {
    if (std::uncaught_exceptions() > exceptions_at_start_) {
      abort("it left because of an exception");
    } else if (!queue_.idle_within(std::min(timeout(), kGrace))) {
      abort("it left the group with work in flight");
    }
  }

  std::string_view backend() const override { return name_; }
  milliseconds timeout() const override { return flat_->timeout(); }

  at::Tensor empty(at::IntArrayRef sizes, const at::TensorOptions& options) override {
    return levels_.inside.communicator()->empty(sizes, options);
  }

  Work all_reduce(at::Tensor tensor, ReduceOp op) override {
    auto staged = stage(tensor, op);
    return submit("all_reduce", tensor, [this, op, staged = std::move(staged)] {
      detail::all_reduce_by_host(levels_, staged.tensor, op);
      if (staged.finish) staged.finish();
    });
  }

  Work reduce_scatter(at::Tensor output, at::Tensor input, ReduceOp op) override {
    detail::check_parts("reduce_scatter", output, input, size());
    auto out = stage(output, op);
    auto in = stage(input, op);
    return submit("reduce_scatter", input,
                  [this, op, out = std::move(out), in = std::move(in.tensor)] {
                    detail::reduce_scatter_by_host(levels_, out.tensor, in, op);
                    if (out.finish) out.finish();
                  });
  }

  Work all_gather(at::Tensor output, at::Tensor input) override {
    detail::check_parts("all_gather", input, output, size());
    detail::check_communicable(output);
    detail::check_communicable(input);
    return submit("all_gather", input,
                  [this, output, input] { detail::all_gather_by_host(levels_, output, input); });
  }

  Work broadcast(at::Tensor tensor, int source) override {
    check_peer(source, size());
    detail::check_communicable(tensor);
    return submit("broadcast", tensor,
                  [this, tensor, source] { detail::broadcast_by_host(levels_, tensor, source); });
  }

  void barrier() override {
    enqueue("barrier", [this] { detail::barrier_by_host(levels_); }).wait();
  }

  Work reduce(at::Tensor tensor, int destination, ReduceOp op) override {
    return flat_->reduce(std::move(tensor), destination, op);
  }
  Work gather(std::vector<at::Tensor> outputs, at::Tensor input, int destination) override {
    return flat_->gather(std::move(outputs), std::move(input), destination);
  }
  Work scatter(at::Tensor output, std::vector<at::Tensor> inputs, int source) override {
    return flat_->scatter(std::move(output), std::move(inputs), source);
  }
  Work all_to_all(at::Tensor output, at::Tensor input) override {
    return flat_->all_to_all(std::move(output), std::move(input));
  }
  Work send(at::Tensor tensor, int destination, int tag) override {
    return flat_->send(std::move(tensor), destination, tag);
  }
  Work receive(at::Tensor tensor, int source, int tag) override {
    return flat_->receive(std::move(tensor), source, tag);
  }

  // Every rank takes part in the splits of its `inside` and of `flat`, even if it is not in the new
  // group. So all ranks split the same groups in the same order.
  std::shared_ptr<Communicator> split(const std::vector<int>& ranks) override {
    detail::check_members(ranks, size());
    const SubGroup sub = sub_group(ranks, levels_.layout);
    if (!sub.several_on_a_host) return flat_->split(ranks);
    auto inside = split_inside(sub.of_this_host);
    if (sub.leaders.size() == 1) return inside;
    auto flat = flat_->split(ranks);
    auto between = flat_->split(sub.leaders);
    if (!flat) return nullptr;
    return make_hierarchical_communicator(
        {sub.host_of, std::move(flat), std::move(inside), std::move(between), levels_.chunk_bytes});
  }

  void abort(const std::string& reason) noexcept override {
    flat_->abort(reason);
    try {
      queue_.fail(std::make_exception_ptr(CommError("rank " + std::to_string(rank()) + " of " +
                                                    std::to_string(size()) +
                                                    " has given up the group: " + reason)));
    } catch (const std::exception&) {
      // Out of memory: the operations will fail because their connections are closed.
    }
    end_levels(reason);
  }

  void renew() override {
    abort("the group is being connected again");
    (void)queue_.idle_within(timeout());
    flat_->renew();
    levels_.inside.communicator()->renew();
    if (levels_.between.communicator()) levels_.between.communicator()->renew();
    queue_.recover();
  }
  int renewals() const override { return flat_->renewals(); }

  void detach() override {
    flat_->detach();
    levels_.inside.communicator()->detach();
    if (levels_.between.communicator()) levels_.between.communicator()->detach();
  }

  bool reduces_before_scatter() const override { return flat_->reduces_before_scatter(); }
  const C10dConnection* c10d() const override { return flat_->c10d(); }

 private:
  // Stages a mean as a sum, because the collectives over both levels divide it.
  [[nodiscard]] detail::Staged stage(const at::Tensor& tensor, ReduceOp op) const {
    detail::check_reduction(tensor, op);
    return detail::stage_for_reduction(tensor, op == ReduceOp::mean ? ReduceOp::sum : op, size());
  }

  Work submit(const char* what, const at::Tensor& tensor, std::function<void()> operation) {
    if (tensor.numel() == 0) return {};
    return enqueue(std::string(what) + " of " + describe_tensor(tensor), std::move(operation));
  }

  Work enqueue(std::string what, std::function<void()> operation) {
    return queue_.submit([this, what = std::move(what), operation = std::move(operation)] {
      try {
        operation();
      } catch (const CommError&) {
        throw_with_context<CommError>("rank " + std::to_string(rank()) + " of " +
                                      std::to_string(size()) + ": " + what + " failed");
      }
    });
  }

  // Splits on the queue's thread, after the operations there that use `inside`.
  std::shared_ptr<Communicator> split_inside(const std::vector<int>& places) {
    std::shared_ptr<Communicator> part;
    enqueue("split", [&] {
      part = levels_.inside([&](Communicator& inside) { return inside.split(places); });
    }).wait();
    return part;
  }

  void end_levels(const std::string& reason) noexcept {
    levels_.inside.communicator()->abort(reason);
    if (levels_.between.communicator()) levels_.between.communicator()->abort(reason);
  }

  std::shared_ptr<Communicator> flat_;
  detail::Levels levels_;
  std::string name_;
  int exceptions_at_start_ = std::uncaught_exceptions();
  detail::OperationQueue queue_;  // last, because its thread uses the other members
};

// Checks that each part has the ranks that the layout gives it; else ranks would wait in vain.
void check_parts_fit(const Hierarchy& parts, const HostLayout& layout) {
  const int rank = parts.flat->rank();
  const auto& own = layout.members(layout.host());
  const bool inside_fits = parts.inside != nullptr &&
                           parts.inside->size() == static_cast<int>(own.size()) &&
                           parts.inside->rank() == layout.place_of(rank);
  const bool between_fits = layout.leads() ? parts.between != nullptr &&
                                                 parts.between->size() == layout.hosts() &&
                                                 parts.between->rank() == layout.host()
                                           : parts.between == nullptr;
  if (layout.size() == parts.flat->size() && inside_fits && between_fits && parts.chunk_bytes > 0) {
    return;
  }
  const auto members = std::to_string(own.size());
  throw UsageError("the groups of a hierarchy do not match on rank " + std::to_string(rank) +
                   " of " + std::to_string(parts.flat->size()) + ". This rank is number " +
                   std::to_string(layout.place_of(rank)) + " of " + members + " on host " +
                   std::to_string(layout.host()) + " of " + std::to_string(layout.hosts()) +
                   ". `inside` must be the group of these " + members +
                   " ranks. `between` must be the group of the hosts' leaders, and null on other "
                   "ranks");
}

}  // namespace

std::shared_ptr<Communicator> make_hierarchical_communicator(Hierarchy parts) {
  if (parts.flat == nullptr) throw UsageError("a hierarchy needs a group of all ranks");
  HostLayout layout(parts.host_of, parts.flat->rank());
  if (layout.hosts() == 1) return parts.inside;
  check_parts_fit(parts, layout);
  return std::make_shared<HierarchicalCommunicator>(std::move(parts), std::move(layout));
}

}  // namespace accelerate
