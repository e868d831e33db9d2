// The questions about fp8 and torch.compile, which only Python programs use.
#include <string>
#include <vector>

#include "accelerate/base/text.h"
#include "accelerate/launch/flags.h"
#include "cli/questions/interview.h"

namespace accelerate::cli {
namespace {

void ask_about_transformer_engine(Asking& ask, Fp8Config& fp8) {
  ask.yes_for("fp8_use_autocast_during_eval", "Compute in fp8 in evaluations too?", false);
  ask.number_for("fp8_margin", "Which margin has the scaling factor?", "0");
  ask.number_for("fp8_interval", "After how many steps is it computed again?", "1");
  ask.menu_for("fp8_format", "Which format have the numbers?");
  ask.number_for("fp8_amax_history_len", "Of how many steps are the maxima kept?", "1024");
  ask.menu_for("fp8_amax_compute_algo", "Which of the maxima counts?");
  const std::string help = help_of("fp8_override_linear_precision");
  std::vector<bool> is_higher(3, false);
  if (ask.yes("Compute some products in higher precision?", false, help)) {
    is_higher[0] = ask.yes("The products of forwards?", false, help);
    is_higher[1] = ask.yes("The gradients of inputs?", false, help);
    is_higher[2] = ask.yes("The gradients of weights?", false, help);
  }
  fp8.override_linear_precision = is_higher;
}

}  // namespace

void ask_about_fp8(Asking& ask, Fp8Config& fp8) {
  const std::string backend =
      ask.menu("Which library computes in fp8?", {"AO", "TE", "MSAMP"}, "AO",
               "AO: torchao. TE: Transformer Engine. MSAMP: MS-AMP. " + help_of("fp8_backend"));
  ask.set("fp8_backend", backend);
  if (backend == "TE") ask_about_transformer_engine(ask, fp8);
  if (backend == "MSAMP") {
    const std::string level =
        ask.menu("Which level of MS-AMP?", {"O1", "O2"}, "O2", help_of("fp8_opt_level"));
    ask.set("fp8_opt_level", level);
  }
  if (backend != "AO") return;
  ask.yes_for("fp8_enable_fsdp_float8_all_gather", "Gather in fp8 under FSDP 2?", true);
  ask.yes_for("fp8_pad_inner_dim", "Pad inner dimensions, which may take memory?", true);
}

void ask_about_dynamo(Asking& ask) {
  // The launcher's words; "no" is the first of them.
  std::vector<std::string> backends = find_flag("dynamo_backend")->choices;
  std::erase(backends, "no");
  ask.set("dynamo_backend", upper(ask.menu("Which back end of torch.compile?", backends, "inductor",
                                           help_of("dynamo_backend"))));
  if (!ask.yes("Set its options?", false, "Mode, whole graphs, dynamic shapes, regions.")) return;
  ask.menu_for("dynamo_mode", "Which mode?", find_flag("dynamo_mode")->choices);
  ask.yes_for("dynamo_use_fullgraph", "One graph or an error?", false);
  ask.yes_for("dynamo_use_dynamic", "Trace dynamic shapes?", false);
  ask.yes_for("dynamo_use_regional_compilation", "Compile repeated blocks once?", false);
}

}  // namespace accelerate::cli
