// Each function must not compile, and the compiler must say why: in the words that stand before it.
// refusals.cmake compiles all of them at once and looks for the words in errors.
#include <accelerate/accelerate.h>
#include <torch/torch.h>

namespace {

// says: a torch::data loader, which hides its dataset and sampler
void torch_data_loader(accelerate::Accelerator& accelerator) {
  auto loader = torch::data::make_data_loader(
      torch::data::datasets::TensorDataset(torch::ones({4}))
          .map(torch::data::transforms::Stack<torch::data::TensorExample>()));
  auto prepared = accelerator.prepare(loader);
}

// A unique_ptr would come back unprepared, and its gradients stay local.
// says: hand back unprepared
void pointer(accelerate::Accelerator& accelerator) {
  auto model = std::make_unique<torch::nn::LinearImpl>(2, 2);
  auto& prepared = accelerator.prepare(model);
}

// A unique_ptr to a schedule would come back unprepared, and step too often.
// says: hand back unprepared
void scheduler_pointer(accelerate::Accelerator& accelerator, torch::optim::SGD& sgd) {
  auto schedule = std::make_unique<accelerate::StepLR>(sgd, 3);
  auto& prepared = accelerator.prepare(schedule);
}

// The optimizer would end with the line that prepares it.
// says: temporary module or optimizer
void temporary(accelerate::Accelerator& accelerator, torch::nn::Linear& model) {
  auto prepared = accelerator.prepare(torch::optim::SGD(model->parameters(), 0.1));
}

struct NetImpl : torch::nn::Module {
  NetImpl() : layer(register_module("layer", torch::nn::Linear(2, 1))) {}
  torch::Tensor forward(const torch::Tensor& x) { return layer(x); }
  torch::nn::Linear layer;
};
TORCH_MODULE(Net);

struct Rows {
  [[nodiscard]] torch::Tensor get(std::size_t index) const { return torch::full({2}, int(index)); }
  [[nodiscard]] std::size_t size() const { return 8; }
};

struct RowsOfMutableSize {
  [[nodiscard]] torch::Tensor get(std::size_t index) { return torch::full({2}, int(index)); }
  std::size_t size() { return 8; }
};

// says: a loader is not a pointer: write `for (auto& batch : loader)`
void loops_over_a_pointer() {
  auto loader = accelerate::make_data_loader(Rows(), {.batch_size = 4});
  for (auto& batch : *loader) batch.zero_();
}

// says: this takes a prepared model: pass what accelerator.prepare(net) returned, not the module
void accumulates_for_a_module(accelerate::Accelerator& accelerator, Net& net) {
  auto window = accelerator.accumulate(net);
}

// says: this takes a prepared model: pass what accelerator.prepare(net) returned, not the module
void saves_a_module(accelerate::Accelerator& accelerator, Net& net) {
  accelerator.save_model(net, "out");
}

// says: torch::save takes a module: torch::save(model.unwrap(), path)
void saves_by_libtorch(accelerate::Accelerator& accelerator, Net& net) {
  auto model = accelerator.prepare(net);
  torch::save(model, "net.pt");
}

// says: the function of find_executable_batch_size takes the batch size first
void trains_without_a_batch_size(accelerate::Accelerator& accelerator) {
  auto train = accelerate::find_executable_batch_size(accelerator, [] {});
  train();
}

// says: the collate function does not take the dataset's samples
void collates_texts() {
  (void)accelerate::make_data_loader(Rows(), {}, [](const std::vector<std::string>& texts) {
    return torch::tensor(static_cast<long>(texts.size()));
  });
}

// says: the collate function does not take the dataset's samples
void collates_by_reference() {
  (void)accelerate::make_data_loader(
      Rows(), {}, [](std::vector<torch::Tensor>& rows) { return torch::stack(rows); });
}

// says: the dataset's size() must be const: declare `std::size_t size() const`
void reads_a_dataset_of_mutable_size() {
  (void)accelerate::make_data_loader(RowsOfMutableSize(), {.batch_size = 4});
}

// says: accelerate::DataLoaderOptions' has no non-static data member named 'batchsize'
void misspells_an_option() {
  const accelerate::DataLoaderOptions options{.batchsize = 4};
  (void)options;
}

// says: designator order for field 'accelerate::DataLoaderOptions::batch_size' does not match
void misplaces_an_option() {
  const accelerate::DataLoaderOptions options{.shuffle = true, .batch_size = 4};
  (void)options;
}

using Pair = std::pair<torch::Tensor, torch::Tensor>;

// says: A batch that is a pair or an Example goes in by its parts
void hands_a_pair_to_a_model(accelerate::Accelerator& accelerator, Net& net, const Pair& batch) {
  auto model = accelerator.prepare(net);
  model(batch);
}

// says: visit_tensors changes tensors, so it takes neither a const value nor a temporary
void visits_a_const_value(const std::vector<torch::Tensor>& batch) {
  accelerate::visit_tensors(batch, [](torch::Tensor& tensor) { tensor.zero_(); });
}

struct ConstVisited {
  torch::Tensor ids;
};
void visit_tensors(const ConstVisited& batch, auto&& fn) {
  fn(batch.ids);
}

// says: declare it as `void visit_tensors(YourStruct& value, auto&& fn)`, without const
void gathers_what_is_visited_as_const(accelerate::Accelerator& accelerator, ConstVisited& batch) {
  (void)accelerator.gather(batch);
}

struct Scores {
  double accuracy = 0;
};

// says: this value holds no tensor that the library can see
void gathers_a_plain_struct(accelerate::Accelerator& accelerator, const Scores& scores) {
  (void)accelerator.gather_for_metrics(scores);
}

// says: give schedules and functions of LibTorch the optimizer behind it
void schedules_a_prepared_optimizer(accelerate::Accelerator& accelerator, torch::optim::SGD& sgd) {
  auto optimizer = accelerator.prepare(sgd);
  torch::optim::StepLR schedule(optimizer, 3);
}

}  // namespace
