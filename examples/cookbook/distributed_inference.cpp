// Lets a trained decoder continue many prompts, each on one of the processes, and writes all texts
// in the order of the prompts.
//   accelerate launch --num_processes 2 distributed_inference --model causal_lm_output
#include <accelerate/transformers.h>

#include <algorithm>
#include <string>
#include <vector>

namespace {

using namespace accelerate;

struct Arguments {
  std::string model = "causal_lm_output";
  std::string prompts = "examples/cookbook/data/prompts.txt";
  std::int64_t new_tokens = 4, batch_size = 2;
};

template <typename Visit>
void visit_arguments(Arguments& mine, Visit&& argument) {
  argument("model", mine.model, "A trained decoder.");
  argument("prompts", mine.prompts, "A file with a prompt in each line.");
  argument("new_tokens", mine.new_tokens, "Tokens that the model adds to each.");
  argument("batch_size", mine.batch_size, "Prompts that a process continues at once.");
}

void run(const Arguments& mine) {
  Accelerator accelerator;
  auto tokenizer = AutoTokenizer::from_pretrained(mine.model);
  tokenizer.set_padding_side(Side::left);  // New tokens follow the last token of each prompt.
  const auto model = AutoModelForCausalLM::from_pretrained(mine.model);
  model->to(accelerator.device());
  std::vector<std::string> prompts;
  for (const Row& row : load_dataset("text", {.data_files = mine.prompts}).only())
    prompts.push_back(row["text"].text());

  const auto mine_alone = accelerator.split_between_processes(prompts);
  std::vector<std::string> texts;
  for (std::size_t begin = 0; begin < mine_alone.size(); begin += mine.batch_size) {
    const auto end = std::min(begin + mine.batch_size, mine_alone.size());
    const std::vector<std::string> batch(mine_alone.begin() + begin, mine_alone.begin() + end);
    const auto ids = model->generate(
        send_to_device(to_inputs(tokenizer(batch, {.padding = true})), accelerator.device()),
        {.max_new_tokens = mine.new_tokens, .do_sample = false});
    for (const auto& row : ids.cpu().unbind(0)) {
      const auto* tokens = row.const_data_ptr<std::int64_t>();
      texts.push_back(tokenizer.decode({tokens, tokens + row.numel()}, true));
    }
  }
  for (const auto& text : gather_object(accelerator.communicator(), texts)) accelerator.print(text);
  accelerator.print(prompts.size(), "prompts on", accelerator.num_processes(), "processes");
  accelerator.end_training();
}

}  // namespace

int main(int argc, char** argv) {
  return accelerate::run_main([&] { run(accelerate::parse_args<Arguments>(argc, argv)); });
}
