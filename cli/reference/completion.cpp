#include "cli/reference/command_text.h"

#include <functional>

#include "accelerate/base/text.h"

namespace accelerate::cli {
namespace {

using Texts = std::vector<std::string>;

// Returns a command without the name of the program: "config default".
std::string chain_of(const CommandText& program, const CommandText& command) {
  const std::size_t skipped = program.full_name.size();
  return command.full_name.size() > skipped ? command.full_name.substr(skipped + 1) : "";
}

void visit(const CommandText& command, const std::function<void(const CommandText&)>& seen) {
  seen(command);
  for (const CommandText& inner : command.commands) visit(inner, seen);
}

std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

// Quotes for fish, where a quote and a backslash are escaped.
std::string fish_quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += (c == '\'' || c == '\\' ? "\\" : "") + std::string(1, c);
  return result + "'";
}

// Returns patterns for fish's `case`, which are separated by blanks.
std::string spaced(std::string patterns) {
  for (std::size_t at = patterns.find("'|'"); at != std::string::npos; at = patterns.find("'|'"))
    patterns.replace(at, 3, "' '");
  return patterns;
}

Texts names_of_flags(const CommandText& command) {
  Texts names;
  for (const FlagText& flag : command.flags)
    names.insert(names.end(), flag.names.begin(), flag.names.end());
  return names;
}

// Returns the names of the commands below it, or the values of its first argument.
Texts names_of_commands(const CommandText& command) {
  if (command.commands.empty() && !command.arguments.empty())
    return command.arguments.front().choices;
  Texts names;
  for (const CommandText& inner : command.commands) names.push_back(inner.name);
  return names;
}

// Returns the patterns of a `case` that match commands; empty for a program without commands.
std::string chain_patterns(const CommandText& program) {
  Texts patterns;
  visit(program, [&](const CommandText& command) {
    const std::string chain = chain_of(program, command);
    if (!chain.empty()) patterns.push_back(quoted(chain));
  });
  return join(patterns, "|");
}

// Returns the patterns of a `case` that match a command that runs a program, and one of its flags
// that takes a value. The word behind such a flag is not the program.
std::string value_patterns(const CommandText& program) {
  Texts patterns;
  visit(program, [&](const CommandText& command) {
    if (!command.runs_program) return;
    for (const FlagText& flag : command.flags)
      for (const std::string& name : flag.names)
        if (!flag.value.empty())
          patterns.push_back(quoted(chain_of(program, command) + "|" + name));
  });
  return patterns.empty() ? "''" : join(patterns, "|");
}

// Returns the patterns of a `case` that match commands which run a program.
std::string runner_patterns(const CommandText& program) {
  Texts patterns;
  visit(program, [&](const CommandText& command) {
    if (command.runs_program) patterns.push_back(quoted(chain_of(program, command)));
  });
  return patterns.empty() ? "'\n'" : join(patterns, "|");
}

// Returns the end of the loop over the words, for bash and zsh. `word` and `before` name the
// present and the previous word; `leave` offers files.
std::string walk(const CommandText& program, const std::string& word, const std::string& before,
                 const std::string& leave) {
  std::string text = R"(    case "$chain" in
      @RUNNERS@)
        case "@WORD@" in -*) continue ;; esac
        case "$chain|@BEFORE@" in @VALUED@) continue ;; esac
        @LEAVE@ ;;
    esac
    case "${chain:+$chain }@WORD@" in
      @CHAINS@) chain="${chain:+$chain }@WORD@" ;;
    esac
  done
)";
  for (const auto& [mark, by] :
       {std::pair<std::string, std::string>("@RUNNERS@", runner_patterns(program)),
        {"@VALUED@", value_patterns(program)},
        {"@CHAINS@", chain_patterns(program)},
        {"@WORD@", word},
        {"@BEFORE@", before},
        {"@LEAVE@", leave}})
    for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark))
      text.replace(at, mark.size(), by);
  return text;
}

// Returns the `case` lines, for bash and zsh, that offer the values of a flag. `offer` returns the
// command that offers words.
std::string choice_cases(const CommandText& program,
                         const std::function<std::string(const Texts&)>& offer) {
  std::string lines;
  visit(program, [&](const CommandText& command) {
    for (const FlagText& flag : command.flags) {
      if (flag.choices.empty()) continue;
      Texts patterns;
      for (const std::string& name : flag.names)
        patterns.push_back(quoted(chain_of(program, command) + "|" + name));
      lines += "    " + join(patterns, "|") + ") " + offer(flag.choices) + "; return ;;\n";
    }
  });
  return lines;
}

std::string described(const CommandText& program, const CommandText& command) {
  Texts commands, flags;
  const auto entry = [](const std::string& name, const std::string& help) {
    std::string plain;
    for (const char c : name) plain += c == ':' ? std::string("\\:") : std::string(1, c);
    return quoted(plain + ":" + help);
  };
  for (const CommandText& inner : command.commands)
    commands.push_back(entry(inner.name, inner.about));
  if (commands.empty())
    for (const std::string& choice : names_of_commands(command)) commands.push_back(quoted(choice));
  for (const FlagText& flag : command.flags)
    for (const std::string& name : flag.names) flags.push_back(entry(name, flag.help));
  return "    " + quoted(chain_of(program, command)) + ")\n      commands=(" + join(commands, " ") +
         ")\n      flags=(" + join(flags, " ") + ") ;;\n";
}

}  // namespace

std::string bash_completion(const CommandText& program) {
  std::string script = "# bash completion for " + program.name + "\n_" + program.name +
                       R"(() {
  local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" chain="" i
  for ((i = 1; i < COMP_CWORD; i++)); do
)" + walk(program, "${COMP_WORDS[i]}", "${COMP_WORDS[i-1]}", "return") +
                       R"(  case "$chain|$before" in
)";
  script += choice_cases(program, [](const Texts& choices) {
    return "COMPREPLY=($(compgen -W " + quoted(join(choices, " ")) + " -- \"$word\"))";
  });
  script += "  esac\n  local commands=\"\" flags=\"\"\n  case \"$chain\" in\n";
  visit(program, [&](const CommandText& command) {
    script += "    " + quoted(chain_of(program, command)) +
              ") commands=" + quoted(join(names_of_commands(command), " ")) +
              " flags=" + quoted(join(names_of_flags(command), " ")) + " ;;\n";
  });
  script += R"(  esac
  if [[ $word == -* ]]; then
    COMPREPLY=($(compgen -W "$flags" -- "$word"))
  else
    COMPREPLY=($(compgen -W "$commands" -- "$word"))
  fi
}
)";
  return script + "complete -o default -F _" + program.name + " " + program.name + "\n";
}

std::string zsh_completion(const CommandText& program) {
  std::string script = "#compdef " + program.name + "\n# zsh completion for " + program.name +
                       "\n_" + program.name + R"(() {
  local chain="" i
  local -a commands flags
  for ((i = 2; i < CURRENT; i++)); do
)" + walk(program, "${words[i]}", "${words[i-1]}", "_files; return") +
                       R"(  case "$chain|${words[CURRENT-1]}" in
)";
  script += choice_cases(program, [](const Texts& choices) {
    Texts words;
    for (const std::string& choice : choices) words.push_back(quoted(choice));
    return "compadd -- " + join(words, " ");
  });
  script += "  esac\n  case \"$chain\" in\n";
  visit(program, [&](const CommandText& command) { script += described(program, command); });
  script += R"(  esac
  if [[ ${words[CURRENT]} == -* ]]; then
    _describe flag flags
  elif (( ${#commands} )); then
    _describe command commands
  else
    _files
  fi
}
)";
  return script + "if [[ ${funcstack[1]} == _" + program.name + " ]]; then _" + program.name +
         " \"$@\"; else compdef _" + program.name + " " + program.name + "; fi\n";
}

std::string fish_completion(const CommandText& program) {
  const std::string test = "__" + program.name + "_at";
  std::string script = "# fish completion for " + program.name + "\nfunction " + test + R"(
  set -l chain
  set -l before
  for word in (commandline -opc)[2..-1]
    switch (string join ' ' -- $chain)
      case )" + runner_patterns(program) +
                       R"(
        switch (string join '|' -- (string join ' ' -- $chain) $before)
          case )" + spaced(value_patterns(program)) +
                       R"(
            set before
            continue
        end
        set before $word
        string match -q -- '-*' $word; and continue
        return 1
    end
    set before $word
    switch (string join ' ' -- $chain $word)
      case )";
  Texts chains;
  visit(program, [&](const CommandText& command) {
    if (const auto chain = chain_of(program, command); !chain.empty())
      chains.push_back(fish_quoted(chain));
  });
  script += join(chains, " ") + R"(
        set chain $chain $word
    end
  end
  test (string join ' ' -- $chain x) = (string join ' ' -- $argv x)
end
)";
  visit(program, [&](const CommandText& command) {
    const std::string here =
        "complete -c " + program.name + " -n '" + test + " " + chain_of(program, command) + "'";
    for (const CommandText& inner : command.commands)
      script += here + " -f -a " + inner.name + " -d " + fish_quoted(inner.about) + "\n";
    if (command.commands.empty())
      for (const std::string& choice : names_of_commands(command))
        script += here + " -f -a " + fish_quoted(choice) + "\n";
    for (const FlagText& flag : command.flags) {
      script += here;
      for (const std::string& name : flag.names)
        script += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      if (!flag.choices.empty()) script += " -x -a " + fish_quoted(join(flag.choices, " "));
      if (flag.choices.empty() && !flag.value.empty()) script += " -r";
      script += " -d " + fish_quoted(flag.help) + "\n";
    }
  });
  return script;
}

}  // namespace accelerate::cli
