// Keeps a model in a private repository, of the hub or of a server of your own that speaks its
// protocol, and opens it again by name. HF_ENDPOINT is the server, HF_TOKEN your token.
//   private_hub --repo me/names --model tag_tokens_output
#include <accelerate/transformers.h>

#include <cstdio>

#include "examples/cookbook/model_of.h"

namespace {

using namespace accelerate;

struct Arguments {
  std::string repo = "names";
  std::string model = "examples/cookbook/data/tiny_bert";
};

template <typename Visit>
void visit_arguments(Arguments& mine, Visit&& argument) {
  argument("repo", mine.repo, "NAME or OWNER/NAME; without an owner it is yours.");
  argument("model", mine.model, "The folder of the model.");
}

void run(const Arguments& mine) {
  const HubOptions quiet{.show_progress = false};
  const auto account = whoami();
  const auto repo = owned_repo_id(mine.repo);
  std::printf("%s, whose token may %s\n", account.name.c_str(), account.token_role.c_str());

  // Weights, tokenizer: a commit each. What the hub has already is not sent again.
  const auto tokenizer = AutoTokenizer::from_pretrained(mine.model);
  const auto model = model_of<AutoModel>(mine.model);
  const PushToHubOptions push{.hub = quiet, .is_private = true};
  model->push_to_hub(repo, push);
  tokenizer.push_to_hub(repo, push);
  const bool is_new = model->push_to_hub(repo, push).is_new;
  std::printf("pushed to %s, private; a second push sends %s\n", repo.c_str(),
              is_new ? "it again" : "nothing");

  // Another program, with the same token.
  const auto opened = AutoModel::from_pretrained(repo, {.hub = quiet});
  const auto words = AutoTokenizer::from_pretrained(repo, quiet);
  const auto inputs = to_inputs(words({"Anna lives in Oslo ."}));
  model->eval();
  const at::NoGradGuard no_grad;
  const bool is_same =
      opened->forward(inputs).last_hidden_state.equal(model->forward(inputs).last_hidden_state);
  std::printf("opened by name: %s\n", is_same ? "the same outputs" : "other outputs");

  // A stranger, who has no token and nothing in the cache.
  try {
    (void)hf_hub_download(repo, "config.json", {.token = "", .force_download = true});
    std::puts("anybody can open it");
  } catch (const HubError& error) {
    std::puts("without a token: there is no such repository");
  }
}

}  // namespace

int main(int argc, char** argv) {
  return accelerate::run_main([&] { run(accelerate::parse_args<Arguments>(argc, argv)); });
}
