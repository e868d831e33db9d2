#include "accelerate/transformers/trainer/ranks.h"

#include <ATen/ops/tensor.h>

#include <algorithm>

#include "accelerate/accelerator/accelerator.h"
#include "accelerate/base/error.h"
#include "accelerate/base/untrusted_text.h"
#include "accelerate/comm/objects.h"

namespace accelerate::detail {

Logger trainer_logger() {
  return get_logger("accelerate.trainer");
}

void say(const Accelerator& accelerator, std::string_view text) {
  if (accelerator.is_main_process())
    accelerator.print(untrusted_text(text, std::string_view::npos));
}

std::vector<double> sum_of_ranks(Accelerator& accelerator, const std::vector<double>& mine) {
  if (accelerator.num_processes() == 1) return mine;
  const at::Tensor local = at::tensor(mine, at::TensorOptions(at::kDouble));
  const at::Tensor all = accelerator.reduce(local.to(accelerator.device()), ReduceOp::sum).cpu();
  const auto* first = all.const_data_ptr<double>();
  return {first, first + all.numel()};
}

std::int64_t least_of_ranks(Accelerator& accelerator, std::int64_t mine) {
  std::vector<double> all(static_cast<std::size_t>(accelerator.num_processes()), 0.0);
  all[static_cast<std::size_t>(accelerator.process_index())] = static_cast<double>(mine);
  return static_cast<std::int64_t>(std::ranges::min(sum_of_ranks(accelerator, all)));
}

void on_main_process(Accelerator& accelerator, const std::function<void()>& action) {
  std::string obstacle;
  if (accelerator.is_main_process()) {
    try {
      action();
    } catch (const Error& error) {
      obstacle = describe(error);
    }
  }
  obstacle = broadcast_object(accelerator.communicator(), obstacle);
  if (!obstacle.empty()) throw ConfigError(obstacle);
}

}  // namespace accelerate::detail
