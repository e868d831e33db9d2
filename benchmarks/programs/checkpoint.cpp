// Saves and loads fp32 tensors of 16 MiB each in a folder, and leaves nothing there. Arguments:
// what to do (state, tensors, load, asynchronous), the total size in MiB, the folder.
#include <torch/nn.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "accelerate/accelerate.h"
#include "benchmarks/programs/measure.h"

namespace {

using Path = std::filesystem::path;

struct NetImpl : torch::nn::Module {
  explicit NetImpl(int mebibytes) {
    constexpr int kTensorMiB = 16;
    const torch::NoGradGuard no_grad;
    for (int i = 0; i * kTensorMiB < mebibytes; ++i)
      register_parameter("weight_" + std::to_string(i), at::arange(kTensorMiB << 18, at::kFloat));
  }
  at::Tensor forward(const at::Tensor& x) { return x; }
};
TORCH_MODULE(Net);

// Resets VmHWM, so that it is the peak from now on.
void forget_peak() {
  std::ofstream("/proc/self/clear_refs") << 5;
}

// Reports how long a synced save takes, and the memory that it needs beside the state.
void state(accelerate::Accelerator& accelerator, const Path& folder) {
  forget_peak();
  const auto before_kib = bench::status_kib("VmRSS");
  const double seconds = bench::seconds_of([&] { accelerator.save_state(folder / "state"); });
  const auto extra_kib = bench::status_kib("VmHWM") - before_kib;
  bench::report({{"save_seconds", seconds}, {"extra_kib", extra_kib}});
}

// Saves without a sync, as the original does.
void tensors(Net& net, const Path& folder) {
  const auto named = accelerate::state_dict(accelerate::view_of(*net));
  const double seconds = bench::seconds_of([&] {
    accelerate::save_tensors(named, folder / "tensors.safetensors", accelerate::real_file_system(),
                             {.durable = false});
  });
  bench::report({{"save_seconds", seconds}});
}

void load(accelerate::Accelerator& accelerator, const Path& folder) {
  accelerator.save_state(folder / "state");
  std::vector<double> map_seconds;
  for (int i = 0; i < 5; ++i)
    map_seconds.push_back(bench::seconds_of(
        [&] { (void)accelerate::map_tensors(folder / "state" / "model.safetensors"); }));
  const double seconds = bench::seconds_of([&] { accelerator.load_state(folder / "state"); });
  bench::report({{"map_seconds", map_seconds}, {"load_seconds", seconds}});
}

// Reports how long a save stalls the training, and how long plain copies of the same bytes take
// into memory that is already mapped.
void asynchronous(accelerate::Accelerator& accelerator, Net& net, const Path& folder) {
  const auto parameters = net->parameters();
  std::vector<at::Tensor> copies;
  for (const auto& parameter : parameters) copies.push_back(parameter.detach().clone());
  std::vector<double> stall_seconds, copy_seconds;
  for (int i = 0; i < 4; ++i) {
    copy_seconds.push_back(bench::seconds_of([&] {
      for (std::size_t k = 0; k < copies.size(); ++k)
        std::memcpy(copies[k].mutable_data_ptr(), parameters[k].const_data_ptr(),
                    copies[k].nbytes());
    }));
    stall_seconds.push_back(bench::seconds_of(
        [&] { accelerator.save_state(folder / "state", {.asynchronous = true}); }));
    accelerator.wait_for_save();
  }
  const double first_seconds = stall_seconds.front();
  stall_seconds.erase(stall_seconds.begin());
  copy_seconds.erase(copy_seconds.begin());
  bench::report({{"stall_seconds", stall_seconds},
                 {"copy_seconds", copy_seconds},
                 {"first_seconds", first_seconds}});
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv, argv + argc);
  if (words.size() != 4) throw std::invalid_argument("usage: " + words[0] + " WHAT MIB FOLDER");
  const Path folder = Path(words[3]) / "ours";
  std::filesystem::create_directories(folder);
  {
    accelerate::Accelerator accelerator({.cpu = true});
    Net net(std::stoi(words[2]));
    const auto model = accelerator.prepare(net);
    if (words[1] == "state") state(accelerator, folder);
    if (words[1] == "tensors") tensors(net, folder);
    if (words[1] == "load") load(accelerator, folder);
    if (words[1] == "asynchronous") asynchronous(accelerator, net, folder);
  }
  std::filesystem::remove_all(folder);
}
