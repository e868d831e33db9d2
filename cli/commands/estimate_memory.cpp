#include "cli/commands/commands.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <map>
#include <memory>

#include "accelerate/base/error.h"
#include "accelerate/base/terminal/table.h"
#include "accelerate/base/terminal/terminal_screen.h"
#include "accelerate/base/text.h"
#include "accelerate/base/untrusted_text.h"
#include "cli/commands/shared_options.h"
#include "cli/estimate/training_memory.h"

namespace accelerate::cli {
namespace {

constexpr int kMostProcesses = 65536;

// The numbers by which the size in fp32 is divided.
const std::map<std::string, double>& divisors() {
  static const std::map<std::string, double> kDivisors{
      {"float32", 1}, {"float16", 2}, {"int8", 4}, {"int4", 8}};
  return kDivisors;
}

std::string loading_table(const ModelSizes& sizes, const std::vector<std::string>& dtypes) {
  Table table({{"dtype"},
               {"Largest Layer", Align::right},
               {"Total Size", Align::right},
               {"Training using Adam", Align::right}});
  for (const std::string& dtype : dtypes) {
    const double divisor = divisors().at(dtype);
    const auto training = upstream_training_bytes(sizes.bytes, dtype);
    table.add_row({dtype, format_bytes(static_cast<double>(sizes.largest_layer_bytes) / divisor),
                   format_bytes(static_cast<double>(sizes.bytes) / divisor),
                   training == 0 ? "N/A" : format_bytes(static_cast<double>(training))});
  }
  return table.box(locale_is_utf8());
}

std::string strategy_table(const ModelSizes& sizes, const EstimateMemoryOptions& options) {
  std::vector<TableColumn> columns{{"strategy"}};
  for (const int processes : options.num_processes)
    columns.push_back({std::to_string(processes), Align::right});
  Table table(columns);
  for (const auto& [name, division] :
       {std::pair("DDP, NO_SHARD", Division::replicated),
        std::pair("FULL_SHARD", Division::full_shard),
        std::pair("SHARD_GRAD_OP", Division::shard_grad_op),
        std::pair("both, CPUs of one machine", Division::shared_pages),
        std::pair("FULL_SHARD, offloaded to disk", Division::on_disk)}) {
    std::vector<std::string> row{name};
    for (const int processes : options.num_processes) {
      const bool divides =
          processes > 1 || division == Division::replicated || division == Division::on_disk;
      row.push_back(divides ? format_bytes(training_bytes(sizes, division, processes,
                                                          options.mixed_precision))
                            : "");
    }
    table.add_row(row);
  }
  return table.box(locale_is_utf8());
}

// Empty for one layer, which may be called several times.
std::string activations_line(const ModelSizes& sizes) {
  if (sizes.layers < 2) return "";
  return "With gradient checkpointing, activations are " +
         format_bytes(static_cast<double>(sizes.layers * sizes.width * sizeof(float))) +
         " a token in fp32 (inputs of " + std::to_string(sizes.layers) + "\nlayers, " +
         std::to_string(sizes.width) + " numbers each), and those of one layer: docs/memory.md.\n";
}

std::string checked_dtype(const std::string& dtype) {
  if (divisors().contains(dtype)) return dtype;
  std::vector<std::string> known{"float32", "float16", "int8", "int4"};
  throw ConfigError("--dtypes has '" + dtype + "'; allowed are " + join(known, ", ") + "." +
                    did_you_mean(dtype, known));
}

int checked_number(const std::string& text) {
  const auto number = parse_int(text);
  if (number && *number >= 1 && *number <= kMostProcesses) return static_cast<int>(*number);
  throw ConfigError("--num_processes has '" + text + "'; allowed are numbers from 1 to " +
                    std::to_string(kMostProcesses));
}

void check_library(const std::string& library) {
  if (library == "transformers") return;
  if (library == "timm")
    throw ConfigError(
        "--library_name is 'timm', whose models are not known here: download the weights and name "
        "their file");
  throw ConfigError("--library_name is '" + library + "'; allowed is transformers." +
                    did_you_mean(library, {"transformers"}));
}

template <typename Value, typename Check>
std::vector<Value> all_checked(const std::vector<std::string>& texts, Check check) {
  std::vector<Value> values;
  for (const std::string& text : texts) values.push_back(check(text));
  return values;
}

}  // namespace

int run_estimate_memory(const EstimateMemoryOptions& options, std::ostream& out) {
  const ModelTensors model = tensors_of(options.model, options.revision);
  if (model.tensors.empty()) throw ConfigError(model.source + " has no tensors");
  const ModelSizes sizes = sizes_of(model);
  out << "Memory Usage for loading `" << options.model << "`\n"
      << loading_table(sizes, options.dtypes) << std::to_string(sizes.parameters)
      << " parameters, by " << model.source << "; the largest layer is "
      << detail::untrusted_line(sizes.largest_layer)
      << ".\n\nTraining with Adam, memory of each of so many processes, mixed precision "
      << to_string(options.mixed_precision) << "\n"
      << strategy_table(sizes, options)
      << "Without activations, which grow with the batch, and what a process takes by itself,\n"
         "on a CPU some 100 MB. GPUs and several machines gather layers; CPUs of one machine\n"
         "share pages. The formulas are in docs/costs.md.\n"
      << "Offloaded, all processes together have "
      << format_bytes(disk_bytes(sizes, options.mixed_precision)) << " on disk: docs/memory.md.\n"
      << activations_line(sizes);
  return 0;
}

void setup_estimate_memory(CLI::App& app, int& exit_code) {
  auto* command =
      app.add_subcommand("estimate-memory", "Say what a model takes, and what its training would");
  auto options = std::make_shared<EstimateMemoryOptions>();
  command
      ->add_option("MODEL", options->model,
                   "A file of weights, their index, a config.json, a folder, or a model of the hub")
      ->required()
      ->type_name("");
  command
      ->add_option_function<std::vector<std::string>>(
          "--dtypes",
          [options](const std::vector<std::string>& texts) {
            options->dtypes = all_checked<std::string>(texts, checked_dtype);
          },
          "Types to load it in, one or more [all]")
      ->delimiter(',')
      ->type_name("float32|float16|int8|int4");
  command
      ->add_option_function<std::vector<std::string>>(
          "--num_processes,--num-processes",
          [options](const std::vector<std::string>& texts) {
            options->num_processes = all_checked<int>(texts, checked_number);
          },
          "Numbers of processes to train on, one or more [1 2 4 8]")
      ->delimiter(',')
      ->type_name("N");
  add_mixed_precision(command, options, "Mixed precision of the training [no]");
  command->add_option("--revision", options->revision, "Branch, tag or commit of the hub [main]")
      ->type_name("REVISION");
  command
      ->add_option_function<std::string>("--library_name,--library-name", check_library,
                                         "Where the model is from; timm is refused")
      ->type_name("transformers|timm");
  command->add_flag_callback(
      "--trust_remote_code,--trust-remote-code",
      [] {
        std::cerr << "accelerate: --trust_remote_code has no effect: no code of a model is run.\n";
      },
      "No effect: no code of a model is run");
  command->callback(
      [options, &exit_code] { exit_code = run_estimate_memory(*options, std::cout); });
}

}  // namespace accelerate::cli
