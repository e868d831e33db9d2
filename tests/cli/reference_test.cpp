// Help, manual pages and completion: what they say, and that the shells and man take them.
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "accelerate/base/text.h"
#include "accelerate/base/utf8.h"
#include "accelerate/launch/program.h"
#include "cli/commands/commands.h"
#include "cli/reference/command_text.h"
#include "tests/launch/support.h"
#include "tests/support/support.h"

namespace accelerate::cli {
namespace {

using testing::accelerate_program;
using testing::run_program;

const testing::RunOptions kSoon{
    .env = {}, .timeout = std::chrono::seconds(10), .working_directory = {}};

CommandText launch_text() {
  CLI::App app("", "accelerate");
  setup_launch(app);
  return command_text(*app.get_subcommand("launch"));
}

std::string in_one_line(const std::string& page) {
  std::istringstream words(page);
  std::string line;
  for (std::string word; words >> word;) line += word + " ";
  return line;
}

TEST(HelpPage, NamesTheWordsOfAFlagWhoseKeyHasSome) {
  const std::string page = in_one_line(help_page(launch_text(), 80));
  for (const char* part :
       {"--fsdp_sharding_strategy NAME", "One of FULL_SHARD, SHARD_GRAD_OP, NO_SHARD, ",
        "--fsdp_state_dict_type NAME", "One of FULL_STATE_DICT, ", "--offload_param_device NAME",
        "--fsdp_transformer_layer_cls_to_wrap TEXT"}) {
    EXPECT_NE(page.find(part), std::string::npos) << part;
  }
}

TEST(HelpPage, SaysWhatNativeProgramsRefuse) {
  for (const char* name : {"use_megatron_lm", "use_parallelism_config"}) {
    EXPECT_NE(find_flag(name)->help.find("native ones"), std::string::npos) << name;
  }
}

TEST(HelpPage, ShowsEveryFlagAndStaysInTheWidth) {
  for (const std::size_t columns : {70U, 80U, 120U}) {
    const std::string page = help_page(launch_text(), columns);
    for (const auto& flag : launch_flags()) {
      EXPECT_NE(page.find("--" + flag.name), std::string::npos) << flag.name;
    }
    for (const auto& line : split(page, '\n')) EXPECT_LE(display_width(line), columns) << line;
  }
}

// Every command by its words, as the program itself lists them.
std::vector<std::string> all_commands() {
  const auto pages = run_program({accelerate_program(), "completion", "fish"}, kSoon);
  std::vector<std::string> found{""};
  for (const std::string& line : split(pages.out, '\n')) {
    const auto at = line.find("__accelerate_at "), name = line.find("' -f -a ");
    const bool is_command = line.find(" -d ") != std::string::npos;  // And no word of an argument.
    if (!line.starts_with("complete") || name == std::string::npos || !is_command) continue;
    const std::string chain = line.substr(at + 16, name - at - 16);
    const std::string rest = line.substr(name + 8);
    found.push_back(std::string(trim(chain + " " + rest.substr(0, rest.find(' ')))));
  }
  return found;
}

// Each command is asked for its page.
TEST(HelpPage, OfEveryCommandFitsEightyColumns) {
  const auto commands = all_commands();
  EXPECT_GE(commands.size(), 25U);
  for (const std::string& command : commands) {
    std::vector<std::string> words{accelerate_program()};
    for (const std::string& word : split(command, ' '))
      if (!word.empty()) words.push_back(word);
    words.emplace_back("--help");
    const auto page = run_program(words, kSoon);
    EXPECT_EQ(page.exit_code, 0) << command;
    EXPECT_TRUE(page.out.starts_with("Usage: accelerate")) << command;
    for (const std::string& line : split(page.out, '\n'))
      EXPECT_LE(display_width(line), 80U) << command << ": " << line;
  }
}

CommandText small_program() {
  CommandText inner{.name = "make",
                    .full_name = "tool make",
                    .about = "Make it's own \\thing",
                    .group = "Commands"};
  inner.flags = {{.names = {"-k", "--kind"},
                  .value = "a|b",
                  .help = "Which [a]",
                  .choices = {"a", "b"},
                  .group = "Flags"},
                 {.names = {"--file"}, .value = "FILE", .help = ".dots first", .group = "Flags"}};
  CommandText program{.name = "tool", .full_name = "tool", .about = "A tool"};
  program.commands = {inner};
  program.flags = {{.names = {"--version"}, .help = "The version", .group = "Flags"}};
  return program;
}

// What bash offers behind `words`, the last of which is being typed.
std::string offered_by_bash(const std::vector<std::string>& words, bool runs_program = false) {
  testing::TemporaryFolder folder;
  CommandText program = small_program();
  program.commands[0].runs_program = runs_program;
  folder.write("tool", bash_completion(program));
  std::string script = "source " + (folder.path() / "tool").string() + "; COMP_WORDS=(tool";
  for (const std::string& word : words) script += " '" + word + "'";
  script += "); COMP_CWORD=" + std::to_string(words.size()) + "; _tool; echo ${COMPREPLY[@]}";
  return std::string(trim(run_program({"/bin/bash", "-c", script}, kSoon).out));
}

TEST(Completion, OfBashOffersWhatComesNext) {
  EXPECT_EQ(offered_by_bash({""}), "make");
  EXPECT_EQ(offered_by_bash({"--"}), "--version");
  EXPECT_EQ(offered_by_bash({"make", "-"}), "-k --kind --file");
  EXPECT_EQ(offered_by_bash({"make", "--kind", ""}), "a b");
  EXPECT_EQ(offered_by_bash({"make", "-k", "b"}), "b");
  EXPECT_EQ(offered_by_bash({"make", "--file", "x"}), "");
  EXPECT_EQ(offered_by_bash({"make", "a", "-"}), "-k --kind --file");
  // Behind a program its own flags follow, of which nothing is known.
  EXPECT_EQ(offered_by_bash({"make", "--kind", "a", "-"}, true), "-k --kind --file");
  EXPECT_EQ(offered_by_bash({"make", "--kind", "a", "program", "-"}, true), "");
}

// The shells themselves read what the program prints; those that are not installed are left out.
TEST(Completion, IsReadByTheShells) {
  for (const auto& [shell, flag] :
       {std::pair("bash", "-n"), std::pair("zsh", "-n"), std::pair("fish", "--no-execute")}) {
    testing::TemporaryFolder folder;
    const auto script = run_program({accelerate_program(), "completion", shell}, kSoon);
    ASSERT_EQ(script.exit_code, 0);
    const auto path = find_in_path(shell);
    if (path.empty()) continue;
    folder.write("script", script.out);
    const auto read = run_program({path, flag, (folder.path() / "script").string()}, kSoon);
    EXPECT_EQ(read.exit_code, 0) << shell << ": " << read.err;
    EXPECT_EQ(read.err, "") << shell;
  }
  const auto unknown = run_program({accelerate_program(), "completion", "fisch"}, kSoon);
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_NE(unknown.err.find("Did you mean 'fish'"), std::string::npos) << unknown.err;
}

TEST(ManPage, EscapesWhatTroffWouldObey) {
  const std::string page = man_page(small_program().commands[0]);
  EXPECT_NE(page.find(".TH \"tool\\-make\" 1"), std::string::npos) << page;
  EXPECT_NE(page.find("Make it's own \\ething"), std::string::npos) << page;
  EXPECT_NE(page.find("\n\\&.dots first"), std::string::npos) << page;
  EXPECT_NE(page.find("\\fB\\-k\\fR, \\fB\\-\\-kind\\fR \\fIa|b\\fR"), std::string::npos) << page;
}

TEST(ManPage, OfEveryCommandIsWritten) {
  testing::TemporaryFolder folder;
  const auto wrote = run_program(
      {accelerate_program(), "man", "--output_dir", (folder.path() / "man1").string()}, kSoon);
  ASSERT_EQ(wrote.exit_code, 0) << wrote.err;
  for (std::string command : all_commands()) {
    std::ranges::replace(command, ' ', '-');
    const std::string name = "accelerate" + (command.empty() ? "" : "-" + command) + ".1";
    EXPECT_TRUE(std::filesystem::exists(folder.path() / "man1" / name)) << name;
  }
}

}  // namespace
}  // namespace accelerate::cli
