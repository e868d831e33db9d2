#include "cli/questions/form.h"

#include <algorithm>
#include <utility>

#include "accelerate/base/utf8.h"
#include "cli/questions/question.h"

namespace accelerate::cli {
namespace {

using Texts = std::vector<std::string>;

// Returns the choices that fit, around the selected one.
Texts choice_lines(const Question& question, const FormState& state, std::size_t room) {
  const Texts choices =
      question.kind == Question::Kind::menu ? numbered_choices(question) : choices_of(question);
  const std::size_t shown =
      std::clamp<std::size_t>(room, 1, std::max<std::size_t>(choices.size(), 1));
  const std::size_t half = shown / 2;
  std::size_t first = state.selected > half ? state.selected - half : 0;
  first = std::min(first, choices.size() - std::min(shown, choices.size()));
  Texts lines;
  for (std::size_t i = first; i < std::min(first + shown, choices.size()); ++i)
    lines.push_back((i == state.selected ? "> " : "  ") + choices[i]);
  return lines;
}

// Returns what is typed, or its end if it is too long.
std::string typed_line(const Question& question, const FormState& state, std::size_t columns) {
  const std::string prompt = prompt_of(question);
  std::string_view typed = state.typed;
  std::size_t width = display_width(prompt) + display_width(typed) + 1;
  while (!typed.empty() && width > columns) {
    const auto dropped = take_code_point(typed);
    width -= dropped ? display_width(*dropped) : 1;
  }
  return prompt + std::string(typed) + "_";
}

std::string keys_line(const Question& question, std::size_t columns) {
  const bool is_text = question.kind == Question::Kind::text;
  const std::string all = is_text ? "Enter takes  ? explains  < goes back  Ctrl-C leaves"
                                  : "arrows, Enter  ? explains  < goes back  Ctrl-C leaves";
  return display_width(all) <= columns ? all : "? help  < back  Ctrl-C leaves";
}

void append(Texts& lines, const Texts& more) {
  lines.insert(lines.end(), more.begin(), more.end());
}

Texts wrapped_all(const Texts& texts, std::size_t columns) {
  Texts lines;
  for (const std::string& text : texts) append(lines, wrapped(text, columns));
  return lines;
}

Texts answer_lines(const std::vector<Answered>& before) {
  Texts lines;
  for (const Answered& one : before) lines.push_back(one.question + " " + one.answer);
  return lines;
}

// The rows of a screen, given out in the order in which they are asked for.
class Rows {
 public:
  explicit Rows(std::size_t count) : left_(count) {}

  std::size_t take(std::size_t wanted) {
    const std::size_t given = std::min(wanted, left_);
    left_ -= given;
    return given;
  }
  // Returns the first lines that there is room for.
  Texts take_first(Texts lines) {
    lines.resize(take(lines.size()));
    return lines;
  }
  // Returns the last lines that there is room for, and an empty line behind them.
  Texts take_last(const Texts& lines) {
    if (lines.empty() || left_ < 2) return {};
    --left_;
    const auto count = static_cast<std::ptrdiff_t>(take(lines.size()));
    Texts taken(lines.end() - count, lines.end());
    taken.emplace_back();
    return taken;
  }

 private:
  std::size_t left_;
};

}  // namespace

Texts choices_of(const Question& question) {
  return question.kind == Question::Kind::yes_no ? Texts{"yes", "no"} : question.choices;
}

Texts form_page(const Question& question, const FormState& state,
                const std::vector<Answered>& before, TerminalSize size) {
  constexpr std::size_t kFewChoices = 5;
  const bool is_text = question.kind == Question::Kind::text;
  const std::size_t lines = is_text ? 1 : choices_of(question).size();
  Rows rows(size.rows);
  std::size_t for_body = rows.take(1);
  const Texts asked = rows.take_first(wrapped(question.text, size.columns));
  const Texts wrong =
      rows.take_first(state.message.empty() ? Texts() : wrapped(state.message, size.columns));
  const Texts keys = rows.take_first({keys_line(question, size.columns)});
  const Texts help =
      rows.take_first(state.shows_help ? wrapped(question.help, size.columns) : Texts());
  for_body += rows.take(std::min(lines, kFewChoices) - 1);
  const Texts notes = rows.take_last(wrapped_all(state.notes, size.columns));
  for_body += rows.take(lines - std::min(lines, for_body));
  const Texts gap = rows.take_first({""});
  Texts page = rows.take_last(answer_lines(before));
  append(page, notes);
  append(page, asked);
  append(page, is_text ? Texts{typed_line(question, state, size.columns)}
                       : choice_lines(question, state, for_body));
  append(page, wrong);
  append(page, help);
  append(page, gap);
  append(page, keys);
  for (std::string& line : page) line = std::string(fit_columns(line, size.columns));
  return page;
}

}  // namespace accelerate::cli
