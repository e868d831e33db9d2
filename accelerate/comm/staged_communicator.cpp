#include "accelerate/comm/staged_communicator.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <utility>

#include "accelerate/comm/followed_by.h"

namespace accelerate {
namespace {

class StagedCommunicator final : public Communicator {
 public:
  StagedCommunicator(std::shared_ptr<Communicator> engine, c10::Device device)
      : Communicator(engine->rank(), engine->size()), engine_(std::move(engine)), device_(device) {}

  std::string_view backend() const override { return engine_->backend(); }
  std::chrono::milliseconds timeout() const override { return engine_->timeout(); }

  at::Tensor empty(at::IntArrayRef sizes, const at::TensorOptions& options) override {
    return engine_->empty(sizes, options);
  }

  Work all_reduce(at::Tensor tensor, ReduceOp op) override {
    const auto near = fetch(tensor);
    return back(engine_->all_reduce(near, op), tensor, near);
  }
  Work reduce(at::Tensor tensor, int destination, ReduceOp op) override {
    const auto near = fetch(tensor);
    return back(engine_->reduce(near, destination, op), tensor, near);
  }
  Work broadcast(at::Tensor tensor, int source) override {
    const auto near = fetch(tensor);
    return back(engine_->broadcast(near, source), tensor, near);
  }
  Work all_gather(at::Tensor output, at::Tensor input) override {
    const auto near = room_for(output);
    return back(engine_->all_gather(near, fetch(input)), output, near);
  }
  Work reduce_scatter(at::Tensor output, at::Tensor input, ReduceOp op) override {
    const auto near = room_for(output);
    return back(engine_->reduce_scatter(near, fetch(input), op), output, near);
  }
  Work gather(std::vector<at::Tensor> outputs, at::Tensor input, int destination) override {
    std::vector<at::Tensor> near;
    for (const auto& output : outputs) near.push_back(room_for(output));
    return back(engine_->gather(near, fetch(input), destination), std::move(outputs), near);
  }
  Work scatter(at::Tensor output, std::vector<at::Tensor> inputs, int source) override {
    for (auto& input : inputs) input = fetch(input);
    const auto near = room_for(output);
    return back(engine_->scatter(near, std::move(inputs), source), output, near);
  }
  Work all_to_all(at::Tensor output, at::Tensor input) override {
    const auto near = room_for(output);
    return back(engine_->all_to_all(near, fetch(input)), output, near);
  }
  Work send(at::Tensor tensor, int destination, int tag) override {
    return engine_->send(fetch(tensor), destination, tag);
  }
  Work receive(at::Tensor tensor, int source, int tag) override {
    const auto near = room_for(tensor);
    return back(engine_->receive(near, source, tag), tensor, near);
  }
  void barrier() override { engine_->barrier(); }

  std::shared_ptr<Communicator> split(const std::vector<int>& ranks) override {
    auto part = engine_->split(ranks);
    return part ? stage_on(std::move(part), device_) : nullptr;
  }
  void abort(const std::string& reason) noexcept override { engine_->abort(reason); }
  void detach() override { engine_->detach(); }
  void renew() override { engine_->renew(); }
  int renewals() const override { return engine_->renewals(); }
  bool reduces_before_scatter() const override { return engine_->reduces_before_scatter(); }
  std::shared_ptr<detail::SharedGroup> shared_group() const override {
    return engine_->shared_group();
  }
  const C10dConnection* c10d() const override { return engine_->c10d(); }

 private:
  bool is_near(const at::Tensor& tensor) const {
    return !tensor.defined() || tensor.device() == device_;
  }
  // Puts the copy in the engine's memory, if it has any, so that the engine does not copy again.
  at::Tensor fetch(const at::Tensor& tensor) const {
    if (is_near(tensor)) return tensor;
    if (!tensor.is_contiguous()) return tensor.to(device_);  // the engine will refuse it
    const at::NoGradGuard no_grad;
    return room_for(tensor).copy_(tensor);
  }
  at::Tensor room_for(const at::Tensor& tensor) const {
    if (is_near(tensor)) return tensor;
    return engine_->empty(tensor.sizes(), tensor.options().device(device_));
  }

  static Work back(Work work, std::vector<at::Tensor> there, std::vector<at::Tensor> near) {
    bool moved = false;
    for (std::size_t i = 0; i < near.size(); ++i) moved = moved || !there[i].is_same(near[i]);
    if (!moved) return work;
    return followed_by(std::move(work), [there, near] {
      const at::NoGradGuard no_grad;
      for (std::size_t i = 0; i < near.size(); ++i) at::Tensor(there[i]).copy_(near[i]);
    });
  }
  static Work back(Work work, const at::Tensor& there, const at::Tensor& near) {
    return back(std::move(work), std::vector<at::Tensor>{there}, std::vector<at::Tensor>{near});
  }

  std::shared_ptr<Communicator> engine_;
  c10::Device device_;
};

}  // namespace

std::shared_ptr<Communicator> stage_on(std::shared_ptr<Communicator> engine, c10::Device device) {
  return std::make_shared<StagedCommunicator>(std::move(engine), device);
}

}  // namespace accelerate
