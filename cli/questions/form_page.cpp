#include "cli/questions/form_page.h"

#include <algorithm>
#include <utility>

#include "accelerate/base/utf8.h"
#include "cli/questions/shown_question.h"

namespace accelerate::cli {
namespace {

using Texts = std::vector<std::string>;

// The choices that fit, around the selected one.
Texts choice_lines(const Question& question, const FormState& state, std::size_t room) {
  const Texts choices = choices_of(question);
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

// What is typed, its end where it is too long.
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

}  // namespace

Texts choices_of(const Question& question) {
  return question.kind == Question::Kind::yes_no ? Texts{"yes", "no"} : question.choices;
}

Texts form_page(const Question& question, const FormState& state,
                const std::vector<Answered>& before, TerminalSize size) {
  Texts head = wrapped_all(state.notes, size.columns);
  if (!head.empty()) head.emplace_back();
  append(head, wrapped(question.text, size.columns));
  Texts foot;
  if (!state.message.empty()) append(foot, wrapped(state.message, size.columns));
  if (state.shows_help) append(foot, wrapped(question.help, size.columns));
  foot.emplace_back();
  foot.push_back(keys_line(question, size.columns));
  const std::size_t taken = head.size() + foot.size();
  const std::size_t room = size.rows > taken ? size.rows - taken : 1;
  const Texts body = question.kind == Question::Kind::text
                         ? Texts{typed_line(question, state, size.columns)}
                         : choice_lines(question, state, room);
  Texts page;
  const std::size_t left = size.rows > taken + body.size() ? size.rows - taken - body.size() : 0;
  const std::size_t kept = left > 1 ? std::min(before.size(), left - 1) : 0;
  for (std::size_t i = before.size() - kept; i < before.size(); ++i)
    page.push_back(before[i].question + " " + before[i].answer);
  if (kept > 0) page.emplace_back();
  append(page, head);
  append(page, body);
  append(page, foot);
  if (page.size() > size.rows) page.resize(size.rows);
  for (std::string& line : page) line = std::string(fit_columns(line, size.columns));
  return page;
}

}  // namespace accelerate::cli
