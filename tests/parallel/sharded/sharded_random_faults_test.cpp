// Random models, strategies and homes of whole parameters, and one random fault at a random moment
// of training: ranks end in the weights of one process, or in a typed error, and never hang.
// ACCELERATE_RANDOM_FAULTS says how many plays (30), ACCELERATE_RANDOM_SEED where they begin.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <iostream>
#include <thread>

#include "accelerate/accelerate.h"
#include "accelerate/comm/rendezvous.h"
#include "accelerate/optim/sharded_groups.h"
#include "tests/parallel/sharded/sharded_fault_plan.h"
#include "tests/support/hosts.h"
#include "tests/support/scenario.h"

namespace accelerate::testing {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): "20s" reads well
using ToDo = std::function<void()>;

constexpr auto kTimeout = 5s;  // Of every collective of a play that may run into it.
constexpr const char* kMishap = "sample 17 is broken";

// Hands on what it gets, and in backward does something else first.
struct Passage : torch::autograd::Function<Passage> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const ToDo* to_do) {
    context->saved_data["to_do"] = reinterpret_cast<std::int64_t>(to_do);
    return x.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    (*reinterpret_cast<const ToDo*>(context->saved_data["to_do"].toInt()))();
    return {gradients[0], at::Tensor()};
  }
};

// Two nets, and what may happen between them.
struct FragileNetImpl : torch::nn::Module {
  explicit FragileNetImpl(const ShardedNetOptions& options) : lower(options), upper(options) {
    register_module("lower", lower);
    register_module("upper", upper);
    to(torch::kDouble);
  }
  at::Tensor forward(const at::Tensor& x, bool takes_branch) {
    const auto between = lower(x, takes_branch);
    if (in_forward) in_forward();
    return upper(Passage::apply(between, &in_backward), takes_branch);
  }
  ShardedNet lower, upper;
  ToDo in_forward, in_backward;
};
TORCH_MODULE(FragileNet);

class FragileSgd : public torch::optim::SGD {
 public:
  using SGD::SGD;
  at::Tensor step(LossClosure closure = nullptr) override {
    in_step();
    return SGD::step(closure);
  }
  ToDo in_step;
};

// One rank, or one process that trains on the batches of all of them.
class Trainer {
 public:
  Trainer(const ShardedFaultPlan& plan, const std::shared_ptr<Communicator>& comm, Stage* stage)
      : plan_(plan), comm_(comm), stage_(stage) {}

  // Returns the weights at the end.
  std::vector<at::Tensor> play() {
    pass(Moment::prepare);
    register_elementwise_optimizer<FragileSgd>();
    Accelerator accelerator(
        {.gradient_accumulation_plugin =
             GradientAccumulationPlugin{.num_steps = plan_.accumulation},
         .fsdp_plugin = stage_ != nullptr ? std::optional(plan_.plugin()) : std::nullopt,
         .communicator = comm_});
    FragileNet net(plan_.net);
    FragileSgd sgd(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
    auto [model, optimizer] = accelerator.prepare(net, sgd);
    net->in_forward = [&] {
      if (at::GradMode::is_enabled()) pass(Moment::forward);
    };
    net->in_backward = [this] { pass(Moment::backward); };
    sgd.in_step = [this] { pass(Moment::step); };
    read_alone_ = [&] { read(net->upper->head_weight); };
    for (step_ = 0; step_ < plan_.steps_of(comm_->rank()); ++step_) {
      if (stage_ != nullptr) tell(step_ + 1);
      try {
        train(accelerator, model, optimizer);
      } catch (const DataError&) {
        if (!catches()) throw;
        optimizer.zero_grad();
        if (plan_.fault == Fault::throws_and_retries) --step_;
      }
    }
    step_ = plan_.step;
    pass(Moment::end);
    return end(accelerator, model);
  }

 private:
  // --- the loop ----------------------------------------------------------------------------------
  void train(Accelerator& accelerator, Prepared<FragileNet>& model,
             AcceleratedOptimizer& optimizer) {
    pass(Moment::between);
    {
      const auto window = accelerator.accumulate(model);
      const auto x = inputs();
      accelerator.backward((model(x, takes_branch()) - x.flip(1)).square().mean());
      pass(Moment::clip);
      if (accelerator.sync_gradients()) accelerator.clip_grad_norm_(model.parameters(), 0.5);
      optimizer.step();
      pass(Moment::zero_grad);
      optimizer.zero_grad();
    }
    if (step_ % 2 == 0) return;
    evaluate(model);
    change(model);
  }

  void evaluate(Prepared<FragileNet>& model) {
    const at::NoGradGuard no_grad;
    pass(Moment::evaluation);
    if (!model(inputs(), false).isfinite().all().item<bool>()) throw UsageError("not finite");
  }

  void change(Prepared<FragileNet>& model) {
    const at::NoGradGuard no_grad;
    const auto whole = model.summon_full_params({.writeback = plan_.writes_back});
    pass(Moment::summon);
    if (plan_.writes_back) model->upper->head_weight.mul_(0.99);
  }

  std::vector<at::Tensor> end(Accelerator& accelerator, Prepared<FragileNet>& model) {
    evaluate(model);
    std::vector<at::Tensor> weights;
    if (plan_.is_harmless()) {
      const auto whole = model.summon_full_params({.writeback = false});
      for (const auto& leaf : model.parameters()) weights.push_back(leaf.detach().clone());
    }
    if (plan_.meets_at_end) accelerator.wait_for_everyone();
    return weights;
  }

  [[nodiscard]] at::Tensor inputs() const { return rows_of(step_, *comm_); }
  [[nodiscard]] bool takes_branch() const { return plan_.takes_branch(comm_->rank(), step_); }

  // --- the fault ---------------------------------------------------------------------------------
  void tell(int step) { stage_->steps[static_cast<std::size_t>(comm_->rank())] = step; }

  [[nodiscard]] bool catches() const {
    return plan_.fault == Fault::all_throw_and_go_on || plan_.fault == Fault::throws_and_goes_on ||
           plan_.fault == Fault::throws_and_retries;
  }

  void pass(Moment moment) {
    const bool here = moment == plan_.moment && (moment == Moment::prepare || step_ == plan_.step);
    const bool all = plan_.fault == Fault::all_throw_and_go_on;
    if (!here || struck_ || (!all && (stage_ == nullptr || comm_->rank() != plan_.victim))) return;
    struck_ = true;
    strike();
  }

  void strike() {
    switch (plan_.fault) {
      case Fault::killed:
        raise(SIGKILL);
        return;
      case Fault::stopped_briefly:
      case Fault::stopped_then_killed:
      case Fault::stopped_too_long:
        raise(SIGSTOP);
        return;
      case Fault::exits:
        _exit(0);
      case Fault::all_throw_and_go_on:
      case Fault::throws_and_goes_on:
      case Fault::throws_and_retries:
      case Fault::throws:
        throw DataError(kMishap);
      case Fault::aborts:
        comm_->abort(kMishap);
        throw DataError(kMishap);
      case Fault::reads_alone:
        return read_alone_();
      default:
        return;
    }
  }

  // One rank reads what others do not: a number, or a sentence.
  void read(const at::Tensor& parameter) const {
    std::string found = "a number";
    try {
      (void)parameter.norm().item<double>();
    } catch (const c10::Error& error) {
      found = error.what();
    }
    const bool may =
        plan_.gathers_by_no_collective() || plan_.strategy == ShardingStrategy::NO_SHARD;
    if (found.find(may ? "a number" : "open summon_full_params()") != std::string::npos) return;
    throw std::runtime_error("read alone: " + found);
  }

  const ShardedFaultPlan& plan_;
  std::shared_ptr<Communicator> comm_;
  Stage* stage_;
  ToDo read_alone_;
  int step_ = -1;
  bool struck_ = false;
};

void require_equal(const std::vector<at::Tensor>& found, const std::vector<at::Tensor>& expected) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double off = (found.at(i) - expected[i]).abs().max().item<double>();
    if (!(off < 1e-10)) throw std::runtime_error("weights are off by " + std::to_string(off));
  }
}

void perform(const ShardedFaultPlan& plan, const std::shared_ptr<Communicator>& comm,
             Stage& stage) {
  const auto found = Trainer(plan, comm, &stage).play();
  const bool is_plain = plan.is_harmless() && plan.fault != Fault::takes_other_branch;
  if (!is_plain || comm->rank() != 0) return;
  require_equal(found, Trainer(plan, single_communicator(), nullptr).play());
}

std::shared_ptr<Communicator> meet(Home home, const RendezvousOptions& place) {
  if (home == Home::pages || home == Home::windows) {
    return rendezvous(place, {.backend = "shared_memory"});
  }
  auto flat = rendezvous(place, {.backend = "gloo"});
  if (home == Home::collectives) return flat;
  std::vector<int> host_of;
  for (int rank = 0; rank < place.world_size; ++rank) host_of.push_back(rank % 2);
  return hierarchy_over(flat, host_of, {.timeout = place.timeout, .inside = Engine::shared_memory});
}

// --- the watcher ---------------------------------------------------------------------------------

// It stops itself, or has ended; it is left to be waited for.
void wait_until_stopped(pid_t pid) {
  siginfo_t info;
  waitid(P_PID, static_cast<id_t>(pid), &info, WSTOPPED | WEXITED | WNOWAIT);
}

void act(const ShardedFaultPlan& plan, Stage& stage, const std::vector<pid_t>& pids,
         Findings& findings) {
  if (!plan.is_from_outside()) return;
  const pid_t victim = pids[static_cast<std::size_t>(plan.victim)];
  if (plan.fault == Fault::killed_at_any_time) {
    (void)stage.wait_for_step(plan.victim, plan.step + 1);
    std::this_thread::sleep_for(plan.delay);
    kill(victim, SIGKILL);
    return;
  }
  wait_until_stopped(victim);
  if (plan.fault == Fault::stopped_too_long) {
    findings.expect(stage.wait_for_end_of_all_but(plan.victim, plan.ranks),
                    plan.describe() + ": the others wait for what is stopped");
  } else {
    std::this_thread::sleep_for(100ms);
  }
  const bool goes_on = plan.fault == Fault::stopped_briefly ||
                       (plan.fault == Fault::stopped_too_long && plan.revives);
  kill(victim, goes_on ? SIGCONT : SIGKILL);
}

// It has a step that needs the others, who do not make it.
bool is_alone_in_the_end(const ShardedFaultPlan& plan, int rank) {
  if (plan.fault == Fault::one_step_fewer) return rank != plan.victim;
  return plan.fault == Fault::one_step_more && rank == plan.victim && plan.accumulation == 1;
}

bool is_typed(int status) {
  return status == kFine || status == kCommError || status == kUsageError;
}

// What `ended`, which is not the victim of a deadly fault, may have come to.
bool may_end_so(const ShardedFaultPlan& plan, int rank, const Ended& ended, bool was_in_last_step) {
  if (plan.is_harmless()) return ended.status == kFine;
  if (is_alone_in_the_end(plan, rank) && ended.status == kFine) return false;
  if (!plan.is_deadly()) return is_typed(ended.status);
  const bool may_be_fine = was_in_last_step || plan.moment == Moment::end;
  return ended.status == kCommError || (ended.status == kFine && may_be_fine);
}

// Who goes another way than the others is told so, and does not wait for them.
void check_branches(const ShardedFaultPlan& plan, const std::vector<Ended>& ended,
                    Findings& findings) {
  if (!plan.gathers_more_in_forward()) return;
  const auto says = [](const Ended& one, const char* part) {
    return one.text.find(part) != std::string::npos;
  };
  const auto names_unit = [&](const Ended& one) {
    // Where the unit is there already, backward finds it out.
    return one.status == kUsageError &&
           (says(one, "is about to gather unit '") || says(one, "computes gradients of unit '"));
  };
  std::string said;
  for (const Ended& one : ended) said += "\n  " + std::to_string(one.status) + ": " + one.text;
  findings.expect(std::ranges::any_of(ended, names_unit),
                  plan.describe() + ": nobody names it" + said);
  for (int rank = 0; rank < plan.ranks; ++rank) {
    const auto& one = ended[static_cast<std::size_t>(rank)];
    if (!plan.takes_branch(rank, plan.step)) continue;
    findings.expect(!says(one, "within"), plan.describe() + ": rank " + std::to_string(rank) +
                                              " takes the branch and waits: " + one.text);
  }
}

void check(unsigned seed, Findings& findings) {
  const ShardedFaultPlan plan(seed);
  Scenario scenario;
  scenario.ranks = plan.ranks;
  scenario.timeout = plan.is_harmless() ? 20s : kTimeout;
  scenario.meet = [&](const RendezvousOptions& place) { return meet(plan.home, place); };
  scenario.body = [&](const std::shared_ptr<Communicator>& comm, Stage& stage) {
    perform(plan, comm, stage);
  };
  bool was_in_last_step = false;
  scenario.outside = [&](Stage& stage, const std::vector<pid_t>& pids) {
    act(plan, stage, pids, findings);
    was_in_last_step = stage.steps[static_cast<std::size_t>(plan.victim)] >= kStepsOfPlay;
  };
  const auto ended = play(scenario);
  check_branches(plan, ended, findings);
  for (int rank = 0; rank < plan.ranks; ++rank) {
    const auto& one = ended[static_cast<std::size_t>(rank)];
    const bool is_victim = rank == plan.victim && plan.is_deadly();
    findings.expect(is_victim ? one.status != kHung : may_end_so(plan, rank, one, was_in_last_step),
                    plan.describe() + ": rank " + std::to_string(rank) + " ended with " +
                        std::to_string(one.status) + ": " + one.text);
  }
}

RANK_MAIN(play_random_faults_of_sharded_training) {
  Findings findings;
  const unsigned count = number_in("ACCELERATE_RANDOM_FAULTS", 30);
  const unsigned seed = number_in("ACCELERATE_RANDOM_SEED", std::random_device{}() % 1'000'000'000);
  for (unsigned i = 0; i < count; ++i) check(seed + i, findings);
  findings.expect_nothing_left();
  std::cout << count << " plays from seed " << seed << std::endl;
  return findings.exit_code();
}

TEST(ShardedRandomFaults, NeitherHangNorSpoilWeightsNorLeaveAnything) {
  const unsigned count = number_in("ACCELERATE_RANDOM_FAULTS", 30);
  expect_no_findings("play_random_faults_of_sharded_training", "", 200s + count * 4s);
}

}  // namespace
}  // namespace accelerate::testing
